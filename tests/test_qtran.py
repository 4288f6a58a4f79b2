"""QTRAN: games that no mixture of values solves, and what its joint network learns."""

import numpy as np
import pytest
import toy_team
from team_training import SMALL, TEAM, first_outputs, played, trained

from coopbench.baselines.registry import make_learner

torch = pytest.importorskip("torch")

pytestmark = pytest.mark.usefixtures("team_toy")
PENALTY, MONOTONE, CLIMBING = range(3)
NAMES = ("qtran", "qtran_shared")
OWN = {"condition": "relative", "non_optimal": 1.0, "seat_terms": True}  # not as published


def joint_values(learner, **game):
    """Q of every joint choice in the first step, (choices, choices)."""
    state, _, memories = first_outputs(learner, **game)
    choices = torch.tensor([[i, j] for i in range(3) for j in range(3)])
    rows = torch.tensor(state).expand(9, -1), torch.tensor(memories).expand(9, -1, -1)
    with torch.no_grad():
        return learner._algorithm.joint(*rows, choices).reshape(3, 3).numpy()


@pytest.mark.parametrize(("name", "changes"), [*((n, {}) for n in NAMES), ("qtran_shared", OWN)])
def test_the_best_choice_is_found_beside_penalties(name, changes):
    learner = trained(name, 32 * 300, changes={"updates_per_episode": 1 / 8, **changes})
    assert played(learner.policy())[0] == 8.0
    assert joint_values(learner, matrix=PENALTY)[0, 0] == pytest.approx(8.0, abs=0.3)


@pytest.mark.parametrize(("seed", "changes"), [*((seed, {}) for seed in range(3)), (0, OWN)])
def test_the_climbing_game_is_climbed(seed, changes):
    """Claus & Boutilier's climbing game: 11 for both first choices, -30 beside it."""
    changes = {"updates_per_episode": 1 / 8, **changes}
    learner = trained("qtran_shared", 32 * 300, seed, changes, matrix=CLIMBING)
    assert played(learner.policy(), matrix=CLIMBING)[0] == 11.0


@pytest.mark.parametrize("name", ["iql", "vdn_shared"])
def test_added_and_independent_values_do_not_climb(name):
    """Under uniform exploration both take the choice that loses least beside any other."""
    for seed in range(20):
        learner = trained(name, 32 * 60, seed, matrix=CLIMBING)
        assert played(learner.policy(), matrix=CLIMBING)[0] == 5.0, seed


@pytest.mark.parametrize("time_limit", ["terminal", "bootstrap"])
def test_the_worth_of_an_episode_that_time_ends_is_known(time_limit):
    """Rewards of 1 for three steps with gamma 0.5: 1.75, and 2 if they would go on for ever."""
    game = {"rule": toy_team.PAY, "horizon": 3}
    changes = {"gamma": 0.5, "time_limit": time_limit, "target_every": 10}
    learner = trained("qtran_shared", 32 * 3 * 250, changes=changes, **game)
    worth = 1.75 if time_limit == "terminal" else 2.0
    np.testing.assert_allclose(joint_values(learner, **game)[:2, :2], worth, atol=0.1)


def test_what_the_team_earns_later_reaches_a_member_that_has_fallen():
    """Member 1 falls after its first step; its choice 1 pays 1 two steps later."""
    game = {"rule": toy_team.FALL, "horizon": 3}
    learner = trained("qtran_shared", 32 * 3 * 300, changes={"gamma": 0.9, "trace": 0.0}, **game)
    reached, actions = played(learner.policy(), **game)
    assert reached == 1.0
    assert (actions[0, :, 1] == 1).all()
    worth = joint_values(learner, **game)
    np.testing.assert_allclose(worth[:2, 1], 0.81, atol=0.1)
    np.testing.assert_allclose(worth[:2, 0], 0.0, atol=0.1)


@pytest.mark.parametrize("name", NAMES)
def test_a_monotone_matrix_is_solved_and_no_illegal_choice_is_taken(name):
    changes = {"updates_per_episode": 1 / 16}
    learner = trained(name, 32 * 200, changes=changes, matrix=MONOTONE)
    assert played(learner.policy(), matrix=MONOTONE)[0] == 9.0
    limited = trained(name, 32 * 200, changes=changes, matrix=MONOTONE, limited=1)
    reached, actions = played(limited.policy(), matrix=MONOTONE, limited=1)
    assert reached == 4.0
    assert (actions == 1).all()


@pytest.mark.parametrize("condition", ["absolute", "relative"])
def test_the_relative_condition_does_not_depend_on_the_value_of_the_state(condition):
    """An error of V that all choices share moves the absolute condition alone."""
    game, reports = {"rule": toy_team.TWO_STEPS, "horizon": 4}, []
    for error in (0.0, -3.0):
        learner = trained("qtran_shared", 32 * 8, changes={"condition": condition}, **game)
        algorithm, batch = learner._algorithm, learner._episodes.latest(32)
        with torch.no_grad():
            algorithm.joint.module["state_value"][-1].bias += error
        reports.append(algorithm.update(batch))
    right, wrong = reports
    assert wrong["optimal"] > right["optimal"] + 1.0
    if condition == "relative":
        assert wrong["non_optimal"] == pytest.approx(right["non_optimal"], rel=1e-4, abs=1e-6)
        assert right["non_optimal"] > 0.0
    else:
        assert wrong["non_optimal"] > right["non_optimal"] + 1.0


@pytest.mark.parametrize(("name", "changes"), [*((n, {}) for n in NAMES), ("qtran", OWN)])
def test_a_training_that_goes_on_from_its_state_has_the_same_bits(name, changes):
    game, settings = {"rule": toy_team.TWO_STEPS, "horizon": 4}, SMALL | changes
    whole, stopped, resumed = (make_learner(name, TEAM, game, 3, **settings) for _ in range(3))
    whole.learn(400)
    stopped.learn(4 * 51)
    resumed.load(stopped.save())
    resumed.learn(400)
    expected, state = whole.save(), resumed.save()
    assert all(np.array_equal(expected[key], state[key]) for key in expected)
    assert whole.policy().pack() == resumed.policy().pack()
    assert any(key.startswith("target.joint") for key in state)
