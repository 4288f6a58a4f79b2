"""PyMARL's interface, and what other libraries ask of the interfaces beside their own calls."""

import gymnasium as gym
import numpy as np
import pytest

import coopbench_envs
from coopbench_envs.shells.parallel_env import ParallelEnv

BATTLE, GAME = {"map": "3m", "horizon": 6}, "coopbench/Skirmish-v1"


def last_legal(env):
    return [int(np.flatnonzero(mask)[-1]) for mask in env.get_avail_actions()]


def test_episodes_are_those_of_the_gymnasium_environment():
    env, plain = coopbench_envs.pymarl(GAME, seed=3, **BATTLE), gym.make(GAME, **BATTLE)
    info = env.get_env_info()
    assert (info["n_agents"], info["n_actions"], info["episode_limit"]) == (3, 9, 6)
    for seed in (3, None):
        observations, _ = env.reset()
        assert (np.stack(observations) == plain.reset(seed=seed)[0]).all()
        over, steps = False, 0
        while not over:
            assert env.get_avail_actions() == plain.get_wrapper_attr("engine").first.masks.tolist()
            actions = last_legal(env)
            observations, reward, ended, truncated, told = env.step(actions)
            seen, paid, *ends, shown = plain.step(actions)
            assert (np.stack(observations) == seen).all()
            assert (reward, ended, truncated) == (paid, *ends)
            assert observations[0].shape == (info["obs_shape"],)
            assert env.get_state().shape == (info["state_shape"],)
            over, steps = ended or truncated, steps + 1
        assert steps == 6
        assert told == shown["metrics"] | {"episode_limit": True}
    assert env.get_stats().keys() == shown["metrics"].keys()
    with pytest.raises(gym.error.ResetNeeded, match="No episode is running"):
        env.step(last_legal(env))
    with pytest.raises(ValueError, match="options must be a mapping"):
        env.reset(options="x")
    env.reset()
    with pytest.raises(ValueError, match=r"3 choices, one per agent; .* shape \(2,\)"):
        env.step([1, 1])


def test_pymarls_first_style_and_rewards_of_each_agent():
    env = coopbench_envs.pymarl(GAME, style="pymarl", seed=3, **BATTLE)
    _, state = env.reset()
    assert (state == env.get_state()).all()
    for step in range(6):
        _, terminated, info = env.step(last_legal(env))
        assert terminated == (step == 5)
    assert info["episode_limit"] is True
    own = coopbench_envs.pymarl("pettingzoo:toy_foreign", seed=1, common_reward=False)
    own.reset()
    assert len(own.step([1, 1, 1])[1]) == 3
    mean = coopbench_envs.pymarl("pettingzoo:toy_foreign", seed=1, reward_scalarisation="mean")
    mean.reset()
    own.reset(seed=1)
    assert mean.step([1, 1, 1])[1] == pytest.approx(np.mean(own.step([1, 1, 1])[1]))
    with pytest.raises(ValueError, match=r"has vectors .*allowed: environments with Discrete"):
        coopbench_envs.pymarl("TrustDilemma-v0")


@pytest.mark.parametrize(("control", "size"), [("joint", 27), ("focal", 9)])
def test_masks_are_those_that_maskable_ppo_asks_for(control, size):
    env = gym.make(GAME, control=control, **BATTLE)
    env.reset(seed=1)
    masks = env.get_wrapper_attr("action_masks")()
    assert masks.dtype == np.bool_
    assert masks.shape == (size,)
    with pytest.raises(ValueError, match="no choices to mask"):
        gym.make("coopbench/TrustDilemma-v0").get_wrapper_attr("action_masks")()


def test_rows_are_rendered_as_text_and_filmed_at_the_speed_of_the_game():
    env = coopbench_envs.sb3_vec_env(GAME, 2, render_mode="ansi", **BATTLE)
    env.reset()
    assert env.render().count("step 0: agents 3 of 3") == 2
    assert env.metadata["render_fps"] == gym.make(GAME, **BATTLE).metadata["render_fps"]


@pytest.mark.filterwarnings("ignore:.*not in the possible render_modes")
def test_a_misspelt_render_mode_is_named():
    makers = (
        lambda mode: gym.make(GAME, render_mode=mode, disable_env_checker=True),
        lambda mode: ParallelEnv(GAME, render_mode=mode),
        lambda mode: coopbench_envs.make_vec(GAME, render_mode=mode),
        lambda mode: coopbench_envs.sb3_vec_env(GAME, 1, render_mode=mode),
        lambda mode: coopbench_envs.pymarl(GAME, render_mode=mode),
        coopbench_envs.pymarl(GAME).render,
    )
    for make in makers:
        with pytest.raises(ValueError, match=r"'rgb_aray'.*Did you mean 'rgb_array'"):
            make("rgb_aray")
    with pytest.raises(ValueError, match=r"Unknown render_mode \[\]"):
        coopbench_envs.make_vec(GAME, render_mode=[])


def test_a_step_of_nobody_after_the_end_returns_nothing():
    env = ParallelEnv(GAME, **BATTLE)
    env.reset(seed=1)
    while env.agents:
        env.step(dict.fromkeys(env.agents, 0))
    assert env.step({}) == ({}, {}, {}, {}, {})
    with pytest.raises(RuntimeError, match="The episode is over"):
        env.step({"marine_0": 0})
