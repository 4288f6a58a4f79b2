"""PlatformEcosystem-v1: a step by hand, and what is observed."""

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


@pytest.mark.parametrize("record", [0.6, 1.0])
def test_a_step_with_everybody_present(record):
    """Records pay nobody: 2 x (1 + 0.4 + 0.8) is divided 30 to 70 whatever they are."""
    engine = played(GOOD | {"record": np.full(3, record)}, [INVEST, [0.5, 0.5, 0.5], INVEST])
    worth = 2.0 * 2.2
    part = 0.7 * worth / 2
    np.testing.assert_allclose(engine.control.rewards[0], [0.3 * worth, 0.4 + part, part])
    np.testing.assert_array_equal(engine.state.present[0], True)
    assert not engine.control.terminated.any()


def test_observation_and_global_state_end_with_presence_and_commission():
    engine = played(GOOD, [[1.0, 1.0, 0.5], INVEST, LEAVE], wait=3)
    assert list(engine.layout)[-6:] == [
        "time",
        "informed",
        "own_presence",
        "developers_present",
        "commission",
        "waiting",
    ]
    expected = [[1, 0.5, 0.45, 0], [1, 0.5, 0.45, 0], [0, 0.5, 0.45, 2 / 3]]
    np.testing.assert_allclose(engine.control.obs[0, :, -4:], np.float32(expected))
    world = engine.global_state()[0]
    assert world.shape == engine.state_space.shape == (2 * 3 + 2 + 5,)
    np.testing.assert_allclose(world[-5:], np.float32([1, 0, 0, 2 / 3, 0.45]))
    first = played(GOOD)
    np.testing.assert_allclose(
        first.control.obs[0, :, -4:], np.tile(np.float32([1, 1, 0.3, 0]), (3, 1))
    )


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
