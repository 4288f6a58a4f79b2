"""Rail-v1: returns by hand, policies, and what trains see; recorded episodes hold its rules."""

from functools import cache, partial

import episodes
import numpy as np
import pytest
from episodes import measure
from hypothesis import given, settings
from hypothesis import strategies as st
from test_rail_planners import POLICIES

from coopbench_envs.engine import DISABLED, Engine
from coopbench_envs.rail import graph
from coopbench_envs.rail.rail_v1 import OBSERVATIONS
from coopbench_envs.rail.trains import ARRIVED

RAIL = "coopbench/Rail-v1"
TRAINS = 10
PARAMETERS = {
    "num_agents": TRAINS,
    "speeds": {"1": 0.4, "1/2": 0.2, "1/3": 0.2, "1/4": 0.2},
    "malfunction_rate": 0.02,
    "malfunction_duration": (2, 6),
    "observation": "none",
}
played = partial(episodes.played, RAIL, lanes=4, **PARAMETERS)
SEEDS = st.integers(0, 2**62)
# Fields of a state whose second axis is the train.
PER_TRAIN = (
    *("start", "target", "target_headings", "top_speed", "departure", "due", "strike_time"),
    *("strike_length", "status", "place", "speed", "distance", "broken", "fresh", "arrival"),
    *("next_strike", "malfunctions", "earned", "rank", "waited"),
)


def test_returns_by_hand():
    engine = played("shortest_path", lanes=16)
    s = engine.state
    punctuality = np.minimum((s.due - s.departure) / (s.arrival - s.departure), 1)
    expected = np.where(s.status == ARRIVED, punctuality, 0)
    np.testing.assert_allclose(engine.control.returns, expected, rtol=1e-15)
    np.testing.assert_allclose(measure(engine, "normalised_return"), expected.mean(axis=1))
    assert (s.status == ARRIVED).any()
    assert (s.status != ARRIVED).any()


def test_staying_at_home_scores_nothing():
    engine = played("never_depart")
    assert (measure(engine, "normalised_return") == 0).all()
    assert (measure(engine, "never_departed") == 1).all()
    assert (engine.control.returns == 0).all()
    assert engine.control.truncated.all()


@pytest.mark.parametrize("policy", POLICIES)
def test_policies_of_version_0_play_legally(policy):
    engine = played(policy)
    assert engine.control.done.all()
    assert (engine.control.invalid == 0).all()
    if policy != "never_depart":
        assert (measure(engine, "progress") > 0).any()


@cache
def shared_engine(observation, **parameters):
    """Return one engine for all examples; building one takes longer than playing."""
    return Engine(RAIL, 2, **{**PARAMETERS, "observation": observation, **parameters})


def drawn_actions(rng, lanes=2):
    """Return actions of trains that mostly go on, so that many meet."""
    return rng.choice(5, size=(lanes, TRAINS), p=[0.05, 0.1, 0.7, 0.1, 0.05])


@pytest.mark.parametrize("observation", OBSERVATIONS)
@settings(deadline=None, max_examples=6)
@given(seed=SEEDS)
def test_exchanging_trains_exchanges_what_they_see_and_what_becomes_of_them(observation, seed):
    """Lane 0 has the trains as they are, lane 1 in another order, with the same actions."""
    engine, rng = shared_engine(observation), np.random.default_rng(seed)
    engine.reset(np.array([seed, seed]))
    order = rng.permutation(TRAINS)
    state = engine.get_state()
    for name in PER_TRAIN:
        state[name][1] = state[name][1][order]
    engine.reset(np.array([seed, seed]), state=state)
    space = engine.spec.observation_space(engine.constants, 0)
    for _ in range(100):
        obs = engine.control.obs
        assert obs.shape[2:] == space.shape
        assert (np.abs(obs) <= 1).all()  # and no NaN
        np.testing.assert_allclose(obs[0][order], obs[1], atol=1e-6)
        actions = drawn_actions(rng, 1)[0]
        engine.step(np.stack([actions, actions[order]]), DISABLED)
        np.testing.assert_array_equal(engine.control.rewards[0][order], engine.control.rewards[1])
        for name in PER_TRAIN:
            values = getattr(engine.state, name)
            np.testing.assert_array_equal(values[0][order], values[1], err_msg=name)


def test_the_size_of_a_graph_does_not_depend_on_the_map():
    for parameters in ({}, {"height": 60, "width": 50, "cities": 5, "num_agents": 20}):
        engine = Engine(RAIL, **{**parameters, "observation": "graph"})
        assert engine.spec.observation_space(engine.constants, 0).shape == (graph.FEATURES,)
