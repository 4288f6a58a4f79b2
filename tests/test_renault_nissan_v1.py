"""RenaultNissan-v1: phases, their levels, and what a new phase does to the records."""

import numpy as np
import pytest
from venture_play import begun, step

from coopbench_envs.coopetition.ventures.renault_nissan_v1 import TRUST
from coopbench_envs.engine import Engine

FIXED = {"jitter": (0.0, 0.0), "pull": (0.5, 0.5), "high": (1.8, 1.8), "low": (0.2, 0.2)}


def _alliance(state=None, **parameters):
    return begun("RenaultNissan-v1", state, **(FIXED | parameters))


def test_the_four_phases_come_in_order():
    """0.15, 0.45, 0.15 and 0.25 of 100 steps."""
    engine = _alliance()
    assert engine.state.ends[0].tolist() == [15, 60, 75, 100]
    course = []
    while not engine.control.done[0]:
        course.append(int(engine.state.phase[0]))
        step(engine, 0.5, 0.5)
    assert course == [0] * 15 + [1] * 45 + [2] * 15 + [3] * 25


def test_a_new_phase_draws_records_halfway():
    """In bad times conduct moves no record, so only the phases do."""
    engine = _alliance({"record": np.array([0.4, 0.5]), "good": False})
    expected = [0.4, 0.5]
    for t in range(1, 100):
        step(engine, 0.9, 0.0)
        if t in (15, 60, 75):
            target = TRUST[int(engine.state.phase[0])]
            expected = [0.5 * (record + target) for record in expected]
        assert engine.state.record[0] == pytest.approx(expected)
        assert engine.metrics()["final_trust"] == pytest.approx(np.mean(expected))
    # 0.45 for 14 steps, then (0.45 + 0.7) / 2 = 0.575 for 45, 0.4375 for 15, 0.41875 for 25
    mean = (14 * 0.45 + 45 * 0.575 + 15 * 0.4375 + 25 * 0.41875) / 99
    assert engine.metrics()["mean_trust"] == pytest.approx(mean)


def test_a_step_is_judged_before_the_phase_changes():
    """The step's conduct counts first: 0.4 + 0.25 x 0.6 = 0.55, then half way to 0.7."""
    state = {"record": np.array([0.4, 0.4]), "good": True}
    engine = _alliance(state | {"ends": np.array([1.0, 60.0, 75.0, 100.0])})
    step(engine, 0.7, 0.0)
    assert engine.state.record[0] == pytest.approx([0.625, 0.5 * (0.4 - 0.25 * 0.4 + 0.7)])


def test_conduct_is_relative_to_the_level_of_the_phase():
    """Formation takes in 0.7: 0.35 is half of it, and what goes beyond counts as 1."""
    engine = _alliance({"record": np.array([0.4, 0.4]), "good": True})
    step(engine, 0.35, 0.9)
    assert engine.state.conduct[0] == pytest.approx([0.5, 1.0])
    assert engine.state.record[0] == pytest.approx([0.425, 0.55])
    assert engine.state.expected[0] == pytest.approx(0.35)


@pytest.mark.parametrize(("pull", "after"), [(0.0, 0.4), (1.0, 0.7)])
def test_pull_of_nothing_and_of_everything(pull, after):
    state = {"record": np.array([0.4, 0.4]), "good": False}
    engine = _alliance(state, pull=(pull, pull))
    for _ in range(15):
        step(engine, 0.0, 0.0)
    assert engine.state.record[0] == pytest.approx([after, after])


def test_an_episode_draws_its_pull():
    engine = Engine("RenaultNissan-v1", 500)
    engine.reset(np.arange(500))
    assert 0.4 <= engine.state.pull.min() < 0.41
    assert 0.59 < engine.state.pull.max() <= 0.6


def test_a_step_pays_by_share_whatever_the_records():
    """Formation takes in 0.7: units 0.9 x 0.7 + 1 x 0.5 = 1.13, worth 1.13 x 1.5 = 1.695."""
    for record in ([0.0, 1.0], [1.0, 0.0]):
        state = {"record": np.array(record), "good": True, "productivity": 1.5}
        engine = _alliance(state)
        nissan, renault = 0.9 * 0.2 + 0.48 * 1.695, 0.5 + 0.52 * 1.695
        assert step(engine, 0.8, 0.5) == pytest.approx([nissan, renault])
    assert engine.agents == ("nissan_0", "renault_0")


def test_a_phase_scales_the_worth_of_a_unit():
    engine = _alliance({"good": True})
    worth = []
    while not engine.control.done[0]:
        step(engine, 0.0, 0.0)
        worth.append(float(engine.state.productivity[0]))
    expected = [1.8 * 0.98] * 14 + [1.8] * 45 + [1.8 * 0.95] * 15 + [1.8 * 0.98] * 26
    np.testing.assert_allclose(worth, expected)


def test_what_agents_and_the_global_state_see():
    state = {"record": np.array([0.3, 0.8]), "good": True, "productivity": 1.5}
    engine = _alliance(state)
    layout, seen = engine.layout, engine.control.obs[0]
    assert list(layout)[-2:] == ["phase", "level"]
    assert "income" in layout
    assert seen[:, layout["trust_in_me"].index].ravel() == pytest.approx([0.3, 0.8])
    assert seen[:, layout["trust_in_others"].index].ravel() == pytest.approx([0.8, 0.3])
    assert seen[0, layout["productivity"].index] == pytest.approx([0.6])
    assert seen[0, layout["phase"].index].tolist() == [1.0, 0.0, 0.0, 0.0]
    assert seen[0, layout["level"].index] == pytest.approx([0.7])
    world = engine.global_state()[0]
    assert world.shape == engine.state_space.shape == (11,)
    np.testing.assert_allclose(world, [0, 0, 0.3, 0.8, 0.6, 0, 1, 0, 0, 0, 0.7], rtol=1e-6)


def test_phases_too_short_for_a_step_leave_no_trace():
    """Of two steps formation has none: the episode begins in the second phase, as records are."""
    engine = _alliance(horizon=2, initial_trust=(0.2, 0.2))
    assert engine.state.ends[0].tolist() == [0, 1, 2, 2]
    assert engine.state.phase[0] == 1
    assert engine.state.record[0].tolist() == [0.2, 0.2]
    step(engine, 0.0, 0.0)
    assert engine.state.phase[0] == 2
    record = engine.state.record.copy()
    fields = engine.lane_state()
    engine.reset(np.array([0]), state=fields | {"good": False})
    step(engine, 0.0, 0.0)  # of the strained phase there is no step, so it pulls nobody
    assert engine.control.truncated[0]
    assert engine.state.phase[0] == 2
    np.testing.assert_array_equal(engine.state.record, record)
