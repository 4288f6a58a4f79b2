"""Shared models without a seat number: trained with some agents, played with any number of them."""

from typing import NamedTuple

import builders
import numpy as np
import pytest
import toy_lift
from builders import outputs_of
from episodes import begun
from team_training import known

import coopbench
from coopbench.baselines.game import Game
from coopbench.baselines.learner import settings_of
from coopbench.baselines.learners.hyperparameters import SeatNumber
from coopbench.baselines.networks.kinds import read_policy
from coopbench.baselines.registry import learners, make_learner
from coopbench.episodes.table import Cell
from coopbench.results import store

pytest.importorskip("torch")

LIFT, PENNIES = "test/Lift-v0", "test/Pennies-v0"
_toys = known(toy_lift)
SMALL = {"lanes": 2, "rollout": 20, "batch_size": 20, "epochs": 1, "layers": "8"}


def trained(env=LIFT, steps=40, **change):
    learner = make_learner("ippo_shared", env, {"num_agents": 3}, 3, **SMALL, **change)
    learner.learn(steps)
    return learner


@pytest.fixture
def protocol(tmp_path):
    """One game, trained with three agents, played with two, three and eight."""
    sizes = {"three": 3, "two": 2, "eight": 8}
    tasks = [
        builders.make_task(name, LIFT, low=-10, high=10, parameters={"num_agents": agents})
        | ({} if name == "three" else {"trained_on": "three"})
        for name, agents in sizes.items()
    ]
    shown = {"metrics": ["return", "share"], "curve": "share", "baselines": None, "resamples": 200}
    training = builders.make_training(runs=1, steps=40)
    seeds = {"train": [5], "first": 100, "count": 4, "selection": (200, 2)}
    return builders.small_protocol(
        tmp_path, "sizes", tasks=tasks, training=training, **seeds, **shown
    )


def test_one_model_plays_any_number_of_agents(protocol, tmp_path):
    """It is trained with three, stored, verified, and its actions are those of a single row."""
    out = tmp_path / "out"
    settings = SMALL | {"seat_number": False}
    report = coopbench.train(protocol, "ippo_shared", out, **settings)
    assert {len(block.agents) for block in report.episodes} == {2, 3, 8}
    verification = coopbench.verify(out)
    assert verification.holds, str(verification)
    policy = store.read(out, protocol, Cell("eight", "ippo_shared", 5)).policy
    assert policy.hyperparameters["seat_number"] is False
    assert read_policy(policy.pack()).pack() == policy.pack()
    engine = builders.begun(LIFT, 6, num_agents=8)
    player = begun(engine, policy)
    outputs = outputs_of(policy.network, engine.control.obs.reshape(48, 1, 2)).reshape(6, 8, 1)
    low, high = engine.action_bounds()
    expected = low + (outputs.astype(float) + 1) / 2 * (high - low)
    np.testing.assert_array_equal(player.act(engine.control.obs), expected)


def test_the_same_observation_means_the_same_action_in_every_seat():
    policy, numbered = trained(seat_number=False).policy(), trained().policy()
    observations = np.repeat(np.random.default_rng(0).random((50, 1, 2)), 3, axis=1)
    alike = outputs_of(policy.network, observations)
    assert (alike == alike[:, :1]).all()
    different = outputs_of(numbered.network, observations)
    assert not (different == different[:, :1]).all()


def test_a_model_with_seat_numbers_plays_its_own_number_of_agents():
    with pytest.raises(ValueError, match="agents 3 instead of 8"):
        trained().policy().check(Game.at(LIFT, num_agents=8))


def test_observations_of_another_width_are_refused_with_a_reason():
    policy = trained(env=PENNIES, seat_number=False).policy()
    policy.check(Game.at(PENNIES, num_agents=3))
    words = "trained for features 3 instead of 8. It plays any number of agents, but only where"
    with pytest.raises(ValueError, match=words):
        policy.check(Game.at(PENNIES, num_agents=8))


@pytest.mark.parametrize("name", ["ippo", "isac"])
def test_models_of_single_seats_need_no_number(name):
    words = f"has a model for every seat; allowed with '{name}_shared'"
    with pytest.raises(ValueError, match=words):
        make_learner(name, "coopbench/TrustDilemma-v1", {}, 0, seat_number=False)


class Params(NamedTuple):
    rate: float = 0.1
    widths: tuple[int, ...] = (8, 4)
    seat_number: SeatNumber = True


def test_hyperparameters_are_recorded_as_json_returns_them():
    assert settings_of(Params()) == {"rate": 0.1, "widths": [8, 4]}


def test_the_default_is_not_recorded():
    """So results from before there was a choice are those of the same hyperparameters."""
    for entry in learners().values():
        params = entry.params()
        assert "seat_number" not in settings_of(params)
        assert settings_of(params._replace(seat_number=False))["seat_number"] is False
    assert "seat_number" not in trained().policy().hyperparameters
    saved, chosen = (trained(seat_number=s).save()["origin"].tobytes() for s in (True, False))
    assert b"seat_number" not in saved
    assert b"seat_number=False" in chosen
