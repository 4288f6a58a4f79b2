"""SLCD-v1 and the phases it shares with RenaultNissan-v1: what is seen, and one step."""

import numpy as np
import pytest
from venture_play import begun, step, worded

# Lengths of phases without chance; a unit is worth 1.8 before the factor of the phase.
FIXED = {"jitter": (0.0, 0.0), "high": (1.8, 1.8), "low": (0.2, 0.2)}


def _slcd(state, **parameters):
    times = {"good": True, "productivity": 1.5}
    return begun("SLCD-v1", times | state, **(FIXED | parameters))


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


def test_investment_beyond_the_level_is_lost():
    """Planning takes in a half: 1.5 x (0.5 + 0.3) are shared evenly, and what was kept stays."""
    for record in (0.0, 1.0):  # which pays nobody
        engine = _slcd({"record": np.full(2, record)})
        assert step(engine, 1.0, 0.3) == pytest.approx([0.6, 0.7 + 0.6])
    # The peak takes in everything.
    engine = _slcd({"time": 40})
    assert step(engine, 1.0, 0.3) == pytest.approx([0.975, 0.7 + 0.975])
