"""caves_cont: caves along the contours of smooth noise, drawn anew for every episode.

Source: CAMAR, map ``caves_cont``.
"""

import math
from functools import partial
from typing import Annotated, NamedTuple

import numpy as np

from coopbench_envs.core import routine, subroutine, uniform
from coopbench_envs.parameters import Allowed, between
from coopbench_envs.pathfinding.maps.common import (
    Generator,
    Map,
    build,
    cell_centres,
    deal,
    disc_radii,
    draw_all_radii,
    obstacle_instances,
    sides,
    up_to,
)
from coopbench_envs.pathfinding.maps.mazes import AgentRad, GoalRad, LandmarkRad

NAME = "map 'caves_cont'"


class Params(NamedTuple):
    """Parameters of the map; every field can be given in ``map_params``."""

    num_rows: Annotated[int, between(2, 1000, "cells along y")] = 128
    num_cols: Annotated[int, between(2, 1000, "cells along x")] = 128
    scale: Annotated[float, between(1, 1000, "cells per mesh of the noise")] = 14.0
    landmark_low_ratio: Annotated[
        float, between(0, 1, "share of cells whose noise is below that of the walls")
    ] = 0.55
    landmark_high_ratio: Annotated[
        float, between(0, 1, "share of cells whose noise is not above that of the walls")
    ] = 0.72
    free_ratio: Annotated[
        float, between(0, 1, "share of cells, lowest in noise, in which agents and goals start")
    ] = 0.2
    add_borders: Annotated[bool, Allowed("walls around the world")] = True
    landmark_rad: LandmarkRad = 0.05
    agent_rad_range: AgentRad = (0.1, 0.1)
    goal_rad_range: GoalRad = None


def make_map(p: Params, num_agents: int) -> Map:
    """Return the map for these parameters, which are checked against each other.

    Raises:
        ValueError: ratios are not in order, meshes do not fit, or the cells do not suffice.
    """
    cells = p.num_rows * p.num_cols
    if not p.free_ratio <= p.landmark_low_ratio <= p.landmark_high_ratio:
        raise ValueError(
            f"Parameters of {NAME} were free_ratio={p.free_ratio:g}, landmark_low_ratio="
            f"{p.landmark_low_ratio:g}, landmark_high_ratio={p.landmark_high_ratio:g}; allowed: "
            f"free_ratio <= landmark_low_ratio <= landmark_high_ratio."
        )
    if p.scale > min(p.num_rows, p.num_cols):
        raise ValueError(
            f"Parameter 'scale' of {NAME} was {p.scale:g}; allowed: <= "
            f"{min(p.num_rows, p.num_cols)}, so that the map holds one mesh of the noise."
        )
    free = int(p.free_ratio * cells)
    if free < num_agents:
        raise ValueError(
            f"{NAME} has {free} free cells of {cells} with free_ratio={p.free_ratio:g}; num_agents "
            f"was {num_agents}; allowed: {up_to(free)}more free cells."
        )
    cell = 2 * p.landmark_rad
    width, height = p.num_cols * cell, p.num_rows * cell
    top, right, bottom, left = sides(width, height, p.num_cols, p.num_rows)
    border = np.concatenate([top, right, left, bottom])[: None if p.add_borders else 0]
    first = int(p.landmark_low_ratio * cells)
    walls = int(p.landmark_high_ratio * cells) - first
    return Map(
        centres=cell_centres(p.num_rows, p.num_cols, cell),
        columns=p.num_cols,
        num_free=free,
        num_landmarks=walls + len(border),
        landmark_rad=p.landmark_rad,
        **disc_radii(p.agent_rad_range, p.goal_rad_range, p.landmark_rad, NAME),
        width=width,
        height=height,
        num_obstacles=walls,
        outline=np.zeros((1, 2)),
        border=border,
        waves_x=int(p.num_cols / p.scale),
        waves_y=int(p.num_rows / p.scale),
        first_wall=first,
    )


@routine
def place(c, s, i, rng):
    """Draw an instance from noise: walls at middle ranks, agents and goals at the lowest."""
    draw_slopes(s.slopes, i, rng)
    deck, noise, cells = s.deck, s.noise, s.noise.shape[1]
    for k in range(cells):
        deck[i, k] = k
        row = k // c.map.columns
        u = (k - row * c.map.columns) * (c.map.waves_x / c.map.columns)
        v = row * (c.map.waves_y * c.map.columns / cells)
        noise[i, k] = abs(perlin(s.slopes, i, c.map.waves_y + 1, u, v))
    walls, beyond = c.map.first_wall, c.map.first_wall + c.map.num_obstacles
    select(deck, noise, i, 0, cells, c.map.num_free)
    select(deck, noise, i, c.map.num_free, cells, walls)
    select(deck, noise, i, walls, cells, beyond)
    for k in range(walls, beyond):
        noise[i, deck[i, k]] = -1.0
    for k in range(cells):  # walls in the order of their cells
        if noise[i, k] < 0.0:
            deck[i, walls] = k
            walls += 1
    build(s.landmark_pos, deck, i, c.map.first_wall, c.map.centres, c.map.outline, c.map.border)
    settle(s.agent_pos, deck, i, c.map.num_free, c.map.centres, rng)
    settle(s.goal_pos, deck, i, c.map.num_free, c.map.centres, rng)
    draw_all_radii(c, s, i, rng)


@subroutine
def settle(places, deck, i, free, centres, rng):
    """Write the centres of distinct cells among the first ``free`` ones of the deck."""
    deal(deck, i, free, places.shape[1], rng)
    for a in range(places.shape[1]):
        places[i, a, 0] = centres[deck[i, a], 0]
        places[i, a, 1] = centres[deck[i, a], 1]


@subroutine
def draw_slopes(slopes, i, rng):
    """Draw uniform directions: points in the unit disc, divided by their length.

    Unlike cosines of an angle, they are bit-identical on every machine.
    """
    for node in range(slopes.shape[1]):
        x, y, square = 0.0, 0.0, 0.0
        while not 1e-6 < square <= 1.0:
            x = 2.0 * uniform(rng, i) - 1.0
            y = 2.0 * uniform(rng, i) - 1.0
            square = x * x + y * y
        slopes[i, node, 0] = x / math.sqrt(square)
        slopes[i, node, 1] = y / math.sqrt(square)


@subroutine
def perlin(slopes, i, nodes, u, v):
    """Return Perlin noise at (u, v), interpolated between the slopes of the four nodes around."""
    column, row = int(u), int(v)
    x, y, node = u - column, v - row, column * nodes + row
    f, g = fade(x), fade(y)
    low = slopes[i, node, 0] * x + slopes[i, node, 1] * y
    high = slopes[i, node + nodes, 0] * (x - 1.0) + slopes[i, node + nodes, 1] * y
    near = low + f * (high - low)
    low = slopes[i, node + 1, 0] * x + slopes[i, node + 1, 1] * (y - 1.0)
    high = slopes[i, node + nodes + 1, 0] * (x - 1.0) + slopes[i, node + nodes + 1, 1] * (y - 1.0)
    return near + g * (low + f * (high - low) - near)


@routine
def fade(t):
    """Return the smooth step 6 t^5 - 15 t^4 + 10 t^3."""
    return t * t * t * (t * (6.0 * t - 15.0) + 10.0)


@subroutine
def select(deck, noise, i, first, beyond, k):
    """Reorder deck[first:beyond] so that the cells before ``k`` are the lowest (quickselect)."""
    last = beyond - 1
    while first < last and k < beyond:
        pivot = deck[i, k]
        left, right = first, last
        while left <= right:
            while below(noise, i, deck[i, left], pivot):
                left += 1
            while below(noise, i, pivot, deck[i, right]):
                right -= 1
            if left <= right:
                deck[i, left], deck[i, right] = deck[i, right], deck[i, left]
                left += 1
                right -= 1
        if right < k:
            first = left
        if k < left:
            last = right


@routine
def below(noise, i, one, other):
    """Return whether cell ``one`` is lower than ``other``: by noise, then by number."""
    if noise[i, one] == noise[i, other]:
        return one < other
    return noise[i, one] < noise[i, other]


MAP = Generator(Params, make_map, place, partial(obstacle_instances, where=NAME))
