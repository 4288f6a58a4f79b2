"""RecoveryRace-v1: what the market pays, and what is observed."""

import numpy as np
import pytest
from venture_play import begun, step

NAME = "RecoveryRace-v1"
FIXED = {"initial_trust": (0.2, 0.2), "damage": (0.4, 0.4), "high": (1.8, 1.8), "low": (0.2, 0.2)}
SEEDS = {True: 0, False: 3}  # of episodes that begin in the good and in the bad regime


def _game(good=True, state=None, **parameters):
    """One lane in times that stay, without noise."""
    engine = begun(NAME, state, SEEDS[good], **(FIXED | parameters))
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
