"""Pair: a continuous toy of two agents with one reward and one best pair of actions.

Each gives a number out of [0, 2] per step; u and v are their shares of that range less the best
ones. A step earns both -(u**2 + v**2 + u * v).
"""

from typing import Annotated, NamedTuple

import numpy as np
from gymnasium.spaces import Box

from coopbench_envs.core import EnvSpec, Kernels, kernel
from coopbench_envs.layouts import consecutive
from coopbench_envs.parameters import between
from coopbench_envs.states import state


class Params(NamedTuple):
    num_agents: Annotated[int, between(2, 2, "agents")] = 2
    horizon: Annotated[int, between(1, 1000, "steps")] = 1


State = state(__name__)


@kernel
def step(p, s, i, rng, actions, rewards, terminated):
    u, v = actions[i, 0, 0] / 2.0 - 0.3, actions[i, 1, 0] / 2.0 - 0.7
    for a in range(2):
        rewards[i, a] = -(u * u + v * v + u * v)


@kernel
def observe(p, s, i, obs):
    for a in range(2):
        obs[i, a, 0] = 1.0


@kernel
def measure(p, s, i, measures):
    measures[i, 0] = s.time[i]


SPEC = EnvSpec(
    id="test/Pair-v0",
    module=__name__,
    kernels=Kernels(State, step, observe, measure),
    params=Params,
    constants=lambda p: p,
    agents=lambda p: ("left", "right"),
    observation_space=lambda p, a: Box(0, 1, (1,), np.float32),
    action_space=lambda p, a: Box(0, 2, (1,), np.float32),
    layout=lambda p: consecutive({"one": 1}),
    metrics={"time": "steps so far"},
    common_reward=True,
)
