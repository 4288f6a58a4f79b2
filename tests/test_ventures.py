"""The venture model of the version 1 games: one step by hand, and what holds in all of them."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from venture_play import STILL

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


def _state(**fields):
    return {name: np.asarray(value) for name, value in fields.items()}


def _fits(engine):
    """Observations and global states of all lanes are in their spaces."""
    for agent, space in enumerate(engine.observation_spaces):
        assert all(space.contains(row) for row in engine.control.obs[:, agent])
    assert all(engine.state_space.contains(row) for row in engine.global_state())


def test_one_step_of_good_times_by_hand():
    """r = 1 - a + A/2 (a0 + a1); a record moves a quarter of the way to the observed investment."""
    engine = Engine("TrustDilemma-v1", **STILL)
    state = _state(record=[0.8, 0.6], good=True, productivity=1.4)
    engine.reset(np.zeros(1, np.uint64), state=state)
    engine.step(np.array([[[1.0], [0.25]]]))
    worth = 0.7 * 1.25
    np.testing.assert_allclose(engine.control.rewards[0], [worth, 0.75 + worth], rtol=1e-15)
    np.testing.assert_allclose(engine.state.record[0], [0.85, 0.6 + 0.25 * (0.25 - 0.6)])
    assert engine.state.expected[0] == 0.5


def test_records_do_not_change_in_bad_times():
    engine = Engine("TrustDilemma-v1", low=(0.2, 0.2), **STILL)
    state = _state(record=[0.8, 0.6], good=False, productivity=0.2)
    engine.reset(np.zeros(1, np.uint64), state=state)
    engine.step(np.array([[[0.0], [0.5]]]))
    np.testing.assert_array_equal(engine.state.record[0], [0.8, 0.6])
    np.testing.assert_allclose(engine.control.rewards[0], [1.05, 0.55])
    assert engine.state.productivity[0] == pytest.approx(0.2)
    assert not engine.state.good[0]


@pytest.mark.parametrize("name", NAMES)
def test_records_pay_nobody(name):
    """The same step from other records has the same rewards, as far as all still deal."""
    engine = Engine(name, 4, **{k: v for k, v in STILL.items() if k != "persistence"})
    rewards = []
    for record in (0.2, 0.9):
        engine.reset(
            np.arange(4, dtype=np.uint64),
            state=_state(record=np.full((4, len(engine.agents)), record)),
        )
        actions = np.full(engine.actions.shape, 0.7)
        parts = Game.of(engine).action_layout
        if "bar" in parts:
            actions[:, :, parts["bar"].index] = 0.0
        engine.step(actions)
        rewards.append(engine.control.rewards.copy())
    np.testing.assert_array_equal(*rewards)


def test_what_is_observed_and_judged_is_late_by_the_delay():
    engine = Engine("TrustDilemma-v1", delay=2, **STILL)
    state = _state(record=[0.5, 0.5], good=True, productivity=1.4)
    engine.reset(np.zeros(1, np.uint64), state=state)
    seen, records = [], []
    for fraction in (1.0, 0.6, 0.2, 0.0, 0.0):
        engine.step(np.full((1, 2, 1), fraction))
        seen.append(float(engine.state.seen[0, 1]))
        records.append(float(engine.state.record[0, 1]))
    assert seen == [0.0, 0.0, 1.0, 0.6, 0.2]
    expected = [0.5, 0.5, 0.625, 0.625 - 0.25 * 0.025, 0.61875 - 0.25 * 0.41875]
    np.testing.assert_allclose(records, expected)
    np.testing.assert_allclose(engine.control.obs[0, 0, 1], 0.2)


def test_trembles_replace_investments_by_uniform_draws():
    engine = Engine("TrustDilemma-v1", 4000, trembles=0.25)
    engine.reset(np.arange(4000, dtype=np.uint64))
    engine.step(np.ones(engine.actions.shape))
    fraction = engine.state.fraction
    slipped = fraction < 1.0
    assert slipped.mean() == pytest.approx(0.25, abs=0.02)
    assert fraction[slipped].mean() == pytest.approx(0.5, abs=0.02)
    np.testing.assert_array_equal(engine.control.obs[:, :, 0], fraction.astype(np.float32))


def test_the_observation_in_the_order_of_the_layout():
    engine = Engine("DynamicPartnerSelection-v1", **STILL)
    engine.reset(np.arange(1, dtype=np.uint64))
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


@pytest.mark.parametrize("name", NAMES)
def test_times_turn_in_every_game(name):
    """Good times end with half of 2 (1 - good), and a unit is worth what the times say."""
    rules = {"persistence": (0.5, 0.5), "shock": (0.0, 0.0), "low": (0.2, 0.2)}
    engine = Engine(name, 64, **rules)
    engine.reset(np.arange(64, dtype=np.uint64), state=_state(good=np.ones(64, np.bool_)))
    engine.step(np.zeros(engine.actions.shape))
    good, worth = engine.state.good, engine.state.productivity
    assert 10 < good.sum() < 54
    np.testing.assert_allclose(worth[~good] / worth[~good][0], 1.0)
    assert worth[good].min() > 1.0 > worth[~good].max()


HIDDEN = [i for i in NAMES if "informed" in Game.at(i).layout]


@pytest.mark.parametrize("name", HIDDEN)
def test_only_informed_agents_observe_the_times(name):
    engine = Engine(name, 64)
    engine.reset(np.arange(64, dtype=np.uint64))
    parts = engine.layout
    for _ in range(30):
        engine.step(np.random.default_rng(0).uniform(0, 1, engine.actions.shape))
        informed, seen = engine.state.informed, engine.control.obs
        for part in ("productivity", "informed"):  # of the flags the first is the agent's own
            np.testing.assert_array_equal(parts[part].view(seen)[:, :, 0] > 0, informed)
        assert informed.any(axis=1).all()
        assert not informed.all(axis=1).any()
    assert "income" not in parts


@pytest.mark.parametrize("name", HIDDEN)
def test_nothing_but_the_informed_tells_others_the_times(name):
    """Equal play in opposite times looks the same to those who are not informed."""
    twins = [Engine(name, 50, persistence=(1.0, 1.0)) for _ in range(2)]
    for good, engine in enumerate(twins):
        times = _state(good=np.full(50, bool(good)), productivity=np.full(50, 0.2 + good))
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
        if name != "SLCD-v1":  # which counts good times, but shows metrics at the end alone
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


@pytest.mark.parametrize(("good", "turns"), [(0.5, 0.1), (0.6, 0.096), (0.9, 0.036)])
def test_times_turn_as_often_as_they_should(good, turns):
    """With persistence 0.9 good times end with 0.2 (1 - good), bad ones with 0.2 good."""
    engine = Engine("TrustDilemma-v1", 2000, persistence=(0.9, 0.9), good=good)
    engine.reset(np.arange(2000, dtype=np.uint64))
    course = [engine.state.good.copy()]
    for _ in range(99):
        engine.step(np.zeros(engine.actions.shape))
        course.append(engine.state.good.copy())
    times = np.array(course)
    assert times.mean() == pytest.approx(good, abs=0.02)
    assert (times[1:] != times[:-1]).mean() == pytest.approx(turns, abs=0.005)


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
    engine = Engine(name, 2, horizon=5, **values)
    engine.reset(np.arange(2, dtype=np.uint64))
    rng = np.random.default_rng(0)
    while not engine.control.done.all():
        engine.step(rng.uniform(0, 1, engine.actions.shape), DISABLED)
        _fits(engine)
    assert np.isfinite(engine.control.returns).all()
    assert np.isfinite(engine.control.measures).all()
