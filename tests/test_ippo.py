"""PPO: known values, and what it must not learn from."""

import numpy as np
import pytest
import toy_echo
import toy_meeting
import toy_team
from builders import outputs_of
from team_training import PENNIES, TEAM, known, played, rows_of, same, trained

from coopbench.baselines.learner import Training
from coopbench.baselines.learners.ippo import Params, entry
from coopbench.baselines.learners.row_learner import RewardScale
from coopbench.baselines.learners.torch_tools import layer_sizes
from coopbench.baselines.networks.kinds import read_policy
from coopbench.baselines.registry import make_learner
from coopbench.errors import Diverged

ECHO, MEETING = toy_echo.SPEC.id, toy_meeting.SPEC.id
SMALL = {"lanes": 16, "rollout": 128, "batch_size": 64, "epochs": 2, "layers": "16"}
QUICK = {"lanes": 32, "rollout": 512, "batch_size": 256, "epochs": 5, "layers": "32"}
QUICK |= {"learning_rate": 5e-3, "entropy": 0.0}
FALL = {"rule": toy_team.FALL, "horizon": 3}


_toys = known(toy_echo, toy_meeting, toy_team)


def _constant_values(learner, value):
    """Make the estimates of all models a constant."""
    import torch

    for model in learner._models:
        torch.nn.init.zeros_(model.model.policy.value_net.weight)
        torch.nn.init.constant_(model.model.policy.value_net.bias, value)


# -- rows ----------------------------------------------------------------------------------------


def test_rows_are_scaled_numbered_and_begin_with_seeds_of_their_own():
    parameters = {"num_agents": 3}
    shared = rows_of(PENNIES, parameters, shared=True, scale_observations=True)
    alone = rows_of(PENNIES, parameters)
    (inputs,) = shared.cut(shared.observe())
    assert inputs.shape == (15, 6)
    obs = shared.engine.control.obs
    np.testing.assert_array_equal(inputs[:, 3:], np.tile(np.eye(3), (5, 1)))
    # The box of each feature is [-1, 27].
    np.testing.assert_allclose(inputs[:, :3], (obs.reshape(15, 3) - 13.0) / 14.0, rtol=1e-6)
    for a, seat_inputs in enumerate(alone.cut(alone.observe())):
        np.testing.assert_array_equal(seat_inputs, obs[:, a])
    assert len(np.unique(shared.engine.control.seed)) == 5
    assert shared.engine.control.seed.min() > 2**32
    other = rows_of(PENNIES, parameters, seed=8)
    assert not np.intersect1d(other.engine.control.seed, shared.engine.control.seed).size


def test_rows_take_actions_in_units_of_each_seat_and_clip_them():
    rows = rows_of("coopbench/RenaultNissan-v1", lanes=1)
    low, high = rows.engine.action_bounds()
    for share, action in ((0.0, -1.0), (0.75, 0.5), (1.0, 3.0)):
        rows.step(np.full((1, rows.agents, rows.outputs), action, np.float32))
        np.testing.assert_allclose(rows.engine.actions[0], low + share * (high - low), rtol=1e-6)


def test_the_scale_of_rewards_is_the_deviation_of_discounted_sums():
    scale, numbers = RewardScale(4, 0.9), np.random.default_rng(1)
    sums, seen = np.zeros(4), []
    for t in range(50):
        rewards = numbers.normal(3.0, 2.0, 4).astype(np.float32)
        done = np.full(4, t % 10 == 9)
        valid = np.array([True, True, t % 3 == 0, False])
        scaled = scale(rewards, done, valid)
        sums = 0.9 * sums + rewards
        seen += sums[valid].tolist()
        sums[done] = 0.0
        np.testing.assert_allclose(scaled, rewards / np.std(seen), rtol=1e-5)


def test_layers_are_read_or_refused():
    assert layer_sizes("64x32x8") == [64, 32, 8]
    for text in ("", "64x", "0", "64x-3", "8x8x8x8x8", "5000", "²"):
        with pytest.raises(ValueError, match=r"'layers'.*allowed: 1 to 4 widths"):
            layer_sizes(text)


# -- known values --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("last", "time_limit", "ended"),
    [(0, "bootstrap", False), (0, "terminal", True), (3, "bootstrap", True), (3, "terminal", True)],
)
def test_time_limits_are_bootstrapped_and_terminations_are_not(last, time_limit, ended):
    """Rewards of 1 and estimates of 2, by hand: gamma 0.9, lambda 0.8, episodes of 3 steps."""
    game = {"weight": 0.0, "base": 1.0, "horizon": 10 if last else 3, "last": last}
    settings = {"lanes": 2, "rollout": 8, "batch_size": 8, "epochs": 1, "layers": "4"}
    settings |= {"time_limit": time_limit}
    learner = make_learner("ippo", ECHO, game, 0, gamma=0.9, gae_lambda=0.8, **settings)
    _constant_values(learner, 2.0)
    learner.learn(8)
    end = -1.0 if ended else 0.8  # 1 - 2 or 1 + 0.9 * 2 - 2, which is that of other steps too
    third = 0.8 + 0.72 * end
    expected = [0.8 + 0.72 * third, third, end, 0.8]
    for row in range(2):
        np.testing.assert_allclose(learner._models[0].advantages[:, row], expected, rtol=1e-5)
        np.testing.assert_allclose(learner._models[0].targets[:, row], np.add(expected, 2.0))


def test_the_last_observation_is_judged_not_the_first_of_the_next_episode(monkeypatch):
    game = {"weight": 0.0, "base": 1.0, "horizon": 3}
    learner = make_learner("ippo", ECHO, game, 0, gamma=0.5, **SMALL)
    monkeypatch.setattr(
        learner._models[0].model.policy, "predict_values", lambda x: 10.0 * x[:, 1:2]
    )
    learner.learn(3 * 16)
    engine = learner._rows.engine
    assert (engine.final_obs != engine.control.obs).any()
    expected = 1.0 + 0.5 * 10.0 * engine.final_obs[:, 0, 1]
    np.testing.assert_allclose(learner._models[0].rollout.rewards[2], expected)


def test_a_minibatch_holds_rows_of_the_living_with_gains_in_units_of_its_own(torch):
    """Rows of the fallen teach the critic alone: their advantages are 0."""
    learner = trained("ippo", 512, env=TEAM, quick=QUICK, **FALL)
    model = learner._models[1]
    rollout = model.rollout
    model.advantages = torch.randn(model.advantages.shape)
    model.targets = torch.arange(model.targets.numel(), dtype=torch.float32)
    seen, sizes = [], []
    for part in model.get(100):
        rows = part.returns.long()
        valid, raw = rollout.acted.flatten()[rows], model.advantages.flatten()[rows]
        expected = (raw - raw[valid].mean()) / raw[valid].std() * valid
        torch.testing.assert_close(part.advantages, expected, rtol=1e-4, atol=1e-6)
        torch.testing.assert_close(part.old_log_prob, rollout.log_probs.flatten()[rows])
        torch.testing.assert_close(part.observations[0], rollout.inputs.flatten(0, 1)[rows])
        seen += rows.tolist()
        sizes.append(len(rows))
    assert sorted(seen) == rollout.taught.flatten().nonzero().flatten().tolist()
    assert set(sizes) <= {85, 86}


# -- dead agents and masks -----------------------------------------------------------------------


def _disturbed(learner):
    """Put garbage into the observations and rewards of the dead."""
    rows, numbers = learner._rows, np.random.default_rng(0)
    step, observe = rows.step, rows.observe

    def garbled_step(actions):
        moved = step(actions)
        dead, rewards, following = ~moved.valid, moved.rewards.copy(), moved.following.copy()
        rewards[dead] = numbers.normal(0.0, 100.0, dead.sum())
        following[dead] = 100.0
        return moved._replace(rewards=rewards, following=following)

    def garbled_observe():
        inputs = observe().copy()
        inputs[~rows.engine.control.alive] = 50.0
        return inputs

    rows.step, rows.observe = garbled_step, garbled_observe


def test_nothing_is_learned_from_the_dead():
    states = []
    for disturbed in (False, True):
        learner = make_learner("ippo_shared", PENNIES, {}, 4, **SMALL | {"scale_rewards": True})
        if disturbed:
            _disturbed(learner)
        learner.learn(2 * 128)
        assert not learner._models[0].rollout.acted.all()
        saved = learner.save()
        states.append({k: v for k, v in saved.items() if k.startswith(("model", "optimiser"))})
    assert same(*states)


def test_rows_of_the_fallen_have_one_choice_that_is_certain():
    learner = trained("ippo", 512, env=TEAM, quick=QUICK, **FALL)
    whole, fallen = (model.rollout for model in learner._models)
    dead = fallen.taught & ~fallen.acted
    assert dead.any()
    assert whole.taught.equal(whole.acted)
    assert (fallen.log_probs[dead] == 0.0).all()
    assert (fallen.legal[dead].sum(1) == 1).all()


def test_with_memory_the_critic_alone_learns_from_rows_of_the_fallen():
    memory = {"recurrent": True, "layers": "8x8"}
    learner = make_learner("ippo", TEAM, FALL, 0, **QUICK | memory)
    learner.learn(512)
    whole, fallen = (model.rollout for model in learner._models)
    assert whole.acted.all()
    assert whole.taught.all()
    assert fallen.taught.all()
    # Member 1 acts in the first of three steps.
    assert fallen.acted.equal(fallen.first)


def test_with_memory_minibatches_hold_about_as_many_rows_as_said(monkeypatch):
    """Of all seats that share a model; pieces are not cut."""
    settings = QUICK | {"recurrent": True, "layers": "8x8", "batch_size": 128, "epochs": 1}
    learner = make_learner("ippo_shared", PENNIES, {}, 0, **settings)
    model = learner._models[0]
    sizes, step = [], model._gradient_step
    monkeypatch.setattr(
        model,
        "_gradient_step",
        lambda pieces: sizes.append(pieces.filled.sum()) or step(pieces),
    )
    learner.learn(512)
    rows = 512 * learner._rows.agents
    assert len(sizes) == rows // 128
    assert sum(sizes) == rows


def test_a_rollout_of_the_dead_alone_is_passed_over(monkeypatch):
    learner = make_learner("ippo_shared", PENNIES, {}, 0, **SMALL)
    step = learner._rows.step

    def of_the_dead(actions):
        moved = step(actions)
        return moved._replace(valid=np.zeros_like(moved.valid))

    monkeypatch.setattr(learner._rows, "step", of_the_dead)
    before = learner.save()
    report = learner.learn(128)
    after = learner.save()
    assert "policy_loss" not in report
    assert all(np.array_equal(before[k], after[k]) for k in before if k.startswith("model"))


def test_an_illegal_choice_is_never_made():
    learner = trained("ippo_shared", 2 * 128, quick=SMALL, env=PENNIES)
    rollout = learner._models[0].rollout
    legal = rollout.legal.gather(2, rollout.actions.long()[:, :, None])[:, :, 0]
    assert legal[rollout.acted].all()
    assert not rollout.legal[rollout.acted].all()
    played(learner.policy(), 32, PENNIES)


def test_probabilities_and_entropy_are_those_of_legal_choices(torch):
    learner = make_learner("ippo_shared", PENNIES, {}, 0, **SMALL)
    policy = learner._models[0].model.policy
    inputs = torch.randn(4, learner._rows.inputs, generator=torch.Generator().manual_seed(0))
    legal = torch.tensor([[1, 1, 1], [1, 0, 1], [0, 0, 1], [1, 1, 0]], dtype=torch.bool)
    logits = policy.action_net(policy.mlp_extractor.policy_net(inputs)).detach().numpy()
    weights = np.where(legal.numpy(), np.exp(logits), 0.0)
    shares = weights / weights.sum(axis=1, keepdims=True)
    chosen = torch.tensor([1, 2, 2, 0])
    _, log_probs, entropy = policy.evaluate_actions((inputs, legal), chosen)
    expected = np.log(shares[np.arange(4), chosen])
    np.testing.assert_allclose(log_probs.detach(), expected, rtol=1e-4, atol=1e-6)
    surprise = -np.where(shares > 0, shares * np.log(np.where(shares > 0, shares, 1.0)), 0.0)
    np.testing.assert_allclose(entropy.detach(), surprise.sum(axis=1), rtol=1e-4, atol=1e-6)
    (log_probs.sum() + entropy.sum()).backward()
    assert all(torch.isfinite(p.grad).all() for p in policy.action_net.parameters())


# -- what is left --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "game", "more"),
    [
        ("ippo", "coopbench/TrustDilemma-v1", {"activation": "relu"}),
        ("ippo_shared", "coopbench/TrustDilemma-v1", {"squash": True}),
        ("ippo", PENNIES, {}),
    ],
)
def test_the_policy_does_what_torch_would_do(torch, name, game, more):
    settings = SMALL | {"layers": "16x8", "scale_observations": True} | more
    learner = make_learner(name, game, {}, 0, **settings)
    learner.learn(256)
    policy = learner.policy()
    again = read_policy(policy.pack())
    assert again.facts == policy.facts
    assert again.facts["steps"] == 256
    assert again.hyperparameters["layers"] == "16x8"
    rows = learner._rows
    outputs = outputs_of(again.network, rows.engine.control.obs)
    for model, inputs, seats in zip(
        learner._models, rows.cut(rows.observe()), rows.groups, strict=True
    ):
        inputs, policy = torch.from_numpy(inputs), model.model.policy
        if rows.discrete:
            expected = model.model.policy.action_net(
                model.model.policy.mlp_extractor.policy_net(inputs)
            )
        else:
            expected = model.model.policy.get_distribution(inputs).mode().clip(-1.0, 1.0)
        of_model = outputs[:, seats].reshape(len(inputs), -1)
        alive = rows.engine.control.alive[:, seats].ravel()  # the others' inputs are zeros
        np.testing.assert_allclose(of_model[alive], expected.detach()[alive], atol=1e-5)
        assert np.ptp(of_model) > 0.0


# -- what is refused -----------------------------------------------------------------------------


def test_training_that_comes_to_no_numbers_is_reported():
    learner = make_learner("ippo", ECHO, {}, 0, **SMALL)
    step, control = learner._rows.engine.step, learner._rows.engine.control

    def broken(actions, mode):
        step(actions, mode)
        control.rewards[3, 0] = np.nan if learner.steps == 64 else 0.0

    learner._rows.engine.step = broken
    with pytest.raises(Diverged, match=r"'ippo' on test/Echo-v0 .* step 64: A reward is not fin"):
        learner.learn(1000)
    for game in (ECHO, MEETING):
        params = Params(**SMALL)._replace(learning_rate=1e38)
        with pytest.raises(Diverged, match=r"step 128: The .* is not finite"):
            entry("ippo").create(Training("ippo", game, {}, 0, params)).learn(256)
    params = Params(**SMALL)._replace(learning_rate=1e25, epochs=1, batch_size=128)
    with pytest.raises(Diverged, match=r"is not finite"):
        entry("ippo").create(Training("ippo", MEETING, {}, 0, params)).learn(1024)


def test_the_learning_rate_falls_and_a_large_divergence_ends_an_update():
    learner = make_learner("ippo", ECHO, {}, 0, anneal=256, **SMALL)
    rates = [learner.learn(steps)["learning_rate"] for steps in (128, 256, 384)]
    np.testing.assert_allclose(rates, [3e-4, 1.5e-4, 0.0], atol=1e-12)
    wild = QUICK | {"learning_rate": 0.1}
    free = make_learner("ippo", ECHO, {}, 0, **wild).learn(512)
    bound = make_learner("ippo", ECHO, {}, 0, target_kl=0.01, **wild).learn(512)
    assert free["approx_kl"] > 0.1
    assert bound["approx_kl"] < free["approx_kl"]
