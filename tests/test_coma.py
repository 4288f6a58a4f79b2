"""COMA: updates by hand, and what the critic of all seats gets."""

import numpy as np
import pytest
import toy_team
from team_training import (
    PENNIES,
    aims_by_hand,
    gradients_agree,
    known,
    of_choices,
    preferred,
    stepwise,
    trained,
)

QUICK = {"lanes": 8, "batch_size": 8, "hidden": 16, "critic_hidden": 32, "learning_rate": 5e-3}
QUICK |= {"critic_rate": 5e-3, "epsilon": 0.05, "epsilon_steps": 2000}
SMALL = QUICK | {"lanes": 4, "batch_size": 6, "reward": "team", "max_grad_norm": 1e9}
SMALL |= {"gamma": 0.9, "trace": 0.6, "critic_rate": 1e-12, "target_every": 20}

_toys = known(toy_team)


def chosen(batch):
    """The choices of every place of a batch, (places, agents); 0 in the last ones."""
    choices = batch.legal.long().argmax(2) * 0
    choices[batch.before] = batch.actions
    return choices


def softened(outputs, legal, share):
    """A softmax over legal choices of one seat, mixed with uniform ones; 0 elsewhere."""
    weights = (outputs[legal] - outputs[legal].max()).exp()
    policy = outputs * 0.0
    policy[legal] = (1.0 - share) * weights / weights.sum() + share / len(weights)
    return policy


# -- updates by hand ------------------------------------------------------------------------------


@pytest.mark.parametrize("credit", ["critic", "return"])
def test_actors_ascend_what_their_choices_are_credited_with(torch, credit):
    """The rate of the critic is 0 as good as, so that all its steps see the same critic."""
    changes = {"credit": credit, "entropy": 0.1}
    learner = trained("coma", 4 * 80, changes=changes, env=PENNIES, quick=SMALL)
    batch = learner._episodes.latest(6)
    assert batch.terminated.sum() > 0
    outputs = stepwise(learner.models, learner._rows.groups, batch)[0]
    best = preferred(outputs, batch.legal)
    best[batch.before] = batch.actions
    with torch.no_grad():
        torch.nn.init.normal_(learner._target[-1].weight)
        torch.nn.init.normal_(learner.critic[-1].weight)
        inputs = learner.critic.inputs(batch, best)
        aims = aims_by_hand(batch, of_choices(learner._target(inputs), best), 0.9, 0.6)
        values = learner.critic(inputs)[batch.before]
    policy = [
        torch.stack([softened(*parts, learner._share) for parts in zip(*row, strict=True)])
        for row in zip(outputs[batch.before], batch.legal[batch.before], strict=True)
    ]
    losses, bonuses = [], []
    for step, seat in np.ndindex(*batch.actions.shape):
        shares, choice = policy[step][seat], int(batch.actions[step, seat])
        if batch.legal[batch.before][step, seat].sum() > 1:
            mean = (shares.detach() * values[step, seat]).sum()
            made = aims[step, seat] if credit == "return" else values[step, seat, choice]
            losses.append(-(made - mean) * shares[choice].log())
            bonuses.append(-sum(share * share.log() for share in shares if share > 0))
    loss = torch.stack(losses).mean() - 0.1 * torch.stack(bonuses).mean()
    modules = learner.models
    report = gradients_agree(modules, loss, lambda: learner.update(batch))
    errors = (of_choices(values, batch.actions) - aims) ** 2
    steps = np.split(errors.numpy(), np.cumsum(batch.counts[1:-1]))
    loss = np.mean([part.mean() for part in steps])
    assert report["critic_loss"] == pytest.approx(loss, rel=1e-3)
    assert report["entropy"] == pytest.approx(float(torch.stack(bonuses).detach().mean()), rel=1e-3)


def test_the_critic_learns_from_the_last_step_to_the_first(torch):
    """With one gradient step for each step of time."""
    learner = trained(
        "coma_shared", 4 * 40, changes={"critic_rate": 0.01}, env=PENNIES, quick=SMALL
    )
    batch = learner._episodes.latest(6)
    seen = []
    forward = learner.critic.forward
    learner.critic.forward = lambda rows: seen.append(len(rows)) or forward(rows)
    before = [p.detach().clone() for p in learner.critic.parameters()]
    learner.update(batch)
    assert seen == list(reversed(batch.counts[1:]))
    after = learner.critic.parameters()
    assert all((a != b).any() for a, b in zip(before, after, strict=True))


def test_a_seat_is_valued_beside_the_choices_of_others_alone(torch):
    """Another choice of its own changes nothing that the critic gets for it at that step."""
    learner = trained("coma", 80, quick=QUICK, rule=toy_team.TWO_STEPS, horizon=4)
    batch = learner._episodes.latest(6)
    inputs, first = learner.critic.inputs, range(batch.counts[0])
    other = chosen(batch)
    other[first, 0] = (other[first, 0] + 1) % 3
    before, after = inputs(batch, chosen(batch))[first], inputs(batch, other)[first]
    assert torch.equal(before[:, 0], after[:, 0])
    assert not torch.equal(before[:, 1], after[:, 1])
