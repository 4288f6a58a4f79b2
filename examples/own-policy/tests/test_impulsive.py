"""The policy through the registry, as commands and protocols reach it."""

import numpy as np
import pytest

import coopbench
from coopbench.baselines.game import Game
from coopbench.baselines.registry import make_policy

ENV = "coopbench/TrustDilemma-v1"


def invested(name, steps=200):
    """Return what each seat of two lanes invests, (steps, lanes, agents, 1)."""
    game = Game.at(ENV)
    policy = make_policy(name, game)
    memory = policy.initial(game, np.array([1, 2], np.uint64))
    actions = []
    for _ in range(steps):
        action, memory = policy.act(np.zeros((2, len(game.agents), 3)), memory)
        actions.append(action)
    return np.array(actions)


def test_it_invests_everything_or_nothing():
    actions, high = invested("impulsive:0.3"), Game.at(ENV).high
    assert np.all((actions == 0.0) | (actions == high))
    assert 0.2 < np.mean(actions == high) < 0.4
    assert np.all(invested("impulsive:1") == high)


def test_every_seat_of_every_lane_draws_for_itself_from_the_seeds():
    actions = invested("impulsive")
    assert len({column.tobytes() for column in np.moveaxis(actions, 0, -1).reshape(4, -1)}) == 4
    np.testing.assert_array_equal(actions, invested("impulsive"))


def test_it_is_registered_with_its_parameter():
    assert "impulsive" in coopbench.policies()
    with pytest.raises(ValueError, match=r"'chance' of policy 'impulsive' was 2; allowed"):
        invested("impulsive:2")
    with pytest.raises(ValueError, match="needs Box actions"):
        make_policy("impulsive", Game.at("coopbench/Skirmish-v1"))


def test_a_report_shows_it():
    report = coopbench.evaluate(ENV, ["random", "impulsive:0.3"])
    assert {row.policy for row in report.estimates} == {"random", "impulsive:0.3"}
