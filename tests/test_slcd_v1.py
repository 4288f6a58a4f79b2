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
}
FULL = np.ones((2, 2))


def _slcd(state, **parameters):
    engine = Engine("SLCD-v1", **(STILL | parameters))
    engine.reset(np.array([0]), state={"trust": FULL, "good": True, "productivity": 1.5} | state)
    return engine


def _play(engine, *fractions):
    engine.step(np.array(fractions, np.float64)[None, :, None], DISABLED)
    return engine.control.rewards[0]


@pytest.mark.parametrize(
    ("horizon", "ends", "first"),
    [(40, [8, 18, 32, 40], 0), (100, [20, 45, 80, 100], 0), (1, [0, 0, 1, 1], 2)],
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


def test_investment_beyond_the_level_is_lost():
    """Planning takes in a half: 1.5 x (0.5 + 0.3) are shared evenly, and what was kept stays."""
    engine = _slcd({"dependence": np.array([0.6, 0.8])})
    assert _play(engine, 1.0, 0.3) == pytest.approx([0.6, 0.7 + 0.6])
    assert engine.state.income[0] == pytest.approx([0.6, 1.3])
    # At a trust of 1/2 the dependence takes 0.3 and 0.4 of a share away.
    distrust = np.array([[1.0, 0.5], [0.5, 1.0]])
    engine = _slcd({"dependence": np.array([0.6, 0.8]), "trust": distrust})
    assert _play(engine, 0.5, 0.5) == pytest.approx([0.5 + 0.75 * 0.7, 0.5 + 0.75 * 0.6])
    # The peak takes in everything.
    engine = _slcd({"time": 18})
    assert _play(engine, 1.0, 0.3) == pytest.approx([0.975, 0.7 + 0.975])


@pytest.mark.parametrize(
    ("good", "fraction", "trust"),
    [
        (True, 0.5, 0.6 + 0.15 * 0.4),  # the level: full goodwill
        (True, 1.0, 0.6 + 0.15 * 0.4),  # no more than that for more
        (True, 0.25, 0.6),  # half of the level is expected
        (True, 0.125, 0.6 - 0.3 * 0.5 * 0.6),
        (True, 0.0, 0.6 - 0.3 * 0.6),
        (False, 0.0, 0.6),  # nothing is expected in bad times
        (False, 0.1, 0.6 + 0.15 * 0.2 * 0.4),
    ],
)
def test_trust_judges_by_the_level(good, fraction, trust):
    engine = _slcd({"good": good, "trust": np.array([[1.0, 0.6], [0.6, 1.0]])})
    _play(engine, fraction, 0.5)
    assert engine.state.expected[0] == (0.25 if good else 0.0)
    assert engine.state.trust[0, 1, 0] == pytest.approx(trust)


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
    ramp = _slcd({"ends": np.array([0.0, 18.0, 32.0, 40.0])})
    _play(ramp, 0.4, 1.0)  # (0.4 + 0.2) / 0.8 over two agents
    assert ramp.metrics()["phase_matching"] == pytest.approx(1 - 0.375)


def test_the_horizon_ends_and_nothing_else():
    engine = Engine("SLCD-v1", 50)
    engine.reset(np.arange(50))
    for _ in range(40):
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
    gain = 0.5 * np.average((c.high.mean() * c.factor - 1) * c.level, weights=c.length)
    assert 1 + gain >= 1.25  # price of anarchy: nobody invests at the equilibrium


@pytest.mark.parametrize("name", PHASED)
@settings(max_examples=20, deadline=None)
@given(levels=st.lists(st.floats(-0.5, 1.5), min_size=12, max_size=12), seed=st.integers(0, 999))
def test_bounds_hold_for_any_play(name, levels, seed):
    engine = Engine(name, horizon=12, jitter=(0.0, 0.9), shock=(0.0, 1.0), noise=(0.0, 1.0))
    engine.reset(np.array([seed]))
    for t in range(12):
        engine.step(np.array([[[levels[t]], [levels[-t]]]]), DISABLED)
        assert (engine.state.trust >= 0).all()
        assert (engine.state.trust <= 1).all()
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
