"""Squads: discrete toys for the tests, with teams that are drawn and agents that fall.

Each agent has health; who works earns and may lose some of it, and who has none left has fallen.
The first two always take part, the others are drawn. Every lane has its own limit of steps. In
Squad the team earns one reward, in Freelancers everybody their own; Freelancers has no global
state of its own.
"""

from dataclasses import replace
from typing import Annotated, NamedTuple

import numpy as np
from gymnasium.spaces import Box, Discrete

from coopbench_envs.core import EnvSpec, Kernels, integer, kernel, uniform
from coopbench_envs.layouts import consecutive
from coopbench_envs.parameters import between
from coopbench_envs.states import array, state

REST, WORK, HURRY = range(3)


class Params(NamedTuple):
    num_agents: Annotated[int, between(2, 8, "largest team")] = 4
    horizon: Annotated[int, between(1, 1000, "steps, at most")] = 12
    goal: Annotated[int, between(1, 1000, "work after which all is done")] = 14


State = state(
    __name__,
    limit=array("steps of this episode", dtype=np.int64),
    work=array("done so far", dtype=np.int64, start=0),
    health=array("0 for one that has fallen or was not drawn", "num_agents", dtype=np.int64),
)


@kernel
def reset(p, s, i, rng):
    s.limit[i] = 4 + integer(rng, i, 2 * p.horizon)
    for a in range(p.num_agents):
        s.health[i, a] = 1 + integer(rng, i, 3)
        if a >= 2 and uniform(rng, i) < 0.5:
            s.health[i, a] = 0


@kernel
def step(p, s, i, rng, actions, rewards, terminated):
    work(p, s, i, rng, actions, rewards)
    total = 0.0
    for a in range(p.num_agents):
        total += rewards[i, a]
    rewards[i, 0] = total
    finish(p, s, i, terminated)


@kernel
def step_apart(p, s, i, rng, actions, rewards, terminated):
    work(p, s, i, rng, actions, rewards)
    finish(p, s, i, terminated)


@kernel
def work(p, s, i, rng, actions, rewards):
    for a in range(p.num_agents):
        done = max(0, actions[i, a])
        rewards[i, a] = 0.25 * done
        s.work[i] += done
        if done > 0 and uniform(rng, i) < 0.3:
            s.health[i, a] -= 1


@kernel
def finish(p, s, i, terminated):
    left = 0
    for a in range(p.num_agents):
        left += s.health[i, a]
    for a in range(p.num_agents):
        terminated[i, a] = left == 0 or s.work[i] >= p.goal


@kernel
def present(p, s, i, alive):
    for a in range(p.num_agents):
        alive[i, a] = s.health[i, a] > 0


@kernel
def late(p, s, i):
    return s.limit[i]


@kernel
def mask(p, s, i, masks):
    for a in range(p.num_agents):
        masks[i, a, REST] = 1
        masks[i, a, WORK] = 1
        masks[i, a, HURRY] = s.health[i, a] > 1


@kernel
def observe(p, s, i, obs):
    for a in range(p.num_agents):
        for b in range(p.num_agents):
            obs[i, a, b] = 1 + s.health[i, (a + b) % p.num_agents]


@kernel
def global_state(p, s, i, out):
    out[i, 0] = s.limit[i]
    out[i, 1] = s.work[i]
    for a in range(p.num_agents):
        out[i, 2 + a] = s.health[i, a]


@kernel
def measure(p, s, i, measures):
    fallen = 0
    for a in range(p.num_agents):
        fallen += s.health[i, a] == 0
    measures[i, 0] = fallen
    measures[i, 1] = s.work[i]


def picture(p, fields, agents):
    image = np.full((16, 16 * len(agents), 3), 255, np.uint8)
    for a, health in enumerate(fields["health"]):
        image[: 4 * int(health) + 2, 16 * a : 16 * a + 12] = 0
    return image


SPEC = EnvSpec(
    id="test/Squad-v0",
    module=__name__,
    kernels=Kernels(
        State,
        step,
        observe,
        measure,
        reset,
        mask=mask,
        global_state=global_state,
        present=present,
        late=late,
    ),
    params=Params,
    constants=lambda p: p,
    agents=lambda p: tuple(f"hand_{a}" for a in range(p.num_agents)),
    observation_space=lambda p, a: Box(0, 4, (p.num_agents,), np.float32),
    action_space=lambda p, a: Discrete(3),
    layout=lambda p: consecutive({"own_health": 1, "others_health": p.num_agents - 1}),
    metrics={"fallen": "agents that have fallen or were not drawn", "work": "done by all"},
    picture=picture,
    text=lambda p, fields, agents: " ".join(
        f"{a}={n}" for a, n in zip(agents, fields["health"], strict=True)
    ),
    global_state_space=lambda p: Box(0, 2000, (2 + p.num_agents,), np.float32),
    common_reward=True,
)
SPEC_FREELANCERS = replace(
    SPEC,
    id="test/Freelancers-v0",
    kernels=SPEC.kernels._replace(step=step_apart, global_state=None),
    global_state_space=None,
    common_reward=False,
)
