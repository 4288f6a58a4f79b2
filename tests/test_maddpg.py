"""MADDPG: updates by hand, what its critics see, what is refused."""

import numpy as np
import pytest
import toy_pair
import toy_squad
import toy_team
from team_training import TEAM, gradients_agree, known, rows_of, trained

from coopbench.baselines.learners.deterministic import Batch
from coopbench.baselines.registry import make_learner
from coopbench.errors import Diverged

PAIR, SQUAD = toy_pair.SPEC.id, toy_squad.SPEC.id
TRUST = "coopbench/TrustDilemma-v1"
QUICK = {"lanes": 16, "train_every": 16, "updates": 1, "batch_size": 128, "warmup": 500}
QUICK |= {"learning_rate": 3e-3, "layers": "32x32", "tau": 0.05}
SMALL = {"lanes": 8, "train_every": 16, "batch_size": 16, "warmup": 40, "layers": "8"}
SMALL |= {"buffer_size": 200}

_toys = known(toy_pair, toy_team, toy_squad)


# -- updates by hand ------------------------------------------------------------------------------


def judged(model, networks, seats, inputs, actions):
    """What a critic says for a seat: its own part first, then the others', then its number."""
    import torch

    agents = len(inputs)
    values = []
    for seat in seats:
        order = [(seat + k) % agents for k in range(agents)] if len(seats) > 1 else range(agents)
        parts = [inputs[a] for a in order] + [actions[a] for a in order]
        parts += [torch.eye(agents)[seat]] if len(seats) > 1 else []
        values.append(networks["critic"](torch.cat(parts))[0])
    return values


@pytest.mark.parametrize(("name", "env"), [("maddpg_shared", SQUAD), ("maddpg", PAIR)])
def test_a_critic_follows_the_errors_to_what_the_targets_do_next(torch, name, env):
    """In a squad choices can be illegal, and the dead do nothing."""
    torch.manual_seed(0)  # what is drawn from the replay here; else a sample may lack an end
    changes = {"gamma": 0.9, "max_grad_norm": 1e9, "scale_rewards": True}
    learner = trained(name, 8 * 20, changes=SMALL | changes, env=env, quick=QUICK)
    model, batch = learner._models[-1], Batch(**learner._replay.sample(40))
    seats, unit, errors = model.seats.tolist(), model.rewards.deviation, []
    for model_of in learner._models:
        torch.nn.init.normal_(model_of.targets["actor"].layers[-1].weight)
    owners = {seat: one for one in learner._models for seat in one.seats.tolist()}
    for k in range(40):
        following = torch.zeros(batch.actions.shape[1:])
        for seat, owner in owners.items():
            outputs = owner.targets["actor"](batch.following[k, seat])
            if env == SQUAD:
                legal = batch.following_legal[k, seat]
                best = int(outputs.masked_fill(~legal, -torch.inf).argmax())
                outputs = torch.eye(3)[best] * batch.following_alive[k, seat]
            following[seat] = outputs if env == SQUAD else torch.tanh(outputs)
        later = judged(model, model.targets, seats, batch.following[k], following)
        present = judged(model, model.networks, seats, batch.inputs[k], batch.actions[k])
        for seat, after, value in zip(seats, later, present, strict=True):
            aim = batch.rewards[k, seat] / unit + 0.9 * after.detach() * (~batch.ended[k])
            errors += [(value - aim) ** 2] if batch.taught[k, seat] else []
    assert env == PAIR or 0 < batch.ended.sum() < 40
    assert env == PAIR or not batch.following_alive.all()
    loss = torch.stack(errors).mean()
    modules = [model.networks["critic"]]
    report = gradients_agree(modules, loss, lambda: learner._update(model, batch))
    assert report["critic_loss"] == pytest.approx(float(loss.detach()), rel=1e-3)


def test_an_actor_follows_the_critic_of_its_own_action(torch, monkeypatch):
    changes = {"regularisation": 0.1, "max_grad_norm": 1e9}
    learner = trained("maddpg", 8 * 20, changes=SMALL | changes, env=PAIR, quick=QUICK)
    model, batch = learner._models[1], Batch(**learner._replay.sample(40))
    descend = learner._descend
    monkeypatch.setattr(  # its critic stays as it is
        learner, "_descend", lambda *parts: None if parts[1] == "critic" else descend(*parts)
    )
    losses = []
    for inputs, actions in zip(batch.inputs, batch.actions, strict=True):
        outputs = model.networks["actor"](inputs[1])
        instead = [actions[0], torch.tanh(outputs)]
        (value,) = judged(model, model.networks, [1], inputs, instead)
        losses.append(0.1 * (outputs**2).mean() - value)
    loss = torch.stack(losses).mean()
    modules = [model.networks["actor"]]
    report = gradients_agree(modules, loss, lambda: learner._update(model, batch))
    assert report["actor_loss"] == pytest.approx(float(loss.detach()), rel=1e-3)


def test_targets_follow_slowly(torch):
    model = make_learner("maddpg", PAIR, {}, 0, **SMALL)._models[0]
    with torch.no_grad():
        model.networks["critic"].layers[0].weight.fill_(1.0)
        model.targets["critic"].layers[0].weight.fill_(3.0)
    model.follow(0.25)
    np.testing.assert_allclose(model.targets["critic"].layers[0].weight.detach(), 2.5)
    np.testing.assert_allclose(model.networks["critic"].layers[0].weight.detach(), 1.0)


@pytest.mark.parametrize(("time_limit", "ended"), [("terminal", True), ("bootstrap", False)])
def test_an_end_by_time_alone_is_one_of_the_game_where_it_is_said(time_limit, ended):
    changes = SMALL | {"time_limit": time_limit}
    game = {"rule": toy_team.PAY, "horizon": 3}
    replay = trained("maddpg", 8 * 3, changes=changes, quick=QUICK, **game)._replay
    assert replay._ring["ended"][:24].tolist() == [False] * 16 + [ended] * 8


# -- parts ----------------------------------------------------------------------------------------


def test_what_everybody_did_is_known_in_units_of_each_seat():
    rows = rows_of("coopbench/RenaultNissan-v1", lanes=3)
    for action in (-1.0, 0.5, 3.0):
        rows.step(np.full((3, rows.agents, rows.outputs), action, np.float32))
        np.testing.assert_allclose(rows.played(), min(action, 1.0), atol=1e-6)
    rows = rows_of(TRUST, lanes=4, partners=("tit_for_tat",), share=1.0)
    learning = rows.learning()
    rows.step(np.full((4, 2, 1), 0.25, np.float32))
    np.testing.assert_allclose(rows.played()[learning], 0.25, atol=1e-6)
    assert (rows.played()[~learning] != 0.25).all()


def test_rows_of_the_dead_teach_critics_alone():
    learner = make_learner("maddpg_shared", SQUAD, {}, 0, **SMALL)
    learner.learn(8 * 20)
    batch = Batch(**learner._replay.sample(400))
    assert batch.taught.all()
    assert not batch.acted.all()
    assert not batch.actions[~batch.acted].any()
    np.testing.assert_array_equal(batch.actions[batch.acted].sum(1), 1.0)
    assert not batch.inputs[~batch.acted].any()


def test_what_partners_do_is_a_part_of_the_game_to_critics():
    """The learner's actor is no guess of what a partner does next."""
    settings = SMALL | {"partners": ("always_defect",)}
    learner = make_learner("maddpg", TRUST, {"horizon": 3}, 0, **settings)
    learner.learn(8 * 20)
    batch = Batch(**learner._replay.sample(200))
    np.testing.assert_array_equal(batch.taught.sum(1), 1)
    for actions in (batch.actions, learner._following(batch).detach()):
        assert not actions[~batch.taught].any()
        assert actions[batch.taught].all()


def test_choices_are_one_hot_and_have_the_gradient_of_a_softmax(torch):
    learner = make_learner("maddpg", TEAM, {}, 0, **SMALL, temperature=0.5)
    model = learner._models[0]
    outputs = torch.tensor([[1.0, 2.0, 3.0]], requires_grad=True)
    legal = torch.tensor([[True, True, False]])
    actions = model.actions(outputs, legal, noise=False)
    np.testing.assert_allclose(actions.detach(), [[0.0, 1.0, 0.0]], atol=1e-6)
    (gradient,) = torch.autograd.grad(actions[0, 1], outputs)
    share, softer = (1.0 / (1.0 + np.exp(-1.0 / heat)) for heat in (1.0, 0.5))
    slope = softer * (1.0 - softer) / 0.5
    np.testing.assert_allclose(gradient, [[-slope, slope, 0.0]], rtol=1e-5)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        rows = outputs.detach().expand(20_000, 3)
        drawn = model.actions(rows, legal.expand(20_000, 3), noise=True).mean(0)
    np.testing.assert_allclose(drawn, [1.0 - share, share, 0.0], atol=0.01)


# -- what is refused ------------------------------------------------------------------------------


def test_a_state_with_fewer_steps_than_it_says_is_refused():
    learner = make_learner("maddpg", TEAM, {}, 0, **SMALL)
    learner.learn(80)
    with pytest.raises(ValueError, match="does not fit"):
        learner.load(learner.save() | {"replay.added": np.array(3)})


@pytest.mark.parametrize(("env", "network"), [(TEAM, "actor"), (PAIR, "critic")])
def test_divergence_is_told(torch, env, network):
    learner = make_learner("maddpg", env, {}, 0, **SMALL)
    learner.learn(80)
    with torch.no_grad():
        learner._models[0].networks[network].layers[-1].bias[0] = torch.inf
    with pytest.raises(Diverged, match=f"{network}.* is not finite"):
        learner.learn(400)
