"""MAPPO and PPO with memory: known values, updates by hand, views."""

import numpy as np
import pytest
import toy_echo
import toy_squad
import toy_team
from team_training import TEAM, gradients_agree, known, trained

from coopbench.baselines.learners.rollout import advantages
from coopbench.baselines.registry import make_learner
from coopbench.errors import Diverged

SQUAD, ECHO = toy_squad.SPEC.id, toy_echo.SPEC.id
CRITICS = ("state", "agent", "observations")
QUICK = {"lanes": 32, "rollout": 320, "learning_rate": 1e-2, "layers": "32", "epochs": 8}
SMALL = {"lanes": 8, "rollout": 80, "layers": "8", "epochs": 2, "chunk": 4}
CUE = {"rule": toy_team.CUE, "horizon": 8}

_toys = known(toy_team, toy_squad, toy_echo)


# -- updates by hand ------------------------------------------------------------------------------


def test_advantages_by_hand(torch):
    """Two rows of 3 steps: one ends in its second step, the other goes on after its last."""
    rewards = torch.tensor([[1.0, 1.0], [2.0, 2.0], [3.0, 3.0]])
    over = torch.tensor([[False, False], [True, False], [False, False]])
    estimates = torch.tensor([[5.0, 5.0], [6.0, 6.0], [7.0, 7.0]])
    result = advantages(rewards, over, estimates, torch.tensor([8.0, 8.0]), 0.9, 0.5).numpy()
    last = 3.0 + 0.9 * 8.0 - 7.0
    ended = 2.0 - 6.0
    through = 2.0 + 0.9 * 7.0 - 6.0 + 0.45 * last
    first = 1.0 + 0.9 * 6.0 - 5.0
    np.testing.assert_allclose(result[:, 0], [first + 0.45 * ended, ended, last], rtol=1e-5)
    np.testing.assert_allclose(result[:, 1], [first + 0.45 * through, through, last], rtol=1e-5)


@pytest.mark.parametrize(
    ("name", "env", "squash"),
    [("mappo_shared", SQUAD, False), ("mappo", ECHO, False), ("mappo", ECHO, True)],
)
def test_a_gradient_step_follows_the_clipped_loss_of_rows_that_count(torch, name, env, squash):
    """In a squad choices can be illegal, and rows of the dead teach the critic alone."""
    changes = {"entropy": 0.1, "value": 0.5, "clip": 0.2, "log_std": -0.5, "max_grad_norm": 1e9}
    changes |= SMALL | {"squash": squash}
    learner = trained(name, 80, changes=changes, env=env, quick=QUICK)
    model = learner._models[0]
    rollout, shape = model.rollout, model.rollout.first.shape
    rollout.log_probs += 0.4 * torch.randn(shape)
    gains, targets = torch.randn(shape), torch.randn(shape)
    (pieces,) = rollout.minibatches(rollout.pieces(1), 1, gains, targets)
    parts = {"policy": [], "bonus": [], "value": []}
    for at, row in np.ndindex(*shape):
        error = model.critic(rollout.views[at, row])[0] - targets[at, row]
        parts["value"] += [error**2] if rollout.taught[at, row] else []
        if not rollout.acted[at, row]:
            continue
        outputs, action = model.actor.body(rollout.inputs[at, row]), rollout.actions[at, row]
        if env == SQUAD:
            legal = rollout.legal[at, row]
            drawn = torch.distributions.Categorical(logits=outputs.masked_fill(~legal, -1e9))
            log_prob, entropy = drawn.log_prob(action), drawn.entropy()
        else:
            means = torch.tanh(outputs) if squash else outputs
            drawn = torch.distributions.Normal(means, model.actor.log_std.exp())
            log_prob, entropy = drawn.log_prob(action).sum(), drawn.entropy().sum()
        ratio, gain = (log_prob - rollout.log_probs[at, row]).exp(), gains[at, row]
        parts["policy"].append(-torch.min(ratio * gain, ratio.clamp(0.8, 1.2) * gain))
        parts["bonus"].append(entropy)
    means = {part: torch.stack(values).mean() for part, values in parts.items()}
    assert env == ECHO or len(parts["policy"]) < len(parts["value"])
    loss = means["policy"] - 0.1 * means["bonus"] + 0.5 * means["value"]
    report = gradients_agree([model.module], loss, lambda: model._gradient_step(pieces))
    assert report["policy_loss"] == pytest.approx(float(means["policy"].detach()), rel=1e-3)
    assert report["value_loss"] == pytest.approx(float(means["value"].detach()), rel=1e-3)


def test_an_update_learns_from_gains_in_units_of_their_deviation(torch, monkeypatch):
    learner = make_learner("mappo_shared", SQUAD, {}, 0, **(SMALL | {"gamma": 0.9}))
    model, learned = learner._models[0], []
    monkeypatch.setattr(model, "_epochs", lambda *parts: learned.extend(parts) or {})
    following = []
    monkeypatch.setattr(
        model, "values", lambda views: following.append(views.mean(1)) or following[-1]
    )
    learner.learn(80)
    rollout = model.rollout
    earned = rollout.rewards, rollout.over, rollout.estimates
    gains = advantages(*earned, following[-1], 0.9, learner._params.gae_lambda)
    acting, targets = gains[rollout.acted], gains + rollout.estimates
    expected = (gains - acting.mean()) / acting.std(correction=0)
    torch.testing.assert_close(learned[0], expected, rtol=1e-4, atol=1e-5)
    counted = targets[rollout.taught]
    deviation = counted.std(correction=0).clamp(min=0.1)
    expected = (targets - counted.mean()) / deviation
    torch.testing.assert_close(learned[1], expected, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize(("time_limit", "later"), [("bootstrap", 5.0), ("terminal", 0.0)])
def test_what_follows_a_time_limit_is_the_last_state_of_the_old_episode(
    time_limit, later, monkeypatch
):
    """Its share of time is 1, and 0 in the first state of the next episode."""
    game = {"rule": toy_team.PAY, "horizon": 3}
    changes = {"gamma": 0.5, "normalise_values": False, "critic": "state"}
    changes |= {"time_limit": time_limit}
    learner = make_learner("mappo_shared", TEAM, game, 0, **(QUICK | changes))
    monkeypatch.setattr(learner._models[0], "values", lambda views: 10.0 * views[:, 4])
    learner.learn(3 * 32)
    rollout = learner._models[0].rollout
    np.testing.assert_allclose(rollout.rewards[:2], 1.0)
    np.testing.assert_allclose(rollout.rewards[2], 1.0 + later)
    assert rollout.over[:3].all(1).tolist() == [False, False, True]


# -- parts ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("masking", [True, False])
@pytest.mark.parametrize("critic", CRITICS)
def test_what_a_critic_sees(critic, masking):
    """In a squad some are not alive; the seat of a row stands last."""
    changes = {"critic": critic, "death_masking": masking, "scale_observations": False}
    learner = make_learner("mappo_shared", SQUAD, {}, 0, **(SMALL | changes))
    learner.learn(8 * 5)
    control = learner._rows.engine.control
    alive, agents = control.alive, learner._rows.agents
    assert not alive.all()
    (view,) = (part.numpy().reshape(8, agents, -1) for part in learner._views())
    inputs = learner._rows.observe()
    for lane in range(8):
        everything = inputs[lane, :, :-agents].ravel()
        for a in range(agents):
            own = inputs[lane, a, :-agents]
            seen = {
                "state": control.state[lane],
                "agent": np.concatenate([control.state[lane], own]),
                "observations": everything,
            }[critic]
            gone = masking and not alive[lane, a]
            expected = [np.zeros_like(seen) if gone else seen, np.eye(agents)[a]]
            np.testing.assert_array_equal(view[lane, a], np.concatenate(expected))


@pytest.mark.parametrize(("name", "env"), [("mappo", TEAM), ("mappo_shared", SQUAD)])
def test_pieces_of_a_rollout_begin_with_what_was_remembered(name, env):
    """All steps that teach are in exactly one piece, and are judged as they were played."""
    changes = {"recurrent": True, "learning_rate": 1e-9, "rollout": 8 * 30, "epochs": 1}
    game = CUE if env == TEAM else {}
    learner = make_learner(name, env, game, 0, **(SMALL | changes))
    reports = [learner.learn(8 * 30 * k) for k in (1, 2)]
    for report in reports:
        assert abs(report["approx_kl"]) < 1e-6
        assert report["clip_fraction"] == 0.0
    for model in learner._models:
        rollout = model.rollout
        starts, rows, lengths = (values.numpy() for values in rollout.pieces(4))
        assert lengths.max() == 4
        covered = np.zeros(rollout.first.shape, int)
        for start, row, length in zip(starts, rows, lengths, strict=True):
            covered[start : start + length, row] += 1
            assert not rollout.first[start + 1 : start + length, row].any()
        assert covered.max() == 1
        assert (covered[(rollout.acted | rollout.taught).numpy()] == 1).all()
        begins = rollout.first.numpy()
        assert not rollout.actor_memory.numpy()[begins].any()
        assert rollout.actor_memory.numpy()[~begins].any()


def test_a_recurrent_policy_does_what_the_actor_did(torch):
    learner = make_learner("mappo", TEAM, CUE, 0, recurrent=True, **SMALL)
    learner.learn(8 * 30)
    network = learner.policy().network
    assert not network.last_action
    rows = learner._rows
    hidden = np.stack([model.memory[0].numpy() for model in learner._models], axis=1)
    hidden[rows.first] = 0.0
    last = np.zeros((8, 2, network.actions), np.float32)
    frames = rows.engine.control.obs[:, :, None]
    outputs, _ = network.step(network.inputs(frames, last), hidden)
    seen = rows.cut(rows.observe())
    for a, (model, inputs) in enumerate(zip(learner._models, seen, strict=True)):
        memory = torch.from_numpy(hidden[:, a].copy())
        expected = model.actor.body.run(torch.from_numpy(inputs)[None], memory)[0][0]
        np.testing.assert_allclose(outputs[:, a], expected.detach(), atol=1e-5)


# -- what is refused ------------------------------------------------------------------------------


@pytest.mark.parametrize("env", [TEAM, ECHO])
def test_divergence_is_told(torch, env):
    learner = make_learner("mappo_shared", env, {}, 0, **SMALL | {"learning_rate": 1.0})
    learner.learn(80)
    with torch.no_grad():
        learner._models[0].actor.body.layers[-1].bias[0] = torch.inf
    with pytest.raises(Diverged, match="step 80: An output of a policy is not finite"):
        learner.learn(400)
