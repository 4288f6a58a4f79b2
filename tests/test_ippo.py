"""PPO: known values, and what it must not learn from."""

from types import SimpleNamespace

import numpy as np
import pytest
import toy_echo
import toy_meeting
import toy_team
from stable_baselines3 import PPO
from stable_baselines3.common.logger import Logger
from stable_baselines3.common.type_aliases import RolloutBufferSamples
from team_training import PENNIES, TEAM, known, parts_of, played, rows_of, same, trained

from coopbench.baselines.learner import Training
from coopbench.baselines.learners.distributions import Choices
from coopbench.baselines.learners.ippo import Params, entry
from coopbench.baselines.learners.row_learner import RewardScale
from coopbench.baselines.learners.torch_tools import layer_sizes
from coopbench.baselines.registry import make_learner
from coopbench.errors import Diverged
from coopbench_envs import sb3_vec_env
from coopbench_envs.foreign_names import permit

ECHO, MEETING = toy_echo.SPEC.id, toy_meeting.SPEC.id
SMALL = {"lanes": 16, "rollout": 128, "batch_size": 64, "epochs": 2, "layers": "16"}
QUICK = {"lanes": 32, "rollout": 512, "batch_size": 256, "epochs": 5, "layers": "32"}
QUICK |= {"learning_rate": 5e-3, "entropy": 0.0}
FALL = {"rule": toy_team.FALL, "horizon": 3}


_toys = known(toy_echo, toy_meeting, toy_team)


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
def test_time_limits_are_bootstrapped_and_terminations_are_not(
    last, time_limit, ended, monkeypatch
):
    """Rewards of 1 and estimates of 2, by hand: gamma 0.9, lambda 0.8, episodes of 3 steps."""
    game = {"weight": 0.0, "base": 1.0, "horizon": 10 if last else 3, "last": last}
    settings = {"lanes": 2, "rollout": 8, "batch_size": 8, "epochs": 1, "layers": "4"}
    settings |= {"time_limit": time_limit}
    learner = make_learner("ippo", ECHO, game, 0, gamma=0.9, gae_lambda=0.8, **settings)
    model, learned = learner._models[0], []
    model.critic.layers[-1].weight.data.zero_()
    model.critic.layers[-1].bias.data.fill_(2.0)
    monkeypatch.setattr(model, "_epochs", lambda *parts: learned.extend(parts) or {})
    learner.learn(8)
    gains, targets = learned
    end = -1.0 if ended else 0.8  # 1 - 2 or 1 + 0.9 * 2 - 2, which is that of other steps too
    third = 0.8 + 0.72 * end
    expected = [0.8 + 0.72 * third, third, end, 0.8]
    for row in range(2):
        np.testing.assert_allclose(gains[:, row], expected, rtol=1e-5)
        np.testing.assert_allclose(targets[:, row], np.add(expected, 2.0))


def test_the_last_observation_is_judged_not_the_first_of_the_next_episode(monkeypatch):
    game = {"weight": 0.0, "base": 1.0, "horizon": 3}
    learner = make_learner("ippo", ECHO, game, 0, gamma=0.5, **SMALL)
    monkeypatch.setattr(learner._models[0], "values", lambda views: 10.0 * views[:, 1])
    learner.learn(3 * 16)
    engine = learner._rows.engine
    assert (engine.finals.obs != engine.control.obs).any()
    expected = 1.0 + 0.5 * 10.0 * engine.finals.obs[:, 0, 1]
    np.testing.assert_allclose(learner._models[0].rollout.rewards[2], expected)


@pytest.mark.parametrize("env", [ECHO, MEETING])
def test_an_update_is_that_of_stable_baselines3(torch, env, monkeypatch):
    """From the same networks and minibatches, the library comes to the same parameters."""
    learner = make_learner("ippo", env, {}, 0, **SMALL | {"entropy": 0.1, "learning_rate": 1e-2})
    model, batches = learner._models[0], []
    actor, critic = model.actor.body.layers, model.critic.layers
    settings = {"learning_rate": 1e-2, "ent_coef": 0.1, "batch_size": 64, "n_steps": 64}
    networks = {"net_arch": [16], "optimizer_kwargs": {"eps": 1e-5}}
    library = PPO("MlpPolicy", sb3_vec_env(env, 1), policy_kwargs=networks, n_epochs=1, **settings)
    library.set_logger(Logger(None, []))
    policy = library.policy
    pairs = [(policy.mlp_extractor.policy_net[0], actor[0]), (policy.action_net, actor[1])]
    pairs += [(policy.mlp_extractor.value_net[0], critic[0]), (policy.value_net, critic[1])]
    for theirs, ours in pairs:
        theirs.load_state_dict(ours.state_dict())
    step = model._gradient_step
    monkeypatch.setattr(model, "_gradient_step", lambda one: batches.append(one) or step(one))
    learner.learn(128)
    samples = (  # minibatches of all epochs
        RolloutBufferSamples(seen[0], chosen[0], None, old[0], gains[0], targets[0])
        for seen, _, _, chosen, old, _, _, gains, targets, *_ in batches
    )
    none = np.zeros(1)
    library.rollout_buffer = SimpleNamespace(values=none, returns=none, get=lambda _: samples)
    library.train()
    assert [len(one.inputs[0]) for one in batches] == [64] * 4
    for theirs, ours in pairs:
        assert (ours.weight - theirs.weight).abs().max() < 1e-5
        assert (ours.bias - theirs.bias).abs().max() < 1e-5
    if env == ECHO:
        assert (model.actor.log_std - policy.log_std).abs().max() < 1e-5


def test_the_fallen_count_in_means_and_teach_the_critic_alone(torch):
    """As rows of the library whose advantage and entropy are 0; gains are in units of the rest."""
    model = trained("ippo", 512, env=TEAM, quick=QUICK, **FALL)._models[1]
    rollout, gains = model.rollout, torch.randn(model.rollout.first.shape)
    rows, seen = torch.arange(float(gains.numel())).view(gains.shape), []
    for part in rollout.minibatches(rollout.pieces(1), 6, gains, rows):
        seen.append(part.targets[0].numpy())
        acted, (scaled, actor, critic) = part.acted.numpy(), model._weighted(part)
        assert 0 < acted.sum() < acted.size
        raw = part.gains.numpy()
        expected = (raw - raw[acted].mean()) / raw[acted].std(ddof=1)
        np.testing.assert_allclose(scaled[acted], expected[acted], rtol=1e-4, atol=1e-6)
        np.testing.assert_allclose(actor, acted / acted.size)
        np.testing.assert_allclose(critic, 1.0 / acted.size)
    taught = rollout.taught.flatten().nonzero().flatten()
    np.testing.assert_array_equal(np.sort(np.concatenate(seen)), taught)
    assert set(map(len, seen)) <= {85, 86}


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


def test_a_row_ends_with_its_agent_while_others_go_on():
    """In games of other packages an agent may be terminated before its episode is over."""
    lamps = "python:toy_foreign:Lamps", {"max_steps": 4}
    permit(lamps[0])
    settings = {"lanes": 2, "rollout": 16, "batch_size": 16, "epochs": 1}
    learner = make_learner("ippo", *lamps, 0, **settings)
    learner.learn(16)  # two episodes in each lane; agent c_0 leaves after two steps
    whole, _, leaves = (model.rollout for model in learner._models)
    assert whole.taught.all()
    assert leaves.taught.equal(leaves.acted)
    assert leaves.taught[:, 0].tolist() == [True, True, False, False] * 2


def test_with_memory_minibatches_hold_about_as_many_rows_as_said(monkeypatch):
    """Of all seats that share a model; pieces are not cut."""
    settings = QUICK | {"recurrent": True, "layers": "8x8", "batch_size": 128, "epochs": 1}
    learner = make_learner("ippo_shared", PENNIES, {}, 0, **settings)
    model = learner._models[0]
    sizes, step = [], model._gradient_step
    monkeypatch.setattr(
        model, "_gradient_step", lambda one: sizes.append(int(one.acted.sum())) or step(one)
    )
    learner.learn(512)
    assert len(sizes) == 512 * learner._rows.agents // 128
    assert sum(sizes) == model.rollout.acted.sum()


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


def test_a_single_legal_choice_is_certain_and_teaches_nothing():
    drawn = Choices.of(np.ones((1, 3), np.float32), np.array([[False, False, True]]))
    gradient, _ = drawn.gradients(np.array([2]), np.ones(1), np.ones(1))
    assert (drawn.log_probs(np.array([2])), drawn.entropies()) == (0.0, 0.0)
    assert (gradient == 0.0).all()


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
    rows = learner._rows
    for model, inputs, seats, outputs in parts_of(learner, steps=256):
        expected = model.actor.body(torch.from_numpy(inputs))
        if not rows.discrete:
            expected = expected.tanh() if "squash" in more else expected.clip(-1.0, 1.0)
        alive = rows.engine.control.alive[:, seats].ravel()  # the others' inputs are zeros
        np.testing.assert_allclose(outputs[alive], expected.detach()[alive], atol=1e-5)
        assert np.ptp(outputs) > 0.0


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
        with pytest.raises(Diverged, match=r"step 128: An output of a policy is not finite"):
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
