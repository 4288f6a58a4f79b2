"""A public good whose players drop out when they are broke, compiled and in plain NumPy."""

from typing import Annotated, NamedTuple

import numpy as np
from gymnasium.spaces import Box

from coopbench_envs.batches import BatchKernels, uniforms
from coopbench_envs.core import EnvSpec, Kernels, kernel, per_agent, uniform
from coopbench_envs.layouts import consecutive
from coopbench_envs.parameters import between
from coopbench_envs.states import array, state


class Params(NamedTuple):
    num_agents: Annotated[int, between(2, 8, "players")] = 3
    horizon: Annotated[int, between(1, 100, "steps of an episode")] = 12


State = state(
    __name__,
    factor=array("worth of what is given"),
    wealth=array("what players have", "num_agents", start=2.0),
    pool=array("what was given in this step", scratch=True),
)


@kernel
def reset(c, s, i, rng):
    s.factor[i] = 1.0 + uniform(rng, i)


@kernel
def prepare(c, s, i):
    s.pool[i] = 0.0


@per_agent
def give(c, s, i, a, rng, actions, rewards, terminated):
    given = min(max(actions[i, a, 0], 0.0), 1.0) if s.wealth[i, a] > 0.0 else 0.0
    s.pool[i] = (0.0 if a == 0 else s.pool[i]) + given
    rewards[i, a] = -given


@per_agent
def share(c, s, i, a, rng, actions, rewards, terminated):
    lives = s.wealth[i, a] > 0.0
    rewards[i, a] += s.pool[i] * s.factor[i] / c.num_agents if lives else 0.0
    s.wealth[i, a] += rewards[i, a] - (0.4 if lives else 0.0)
    terminated[i, a] = s.wealth[i, a] <= 0.0


@kernel
def observe(c, s, i, obs):
    for a in range(c.num_agents):
        obs[i, a, 0] = s.wealth[i, a]


@kernel
def measure(c, s, i, measures):
    measures[i, 0] = s.factor[i]


def reset_all(c, s, i, rng):
    s.factor[i] = 1.0 + uniforms(rng, i)[:, 0]


def prepare_all(c, s, i):
    s.pool[i] = 0.0


def step_all(c, s, i, rng, actions, rewards, terminated):
    lives = s.wealth[i] > 0.0
    given = np.where(lives, actions[i, :, 0].clip(0.0, 1.0), 0.0)
    s.pool[i] = given.sum(axis=1)
    earned = np.where(lives, (s.pool[i] * s.factor[i] / c.num_agents)[:, None], 0.0) - given
    wealth = s.wealth[i]
    wealth[:] += earned - np.where(lives, 0.4, 0.0)
    s.wealth[i] = wealth
    rewards[i], terminated[i] = earned, wealth <= 0.0


def observe_all(c, s, i, obs):
    obs[i, :, 0] = s.wealth[i]


def measure_all(c, s, i, measures):
    measures[i, 0] = s.factor[i]


def described(env_id, kernels):
    return EnvSpec(
        id=env_id,
        module=__name__,
        kernels=kernels,
        params=Params,
        constants=lambda p: p,
        agents=lambda c: tuple(f"player_{a}" for a in range(c.num_agents)),
        observation_space=lambda c, a: Box(-100, 100, (1,), np.float32),
        action_space=lambda c, a: Box(0, 1, (1,), np.float32),
        layout=lambda c: consecutive({"wealth": 1}),
        metrics={"factor": "worth of what is given"},
    )


COMPILED = Kernels(State, (give, share), observe, measure, reset, prepare)
NUMPY = BatchKernels(State, step_all, observe_all, measure_all, reset_all, prepare_all)
SPEC = described("test/Ration-v0", COMPILED)
SPEC_NUMPY = described("test/RationNumPy-v0", NUMPY)
