"""QTRAN: updates by hand, and games that no mixture of values solves."""

import numpy as np
import pytest
import toy_team
from team_training import (
    MIXED,
    PENNIES,
    aims_by_hand,
    gradients_agree,
    known,
    of_choices,
    played,
    preferred,
    stepwise,
    trained,
)

from coopbench.baselines.learners.qtran import Joint

PENALTY, MONOTONE, CLIMBING = range(3)
OWN = {"condition": "relative", "non_optimal": 1.0, "seat_terms": True}  # not as published

_toys = known(toy_team)


@pytest.mark.parametrize(
    ("name", "changes"), [("qtran", {}), ("qtran_shared", {"optimal": 0.5}), ("qtran_shared", OWN)]
)
def test_an_update_follows_the_gradient_of_three_losses(torch, name, changes):
    learner = trained(name, 4 * 60, changes=MIXED | changes, env=PENNIES)
    algorithm, batch = learner._algorithm, learner._episodes.latest(6)
    joint, groups, before = algorithm.joint, learner._rows.groups, batch.before
    state, params = batch.state, learner._params
    outputs, memories = stepwise(algorithm.models, groups, batch)
    best = preferred(outputs, batch.legal)
    with torch.no_grad():
        later = stepwise(algorithm._target_models, groups, batch)[1]
        following = algorithm._target_joint(state, later, best)
        aims = aims_by_hand(batch, following, 0.9, 0.6)

    def judged(choices):
        """Q of choices, and by how much the sum of their values and V exceed it."""
        value = joint(state[before], memories[before], choices)
        sums = of_choices(outputs[before], choices).sum(1, keepdim=True)
        return value, sums - value.detach() + joint.of_state(state[before])

    value, other = judged(batch.actions)
    _, at_best = judged(best[before])
    compared = other - at_best if params.condition == "relative" else other
    losses = [(value - aims) ** 2, at_best**2, compared.clamp(max=0.0) ** 2]
    learned, optimal, elsewhere = (loss.mean() for loss in losses)
    loss = learned + params.optimal * optimal + params.non_optimal * elsewhere
    modules = [joint.module, *(model.module for model in algorithm.models)]
    report = gradients_agree(modules, loss, lambda: algorithm.update(batch))
    names = ("loss", "optimal", "non_optimal", "value")
    expected = [float(x.detach()) for x in (learned, optimal, elsewhere, value.mean())]
    np.testing.assert_allclose([report[n] for n in names], expected, rtol=1e-3, atol=1e-6)


def test_the_joint_value_adds_one_of_every_seat_where_asked(torch):
    """With all its last weights 0 but those of seat terms, Q is the sum of these terms."""
    joint = Joint(5, 16, 3, 8, seat_terms=True)
    with torch.no_grad():
        for part in ("value", "seat_terms"):
            joint.module[part][-1].weight.zero_()
            joint.module[part][-1].bias.zero_()
        joint.module["seat_terms"][-1].bias.copy_(torch.tensor([1.0, 10.0, 100.0]))
        choices = torch.tensor([[0, 1], [2, 2]])
        values = joint(torch.zeros(2, 5), torch.zeros(2, 2, 16), choices)
    np.testing.assert_allclose(values[:, 0], [11.0, 200.0])


# -- games with known answers ---------------------------------------------------------------------


CONVERGES = pytest.mark.slow("trains until a known answer is reached")


@CONVERGES
@pytest.mark.parametrize(("name", "changes"), [("qtran", {}), ("qtran_shared", OWN)])
@pytest.mark.parametrize(("matrix", "reached"), [(PENALTY, 8.0), (CLIMBING, 11.0)])
def test_the_best_choice_is_found_beside_penalties(name, changes, matrix, reached):
    """In Claus & Boutilier's climbing game 11 for both first choices, and -30 beside it."""
    changes = {"updates_per_episode": 1 / 8, **changes}
    learner = trained(name, 32 * 300, changes=changes, matrix=matrix)
    assert played(learner.policy(), matrix=matrix)[0] == reached


@CONVERGES
@pytest.mark.parametrize("name", ["iql", "vdn_shared"])
def test_added_and_independent_values_do_not_climb(name):
    """Under uniform exploration both take the choice that loses least beside any other."""
    for seed in range(3):
        learner = trained(name, 32 * 60, seed, matrix=CLIMBING)
        assert played(learner.policy(), matrix=CLIMBING)[0] == 5.0, seed


@CONVERGES
def test_nobody_takes_an_illegal_choice_that_would_be_the_best():
    changes = {"updates_per_episode": 1 / 16}
    learner = trained("qtran", 32 * 200, changes=changes, matrix=MONOTONE, limited=1)
    reached, actions = played(learner.policy(), matrix=MONOTONE, limited=1)
    assert reached == 4.0
    assert (actions == 1).all()
