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


def joint_values(learner, matrix):
    """Q of every joint choice in the first step, (choices, choices)."""
    state, _, memories = first_outputs(learner, matrix=matrix)
    choices = torch.tensor([[i, j] for i in range(3) for j in range(3)])
    rows = torch.tensor(state).expand(9, -1), torch.tensor(memories).expand(9, -1, -1)
    with torch.no_grad():
        return learner._algorithm.joint(*rows, choices).reshape(3, 3).numpy()


@pytest.mark.parametrize("name", NAMES)
def test_the_best_choice_is_found_beside_penalties(name):
    learner = trained(name, 32 * 300, changes={"updates_per_episode": 1 / 8})
    assert played(learner.policy())[0] == 8.0
    assert joint_values(learner, PENALTY)[0, 0] == pytest.approx(8.0, abs=0.3)


@pytest.mark.parametrize("seed", range(3))
def test_qtran_climbs_where_added_and_independent_values_do_not(seed):
    """Claus & Boutilier's climbing game: 11 for both first choices, -30 beside it."""
    changes = {"updates_per_episode": 1 / 8}
    assert (
        played(trained("qtran_shared", 32 * 300, seed, changes, matrix=2).policy(), matrix=2)[0]
        == 11.0
    )
    for name in ("iql", "vdn_shared"):
        learner = trained(name, 32 * 60, seed, matrix=CLIMBING)
        assert played(learner.policy(), matrix=CLIMBING)[0] < 11.0


@pytest.mark.parametrize("name", NAMES)
def test_a_monotone_matrix_is_solved_and_no_illegal_choice_is_taken(name):
    changes = {"updates_per_episode": 1 / 16}
    learner = trained(name, 32 * 200, changes=changes, matrix=MONOTONE)
    assert played(learner.policy(), matrix=MONOTONE)[0] == 9.0
    limited = trained(name, 32 * 200, changes=changes, matrix=MONOTONE, limited=1)
    reached, actions = played(limited.policy(), matrix=MONOTONE, limited=1)
    assert reached == 4.0
    assert (actions == 1).all()


@pytest.mark.parametrize("name", NAMES)
def test_a_training_that_goes_on_from_its_state_has_the_same_bits(name):
    game = {"rule": toy_team.TWO_STEPS, "horizon": 4}
    whole, stopped, resumed = (make_learner(name, TEAM, game, 3, **SMALL) for _ in range(3))
    whole.learn(400)
    stopped.learn(4 * 51)
    resumed.load(stopped.save())
    resumed.learn(400)
    expected, state = whole.save(), resumed.save()
    assert all(np.array_equal(expected[key], state[key]) for key in expected)
    assert whole.policy().pack() == resumed.policy().pack()
    assert any(key.startswith("target.joint") for key in state)
