"""SLCD-v1 and the phases it shares with RenaultNissan-v1, by numbers worked out by hand."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coopbench_envs.engine import DISABLED, Engine

PHASED = ("SLCD-v1", "RenaultNissan-v1")
# No chance but the first times; a unit is worth 1.8 before the factor of the phase.
STILL = {
    "noise": (0.0, 0.0),
    "shock": (0.0, 0.0),
    "jitter": (0.0, 0.0),
    "persistence": (1.0, 1.0),
    "high": (1.8, 1.8),
    "low": (0.2, 0.2),
    "trembles": 0.0,
}


def _slcd(state, **parameters):
    engine = Engine("SLCD-v1", **(STILL | parameters))
    engine.reset(np.array([0]), state={"good": True, "productivity": 1.5} | state)
    return engine


def _play(engine, *fractions):
    engine.step(np.array(fractions, np.float64)[None, :, None], DISABLED)
    return engine.control.rewards[0]


@pytest.mark.parametrize(
    ("horizon", "ends", "first"),
    [(80, [16, 36, 64, 80], 0), (100, [20, 45, 80, 100], 0), (1, [0, 0, 1, 1], 2)],
)
def test_phases_fill_the_horizon(horizon, ends, first):
    """Means 0.2, 0.25, 0.35, 0.2 of the horizon, to the nearest step; too short ones are none."""
    engine = Engine("SLCD-v1", **(STILL | {"horizon": horizon}))
    engine.reset(np.array([0]))
    assert engine.state.ends[0].tolist() == ends
    assert engine.state.phase[0] == first


def test_lengths_are_drawn_for_each_episode():
    """Their order and the horizon stay; a length moves by the jitter at most, before scaling."""
    engine = Engine("SLCD-v1", 400, jitter=(0.3, 0.3), horizon=1000)
    engine.reset(np.arange(400))
    lengths = np.diff(engine.state.ends, axis=1, prepend=0.0)
    assert (engine.state.ends[:, -1] == 1000).all()
    assert (lengths == lengths.round()).all()
    means = 1000 * engine.constants.length
    assert (lengths >= 0.7 / 1.3 * means - 1).all()
    assert (lengths <= 1.3 / 0.7 * means + 1).all()
    assert (lengths.std(axis=0) > 20).all()
    np.testing.assert_allclose(lengths.mean(axis=0), means, rtol=0.05)


def test_the_phase_is_seen_and_sets_level_and_productivity():
    engine = _slcd({}, horizon=20)  # ends 4, 9, 16, 20
    engine.reset(np.array([0]), state={"good": True, "productivity": 1.8 * 0.96})
    levels, factors = [0.5, 0.8, 1.0, 0.6], [0.96, 1.0, 1.04, 0.96]
    for t in range(20):
        phase = int(np.searchsorted([4, 9, 16], t, side="right"))
        assert engine.state.phase[0] == phase
        assert engine.state.productivity[0] == pytest.approx(1.8 * factors[phase])
        seen = engine.control.obs[0, 1]
        hot = [float(p == phase) for p in range(4)]
        assert seen[engine.layout["phase"].index].tolist() == hot
        assert seen[engine.layout["level"].index][0] == np.float32(levels[phase])
        world = engine.global_state()[0]
        assert world[-5:].tolist() == [*hot, np.float32(levels[phase])]
        _play(engine, 0.3, 0.3)
    assert engine.control.truncated[0]
    assert not engine.control.terminated.any()
    assert engine.state.phase[0] == 3


def test_the_firm_that_knows_the_times_changes_with_the_phase():
    """Samsung while the plant is built (steps 1 to 9 of 20), Sony while it sells."""
    engine = _slcd({}, horizon=20)
    layout, flags = engine.layout, []
    for _ in range(20):
        seen = engine.control.obs[0]
        informed = engine.state.informed[0].tolist()
        shown = layout["productivity"].view(seen)[:, 0] > 0.0
        assert shown.tolist() == informed
        assert layout["informed"].view(seen).tolist() == [informed, informed[::-1]]
        flags.append(informed)
        _play(engine, 0.3, 0.3)
    assert flags == [[True, False]] * 9 + [[False, True]] * 11
    assert "income" not in layout  # it would tell the times


def test_nothing_but_the_other_firm_tells_the_times():
    """In equal play in opposite times who does not know sees the same until it is informed."""
    twins = [Engine("SLCD-v1", 50, **STILL) for _ in range(2)]
    for good, engine in enumerate(twins):
        engine.reset(np.arange(50), state={"good": bool(good), "productivity": 0.2 + good})
    rng = np.random.default_rng(1)
    for _ in range(79):
        actions = rng.uniform(0.0, 1.0, twins[0].actions.shape)
        for engine in twins:
            engine.step(actions, DISABLED)
        one, other = (engine.control.obs for engine in twins)
        blind = ~twins[0].state.informed
        np.testing.assert_array_equal(one[blind], other[blind])
        assert (one[~blind] != other[~blind]).any(axis=1).all()


def test_investment_beyond_the_level_is_lost():
    """Planning takes in a half: 1.5 x (0.5 + 0.3) are shared evenly, and what was kept stays."""
    for record in (0.0, 1.0):  # which pays nobody
        engine = _slcd({"record": np.full(2, record)})
        assert _play(engine, 1.0, 0.3) == pytest.approx([0.6, 0.7 + 0.6])
    # The peak takes in everything.
    engine = _slcd({"time": 40})
    assert _play(engine, 1.0, 0.3) == pytest.approx([0.975, 0.7 + 0.975])


@pytest.mark.parametrize("good", [True, False])
@pytest.mark.parametrize(
    ("received", "fraction", "conduct", "weight"),
    [
        (0.5, 0.5, 1.0, 0.25),  # the level after the level
        (0.9, 1.0, 1.0, 0.25),  # more than the level counts as the level
        (0.5, 0.125, 0.25, 0.25),
        (0.25, 0.0, 0.0, 0.125),  # half of the level was received
        (0.0, 0.0, 0.0, 0.0),  # nothing was received, so nothing is judged
    ],
)
def test_records_judge_answers_by_the_level(good, received, fraction, conduct, weight):
    """In planning, whose level is 1/2; then records drift by 0.03 to 0.75."""
    state = {"good": good, "record": np.array([0.6, 0.6]), "seen": np.array([received, 0.0])}
    engine = _slcd(state)
    _play(engine, 0.5, fraction)
    after = 0.6 + weight * (conduct - 0.6)
    expected = [0.6 + 0.03 * 0.15, after + 0.03 * (0.75 - after)]  # Samsung received nothing
    np.testing.assert_allclose(engine.state.record[0], expected, rtol=1e-12)


def test_what_is_expected_of_a_firm():
    """The informed one: half of the level in good times. The other: that part of an answer."""
    for good in (True, False):
        engine = _slcd({"good": good, "seen": np.array([0.3, 0.4])})
        _play(engine, 0.1, 0.1)
        trace = engine.spec.trace(engine.constants, engine.state)
        np.testing.assert_allclose(trace["baseline"], [[0.25 * good, 0.25 * 0.6]])


def test_phase_matching():
    """Planning's level is 1/2: (0 + 0.5) / 0.5 over two agents is a distance of 1/2."""
    engine = _slcd({})
    assert engine.metrics()["phase_matching"] == 1.0
    _play(engine, 0.5, 0.0)
    assert engine.metrics()["phase_matching"] == pytest.approx(0.5)
    _play(engine, 0.5, 0.5)
    assert engine.metrics()["phase_matching"] == pytest.approx(0.75)
    bad = _slcd({"good": False})
    _play(bad, 1.0, 0.0)
    assert bad.metrics()["phase_matching"] == 1.0  # never good times: nothing missed
    ramp = _slcd({"ends": np.array([0.0, 36.0, 64.0, 80.0])})
    _play(ramp, 0.4, 1.0)  # (0.4 + 0.2) / 0.8 over two agents
    assert ramp.metrics()["phase_matching"] == pytest.approx(1 - 0.375)


def test_the_horizon_ends_and_nothing_else():
    engine = Engine("SLCD-v1", 50)
    engine.reset(np.arange(50))
    for _ in range(80):
        assert not engine.control.done.any()
        engine.step(np.zeros(engine.actions.shape), DISABLED)
    assert engine.control.truncated.all()
    assert not engine.control.ended.any()


@pytest.mark.parametrize("name", PHASED)
def test_every_phase_is_a_dilemma(name):
    """A unit pays all together and not the one who invests it, whatever is drawn, at full trust."""
    c = Engine(name).constants
    best = c.high[1] * (1 + c.shock[1]) * c.factor
    assert (c.share[:, None] * best < 1).all()
    assert (c.high[0] * (1 - c.shock[1]) * c.factor > 1).all()
    assert (c.low[1] * (1 + c.shock[1]) * c.factor < 1).all()
    gain = c.good * np.average((c.high.mean() * c.factor - 1) * c.level, weights=c.length)
    assert 1 + gain >= 1.2  # price of anarchy: nobody invests at the equilibrium


@pytest.mark.parametrize("name", PHASED)
@settings(max_examples=20, deadline=None)
@given(levels=st.lists(st.floats(-0.5, 1.5), min_size=12, max_size=12), seed=st.integers(0, 999))
def test_bounds_hold_for_any_play(name, levels, seed):
    engine = Engine(name, horizon=12, jitter=(0.0, 0.9), shock=(0.0, 1.0), noise=(0.0, 1.0))
    engine.reset(np.array([seed]))
    for t in range(12):
        engine.step(np.array([[[levels[t]], [levels[-t]]]]), DISABLED)
        assert ((engine.state.record >= 0) & (engine.state.record <= 1)).all()
        for agent, space in enumerate(engine.observation_spaces):
            assert space.contains(engine.control.obs[0, agent])
        assert engine.state_space.contains(engine.global_state()[0])
        assert 0 <= engine.metrics()["phase_matching"] <= 1


@pytest.mark.parametrize("name", PHASED)
def test_pictures_tell_the_phase(name):
    engine = Engine(name)
    engine.reset(np.array([0]))
    fields = engine.lane_state()
    words = engine.spec.text(engine.constants, fields, engine.agents)
    assert "phase 1 of 4" in words
    assert engine.spec.picture(engine.constants, fields, engine.agents).std() > 1


def _returns(act):
    """Mean returns of both firms over 4000 episodes of ``act``."""
    engine = Engine("SLCD-v1", 4000)
    engine.reset(np.arange(4000) + 99_000)
    while not engine.control.done.all():
        obs = engine.control.obs.astype(np.float64)
        level = engine.layout["level"].view(obs)[:, :, 0]
        seen = engine.layout["others_actions"].view(obs)[:, :, 0] / level
        fractions = level * act(engine.state.informed, engine.state.good[:, None], seen)
        engine.step(fractions[:, :, None], DISABLED)
    return engine.control.returns.mean(axis=0)


def _answer(informed, good, seen):
    return np.where(informed, good, np.clip(3 * seen - 1, 0, 1))


def _but(seat, action):
    """All answer, but the firm in one seat."""

    def act(informed, good, seen):
        fractions = _answer(informed, good, seen)
        fractions[:, seat] = action(informed, good, seen)[:, seat]
        return fractions

    return act


def test_what_the_game_asks():
    """Leading and following pays both by a fifth; alone nobody profits from it."""
    together = _returns(_answer)
    apart = _returns(lambda informed, good, seen: np.zeros(seen.shape))
    best = _returns(lambda informed, good, seen: good * np.ones(seen.shape))
    assert (together > 1.2 * apart).all()
    scale = (best - apart).sum()
    assert (together - apart).sum() > 0.88 * scale
    for blind in (lambda i, g, s: i & g, lambda i, g, s: np.where(i, g, 1.0)):
        assert (_returns(blind) - apart).sum() < 0.6 * scale
    for seat in (0, 1):
        free = _returns(_but(seat, lambda i, g, s: np.where(i, 0.72 * g, 0.0)))
        assert free[seat] > 1.04 * together[seat]
        leader = _returns(
            lambda i, g, s, seat=seat: np.where(np.arange(2) == seat, _answer(i, g, s), 0.0)
        )
        assert leader[seat] < 0.96 * apart[seat]
