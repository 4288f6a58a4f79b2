"""RenaultNissan-v1: what a new phase does to trust and dependence; phases are in test_slcd_v1."""

import numpy as np
import pytest

from coopbench_envs.coopetition.ventures.renault_nissan_v1 import DEPENDENCE, TRUST
from coopbench_envs.engine import DISABLED, Engine

STILL = {
    "noise": (0.0, 0.0),
    "shock": (0.0, 0.0),
    "jitter": (0.0, 0.0),
    "shift": (0.0, 0.0),
    "pull": (0.5, 0.5),
    "persistence": (1.0, 1.0),
    "high": (1.8, 1.8),
    "low": (0.2, 0.2),
}


def _alliance(state=None, **parameters):
    engine = Engine("RenaultNissan-v1", **(STILL | parameters))
    engine.reset(np.array([0]), state=state)
    return engine


def _play(engine, *fractions):
    engine.step(np.array(fractions, np.float64)[None, :, None], DISABLED)
    return engine.control.rewards[0]


def test_the_four_phases_come_in_order():
    """0.15, 0.45, 0.15 and 0.25 of 60 steps: 9, 27, 9 and 15."""
    engine = _alliance()
    assert engine.state.ends[0].tolist() == [9, 36, 45, 60]
    course = []
    while not engine.control.done[0]:
        course.append(int(engine.state.phase[0]))
        _play(engine, 0.5, 0.5)
    assert course == [0] * 9 + [1] * 27 + [2] * 9 + [3] * 15


def test_a_new_phase_draws_trust_halfway():
    """In bad times nobody who keeps everything moves trust, so only the phases do."""
    start = np.array([[1.0, 0.4], [0.5, 1.0]])
    engine = _alliance({"trust": start, "good": False})
    expected = [0.4, 0.5]
    for t in range(1, 60):
        _play(engine, 0.0, 0.0)
        if t in (9, 36, 45):
            target = TRUST[int(engine.state.phase[0])]
            expected = [0.5 * (trust + target) for trust in expected]
        assert engine.state.trust[0, 0, 1] == pytest.approx(expected[0])
        assert engine.state.trust[0, 1, 0] == pytest.approx(expected[1])
        assert engine.state.trust[0].diagonal().tolist() == [1.0, 1.0]
        assert engine.metrics()["final_trust"] == pytest.approx(np.mean(expected))
    # 0.45 for 8 steps, then (0.45 + 0.7) / 2 = 0.575 for 27, 0.4375 for 9, 0.41875 for 15
    mean = (8 * 0.45 + 27 * 0.575 + 9 * 0.4375 + 15 * 0.41875) / 59
    assert engine.metrics()["mean_trust"] == pytest.approx(mean)


def test_a_step_is_judged_before_the_phase_changes():
    """The ninth step's goodwill counts first: 0.4 + 0.15 x 0.6 = 0.49, then half way to 0.7."""
    trust = np.array([[1.0, 0.4], [0.4, 1.0]])
    engine = _alliance({"trust": trust, "good": True, "ends": np.array([1.0, 36.0, 45.0, 60.0])})
    _play(engine, 0.7, 0.0)
    assert engine.state.trust[0, 1, 0] == pytest.approx(0.595)
    assert engine.state.trust[0, 0, 1] == pytest.approx(0.5 * (0.4 - 0.3 * 0.4 + 0.7))


def test_pull_of_nothing_and_of_everything():
    for pull, after in ((0.0, 0.4), (1.0, 0.7)):
        trust = np.array([[1.0, 0.4], [0.4, 1.0]])
        engine = _alliance({"trust": trust, "good": False}, pull=(pull, pull))
        for _ in range(9):
            _play(engine, 0.0, 0.0)
        assert engine.state.trust[0, 0, 1] == pytest.approx(after)


def test_dependence_follows_the_phase():
    engine = _alliance()
    while not engine.control.done[0]:
        phase = int(engine.state.phase[0])
        assert engine.state.dependence[0].tolist() == list(DEPENDENCE[phase])
        seen = engine.control.obs[0, :, engine.layout["dependence"].index].ravel()
        assert seen.tolist() == np.float32(DEPENDENCE[phase]).tolist()
        _play(engine, 0.2, 0.9)


def test_dependence_is_shifted_for_the_whole_episode_and_clipped():
    engine = _alliance({"shift": np.array([0.3, -0.9])})
    for _ in range(9):
        _play(engine, 0.0, 0.0)
    assert engine.state.dependence[0] == pytest.approx([0.81, 0.0])
    many = Engine("RenaultNissan-v1", 300, shift=(0.1, 0.1))
    many.reset(np.arange(300))
    shift = many.state.dependence - DEPENDENCE[0]
    np.testing.assert_allclose(shift, many.state.shift)
    assert np.abs(shift).max() <= 0.1
    assert shift.std() > 0.04  # uniform: 0.1 / sqrt(3) = 0.058


def test_a_step_pays_by_share_and_standing():
    """Formation takes in 0.7: units 0.9 x 0.7 + 1 x 0.5 = 1.13, worth 1.13 x 1.5 = 1.695."""
    trust = np.array([[1.0, 0.6], [0.5, 1.0]])
    engine = _alliance({"trust": trust, "good": True, "productivity": 1.5})
    nissan = 0.9 * 0.2 + 0.48 * 1.695 * (1 - 0.78 * 0.5)
    renault = 0.5 + 0.52 * 1.695 * (1 - 0.66 * 0.4)
    assert _play(engine, 0.8, 0.5) == pytest.approx([nissan, renault])
    assert engine.agents == ("nissan_0", "renault_0")


def test_phases_too_short_for_a_step_leave_no_trace():
    """Of two steps formation has none: the episode begins in the second phase, as trust is."""
    engine = _alliance(horizon=2, initial_trust=(0.2, 0.2))
    assert engine.state.ends[0].tolist() == [0, 1, 2, 2]
    assert engine.state.phase[0] == 1
    assert engine.state.trust[0, 0, 1] == 0.2
    assert engine.state.dependence[0].tolist() == list(DEPENDENCE[1])
    _play(engine, 0.0, 0.0)
    assert engine.state.phase[0] == 2
    trust = engine.state.trust.copy()
    fields = engine.lane_state()
    engine.reset(np.array([0]), state=fields | {"good": False})
    _play(engine, 0.0, 0.0)  # of the strained phase there is no step, so it pulls nobody
    assert engine.control.truncated[0]
    assert engine.state.phase[0] == 2
    np.testing.assert_array_equal(engine.state.trust, trust)
    words = engine.spec.text(engine.constants, engine.lane_state(), engine.agents)
    assert "phase 3 of 4: crisis" in words
