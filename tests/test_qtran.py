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
    preferred,
    stepwise,
    trained,
)

from coopbench.baselines.learners.qtran import Joint

OWN = {"condition": "relative", "non_optimal": 1.0, "seat_terms": True}  # not as published

_toys = known(toy_team)


@pytest.mark.parametrize(
    ("name", "changes"), [("qtran", {}), ("qtran_shared", {"optimal": 0.5}), ("qtran_shared", OWN)]
)
def test_an_update_follows_the_gradient_of_three_losses(torch, name, changes):
    learner = trained(name, 4 * 60, changes=MIXED | changes, env=PENNIES)
    batch = learner._episodes.latest(6)
    joint, groups, before = learner.joint, learner._rows.groups, batch.before
    state, params = batch.state, learner._params
    outputs, memories = stepwise(learner.models, groups, batch)
    best = preferred(outputs, batch.legal)
    with torch.no_grad():
        later = stepwise(learner._target_models, groups, batch)[1]
        following = learner._target_joint(state, later, best)
        aims = aims_by_hand(batch, following, 0.9, 0.6)

    def judged(choices):
        """Q of choices, and by how much the sum of their values and V exceed it."""
        value = joint(state[before], memories[before], choices)
        sums = of_choices(outputs[before], choices).sum(1, keepdim=True)
        return value, sums - value.detach() + joint.state_value(state[before])

    value, other = judged(batch.actions)
    _, at_best = judged(best[before])
    compared = other - at_best if params.condition == "relative" else other
    losses = [(value - aims) ** 2, at_best**2, compared.clamp(max=0.0) ** 2]
    learned, optimal, elsewhere = (loss.mean() for loss in losses)
    loss = learned + params.optimal * optimal + params.non_optimal * elsewhere
    modules = [joint, *learner.models]
    report = gradients_agree(modules, loss, lambda: learner.update(batch))
    names = ("loss", "optimal", "non_optimal", "value")
    expected = [float(x.detach()) for x in (learned, optimal, elsewhere, value.mean())]
    np.testing.assert_allclose([report[n] for n in names], expected, rtol=1e-3, atol=1e-6)


def test_the_joint_value_adds_one_of_every_seat_where_asked(torch):
    """With all its last weights 0 but those of seat terms, Q is the sum of these terms."""
    joint = Joint(5, 16, 3, 8, seat_terms=True)
    with torch.no_grad():
        for part in (joint.value, joint.seat_terms):
            part[-1].weight.zero_()
            part[-1].bias.zero_()
        joint.seat_terms[-1].bias.copy_(torch.tensor([1.0, 10.0, 100.0]))
        choices = torch.tensor([[0, 1], [2, 2]])
        values = joint(torch.zeros(2, 5), torch.zeros(2, 2, 16), choices)
    np.testing.assert_allclose(values[:, 0], [11.0, 200.0])
