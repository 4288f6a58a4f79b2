"""RecoveryRace-v1: damage that caps records, acts that repair it, and the market's doubt."""

import numpy as np
import pytest
from venture_play import begun, step

from coopbench_envs import Engine
from coopbench_envs.coopetition.ventures.recovery_race_v1 import HARM, HEAL, REPAIR

NAME = "RecoveryRace-v1"
FIXED = {
    "initial_trust": (0.2, 0.2),
    "damage": (0.4, 0.4),
    "high": (1.8, 1.8),
    "low": (0.2, 0.2),
}
SEEDS = {True: 0, False: 3}  # of episodes that begin in good and in bad times


def _game(good=True, state=None, **parameters):
    """One lane in times that stay, without noise."""
    engine = begun(NAME, state, SEEDS[good], **(FIXED | parameters))
    assert engine.state.good[0] == good
    return engine


def _play(engine, *fractions):
    step(engine, *fractions)
    return engine.metrics()


def test_a_breach_leaves_damage_that_caps_records():
    engine = Engine(NAME, 500)
    engine.reset(np.arange(500, dtype=np.uint64))
    damage = engine.state.damage
    assert 0.3 <= damage.min() < 0.31
    assert 0.59 < damage.max() <= 0.6
    assert np.abs(damage[:, 0] - damage[:, 1]).max() > 0.1  # drawn for each of the two
    capped = _game(initial_trust=(0.9, 0.9))
    assert capped.state.record[0].tolist() == [0.6, 0.6]
    assert capped.metrics()["final_trust"] == capped.metrics()["peak_trust"] == 0.6


def test_the_market_pays_less_in_good_times_until_they_have_recovered():
    assert _game().state.productivity[0] == pytest.approx(1.8 * 0.85)
    assert _game(good=False).state.productivity[0] == 0.2
    assert _game(market_penalty=0.0).state.productivity[0] == 1.8
    engine = _game()
    _play(engine, 0.8, 0.4)
    worth = 0.5 * 1.8 * 0.85 * 1.2  # whatever the records are
    np.testing.assert_allclose(engine.control.rewards[0], [0.2 + worth, 0.6 + worth])
    assert engine.state.productivity[0] == pytest.approx(1.8 * 0.85)  # of the coming step, too


HEALED = 0.4 * (1 - HEAL)


@pytest.mark.parametrize(
    ("good", "fractions", "damage", "record"),
    [
        (True, (1.0, 0.25), (HEALED - 0.4 * REPAIR, HEALED + HARM * 0.5 * 0.6), (0.4, 0.2125)),
        (True, (0.75, 0.5), (HEALED - 0.2 * REPAIR, HEALED), (0.3375, 0.275)),
        (False, (1.0, 0.0), (HEALED, HEALED), (0.2, 0.2)),
    ],
)
def test_costly_acts_in_good_times_repair_and_shortfalls_harm(good, fractions, damage, record):
    engine = _game(good)
    _play(engine, *fractions)
    assert engine.state.damage[0] == pytest.approx(damage)
    assert engine.state.record[0] == pytest.approx(record)


def test_records_never_stay_above_the_ceiling():
    engine = _game(state={"record": np.array([0.5, 0.8]), "damage": np.array([0.5, 0.2])})
    _play(engine, 1.0, 0.5)
    ceiling = 1 - 0.5 * (1 - HEAL - REPAIR)
    assert engine.state.record[0] == pytest.approx([ceiling, 0.725])
    metrics = engine.metrics()
    assert metrics["final_trust"] == metrics["mean_trust"] == pytest.approx((ceiling + 0.725) / 2)


def test_damage_and_record_change_when_conduct_is_observed():
    engine = _game(delay=1)
    _play(engine, 1.0, 0.0)
    assert engine.state.damage[0] == pytest.approx([HEALED, HEALED])
    assert engine.state.record[0].tolist() == [0.2, 0.2]
    _play(engine, 0.0, 1.0)
    repaired, harmed = HEALED * (1 - HEAL - REPAIR), HEALED * (1 - HEAL) + HARM * (1 - HEALED)
    assert engine.state.damage[0] == pytest.approx([repaired, harmed])
    assert engine.state.record[0] == pytest.approx([0.4, 0.15])


def test_recovery_counts_once_and_for_good():
    near = {"record": np.array([0.79, 0.79]), "damage": np.array([0.1, 0.1])}
    engine = _game(state=near, horizon=50)
    assert engine.metrics()["recovered"] == 0.0
    assert engine.metrics()["recovery_time"] == 1.0
    metrics = _play(engine, 0.79, 0.79)
    assert metrics["recovered"] == 0.0
    metrics = _play(engine, 1.0, 1.0)
    assert metrics["final_trust"] == pytest.approx(0.79 + 0.25 * 0.21)
    assert (metrics["recovered"], metrics["recovery_time"]) == (1.0, 2 / 50)
    assert engine.state.productivity[0] == 1.8
    peak = metrics["peak_trust"]
    for _ in range(20):
        metrics = _play(engine, 0.0, 0.0)
    assert metrics["final_trust"] < 0.1
    assert (metrics["recovered"], metrics["recovery_time"]) == (1.0, 2 / 50)
    assert metrics["peak_trust"] == peak > 0.8
    assert engine.state.productivity[0] == 1.8
    assert not engine.control.ended[0]


def test_the_mean_of_both_records_decides():
    state = {"record": np.array([0.95, 0.6]), "damage": np.array([0.0, 0.3])}
    engine = _game(state=state, recovery_target=0.8)
    assert _play(engine, 0.95, 0.6)["recovered"] == 0.0
    assert _play(engine, 1.0, 1.0)["recovered"] == 1.0
    assert engine.state.record[0, 1] < 0.8


def test_who_starts_above_the_target_has_recovered_at_once():
    engine = _game(initial_trust=(0.9, 0.9), damage=(0.0, 0.0))
    assert engine.metrics()["recovered"] == 1.0
    assert engine.metrics()["recovery_time"] == 0.0
    assert engine.state.productivity[0] == 1.8
    assert engine.control.obs[0, :, engine.layout["recovered"].index].tolist() == [[1.0], [1.0]]


def test_mean_damage_is_the_mean_over_steps_and_agents():
    engine = _game()
    assert engine.metrics()["mean_damage"] == 0.0
    seen = []
    for fractions in ((1.0, 0.0), (0.0, 0.3), (0.6, 0.6)):
        metrics = _play(engine, *fractions)
        seen.append(engine.state.damage[0].mean())
    assert metrics["mean_damage"] == pytest.approx(np.mean(seen))


def test_what_agents_and_the_global_state_see():
    engine = _game(state={"damage": np.array([0.3, 0.5])})
    layout, obs = engine.layout, engine.control.obs[0]
    assert list(layout)[-3:] == ["own_damage", "others_damage", "recovered"]
    np.testing.assert_allclose(obs[:, layout["own_damage"].index], [[0.3], [0.5]])
    np.testing.assert_allclose(obs[:, layout["others_damage"].index], [[0.5], [0.3]])
    assert obs[:, layout["recovered"].index].tolist() == [[0.0], [0.0]]
    assert layout["recovered"].stop == obs.shape[1]
    np.testing.assert_allclose(engine.global_state()[0, -3:], [0.3, 0.5, 0.0])
    engine.reset(state={"recovery": np.int64(4)})
    assert engine.global_state()[0, -1] == 1.0
