"""The venture model of the version 1 games: one step by hand, and what holds in all of them."""

import builders
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from venture_play import begun

import coopbench_envs
from coopbench.baselines.game import Game
from coopbench.baselines.match import Match
from coopbench.baselines.player import Player
from coopbench_envs import Engine
from coopbench_envs.coopetition.ventures import ventures
from coopbench_envs.engine import DISABLED
from coopbench_envs.parameters import describe

VENTURES = [i for i in coopbench_envs.ids() if i.endswith("-v1") and coopbench_envs.spec(i).trace]
NAMES = [i.split("/")[1] for i in VENTURES]
# Metrics that are shares of something.
SHARES = {"phase_matching", "inference_accuracy", "following", "loyalty", "matched_rate"}
SHARES |= {"retention", "recovered", "recovery_time", "conflict_rate", "hold_up"}
seeds = st.integers(0, 2**63)


def _fits(engine):
    """Observations and global states of all lanes are in their spaces."""
    for agent, space in enumerate(engine.observation_spaces):
        assert all(space.contains(row) for row in engine.control.obs[:, agent])
    assert all(engine.state_space.contains(row) for row in engine.global_state())


def test_one_step_of_good_times_by_hand():
    """r = 1 - a + A/2 (a0 + a1); a record moves a quarter of the way to the observed investment."""
    engine = begun("TrustDilemma-v1", {"record": [0.8, 0.6], "good": True, "productivity": 1.4})
    engine.step(np.array([[[1.0], [0.25]]]))
    worth = 0.7 * 1.25
    np.testing.assert_allclose(engine.control.rewards[0], [worth, 0.75 + worth], rtol=1e-15)
    np.testing.assert_allclose(engine.state.record[0], [0.85, 0.6 + 0.25 * (0.25 - 0.6)])
    assert engine.state.expected[0] == 0.5


def test_the_observation_in_the_order_of_the_layout():
    engine = begun("DynamicPartnerSelection-v1")
    actions = np.full(engine.actions.shape, 0.7)
    engine.step(actions)
    seen, s = engine.control.obs[0], engine.state
    parts = ventures.layout(engine.constants)
    for a in range(6):
        others = [b for b in range(6) if b != a]
        income = s.income[0, a] / engine.constants.endowment[a]
        expected = {
            "own_action": s.fraction[0, [a]],
            "others_actions": s.seen[0, others],
            "trust_in_others": s.record[0, others],
            "trust_in_me": [s.record[0, a]],
            "productivity": [s.productivity[0] / (1 + s.productivity[0])],
            "time": [0.01],
            "income": [income / (1 + income)],
        }
        for name, values in expected.items():
            np.testing.assert_allclose(seen[a, parts[name].index], values, rtol=1e-6, err_msg=name)


HIDDEN = [i for i in NAMES if "informed" in Game.at(i).layout]


@pytest.mark.parametrize("name", HIDDEN)
def test_nothing_but_the_informed_tells_others_the_times(name):
    """Equal play in opposite times looks the same to those who are not informed."""
    twins = [Engine(name, 50, persistence=(1.0, 1.0)) for _ in range(2)]
    for good, engine in enumerate(twins):
        times = {"good": np.full(50, bool(good)), "productivity": np.full(50, 0.2 + good)}
        engine.reset(np.arange(50, dtype=np.uint64), state=times)
    rng = np.random.default_rng(1)
    for _ in range(60):
        actions = rng.uniform(0.2, 0.9, twins[0].actions.shape)
        for engine in twins:
            engine.step(actions, DISABLED)
        one, other = (engine.control for engine in twins)
        blind = ~twins[0].state.informed
        np.testing.assert_array_equal(one.obs[blind], other.obs[blind])
        assert (one.obs[~blind] != other.obs[~blind]).any(axis=1).all()
        if name != "SLCD-v1":  # which counts good steps, but shows metrics at the end alone
            np.testing.assert_array_equal(one.measures, other.measures)


@pytest.mark.parametrize("name", NAMES)
@given(seed=seeds, data=st.data())
@settings(max_examples=5, deadline=None)
def test_everything_stays_in_its_bounds_and_only_the_horizon_ends(name, seed, data):
    engine = Engine(name, 4, horizon=12)
    lanes = (np.arange(4, dtype=np.uint64) + np.uint64(seed)) % np.uint64(2**63)
    engine.reset(lanes)
    numbers = data.draw(st.lists(st.floats(-0.5, 1.5), min_size=24, max_size=24))
    for t in range(12):
        assert not engine.control.done.any()
        engine.step(np.resize(numbers[t:] + numbers[:t], engine.actions.shape), DISABLED)
        assert (engine.state.record >= 0.0).all()
        assert (engine.state.record <= 1.0).all()
        assert (engine.control.rewards >= 0.0).all()
        _fits(engine)
        metrics = engine.metrics()
        assert all(0.0 <= metrics[share] <= 1.0 for share in SHARES & metrics.keys())
    assert engine.control.truncated.all()
    assert not engine.control.terminated.any()


@pytest.mark.parametrize("wrong", [(0.9, 0.6), (0.1,), (-0.1, 0.5), (0.5, 1.1), (0.1, np.nan)])
def test_ranges_are_checked(wrong):
    with pytest.raises(ValueError, match=r"'initial_trust'.*two numbers 0 <= lowest <= highest"):
        Engine("TrustDilemma-v1", initial_trust=wrong)


SIZES = [
    *((name, {"horizon": 1}) for name in NAMES),
    *(("PlatformEcosystem-v1", {"num_developers": m, "horizon": 9}) for m in (1, 2, 127)),
    *(("DynamicPartnerSelection-v1", {"num_agents": n, "horizon": 9}) for n in (2, 3, 64)),
]


@pytest.mark.parametrize(("name", "parameters"), SIZES)
@pytest.mark.parametrize("policy", ["reciprocator", "best_constant", "open_loop"])
def test_certified_policies_play_at_every_size(name, parameters, policy):
    engine = Engine(name, 3, **parameters)
    control, match = engine.control, Match(engine, [Player(policy, Game.of(engine))])
    match.begin(np.arange(3, dtype=np.uint64))
    for actions in match.steps():
        for agent, space in enumerate(engine.action_spaces):
            assert space.contains(actions[0, agent].astype(space.dtype))
        _fits(engine)
    assert (engine.state.time == parameters["horizon"]).all()
    assert np.isfinite(control.measures).all()
    assert np.isfinite(control.returns).all()


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("end", ["low", "high"])
def test_ranges_may_end_where_they_begin(name, end):
    """Every range at its least, or at its most: all numbers stay finite."""
    allowed = describe(coopbench_envs.spec(name).params).items()
    values = {field: (getattr(a, end),) * 2 for field, (_, _, a) in allowed if a.pair}
    engine = builders.begun(name, 2, horizon=5, **values)
    rng = np.random.default_rng(0)
    while not engine.control.done.all():
        engine.step(rng.uniform(0, 1, engine.actions.shape), DISABLED)
        _fits(engine)
    assert np.isfinite(engine.control.returns).all()
    assert np.isfinite(engine.control.measures).all()
