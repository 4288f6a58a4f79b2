"""Team: discrete toys for the tests of cooperative learners, games with known answers.

One or two members with up to three choices earn one common reward. ``rule`` says which game it is.
"""

from typing import Annotated, NamedTuple

import numpy as np
from gymnasium.spaces import Box, Discrete

from coopbench_envs.core import EnvSpec, Kernels, integer, kernel
from coopbench_envs.layouts import consecutive
from coopbench_envs.parameters import between
from coopbench_envs.states import array, state

CHOICES = 3
# One step of a matrix; two steps; a cue that is asked for in the last step; 1 in every step; a
# member that falls after its first step, whose choice pays in the last one.
MATRIX, TWO_STEPS, CUE, PAY, FALL = range(5)
PENALTY = ((8.0, -12.0, -12.0), (-12.0, 0.0, 0.0), (-12.0, 0.0, 0.0))
MONOTONE = ((1.0, 2.0, 3.0), (2.0, 4.0, 6.0), (3.0, 6.0, 9.0))
CLIMBING = ((11.0, -30.0, 0.0), (-30.0, 7.0, 6.0), (0.0, 0.0, 5.0))  # Claus & Boutilier 1998
MATRICES = (PENALTY, MONOTONE, CLIMBING)
LAST = ((0.0, 1.0), (1.0, 8.0))  # of two steps, where the first was choice 1 of member 0; else 7


class Params(NamedTuple):
    rule: Annotated[int, between(0, 4, "which game")] = MATRIX
    matrix: Annotated[int, between(0, 2, "number of the matrix")] = 0
    limited: Annotated[int, between(0, 1, "the last choice is illegal")] = 0
    num_agents: Annotated[int, between(1, 2, "members; one alone makes both choices")] = 2
    horizon: Annotated[int, between(1, 100, "steps")] = 8


class Constants(NamedTuple):
    rule: int
    limited: int
    num_agents: int
    horizon: int
    matrix: np.ndarray
    last: np.ndarray


State = state(
    __name__,
    step=array("steps so far", dtype=np.int64, start=0),
    stage=array("0, and 1 or 2 after the first step", dtype=np.int64, start=0),
    cue=array("0 or 1", dtype=np.int64),
)


def constants(p):
    matrix = np.array(MATRICES[p.matrix])
    return Constants(p.rule, p.limited, p.num_agents, p.horizon, matrix, np.array(LAST))


@kernel
def reset(c, s, i, rng):
    s.cue[i] = integer(rng, i, 2)


@kernel
def step(c, s, i, rng, actions, rewards, terminated):
    first, second, pay, over = actions[i, 0], actions[i, c.num_agents - 1], 0.0, False
    s.step[i] += 1
    final = s.step[i] >= c.horizon
    if c.rule == MATRIX:
        pay, over = c.matrix[first, second], True
    elif c.rule == TWO_STEPS:
        if s.stage[i] == 0:
            s.stage[i] = 1 + first
        else:
            pay = 7.0 if s.stage[i] == 1 else c.last[first, second]
            over = True
    elif c.rule == CUE:
        pay = 1.0 if final and first == s.cue[i] and second == s.cue[i] else 0.0
        over = final
    elif c.rule == PAY:
        pay = 1.0
    else:
        if s.stage[i] == 0:
            s.stage[i] = 1 + second
        pay = 1.0 if final and s.stage[i] == 2 else 0.0
        over = final
    for a in range(c.num_agents):
        rewards[i, a] = pay
        terminated[i, a] = over


@kernel
def present(c, s, i, alive):
    alive[i, 0] = True
    if c.num_agents > 1:
        alive[i, 1] = c.rule != FALL or s.step[i] == 0


@kernel
def mask(c, s, i, masks):
    for a in range(c.num_agents):
        masks[i, a, 0] = 1
        masks[i, a, 1] = 1
        masks[i, a, 2] = c.rule == MATRIX and c.limited == 0


@kernel
def observe(c, s, i, obs):
    for a in range(c.num_agents):
        for k in range(3):
            obs[i, a, k] = 1.0 if s.stage[i] == k and c.rule != FALL else 0.0
        obs[i, a, 3] = 2.0 * s.cue[i] - 1.0 if c.rule == CUE and s.step[i] == 0 else 0.0
        obs[i, a, 4] = s.step[i] / c.horizon


@kernel
def measure(c, s, i, measures):
    measures[i, 0] = s.stage[i]


SPEC = EnvSpec(
    id="test/Team-v0",
    module=__name__,
    kernels=Kernels(State, step, observe, measure, reset, mask=mask, present=present),
    params=Params,
    constants=constants,
    agents=lambda c: tuple(f"member_{a}" for a in range(c.num_agents)),
    observation_space=lambda c, a: Box(-1, 1, (5,), np.float32),
    action_space=lambda c, a: Discrete(CHOICES),
    layout=lambda c: consecutive({"stage": 3, "cue": 1, "step": 1}),
    metrics={"stage": "what the first step led to"},
    common_reward=True,
)
