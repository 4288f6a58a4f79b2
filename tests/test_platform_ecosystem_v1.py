"""PlatformEcosystem-v1: who is present in the end, and what is expected of a platform."""

import numpy as np
import pytest
from venture_play import begun, step

from coopbench.baselines.game import Game
from coopbench.baselines.match import Match
from coopbench.baselines.player import Player
from coopbench_envs.coopetition.ventures import platform_ecosystem_v1 as game

PLAIN = {
    "num_developers": 2,
    "initial_trust": (0.8, 0.8),
    "outside": 0.05,
    "high": (2.0, 2.0),
    "low": (0.2, 0.2),
}
GOOD = {"good": True, "productivity": 2.0}
INVEST, STAY, LEAVE = [1.0, 0.5, 0.5], [0.0, 0.5, 0.5], [0.0, 0.5, 1.0]


def played(state, *steps, **parameters):
    engine = begun("PlatformEcosystem-v1", state, 1, **(PLAIN | parameters))
    for actions in steps:
        step(engine, actions)
    return engine


def test_steady_is_who_would_deal_with_a_full_record():
    engine = played(GOOD | {"record": np.ones(3)})
    actions = np.array([[[0.0, 0.5, 0.5], [0.0, 0.5, 0.9], [0.0, 0.5, 1.0]]])
    present = game.steady(engine.constants, actions)["present"]
    np.testing.assert_array_equal(present, [[True, True, False]])
    shut = game.steady(engine.constants, np.array([[LEAVE, STAY, STAY]]))["present"]
    np.testing.assert_array_equal(shut, [[True, False, False]])


@pytest.mark.parametrize(("record", "fraction"), [(0.81, 1.0), (0.8, 1.0), (0.79, 0.0)])
def test_a_reciprocator_does_not_invest_where_it_expects_to_be_shut_out(record, fraction):
    """With a bar of 0.8 for others it expects the same bar of the platform."""
    engine = played(GOOD)
    match = Match(engine, [Player("reciprocator:bar=0.8", Game.of(engine))])
    state = {"record": np.array([0.9, record, 0.9]), "seen": np.array([1.0, 0.0, 0.0])}
    match.begin(np.array([1], np.uint64), state=GOOD | state)
    actions = match.actions()[0]
    np.testing.assert_allclose(actions[:, 2], 0.8)
    np.testing.assert_allclose(actions[1:, 0], [fraction, 1.0])
