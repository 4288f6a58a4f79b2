"""Ventures of version 1: SLCD, RenaultNissan, SynergySearch and RecoveryRace by hand."""

import numpy as np
import pytest
from venture_play import begun, step, worded

# Lengths of phases without chance; a unit is worth 1.8 before the factor of the phase.
FIXED = {"jitter": (0.0, 0.0), "high": (1.8, 1.8), "low": (0.2, 0.2)}
FIRST = np.array([True, False])  # firm 0 is informed
RACE = {"initial_trust": (0.2, 0.2), "damage": (0.4, 0.4), "high": (1.8, 1.8), "low": (0.2, 0.2)}
SEEDS = {True: 0, False: 3}  # of episodes that begin in the good and in the bad regime


def _slcd(state, **parameters):
    times = {"good": True, "productivity": 1.5}
    return begun("SLCD-v1", times | state, **(FIXED | parameters))


def _alliance(state):
    return begun("RenaultNissan-v1", state, **(FIXED | {"pull": (0.5, 0.5)}))


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


def test_a_step_pays_by_share_whatever_the_records():
    """Formation takes in 0.7: units 0.9 x 0.7 + 1 x 0.5 = 1.13, worth 1.13 x 1.5 = 1.695."""
    for record in ([0.0, 1.0], [1.0, 0.0]):
        state = {"record": np.array(record), "good": True, "productivity": 1.5}
        engine = _alliance(state)
        nissan, renault = 0.9 * 0.2 + 0.48 * 1.695, 0.5 + 0.52 * 1.695
        assert step(engine, 0.8, 0.5) == pytest.approx([nissan, renault])
    assert engine.agents == ("nissan_0", "renault_0")


def test_trust_phase_and_level_are_seen():
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


def _venture(good, state=None, **parameters):
    values = {"good": good, "productivity": 1.5 if good else 0.5, "informed": FIRST}
    levels = {"high": (1.5, 1.5), "low": (0.5, 0.5)}
    return begun("SynergySearch-v1", values | (state or {}), **(levels | parameters))


@pytest.mark.parametrize("informed", [0, 1])
def test_one_observes_the_times_and_both_who_does(informed):
    flags = np.arange(2) == informed
    engine = _venture(True, {"informed": flags})
    seen, layout = engine.control.obs[0], engine.layout
    expected = np.where(flags, 1.5 / 2.5, 0.0)
    np.testing.assert_allclose(seen[:, layout["productivity"].index][:, 0], expected, rtol=1e-6)
    shown = seen[:, layout["informed"].index].tolist()
    assert shown == [[float(flag), float(not flag)] for flag in flags]
    assert list(layout)[-2:] == ["time", "informed"]
    assert "income" not in layout  # it would tell the times
    assert engine.global_state()[0, -2:].tolist() == flags.astype(float).tolist()


def test_a_step_pays_by_the_hidden_times_and_not_by_records():
    for record in (0.0, 1.0):
        records = {"record": np.full(2, record)}
        assert step(_venture(True, records), 0.4, 1.0) == pytest.approx([0.6 + 1.05, 1.05])
        assert step(_venture(False, records), 0.4, 1.0) == pytest.approx([0.6 + 0.35, 0.35])


def _game(good=True, state=None, **parameters):
    """One lane in times that stay, without noise."""
    engine = begun("RecoveryRace-v1", state, SEEDS[good], **(RACE | parameters))
    assert engine.state.good[0] == good
    return engine


def _play(engine, *fractions):
    step(engine, *fractions)
    return engine.metrics()


def test_the_market_pays_less_in_good_times_until_they_have_recovered():
    assert _game().state.productivity[0] == pytest.approx(1.8 * 0.85)
    assert _game(good=False).state.productivity[0] == 0.2
    assert _game(market_penalty=0.0).state.productivity[0] == 1.8
    engine = _game()
    _play(engine, 0.8, 0.4)
    worth = 0.5 * 1.8 * 0.85 * 1.2  # whatever the records are
    np.testing.assert_allclose(engine.control.rewards[0], [0.2 + worth, 0.6 + worth])
    assert engine.state.productivity[0] == pytest.approx(1.8 * 0.85)  # of the coming step, too


def test_damages_and_the_recovery_are_seen():
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
