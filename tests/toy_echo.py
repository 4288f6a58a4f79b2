"""Echo: a continuous toy for the tests of learners, with optima that are known.

An actor gives a number out of [0, 5] per step; x is its share of that range. A step earns
base - weight * (x - wanted)**2. What is wanted is the target or, with ``memory``, what a partner
did in the step before, 0 or 1 at random, which the last feature of the observation shows; if it is
``late``, what that did one step earlier still. All are terminated after ``last`` steps, if that is
not 0.
"""

from typing import Annotated, NamedTuple

import numpy as np
from gymnasium.spaces import Box

from coopbench_envs.core import EnvSpec, Kernels, kernel, uniform
from coopbench_envs.layouts import consecutive
from coopbench_envs.parameters import Allowed, between
from coopbench_envs.states import array, state


class Params(NamedTuple):
    num_agents: Annotated[int, between(1, 8, "actors")] = 1
    horizon: Annotated[int, between(1, 1000, "steps")] = 1
    last: Annotated[int, between(0, 1000, "step that terminates all, 0: none")] = 0
    base: Annotated[float, between(-100, 100, "reward of the best action")] = 0.0
    weight: Annotated[float, between(0, 100, "of the squared distance")] = 1.0
    target: Annotated[float, between(0, 1, "best share of the range")] = 0.3
    memory: Annotated[bool, Allowed("the partner's last action is wanted instead")] = False
    late: Annotated[bool, Allowed("and of these the one before the last")] = False


State = state(
    __name__,
    partner=array("last action of the partner, 0 or 1"),
    earlier=array("the one before", start=0),
)


@kernel
def reset(p, s, i, rng):
    if p.late:
        s.earlier[i] = 1.0 if uniform(rng, i) < 0.5 else 0.0
    s.partner[i] = 1.0 if uniform(rng, i) < 0.5 else 0.0


@kernel
def step(p, s, i, rng, actions, rewards, terminated):
    asked = s.earlier[i] if p.late else s.partner[i]
    wanted = asked if p.memory else p.target
    for a in range(p.num_agents):
        rewards[i, a] = p.base - p.weight * (actions[i, a, 0] / 5.0 - wanted) ** 2
        terminated[i, a] = p.last > 0 and s.time[i] + 1 >= p.last
    s.earlier[i] = s.partner[i]
    s.partner[i] = 1.0 if uniform(rng, i) < 0.5 else 0.0


@kernel
def observe(p, s, i, obs):
    for a in range(p.num_agents):
        obs[i, a, 0] = 1.0
        obs[i, a, 1] = s.partner[i]


@kernel
def measure(p, s, i, measures):
    measures[i, 0] = s.partner[i]


SPEC = EnvSpec(
    id="test/Echo-v0",
    module=__name__,
    kernels=Kernels(State, step, observe, measure, reset),
    params=Params,
    constants=lambda p: p,
    agents=lambda p: tuple(f"actor_{a}" for a in range(p.num_agents)),
    observation_space=lambda p, a: Box(0, 1, (2,), np.float32),
    action_space=lambda p, a: Box(0, 5, (1,), np.float32),
    layout=lambda p: consecutive({"one": 1, "partner": 1}),
    metrics={"partner": "its last action"},
)
