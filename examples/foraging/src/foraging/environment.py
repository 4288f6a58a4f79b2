"""Foraging: agents on a grid collect food that only enough of them together can lift.

After Level-Based Foraging (Albrecht & Ramamoorthy 2013; Papoudakis et al. 2021): agents and food
have levels, and agents beside a piece lift it if their levels add up to at least its own.
"""

from typing import Annotated, NamedTuple

import numpy as np
from gymnasium.spaces import Box, Discrete

from coopbench_envs.core import EnvSpec, Kernels, integer, kernel
from coopbench_envs.layouts import consecutive
from coopbench_envs.parameters import between
from coopbench_envs.scenes import Grid
from coopbench_envs.states import array, state

STAY, NORTH, SOUTH, WEST, EAST, LIFT = range(6)


class Params(NamedTuple):
    """Parameters of one task."""

    num_agents: Annotated[int, between(1, 10, "agents")] = 2
    size: Annotated[int, between(5, 50, "rows and columns")] = 5
    foods: Annotated[int, between(1, 10, "pieces of food")] = 2
    max_level: Annotated[int, between(1, 9, "highest level of an agent")] = 2
    horizon: Annotated[int, between(1, 10_000, "steps of an episode")] = 25


State = state(
    __name__,
    place=array("row and column of every agent", "num_agents", 2, dtype=np.int64),
    level=array("levels of agents", "num_agents", dtype=np.int64),
    food_place=array("row and column of every piece", "foods", 2, dtype=np.int64),
    food=array("level of every piece, 0 once it is eaten", "foods", dtype=np.int64),
    total=array("sum of all levels of food at the start", dtype=np.int64),
    eaten=array("sum of the levels that are eaten", dtype=np.int64, start=0),
)


@kernel
def taken(s, i, row, column, agents, foods):
    """Return whether one of the first agents or pieces of food is in a cell."""
    for a in range(agents):
        if s.place[i, a, 0] == row and s.place[i, a, 1] == column:
            return True
    for f in range(foods):
        if s.food[i, f] > 0 and s.food_place[i, f, 0] == row and s.food_place[i, f, 1] == column:
            return True
    return False


@kernel
def reset(c, s, i, rng):
    s.total[i] = 0
    for f in range(c.foods):
        s.food[i, f] = 0
    for a in range(c.num_agents):
        s.level[i, a] = 1 + integer(rng, i, c.max_level)
        row, column = integer(rng, i, c.size), integer(rng, i, c.size)
        while taken(s, i, row, column, a, 0):
            row, column = integer(rng, i, c.size), integer(rng, i, c.size)
        s.place[i, a, 0], s.place[i, a, 1] = row, column
    strength = 0
    for a in range(c.num_agents):
        strength += s.level[i, a]
    for f in range(c.foods):
        row, column = integer(rng, i, c.size), integer(rng, i, c.size)
        while taken(s, i, row, column, c.num_agents, f):
            row, column = integer(rng, i, c.size), integer(rng, i, c.size)
        s.food_place[i, f, 0], s.food_place[i, f, 1] = row, column
        s.food[i, f] = 1 + integer(rng, i, strength)  # all together can lift it
        s.total[i] += s.food[i, f]


@kernel
def lifts(s, i, actions, a, f):
    """Return whether an agent lifts a piece of food that lies beside it."""
    rows = abs(s.place[i, a, 0] - s.food_place[i, f, 0])
    return actions[i, a] == LIFT and rows + abs(s.place[i, a, 1] - s.food_place[i, f, 1]) == 1


@kernel
def step(c, s, i, rng, actions, rewards, terminated):
    for a in range(c.num_agents):
        rewards[i, a] = 0.0
        k = actions[i, a]  # -1, after an illegal choice, is none of them
        row = s.place[i, a, 0] + (k == SOUTH) - (k == NORTH)
        column = s.place[i, a, 1] + (k == EAST) - (k == WEST)
        inside = 0 <= row < c.size and 0 <= column < c.size
        if inside and not taken(s, i, row, column, c.num_agents, c.foods):
            s.place[i, a, 0], s.place[i, a, 1] = row, column
    left = 0
    for f in range(c.foods):
        strength = 0
        for a in range(c.num_agents):
            if lifts(s, i, actions, a, f):
                strength += s.level[i, a]
        if s.food[i, f] > 0 and strength >= s.food[i, f]:
            for a in range(c.num_agents):
                if lifts(s, i, actions, a, f):
                    share = s.level[i, a] / strength
                    rewards[i, a] += share * s.food[i, f] / s.total[i]
            s.eaten[i] += s.food[i, f]
            s.food[i, f] = 0
        left += s.food[i, f] > 0
    for a in range(c.num_agents):
        terminated[i, a] = left == 0


@kernel
def observe(c, s, i, obs):
    for a in range(c.num_agents):
        row, column = s.place[i, a, 0], s.place[i, a, 1]
        for b in range(c.num_agents):  # itself first, and the others relative to it
            other = (a + b) % c.num_agents
            obs[i, a, 3 * b] = (s.place[i, other, 0] - (b > 0) * row) / c.size
            obs[i, a, 3 * b + 1] = (s.place[i, other, 1] - (b > 0) * column) / c.size
            obs[i, a, 3 * b + 2] = s.level[i, other] / c.max_level
        for f in range(c.foods):  # zeros where it is eaten
            first, there = 3 * (c.num_agents + f), s.food[i, f] > 0
            obs[i, a, first] = there * (s.food_place[i, f, 0] - row) / c.size
            obs[i, a, first + 1] = there * (s.food_place[i, f, 1] - column) / c.size
            obs[i, a, first + 2] = s.food[i, f] / (c.num_agents * c.max_level)


@kernel
def measure(c, s, i, measures):
    measures[i, 0] = s.eaten[i] / s.total[i]


def scene(c, s, i):
    """Return one lane as the player of recordings draws it: levels are written on everything."""
    there = s.food[i][:, None] > 0
    return Grid(
        ground=np.zeros((c.size, c.size), int),
        grounds=("floor",),
        places=s.place[i],
        things=np.where(there, s.food_place[i], -1),
        kinds=("food",) * c.foods,
        numbers=np.concatenate([s.level[i], s.food[i]]),
    )


SPEC = EnvSpec(
    id="example/Foraging-v0",
    module=__name__,
    kernels=Kernels(State, step, observe, measure, reset=reset),
    params=Params,
    constants=lambda p: p,
    agents=lambda c: tuple(f"forager_{a}" for a in range(c.num_agents)),
    observation_space=lambda c, a: Box(-1, 1, (3 * (c.num_agents + c.foods),), np.float32),
    action_space=lambda c, a: Discrete(6),
    layout=lambda c: consecutive({"agents": (c.num_agents, 3), "foods": (c.foods, 3)}),
    metrics={"eaten": "share of the levels of all food that was eaten, in [0, 1]"},
    scene=scene,
    source="Albrecht & Ramamoorthy 2013; Papoudakis et al. 2021, Level-Based Foraging",
)
