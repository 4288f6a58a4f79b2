"""Environments of other packages as arrays: for learners and vector interfaces, and restored."""

import pickle
from functools import partial

import gymnasium as gym
import numpy as np
import pytest
import toy_foreign
from builders import LAMPS

import coopbench_envs
from coopbench.baselines.registry import make_learner
from coopbench_envs.engine import DISABLED, SAME_STEP, Engine
from coopbench_envs.foreign.engine import ForeignEngine
from coopbench_envs.foreign.environment import foreign_spec
from coopbench_envs.foreign_names import permit
from coopbench_envs.lanes import lanes_of, of_user
from coopbench_envs.shells.parallel_env import ParallelEnv

MIXED = "pettingzoo:toy_foreign:Mixed"
CARTPOLE = "gymnasium:CartPole-v1"
TRUST = "coopbench/TrustDilemma-v0"


def test_finished_lanes_begin_anew_in_the_same_step():
    env = coopbench_envs.make_vec(LAMPS, 2, autoreset_mode="SameStep", max_episode_steps=4)
    alone = coopbench_envs.make_vec(toy_foreign.Lamps, 2, max_steps=4)
    actions = np.ones((2, 3), np.int64)
    assert (env.reset(seed=5)[0] == alone.reset(seed=5)[0]).all()
    for step in range(8):
        observation, reward, ended, truncated, infos = env.step(actions)
        last, same, *_, last_infos = alone.step(actions)
        assert (reward == same).all()
        assert (truncated == (step % 4 == 3)).all()
        assert not ended.any()
        if step % 4 == 3:
            assert (np.stack(infos["final_obs"]) == last).all()
            totals = (infos["final_info"]["metrics"], last_infos["metrics"])
            assert (totals[0]["return"] == totals[1]["return"]).all()
            last, *_ = alone.step(actions)
        assert (observation == last).all()
    assert env.metadata["autoreset_mode"] is gym.vector.AutoresetMode.SAME_STEP


@pytest.mark.parametrize("env", [CARTPOLE, toy_foreign.Lamps, "gymnasium:FrozenLake-v1"])
@pytest.mark.parametrize("mode", ["ansi", "rgb_array"])
def test_vector_environments_are_shown_and_pickled(env, mode):
    env = coopbench_envs.make_vec(env, 2, render_mode=mode)
    env.reset(seed=0)
    shown = env.render()
    assert all("observation" in one if mode == "ansi" else one.shape[2] == 3 for one in shown)
    assert env.engine.first.alive.all()
    twin, actions = pickle.loads(pickle.dumps(env)), env.action_space.sample()
    for each in (env, twin):
        each.step(actions)
    np.testing.assert_equal(twin.render(), env.render())
    np.testing.assert_array_equal(twin.engine.first.obs, env.engine.first.obs)


def test_a_game_of_this_package_plays_the_same_through_its_pettingzoo_interface():
    def pair():
        return ParallelEnv(TRUST, horizon=6)

    own, other = Engine(TRUST, 3, horizon=6), lanes_of(of_user(pair), 3)
    for play in (own, other):
        play.reset(np.arange(3, dtype=np.uint64))
    random = np.random.default_rng(0)
    for _ in range(14):
        actions = random.uniform(0.0, 100.0, own.actions.shape).astype(np.float32)
        for play in (own, other):
            play.step(actions, SAME_STEP)
        for name in ("obs", "rewards", "returns", "alive", "terminated", "team", "episode"):
            ours, theirs = (getattr(play.control, name) for play in (own, other))
            np.testing.assert_array_equal(ours, theirs, name)
        np.testing.assert_array_equal(own.finals.obs, other.finals.obs)
        np.testing.assert_array_equal(own.finals.returns, other.finals.returns)


def test_different_observations_become_vectors_of_one_length():
    permit(MIXED)
    play = ForeignEngine(foreign_spec(MIXED), 2)
    play.reset(np.arange(2, dtype=np.uint64))
    vectors = play.codec.vectors(play.control.obs)
    assert vectors.shape == (2, 2, 6)  # one-hot n, and x
    assert (vectors[:, 0, 0] == vectors[:, 1, 5]).all()
    assert vectors[:, 1, 0].tolist() == [1.0, 1.0]
    with pytest.raises(ValueError, match=r"The actions of .*Mixed are no vectors of a fixed"):
        coopbench_envs.make_vec(MIXED, 1)


def test_learners_get_the_global_state_of_every_lane():
    permit(LAMPS)
    play = lanes_of(LAMPS, 2, global_state=True)
    play.reset(np.arange(2, dtype=np.uint64))
    assert (play.control.state == play.global_state()).all()


@pytest.mark.parametrize("learner", ["ippo", "qmix_shared"])
def test_learners_train_on_them_and_go_on_bit_for_bit(learner, torch):
    values = {"lanes": 2, "batch_size": 4, "replay": 8, "reward": "team"}
    if learner == "ippo":
        values = {"lanes": 2, "rollout": 16, "batch_size": 8, "epochs": 1}
    permit(LAMPS)
    whole, part, rest = (make_learner(learner, LAMPS, {}, 1, **values) for _ in range(3))
    assert whole.learn(130)["episode_length"] == 6
    part.learn(75)
    rest.load(part.save())
    rest.learn(130)
    np.testing.assert_equal(rest.save(), whole.save())


def test_saved_states_of_another_course_are_refused(torch):
    permit(LAMPS)
    values = {"lanes": 2, "rollout": 16, "batch_size": 8}
    learner = make_learner("ippo", LAMPS, {"chance": True}, 1, **values)
    learner.learn(7)
    with pytest.raises(ValueError, match="does not repeat the episode of seed"):
        make_learner("ippo", LAMPS, {"chance": True}, 1, **values).load(learner.save())


def test_stable_baselines_trains_on_them():
    stable_baselines3 = pytest.importorskip("stable_baselines3")
    env = coopbench_envs.sb3_vec_env(CARTPOLE, 2)
    with pytest.raises(gym.error.ResetNeeded, match="call reset"):
        env.step(np.zeros(2, np.int64))
    stable_baselines3.PPO("MlpPolicy", env, n_steps=16, batch_size=16, seed=1).learn(64)
    assert "agent_0: observation" in env.render("ansi")
    assert env.get_attr("engine")[0].control.episode.max() >= 1


class Uneven(toy_foreign.Lamps):
    """Lamps whose first agent has fewer choices than the others, and may not take its first."""

    def action_space(self, agent):
        return gym.spaces.Discrete(2 if agent == self.possible_agents[0] else 3)

    def step(self, actions):
        return super().step({agent: min(choice, 1) for agent, choice in actions.items()})


class Forbidding(gym.Env):
    """Of three choices the first is never legal."""

    observation_space = gym.spaces.Dict(
        {"observation": gym.spaces.Box(0, 1, (1,)), "action_mask": gym.spaces.MultiBinary(3)}
    )
    action_space = gym.spaces.Discrete(3)
    seen = {"observation": np.zeros(1, np.float32), "action_mask": np.array([0, 1, 1], np.int8)}  # noqa: RUF012

    def reset(self, *, seed=None, options=None):
        return self.seen, {}

    def step(self, action):
        return self.seen, 0.0, False, False, {}


@pytest.mark.parametrize("made", [Uneven, Forbidding])
def test_choices_that_an_agent_does_not_have_are_counted_once_and_restored(made):
    played, restored = (lanes_of(of_user(made), 1) for _ in range(2))
    played.reset(np.zeros(1, np.uint64))
    agents = len(played.agents)
    for choice in (2, -1):
        played.step(np.full((1, agents), choice))
    expected = [1] * agents
    expected[0] += made is Uneven  # whose first agent has no choice 2
    assert played.control.invalid[0].tolist() == expected
    restored.reset(np.ones(1, np.uint64), state=played.get_state())
    assert restored.control.invalid[0].tolist() == expected
    played.step(np.full((1, agents), 1))
    restored.step(np.full((1, agents), 1))
    assert restored.control.obs.tobytes() == played.control.obs.tobytes()


class Sized(gym.Env):
    """Its observation has as many numbers as it is told."""

    def __init__(self, size=1):
        self.observation_space = gym.spaces.Box(0, 1, (size,))
        self.action_space = gym.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        return self.observation_space.low, {}


def test_functions_with_other_arguments_are_other_environments():
    sizes = (1, 2, 1)
    made = [coopbench_envs.make_vec(partial(Sized, size), max_episode_steps=3) for size in sizes]
    assert [env.single_observation_space.shape[-1] for env in made] == [1, 2, 1]
    names = [env.engine.spec.id for env in made]
    assert names[0] == names[2] != names[1]
    for size in (3, 4):  # of one name
        env = coopbench_envs.make_vec(lambda size=size: Sized(size), max_episode_steps=3)
        assert env.single_observation_space.shape[-1] == size


def test_choices_of_those_who_have_left_and_of_lanes_that_are_over_are_not_counted():
    class Told(toy_foreign.Lamps):  # all have three choices, of which the first is illegal
        def action_space(self, agent):
            return gym.spaces.Discrete(3)

        def step(self, actions):
            seen, paid, ended, cut, _ = super().step(actions)
            return seen, paid, ended, cut, {a: {"action_mask": [0, 1, 1]} for a in seen}

    engine = lanes_of(of_user(Told, 4), 2)
    engine.reset(np.arange(2, dtype=np.uint64))
    for step in range(8):
        engine.step(np.full((2, 3), 9 if step % 2 else 0), DISABLED)
    # c_0 leaves after two steps, and all is over after four; in the first step nothing was told.
    assert engine.control.invalid.tolist() == [[3, 3, 1]] * 2


def test_an_agent_alone_may_be_told_its_choices_in_infos():
    class Alone(gym.Env):
        observation_space, action_space = gym.spaces.Box(0, 1, (1,)), gym.spaces.Discrete(3)

        def reset(self, *, seed=None, options=None):
            return np.zeros(1, np.float32), {}

        def step(self, action):
            return np.zeros(1, np.float32), 0.0, False, False, {"action_mask": [0, 1, 1]}

    engine = lanes_of(of_user(Alone), 2)
    engine.reset(np.arange(2, dtype=np.uint64))
    for _ in range(3):
        engine.step(np.zeros((2, 1), np.int64), DISABLED)
    assert engine.control.invalid.tolist() == [[2]] * 2  # in the first step nothing was told


def test_agents_that_are_terminated_are_not_alive_at_the_end():
    class Ends(toy_foreign.Lamps):
        def step(self, actions):
            seen, paid, ended, cut, infos = super().step(actions)
            if self._time == 3:
                ended, self.agents = {agent: agent == "a_0" for agent in ended}, []
                cut = {agent: agent != "a_0" for agent in ended}
            return seen, paid, ended, cut, infos

    engine = lanes_of(of_user(Ends), 1)
    engine.reset(np.zeros(1, np.uint64))
    for _ in range(3):
        engine.step(np.ones((1, 3), np.int64), SAME_STEP)
    assert engine.finals.alive.tolist() == [[False, True, False]]
    assert engine.control.alive.all()


def test_some_lanes_are_restored_to_their_own_step_and_episode():
    def played(engine, steps, actions):
        for step in range(steps):
            engine.step(actions[step])

    actions = np.random.default_rng(0).integers(0, 2, (9, 3, 3))
    engine, other = (lanes_of(of_user(toy_foreign.Lamps), 3) for _ in range(2))
    engine.reset(np.array([7, 8, 9], np.uint64))
    played(engine, 2, actions)
    engine.reset(np.array([1, 2, 3], np.uint64), chosen=np.array([False, False, True]))
    played(engine, 2, actions[2:])
    kept = engine.get_state()
    assert kept["time"].tolist() == [4, 4, 2]
    other.reset(np.array([4, 5, 6], np.uint64))
    played(other, 1, actions)
    first = other.control.obs[0].copy()
    other.reset(state=kept, chosen=np.array([False, True, True]))
    assert other.state.time.tolist() == [1, 4, 2]
    assert other.control.seed.tolist() == [4, 8, 3]
    np.testing.assert_array_equal(other.control.obs[0], first)
    np.testing.assert_array_equal(other.control.obs[1:], engine.control.obs[1:])
    np.testing.assert_array_equal(other.control.returns[1:], engine.control.returns[1:])
