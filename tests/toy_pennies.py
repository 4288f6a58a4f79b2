"""Pennies: a discrete toy for the tests, with masks, chance and agents that die one by one.

Each agent holds pennies and each step gives one away, flips one with its neighbour, or waits. An
agent without pennies is dead, but nobody dies in the first four steps. It exists to exercise what
no shipped environment uses yet.
"""

from dataclasses import replace
from typing import Annotated, NamedTuple

import numpy as np
from gymnasium.spaces import Box, Discrete

from coopbench_envs.core import EnvSpec, Kernels, kernel, uniform
from coopbench_envs.layouts import consecutive
from coopbench_envs.parameters import between
from coopbench_envs.states import array, state

WAIT, GIVE, FLIP = range(3)


class Params(NamedTuple):
    num_agents: Annotated[int, between(2, 8, "players")] = 3
    horizon: Annotated[int, between(1, 1000, "steps")] = 12
    pennies: Annotated[int, between(1, 9, "at the start")] = 3


State = state(__name__, pennies=array("what each has", "num_agents", dtype=np.int64))


@kernel
def reset(p, s, i, rng):
    for a in range(p.num_agents):
        s.pennies[i, a] = 1 + int(uniform(rng, i) * p.pennies)


@kernel
def step(p, s, i, rng, actions, rewards, terminated):
    for a in range(p.num_agents):
        other = (a + 1) % p.num_agents
        rewards[i, a] = 0.25 * s.pennies[i, a]
        if actions[i, a] == GIVE and s.pennies[i, a] > 0:
            s.pennies[i, a] -= 1
        elif actions[i, a] == FLIP and s.pennies[i, a] > 0 and s.pennies[i, other] > 0:
            won = uniform(rng, i) < 0.5
            s.pennies[i, a] += 1 if won else -1
            s.pennies[i, other] += -1 if won else 1
    for a in range(p.num_agents):
        terminated[i, a] = s.pennies[i, a] <= 0 and s.time[i] >= 4


@kernel
def mask(p, s, i, masks):
    for a in range(p.num_agents):
        masks[i, a, WAIT] = 1
        masks[i, a, GIVE] = s.pennies[i, a] > 0
        masks[i, a, FLIP] = s.pennies[i, a] > 0 and s.pennies[i, (a + 1) % p.num_agents] > 0


@kernel
def observe(p, s, i, obs):
    for a in range(p.num_agents):
        for b in range(p.num_agents):
            obs[i, a, b] = s.pennies[i, (a + b) % p.num_agents]


@kernel
def measure(p, s, i, measures):
    total = 0
    for a in range(p.num_agents):
        total += s.pennies[i, a]
    measures[i, 0] = total


SPEC = EnvSpec(
    id="test/Pennies-v0",
    module=__name__,
    kernels=Kernels(State, step, observe, measure, reset, mask=mask),
    params=Params,
    constants=lambda p: p,
    agents=lambda p: tuple(f"player_{a}" for a in range(p.num_agents)),
    observation_space=lambda p, a: Box(-1, 9 * p.num_agents, (p.num_agents,), np.float32),
    action_space=lambda p, a: Discrete(3),
    layout=lambda p: consecutive({"own_pennies": 1, "others_pennies": p.num_agents - 1}),
    metrics={"pennies": "held by all at the end"},
)
# The same, and agents are told numbers of their own besides what they see.
TOLD = replace(
    SPEC,
    id="test/PenniesTold-v0",
    info=lambda c, s: {
        "pennies": s.pennies,
        "rich": s.pennies > 2,
        "shares": s.pennies[:, :, None] / np.array([1.0, 2.0]),
    },
)
