"""SynergySearch-v1: nothing tells the type but income; metrics worked out by hand."""

import pickle

import gymnasium
import numpy as np
import pettingzoo
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coopbench_envs.engine import DISABLED, Engine

STILL = {"noise": (0.0, 0.0), "shock": (0.0, 0.0), "high": (1.5, 1.5), "low": (0.5, 0.5)}
FULL = np.ones((2, 2))
ID = "coopbench/SynergySearch-v1"


def _venture(good, state=None, **parameters):
    engine = Engine("SynergySearch-v1", **(STILL | parameters))
    values = {"good": good, "productivity": 1.5 if good else 0.5, "trust": FULL}
    engine.reset(np.array([0]), state=values | (state or {}))
    return engine


def _play(engine, *fractions):
    engine.step(np.array(fractions, np.float64)[None, :, None], DISABLED)
    return engine.control.rewards[0]


def test_the_type_is_drawn_and_stays():
    engine = Engine("SynergySearch-v1", 1000)
    engine.reset(np.arange(1000))
    first = engine.state.good.copy()
    assert abs(first.mean() - 0.5) < 0.05
    for _ in range(100):
        engine.step(np.full(engine.actions.shape, 0.5), DISABLED)
        np.testing.assert_array_equal(engine.state.good, first)
    level = np.where(first, engine.state.high, engine.state.low)
    assert (np.abs(engine.state.productivity / level - 1) <= engine.state.shock).all()


def test_nothing_but_income_tells_the_type():
    """Two equal episodes of different types look the same until one sees what came back."""
    twins = [Engine("SynergySearch-v1", 50) for _ in range(2)]
    for good, engine in enumerate(twins):
        engine.reset(np.arange(50), state={"good": bool(good), "productivity": 0.5 + good})
    assert "productivity" not in twins[0].layout
    assert "type" not in twins[0].layout
    income = twins[0].layout["income"].index
    rng = np.random.default_rng(1)
    for t in range(100):
        obs = [engine.control.obs.copy() for engine in twins]
        if t > 5:
            assert (obs[0][:, :, income] != obs[1][:, :, income]).all()
            obs = [np.delete(seen, income, axis=2) for seen in obs]
        np.testing.assert_array_equal(*obs)
        np.testing.assert_array_equal(*(engine.global_state() for engine in twins))
        np.testing.assert_array_equal(*(engine.control.measures for engine in twins))
        actions = rng.uniform(0.1, 1.0, twins[0].actions.shape) * (t >= 5)  # first keep all
        for engine in twins:
            engine.step(actions, DISABLED)
            assert engine.control.measures.shape[1] == len(engine.spec.metrics)


def test_no_face_tells_the_type_before_the_end():
    """Firms that keep everything learn nothing of their venture until the last step's metrics."""
    keep = np.zeros((2, 1), np.float32)

    def single(state):
        env = gymnasium.make(ID)
        yield env.reset(seed=5, options={"state": state})
        for _ in range(100):
            yield env.step(keep)

    def parallel(state):
        env = pettingzoo.make("parallel", ID)
        yield env.reset(seed=5, options={"state": state})
        for _ in range(100):
            world = env.state()
            yield world, env.step(dict.fromkeys(env.agents, keep[0]))

    def vector(state):
        env = gymnasium.make_vec(ID, num_envs=2)
        yield env.reset(seed=5, options={"state": state})
        for _ in range(100):
            yield env.step(np.stack([keep, keep]))

    for face in (single, parallel, vector):
        twins = [face({"good": good, "productivity": 0.5 + good}) for good in (False, True)]
        seen = [pickle.dumps(both[0]) == pickle.dumps(both[1]) for both in zip(*twins, strict=True)]
        assert seen == [True] * 100 + [False], face.__name__


def test_the_type_can_be_revealed():
    for good in (True, False):
        engine = Engine("SynergySearch-v1", reveal_type=True)
        engine.reset(np.array([0]), state={"good": good})
        assert engine.control.obs[0, :, engine.layout["type"].index].ravel().tolist() == [
            good,
            good,
        ]
        assert engine.global_state()[0, -1] == good
        assert engine.state_space.contains(engine.global_state()[0])
        for agent, space in enumerate(engine.observation_spaces):
            assert space.contains(engine.control.obs[0, agent])
        assert list(engine.layout)[-2:] == ["time", "type"]
    hidden = Engine("SynergySearch-v1")
    assert hidden.state_space.shape[0] + 1 == engine.state_space.shape[0]
    assert list(hidden.layout)[-2:] == ["income", "time"]


@pytest.mark.parametrize("good", [True, False])
@pytest.mark.parametrize(
    ("grace", "time", "expected"),
    [(10, 0, 0.0), (10, 5, 0.25), (10, 10, 0.5), (10, 50, 0.5), (0, 0, 0.5), (1, 0, 0.0)],
)
def test_trust_expects_the_same_of_both_types(good, grace, time, expected):
    engine = _venture(good, {"time": time}, grace=grace)
    _play(engine, 0.0, 0.5)
    assert engine.state.expected[0] == expected
    if expected == 0.5:  # nothing invested: the full loss of 0.3; half: what is expected
        assert engine.state.trust[0, 1, 0] == pytest.approx(0.7)
        assert engine.state.trust[0, 0, 1] == 1.0


def test_a_step_pays_by_the_hidden_type():
    """Half of 1.5 x 1.4 at full trust; at a trust of 1/2 and a dependence of 0.6 but 0.7 of it."""
    engine = _venture(True)
    assert _play(engine, 0.4, 1.0) == pytest.approx([0.6 + 1.05, 1.05])
    trust = np.array([[1.0, 0.5], [0.5, 1.0]])
    bad = _venture(False, {"trust": trust, "dependence": np.array([0.6, 0.8])})
    assert _play(bad, 0.4, 1.0) == pytest.approx([0.6 + 0.35 * 0.7, 0.35 * 0.6])


def test_inference_accuracy_looks_at_the_last_third():
    """Of seven steps the last two count: means 0.7 and 0.45."""
    for good in (True, False):
        engine = _venture(good, horizon=7)
        for t in range(7):
            assert engine.metrics()["inference_accuracy"] == 0.0
            _play(engine, *((0.0, 1.0) if t < 5 else (0.4 + 0.6 * (t == 5), 0.45)))
        assert engine.metrics()["inference_accuracy"] == 0.5  # one of two in either type
    sure = _venture(False, horizon=1)
    _play(sure, 0.5, 0.5)  # a half is no more than a half
    assert sure.metrics()["inference_accuracy"] == 1.0


@pytest.mark.parametrize(
    ("good", "steps"),
    [(True, 4), (False, 5)],
)
def test_exploration_steps(good, steps):
    """Good: agent 1 is at 0.5 in step 4, the last not above. Bad: agent 0 is above in step 5."""
    engine = _venture(good, horizon=5)
    for fractions in ((0.9, 0.1), (0.9, 0.9), (0.2, 0.2), (0.6, 0.5), (0.6, 0.7)):
        assert engine.metrics()["exploration_steps"] == 0.0
        _play(engine, *fractions)
    assert engine.metrics()["exploration_steps"] == steps
    settled = _venture(good, horizon=3)
    for _ in range(3):
        _play(settled, *([float(good)] * 2))
    assert settled.metrics()["exploration_steps"] == 0.0


def test_regret():
    """Good at full trust: 2 x 1.5 minus 0.5 + 0 + 1.5 x 1.5; bad: 2 minus 0.6 + 1 + 0.5 x 0.4."""
    good = _venture(True, horizon=1)
    _play(good, 0.5, 1.0)
    assert good.metrics()["regret"] == pytest.approx(0.25)
    bad = _venture(False, horizon=1)
    _play(bad, 0.4, 0.0)
    assert bad.metrics()["regret"] == pytest.approx(0.2)
    # Distrust costs too: of 3 shared evenly 0.7 and 0.6 arrive.
    trust, dependence = np.array([[1.0, 0.5], [0.5, 1.0]]), np.array([0.6, 0.8])
    shy = _venture(True, {"trust": trust, "dependence": dependence}, horizon=1)
    _play(shy, 1.0, 1.0)
    assert shy.metrics()["regret"] == pytest.approx(3 - 1.5 * 1.3)
    # Over steps it adds up, and shocks do not move it: it goes by the mean worth.
    long = _venture(True, {"shock": 0.9, "productivity": 0.3}, horizon=2)
    _play(long, 0.5, 1.0)
    assert long.metrics()["regret"] == 0.0
    _play(long, 0.5, 1.0)
    assert long.metrics()["regret"] == pytest.approx(0.5)


@settings(max_examples=30, deadline=None)
@given(levels=st.lists(st.floats(-0.5, 1.5), min_size=9, max_size=9), seed=st.integers(0, 999))
def test_bounds_hold_for_any_play(levels, seed):
    engine = Engine("SynergySearch-v1", horizon=9, noise=(0.0, 1.0), shock=(0.0, 1.0))
    engine.reset(np.array([seed]))
    for t in range(9):
        engine.step(np.array([[[levels[t]], [levels[-t]]]]), DISABLED)
        for agent, space in enumerate(engine.observation_spaces):
            assert space.contains(engine.control.obs[0, agent])
        assert engine.state_space.contains(engine.global_state()[0])
    metrics = engine.metrics()
    assert metrics["regret"] >= -1e-12
    assert metrics["inference_accuracy"] in (0.0, 0.5, 1.0)
    assert 0 <= metrics["exploration_steps"] <= 9


def test_expected_dilemma():
    """Before the shock is known a unit pays all together and not the one who invests it."""
    c = Engine("SynergySearch-v1").constants
    assert (c.share * c.high[1] < 1).all()
    assert c.high[0] > 1 > c.low[1]
    assert 1 + 0.5 * (c.high.mean() - 1) >= 1.2  # price of anarchy
    assert c.persistence.tolist() == [1.0, 1.0]


def test_spectators_are_told():
    for good, word in ((True, "a good venture"), (False, "a bad venture")):
        engine = _venture(good)
        words = engine.spec.text(engine.constants, engine.lane_state(), engine.agents)
        assert word in words
