"""SLCD-v1 and the phases it shares with RenaultNissan-v1, by numbers worked out by hand."""

import numpy as np
import pytest
from venture_play import begun, step, worded

from coopbench_envs.engine import Engine

# Lengths of phases without chance; a unit is worth 1.8 before the factor of the phase.
FIXED = {"jitter": (0.0, 0.0), "high": (1.8, 1.8), "low": (0.2, 0.2)}


def _slcd(state, **parameters):
    times = {"good": True, "productivity": 1.5}
    return begun("SLCD-v1", times | state, **(FIXED | parameters))


@pytest.mark.parametrize(
    ("horizon", "ends", "first"),
    [(80, [16, 36, 64, 80], 0), (100, [20, 45, 80, 100], 0), (1, [0, 0, 1, 1], 2)],
)
def test_phases_fill_the_horizon(horizon, ends, first):
    """Means 0.2, 0.25, 0.35, 0.2 of the horizon, to the nearest step; too short ones are none."""
    engine = _slcd({}, horizon=horizon)
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
        step(engine, 0.3, 0.3)
    assert engine.control.truncated[0]
    assert not engine.control.terminated.any()
    assert engine.state.phase[0] == 3
    assert "phase 4 of 4" in worded(engine)


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
        step(engine, 0.3, 0.3)
    assert flags == [[True, False]] * 9 + [[False, True]] * 11
    assert "income" not in layout  # it would tell the times


def test_investment_beyond_the_level_is_lost():
    """Planning takes in a half: 1.5 x (0.5 + 0.3) are shared evenly, and what was kept stays."""
    for record in (0.0, 1.0):  # which pays nobody
        engine = _slcd({"record": np.full(2, record)})
        assert step(engine, 1.0, 0.3) == pytest.approx([0.6, 0.7 + 0.6])
    # The peak takes in everything.
    engine = _slcd({"time": 40})
    assert step(engine, 1.0, 0.3) == pytest.approx([0.975, 0.7 + 0.975])


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
    step(engine, 0.5, fraction)
    after = 0.6 + weight * (conduct - 0.6)
    expected = [0.6 + 0.03 * 0.15, after + 0.03 * (0.75 - after)]  # Samsung received nothing
    np.testing.assert_allclose(engine.state.record[0], expected, rtol=1e-12)


def test_what_is_expected_of_a_firm():
    """The informed one: half of the level in good times. The other: that part of an answer."""
    for good in (True, False):
        engine = _slcd({"good": good, "seen": np.array([0.3, 0.4])})
        step(engine, 0.1, 0.1)
        trace = engine.spec.trace(engine.constants, engine.state)
        np.testing.assert_allclose(trace["baseline"], [[0.25 * good, 0.25 * 0.6]])


def test_phase_matching():
    """Planning's level is 1/2: (0 + 0.5) / 0.5 over two agents is a distance of 1/2."""
    engine = _slcd({})
    assert engine.metrics()["phase_matching"] == 1.0
    step(engine, 0.5, 0.0)
    assert engine.metrics()["phase_matching"] == pytest.approx(0.5)
    step(engine, 0.5, 0.5)
    assert engine.metrics()["phase_matching"] == pytest.approx(0.75)
    bad = _slcd({"good": False})
    step(bad, 1.0, 0.0)
    assert bad.metrics()["phase_matching"] == 1.0  # never good times: nothing missed
    ramp = _slcd({"ends": np.array([0.0, 36.0, 64.0, 80.0])})
    step(ramp, 0.4, 1.0)  # (0.4 + 0.2) / 0.8 over two agents
    assert ramp.metrics()["phase_matching"] == pytest.approx(1 - 0.375)
