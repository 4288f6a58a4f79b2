"""MAPPO and PPO with memory: known values, games with known answers, views, the same bits."""

import numpy as np
import pytest
import toy_echo
import toy_squad
import toy_team

from coopbench.baselines.game import Game
from coopbench.baselines.networks.kinds import read_policy
from coopbench.baselines.networks.recurrent import RecurrentPolicy
from coopbench.baselines.registry import make_learner
from coopbench.errors import Diverged
from coopbench_envs import Engine, registration
from coopbench_envs.engine import DISABLED

torch = pytest.importorskip("torch")

from coopbench.baselines.learners.ppo import advantages  # noqa: E402

TEAM, SQUAD, ECHO = toy_team.SPEC.id, toy_squad.SPEC.id, toy_echo.SPEC.id
BOTH = ("mappo", "mappo_shared")
CRITICS = ("state", "agent", "observations")
QUICK = {"lanes": 32, "rollout": 320, "learning_rate": 1e-2, "layers": "32", "epochs": 8}
SMALL = {"lanes": 8, "rollout": 80, "layers": "8", "epochs": 2, "chunk": 4}
CUE = {"rule": toy_team.CUE, "horizon": 8}


@pytest.fixture(autouse=True, scope="module")
def _toys():
    """Make the toys known to the tests of this file alone."""
    with pytest.MonkeyPatch.context() as patch:
        for toy in (toy_team, toy_squad, toy_echo):
            patch.setitem(registration._modules, toy.SPEC.id, toy.__name__)
            patch.setitem(registration._specs, toy.SPEC.id, toy.SPEC)
        yield


def trained(name, steps, changes=None, env=TEAM, **game):
    learner = make_learner(name, env, game, 0, **(QUICK | (changes or {})))
    learner.learn(steps)
    return learner


def played(policy, lanes=64, env=TEAM, **game):
    """Mean return, and the actions of every step, of seeds that no training has."""
    engine, seeds, actions = Engine(env, lanes, **game), np.arange(lanes, dtype=np.uint64), []
    engine.reset(seeds)
    memory = policy.initial(Game.of(engine), seeds)
    while not engine.control.done.all():
        masks = engine.control.masks != 0 if engine.discrete else None
        chosen, memory = policy.act(engine.control.obs, memory, masks)
        actions.append(chosen.copy())
        engine.step(chosen, DISABLED)
    assert not engine.control.invalid.any()
    return engine.control.returns[:, 0].mean(), np.array(actions)


def same(a, b):
    return a.keys() == b.keys() and all(np.array_equal(a[name], b[name]) for name in a)


# -- known values ---------------------------------------------------------------------------------


def test_advantages_by_hand():
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


@pytest.mark.parametrize("time_limit", ["terminal", "bootstrap"])
@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("mappo_shared", {}),
        ("mappo_shared", {"recurrent": True}),
        ("ippo_shared", {"recurrent": True, "batch_size": 576, "value": 1.0}),
    ],
)
def test_the_worth_of_an_episode_that_time_ends_is_known(name, change, time_limit):
    """Rewards of 1 for three steps with gamma 0.5: 1.75, and 2 if they would go on for ever."""
    game = {"rule": toy_team.PAY, "horizon": 3}
    changes = {"gamma": 0.5, "time_limit": time_limit, "rollout": 288, "max_grad_norm": 10.0}
    learner = trained(name, 288 * 35, changes | change, **game)
    rollout = learner._models[0].rollout
    first = learner._models[0].value_scale.unscaled(rollout.estimates)[rollout.first]
    worth = 1.75 if time_limit == "terminal" else 2.0
    np.testing.assert_allclose(first.numpy(), worth, atol=0.05)


def test_what_follows_the_time_limit_is_the_last_state_of_the_old_episode(monkeypatch):
    game = {"rule": toy_team.PAY, "horizon": 3}
    changes = {"gamma": 0.5, "normalise_values": False, "critic": "state"}
    learner = make_learner("mappo_shared", TEAM, game, 0, **(QUICK | changes))
    monkeypatch.setattr(learner._models[0], "values", lambda views: 10.0 * views[:, 4])
    learner.learn(3 * 32)
    rewards = learner._models[0].rollout.rewards
    np.testing.assert_allclose(rewards[:2], 1.0)
    # The share of time is 1 in the last state, and 0 in the first one of the next episode.
    assert learner._rows.lane_step.state[0, 4] == 1.0
    np.testing.assert_allclose(rewards[2], 1.0 + 0.5 * 10.0)


# -- games with known answers ---------------------------------------------------------------------


@pytest.mark.parametrize("critic", CRITICS)
@pytest.mark.parametrize("name", BOTH)
def test_a_monotone_matrix_is_solved(name, critic):
    learner = trained(name, 320 * 20, {"critic": critic}, matrix=1)
    assert played(learner.policy(), matrix=1)[0] == 9.0


@pytest.mark.parametrize("recurrent", [False, True])
def test_nobody_takes_an_illegal_choice_that_would_be_the_best(recurrent):
    learner = trained("mappo", 320 * 20, {"recurrent": recurrent}, matrix=1, limited=1)
    reached, actions = played(learner.policy(), matrix=1, limited=1)
    assert reached == 4.0
    assert (actions == 1).all()
    assert (learner._models[0].rollout.actions < 2).all()


@pytest.mark.parametrize("masking", [True, False])
@pytest.mark.parametrize("name", BOTH)
def test_what_the_team_earns_later_reaches_a_member_that_has_fallen(name, masking):
    """Member 1 falls after its first step; its choice 1 pays 1 two steps later."""
    game = {"rule": toy_team.FALL, "horizon": 3}
    learner = trained(name, 320 * 30, {"gamma": 0.9, "death_masking": masking}, **game)
    reached, actions = played(learner.policy(), **game)
    assert reached == 1.0
    assert (actions[0, :, 1] == 1).all()


@pytest.mark.parametrize("name", BOTH)
def test_the_best_actions_of_a_continuous_game_are_found(name):
    game = {"num_agents": 2, "target": 0.3}
    learner = trained(name, 320 * 60, {"entropy": 0.0}, env=ECHO, **game)
    _, actions = played(learner.policy(), env=ECHO, **game)
    np.testing.assert_allclose(actions / 5.0, 0.3, atol=0.05)


@pytest.mark.parametrize("name", ["ippo_shared", "mappo_shared"])
def test_only_memory_tells_at_the_last_step_what_was_seen_at_the_first(name):
    settings = {"ippo_shared": {"batch_size": 1024, "lanes": 64, "rollout": 512, "entropy": 0.02}}
    changes = {"learning_rate": 5e-3, "epochs": 6} | settings.get(name, {"lanes": 64})
    changes |= {"rollout": 512, "gae_lambda": 0.95}
    with_memory = trained(name, 512 * 45, changes | {"recurrent": True}, **CUE)
    assert played(with_memory.policy(), lanes=256, **CUE)[0] == 1.0
    assert isinstance(with_memory.policy(), RecurrentPolicy)
    without = trained(name, 512 * 45, changes, **CUE)
    assert played(without.policy(), lanes=256, **CUE)[0] < 0.6


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
    (inputs,) = (part.reshape(8, agents, -1) for part in learner._rows.observe())
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


def test_a_recurrent_policy_does_what_the_actor_did():
    learner = make_learner("mappo", TEAM, CUE, 0, recurrent=True, **SMALL)
    learner.learn(8 * 30)
    network = learner.policy().network
    assert not network.last_action
    rows = learner._rows
    hidden = np.stack([model.memory[0].numpy() for model in learner._models], axis=1)
    hidden[rows.first] = 0.0
    last = np.zeros((8, 2, network.actions), np.float32)
    outputs, _ = network.step(rows.engine.control.obs, last, hidden)
    for a, (model, inputs) in enumerate(zip(learner._models, rows.observe(), strict=True)):
        memory = torch.from_numpy(hidden[:, a].copy())
        expected = model.actor.body.run(torch.from_numpy(inputs)[None], memory)[0][0]
        np.testing.assert_allclose(outputs[:, a], expected.detach(), atol=1e-5)


@pytest.mark.parametrize(
    ("name", "env"),
    [("mappo", TEAM), ("mappo_shared", ECHO), ("ippo", TEAM), ("ippo_shared", ECHO)],
)
def test_a_recurrent_training_that_goes_on_has_the_same_bits(name, env):
    settings = {key: value for key, value in SMALL.items() if key != "chunk" or "m" in name}
    settings |= {"recurrent": True} | ({"batch_size": 40} if name.startswith("ippo") else {})
    whole, stopped = (make_learner(name, env, {"horizon": 7}, 3, **settings) for _ in range(2))
    whole.learn(400)
    stopped.learn(8 * 23)
    resumed = make_learner(name, env, {"horizon": 7}, 3, **settings)
    resumed.load(stopped.save())
    resumed.learn(400)
    assert same(whole.save(), resumed.save())
    content = whole.policy().pack()
    assert resumed.policy().pack() == content
    assert read_policy(content).pack() == content


# -- what is refused ------------------------------------------------------------------------------


def test_numbers_that_do_not_fit_together_are_refused():
    wrong = {
        "history was 2 with recurrent=True; allowed: 1": {"recurrent": True, "history": 2},
        "layers was '8x16' with recurrent=True": {"recurrent": True, "layers": "8x16"},
        "rollout was 81 and lanes 8; allowed: a rollout that is a multiple": {"rollout": 81},
        "'critic'.*Did you mean 'state'": {"critic": "stat"},
    }
    for message, change in wrong.items():
        with pytest.raises(ValueError, match=message):
            make_learner("mappo", TEAM, {}, 0, **SMALL | change)
    with pytest.raises(ValueError, match="layers was '8x16' with recurrent=True"):
        make_learner("ippo", TEAM, {}, 0, recurrent=True, layers="8x16")
    large = {"rollout": 800_000, "layers": "1024", "recurrent": True}
    for name in ("mappo", "ippo"):
        with pytest.raises(ValueError, match=r"take [\d,]+ bytes; allowed: up to [\d,]+, thus a r"):
            make_learner(name, TEAM, {}, 0, lanes=8, **large)
    learner = make_learner("mappo", TEAM, {}, 0, **SMALL)
    learner.learn(80)
    for change in ({"gamma": 0.5}, {"layers": "4"}, {"recurrent": True}):
        with pytest.raises(ValueError, match="The saved state does not fit 'mappo'"):
            make_learner("mappo", TEAM, {}, 0, **SMALL | change).load(learner.save())


@pytest.mark.parametrize("env", [TEAM, ECHO])
def test_divergence_is_told(env):
    learner = make_learner("mappo_shared", env, {}, 0, **SMALL | {"learning_rate": 1.0})
    learner.learn(80)
    with torch.no_grad():
        learner._models[0].actor.body.layers[-1].bias[0] = torch.inf
    with pytest.raises(Diverged, match="step 80: An output of a policy is not finite"):
        learner.learn(400)


def test_blind_actors_learn_only_what_needs_no_observation():
    game = {"rule": toy_team.CUE, "horizon": 2}
    changes = {"lanes": 32, "rollout": 512, "layers": "16", "recurrent": True, "blind": True}
    learner = make_learner("mappo_shared", TEAM, game, 0, learning_rate=5e-3, **changes)
    learner.learn(32 * 2 * 100)
    policy = learner.policy()
    assert played(policy, lanes=400, **game)[0] < 0.6
    engine = Engine(TEAM, 4, **game)
    engine.reset(np.arange(4, dtype=np.uint64))
    memory, masks = policy.initial(Game.of(engine), np.arange(4)), engine.control.masks == 1
    garbage = np.random.default_rng(0).normal(0, 9, engine.control.obs.shape).astype(np.float32)
    actions, _ = policy.act(engine.control.obs, memory, masks)
    others, _ = policy.act(garbage, memory, masks)
    np.testing.assert_array_equal(actions, others)
