"""random_grid: agents, goals and square obstacles on distinct random cells of a walled rectangle.

Obstacles and walls are drawn as rows of discs along the edges of cells, so that free corridors are
narrower than a cell. Source: CAMAR, map ``random_grid``.
"""

import math
from functools import partial
from typing import Annotated, NamedTuple

import numpy as np

from coopbench_envs.core import routine, subroutine
from coopbench_envs.parameters import between, positive
from coopbench_envs.pathfinding.maps.common import (
    GOAL_SHARE,
    Generator,
    Map,
    Range,
    build,
    deal,
    draw_all_radii,
    obstacle_instances,
    radii,
    sides,
    up_to,
)

NAME = "map 'random_grid'"


class Params(NamedTuple):
    """Parameters of the map; every field can be given in ``map_params``."""

    num_rows: Annotated[int, between(1, 1000, "cells along x")] = 20
    num_cols: Annotated[int, between(1, 1000, "cells along y")] = 20
    obstacle_density: Annotated[float, between(0, 1, "share of cells that are obstacles")] = 0.2
    grain_factor: Annotated[
        int, between(2, 100, "discs along an obstacle's side, including corners")
    ] = 3
    obstacle_size: Annotated[float, positive(1e3, "side of a cell, length")] = 0.4
    agent_rad_range: Annotated[
        Range, between(0, 1e3, "lowest and highest agent radius; none: a quarter of a corridor")
    ] = None
    goal_rad_range: Annotated[
        Range, between(0, 1e3, "lowest and highest goal radius; none: a tenth of a corridor")
    ] = None


def make_map(p: Params, num_agents: int) -> Map:
    """Return the map for these parameters, which are checked against each other.

    Raises:
        ValueError: the cells do not suffice, or a radius would be zero or reversed.
    """
    cells = p.num_rows * p.num_cols
    obstacles = int(p.obstacle_density * p.num_rows * p.num_cols)
    _check_room(p, cells, obstacles, num_agents)
    discs = p.grain_factor - 1
    landmark_rad = p.obstacle_size / (2 * discs)
    corridor = p.obstacle_size - 2 * landmark_rad
    agent = _radii("agent_rad_range", p.agent_rad_range, 0.25 * corridor, p)
    share = GOAL_SHARE if p.agent_rad_range and not p.goal_rad_range else 0.0
    default = 0.1 * corridor if share == 0.0 else share * agent[0]
    goal = _radii("goal_rad_range", p.goal_rad_range, default, p)
    width, height = p.num_rows * p.obstacle_size, p.num_cols * p.obstacle_size
    top, right, bottom, left = sides(width, height, p.num_rows * discs, p.num_cols * discs)
    border = np.concatenate([top, right, left, bottom])  # the published order
    outline = np.concatenate(sides(p.obstacle_size, p.obstacle_size, discs, discs))
    return Map(
        centres=_centres(p, width, height),  # cell = row + num_rows * column, rows along x
        columns=p.num_rows,
        num_free=cells,
        outline=outline,
        border=border,
        num_obstacles=obstacles,
        num_landmarks=obstacles * len(outline) + len(border),
        landmark_rad=landmark_rad,
        agent_rad_low=agent[0],
        agent_rad_high=agent[1],
        goal_rad_low=goal[0],
        goal_rad_high=goal[1],
        goal_share=share,
        width=width,
        height=height,
    )


def _check_room(p: Params, cells: int, obstacles: int, num_agents: int) -> None:
    if obstacles + 2 * num_agents > cells:
        density = math.floor(1e4 * (cells - 2 * num_agents) / cells) / 1e4
        sparser = f"obstacle_density <= {density:g}, or " if density >= 0 else ""
        raise ValueError(
            f"Parameters num_rows={p.num_rows}, num_cols={p.num_cols} of {NAME} give {cells} "
            f"cells, of which obstacle_density={p.obstacle_density:g} makes {obstacles} obstacles; "
            f"num_agents was {num_agents}, and each needs a cell to start on and one for its goal. "
            f"Allowed: {up_to((cells - obstacles) // 2)}{sparser}more rows and columns."
        )


def _radii(name: str, ends: Range, default: float, p: Params) -> tuple[float, float]:
    if ends is None and default <= 0:
        raise ValueError(
            f"Parameter 'grain_factor' of {NAME} was {p.grain_factor}, which leaves a corridor "
            f"of width 0 and a default radius of 0; allowed: >= 3, or give 'agent_rad_range'."
        )
    return radii(name, ends, (default, default), NAME)


def _centres(p: Params, width: float, height: float) -> np.ndarray:
    x = -width / 2 + p.obstacle_size / 2 + p.obstacle_size * np.arange(p.num_rows)
    y = -height / 2 + p.obstacle_size / 2 + p.obstacle_size * np.arange(p.num_cols)
    return np.stack(np.broadcast_arrays(x, y[:, None]), -1).reshape(-1, 2)


@routine
def place(c, s, i, rng):
    """Draw an instance: distinct cells from a shuffled deck for agents, obstacles and goals."""
    goals = c.num_agents + c.map.num_obstacles
    shuffle(s.deck, i, goals + c.num_agents, rng)
    for a in range(c.num_agents):
        for k in range(2):
            s.agent_pos[i, a, k] = c.map.centres[s.deck[i, a], k]
            s.goal_pos[i, a, k] = c.map.centres[s.deck[i, goals + a], k]
    build(s.landmark_pos, s.deck, i, c.num_agents, c.map.centres, c.map.outline, c.map.border)
    draw_all_radii(c, s, i, rng)


@subroutine
def shuffle(deck, i, count, rng):
    """Fill the deck with all cells, ``count`` random ones first (Fisher-Yates)."""
    cells = deck.shape[1]
    for k in range(cells):
        deck[i, k] = k
    deal(deck, i, cells, count, rng)


MAP = Generator(Params, make_map, place, partial(obstacle_instances, where=NAME))
