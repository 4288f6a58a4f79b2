"""random_grid: agents, goals and square obstacles on distinct random cells of a walled rectangle.

Obstacles and walls are drawn as rows of discs along the edges of cells, so that free corridors are
narrower than a cell. Source: CAMAR, map ``random_grid``.
"""

import math
from collections.abc import Mapping
from typing import Annotated, Any, NamedTuple

import numpy as np

from coopbench_envs.core import integer, routine, uniform
from coopbench_envs.parameters import between

NAME = "map 'random_grid'"
GOAL_SHARE = 1 / 2.5  # goal radius per agent radius, where only a range of agent radii is given

Range = tuple[float, ...] | None


class Params(NamedTuple):
    """Parameters of the map; every field can be given in ``map_params``."""

    num_rows: Annotated[int, between(1, 1000, "cells along x")] = 20
    num_cols: Annotated[int, between(1, 1000, "cells along y")] = 20
    obstacle_density: Annotated[float, between(0, 1, "share of cells that are obstacles")] = 0.2
    grain_factor: Annotated[int, between(2, 100, "discs along an obstacle's side, corners too")] = 3
    obstacle_size: Annotated[float, between(0, 1e3, "side of a cell, length", above=True)] = 0.4
    agent_rad_range: Annotated[
        Range, between(0, 1e3, "lowest and highest agent radius; none: a quarter of a corridor")
    ] = None
    goal_rad_range: Annotated[
        Range, between(0, 1e3, "lowest and highest goal radius; none: a tenth of a corridor")
    ] = None


class Map(NamedTuple):
    """What the kernels read of a map; the origin of the world is in its middle."""

    centres: np.ndarray  # (cells, 2); cell = row + num_rows * column, rows along x
    outline: np.ndarray  # (discs, 2) discs of one obstacle relative to its centre
    border: np.ndarray  # (discs, 2) discs of the walls around the world
    num_obstacles: int
    num_landmarks: int
    landmark_rad: float
    agent_rad_low: float
    agent_rad_high: float
    goal_rad_low: float
    goal_rad_high: float
    goal_share: float  # > 0: goal radii follow the agents' instead of their own range
    width: float  # extent along x
    height: float  # extent along y


def make_map(p: Params, num_agents: int) -> Map:
    """Check the parameters against each other and derive what the kernels read.

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
    own = 0.1 * corridor if share == 0.0 else share * agent[0]
    goal = _radii("goal_rad_range", p.goal_rad_range, own, p)
    width, height = p.num_rows * p.obstacle_size, p.num_cols * p.obstacle_size
    top, right, bottom, left = _sides(width, height, p.num_rows * discs, p.num_cols * discs)
    border = np.concatenate([top, right, left, bottom])  # the published order
    outline = np.concatenate(_sides(p.obstacle_size, p.obstacle_size, discs, discs))
    return Map(
        centres=_centres(p, width, height),
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
        density = math.floor(1e4 * max(0, cells - 2 * num_agents) / cells) / 1e4
        raise ValueError(
            f"Parameters num_rows={p.num_rows}, num_cols={p.num_cols} of {NAME} give {cells} "
            f"cells, of which obstacle_density={p.obstacle_density:g} makes {obstacles} obstacles; "
            f"num_agents was {num_agents}, and each needs a cell to start on and one for its goal. "
            f"Allowed: num_agents <= {(cells - obstacles) // 2}, or obstacle_density <= "
            f"{density:g}, or more rows and columns."
        )


def _radii(name: str, given: Range, default: float, p: Params) -> tuple[float, float]:
    if given is None:
        if default <= 0:
            raise ValueError(
                f"Parameter 'grain_factor' of {NAME} was {p.grain_factor}, which leaves a corridor "
                f"of width 0 and a default radius of 0; allowed: >= 3, or give 'agent_rad_range'."
            )
        return default, default
    if len(given) != 2 or not 0 < given[0] <= given[1] < np.inf:
        raise ValueError(
            f"Parameter {name!r} of {NAME} was {given!r}; allowed: two numbers (low, high) with "
            f"0 < low <= high."
        )
    return given[0], given[1]


def _centres(p: Params, width: float, height: float) -> np.ndarray:
    x = -width / 2 + p.obstacle_size / 2 + p.obstacle_size * np.arange(p.num_rows)
    y = -height / 2 + p.obstacle_size / 2 + p.obstacle_size * np.arange(p.num_cols)
    return np.stack(np.broadcast_arrays(x, y[:, None]), -1).reshape(-1, 2)


def _sides(width: float, height: float, along_x: int, along_y: int) -> list[np.ndarray]:
    """Points clockwise on the top, right, bottom and left of a rectangle; far ends excluded."""
    x = -width / 2 + width / along_x * np.arange(along_x)
    y = -height / 2 + height / along_y * np.arange(along_y)
    top = np.stack([x, np.full(along_x, height / 2)], -1)
    right = np.stack([np.full(along_y, width / 2), -y], -1)
    bottom = np.stack([-x, np.full(along_x, -height / 2)], -1)
    left = np.stack([np.full(along_y, -width / 2), y], -1)
    return [top, right, bottom, left]


@routine
def place(c, s, i, rng):
    """Draw an instance: distinct cells from a shuffled deck for agents, obstacles and goals."""
    goals = c.num_agents + c.num_obstacles
    shuffle(s.deck, i, goals + c.num_agents, rng)
    for a in range(c.num_agents):
        for k in range(2):
            s.agent_pos[i, a, k] = c.centres[s.deck[i, a], k]
            s.goal_pos[i, a, k] = c.centres[s.deck[i, goals + a], k]
    build(s.landmark_pos, s.deck, i, c.num_agents, c.centres, c.outline, c.border)
    draw_radii(s.agent_rad, i, c.agent_rad_low, c.agent_rad_high, rng)
    draw_radii(s.goal_rad, i, c.goal_rad_low, c.goal_rad_high, rng)
    if c.goal_share > 0.0:
        for a in range(c.num_agents):
            s.goal_rad[i, a] = c.goal_share * s.agent_rad[i, a]


@routine
def shuffle(deck, i, count, rng):
    """Make the first ``count`` entries a random choice without repetition (Fisher-Yates)."""
    cells = deck.shape[1]
    for k in range(cells):
        deck[i, k] = k
    for k in range(count):
        other = k + integer(rng, i, cells - k)
        deck[i, k], deck[i, other] = deck[i, other], deck[i, k]


@routine
def build(landmark_pos, deck, i, first, centres, outline, border):
    """Put discs around the obstacle cells, which stand in the deck from ``first`` on, and walls."""
    walls = landmark_pos.shape[1] - border.shape[0]
    obstacles = walls // outline.shape[0]
    for p in range(outline.shape[0]):
        for o in range(obstacles):
            for k in range(2):
                centre = centres[deck[i, first + o], k]
                landmark_pos[i, p * obstacles + o, k] = centre + outline[p, k]
    for b in range(border.shape[0]):
        for k in range(2):
            landmark_pos[i, walls + b, k] = border[b, k]


@routine
def draw_radii(radii, i, low, high, rng):
    """Draw radii from a range; a range without width uses no random number."""
    for a in range(radii.shape[1]):
        radii[i, a] = low
        if low < high:
            radii[i, a] = low + (high - low) * uniform(rng, i)


def instances(m: Any, arrays: Mapping[str, Any]) -> dict[str, np.ndarray]:
    """Turn cell indices into the state fields that ``place`` would have written.

    Args:
        m: Constants with ``num_agents`` and the fields of ``Map``.
        arrays: ``agent_cell`` and ``goal_cell`` (episodes, agents), ``obstacle_cell`` (episodes,
            obstacles), integers; ``agent_rad`` and ``goal_rad`` (episodes, agents) where the map
            draws radii from a range.

    Returns:
        ``agent_pos``, ``goal_pos``, ``landmark_pos``, ``agent_rad``, ``goal_rad``; axis 0 is the
        episode.

    Raises:
        ValueError: an array is missing, has the wrong shape, or names a cell that does not exist.
    """
    agents = _cells(m, arrays, "agent_cell", m.num_agents)
    goals = _cells(m, arrays, "goal_cell", m.num_agents)
    obstacles = _cells(m, arrays, "obstacle_cell", m.num_obstacles)
    if not len(agents) == len(goals) == len(obstacles):
        raise ValueError(
            f"Instance arrays of {NAME} must have the same number of episodes; given "
            f"{len(agents)}, {len(goals)} and {len(obstacles)}."
        )
    episodes = len(agents)
    discs = m.centres[obstacles][:, None] + m.outline[:, None]
    border = np.broadcast_to(m.border, (episodes, *m.border.shape))
    shape = (episodes, m.num_agents)
    agent_rad = _given_radii(arrays, "agent_rad", shape, m.agent_rad_low, m.agent_rad_high)
    if m.goal_share > 0.0 and "goal_rad" not in arrays:
        goal_rad = m.goal_share * agent_rad
    else:
        goal_rad = _given_radii(arrays, "goal_rad", shape, m.goal_rad_low, m.goal_rad_high)
    return {
        "agent_pos": m.centres[agents],
        "goal_pos": m.centres[goals],
        "landmark_pos": np.concatenate([discs.reshape(episodes, -1, 2), border], 1),
        "agent_rad": agent_rad,
        "goal_rad": goal_rad,
    }


def _cells(m: Any, arrays: Mapping[str, Any], name: str, size: int) -> np.ndarray:
    if name not in arrays:
        raise ValueError(
            f"Instance arrays of {NAME} must hold {name!r}; given: {', '.join(sorted(arrays))}."
        )
    cells = np.asarray(arrays[name])
    if cells.ndim != 2 or cells.shape[1] != size or cells.dtype.kind not in "iu":
        raise ValueError(
            f"Instance array {name!r} of {NAME} must hold integers of shape (episodes, {size}); "
            f"given {cells.dtype} of shape {cells.shape}."
        )
    if cells.size and not (cells.min() >= 0 and cells.max() < len(m.centres)):
        raise ValueError(
            f"Instance array {name!r} of {NAME} must hold cells in [0, {len(m.centres) - 1}]; "
            f"given {cells.min()} to {cells.max()}."
        )
    return cells.astype(np.int64)


def _given_radii(
    arrays: Mapping[str, Any], name: str, shape: tuple[int, int], low: float, high: float
) -> np.ndarray:
    if name in arrays:
        radii = np.asarray(arrays[name], np.float64)
        if radii.shape != shape or not (radii > 0).all():
            raise ValueError(
                f"Instance array {name!r} of {NAME} must hold positive radii of shape {shape}; "
                f"given shape {radii.shape}."
            )
        return radii
    if low < high:
        raise ValueError(
            f"Instance arrays of {NAME} must hold {name!r}, because the map draws it from "
            f"[{low:g}, {high:g}]; given: {', '.join(sorted(arrays))}."
        )
    return np.full(shape, low)
