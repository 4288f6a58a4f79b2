"""Lift: a continuous toy for the tests of learners; agents carry a beam, and it should be level.

Agent a gives a number out of [0, a + 1]; x is its share of that range, y the share of the agent
behind it. A step earns worth * ((x + y) / 2 - (x - y)**2), at most ``worth``, if all lift with all
their strength. With ``lives``, agent a is terminated at the end of step lives * (a + 1).
"""

from typing import Annotated, NamedTuple

import numpy as np
from gymnasium.spaces import Box

from coopbench_envs.core import EnvSpec, Kernels, kernel
from coopbench_envs.layouts import consecutive
from coopbench_envs.parameters import between
from coopbench_envs.states import array, state


class Params(NamedTuple):
    num_agents: Annotated[int, between(2, 8, "carriers")] = 2
    horizon: Annotated[int, between(1, 1000, "steps")] = 5
    lives: Annotated[int, between(0, 1000, "steps that each agent lives longer, 0: all")] = 0
    worth: Annotated[float, between(0, 1e300, "highest reward")] = 1.0


State = state(__name__, shares=array("last shares, 0 before any", "num_agents", start=0))


@kernel
def step(p, s, i, rng, actions, rewards, terminated):
    for a in range(p.num_agents):
        s.shares[i, a] = actions[i, a, 0] / (a + 1)
    for a in range(p.num_agents):
        x, y = s.shares[i, a], s.shares[i, (a + 1) % p.num_agents]
        rewards[i, a] = p.worth * ((x + y) / 2 - (x - y) ** 2)
        terminated[i, a] = p.lives > 0 and s.time[i] + 1 >= p.lives * (a + 1)


@kernel
def observe(p, s, i, obs):
    for a in range(p.num_agents):
        obs[i, a, 0] = s.time[i]
        obs[i, a, 1] = s.shares[i, a]


@kernel
def measure(p, s, i, measures):
    measures[i, 0] = s.shares[i, 0]


SPEC = EnvSpec(
    id="test/Lift-v0",
    module=__name__,
    kernels=Kernels(State, step, observe, measure),
    params=Params,
    constants=lambda p: p,
    agents=lambda p: tuple(f"carrier_{a}" for a in range(p.num_agents)),
    observation_space=lambda p, a: Box(0, np.array([p.horizon, 1]), (2,), np.float32),
    action_space=lambda p, a: Box(0, a + 1, (1,), np.float32),
    layout=lambda p: consecutive({"time": 1, "own_share": 1}),
    metrics={"share": "last one of the first agent"},
)
