"""Shared by all maps: constants that kernels read, radii, drawn cells, checked arrays."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from coopbench_envs.core import integer, routine, subroutine, uniform

GOAL_SHARE = 1 / 2.5  # goal radius per agent radius, where only a range of agent radii is given
# Coordinates of a missing disc, where mazes have different numbers of discs: outside every world.
# Missing discs are in no bin.
ABSENT = -1e7

Range = tuple[float, ...] | None

_NO_DISCS = np.zeros((0, 2))
_NO_CELLS = np.zeros((1, 0), np.int32)


class Map(NamedTuple):
    """A map as the kernels read it, ``c.map``; the origin of the world is at its centre.

    Obstacles are either cells with an ``outline``, drawn for every episode, or the ``discs`` of one
    of several fixed mazes. Fields that a map does not use keep their defaults.
    """

    centres: np.ndarray  # (cells, 2), row by row along x
    columns: int  # cells along x
    num_free: int  # the first cells of ``State.deck``, where agents and goals may begin
    num_landmarks: int  # discs of obstacles and walls
    landmark_rad: float  # radius of each
    agent_rad_low: float  # agents' radii are drawn from here
    agent_rad_high: float  # up to here
    goal_rad_low: float  # goals' radii likewise
    goal_rad_high: float
    goal_share: float  # > 0: goal radius per agent radius, in place of a range
    width: float  # extent along x
    height: float  # extent along y
    num_obstacles: int = 0
    outline: np.ndarray = _NO_DISCS  # (discs, 2) discs of one obstacle relative to its centre
    border: np.ndarray = _NO_DISCS  # (discs, 2) discs of the walls around the world
    discs: np.ndarray = _NO_DISCS[None]  # (mazes, discs, 2) walls of each maze, then ABSENT
    free: np.ndarray = _NO_CELLS  # (mazes, cells) int32, where agents and goals may begin
    starts: np.ndarray = _NO_CELLS  # (mazes, agents) int32, fixed cells; no columns: drawn
    goals: np.ndarray = _NO_CELLS  # (mazes, agents) int32, the same for goals
    waves_x: int = 0  # meshes of the noise of caves, along x
    waves_y: int = 0
    first_wall: int = 0  # rank of the first wall, see caves_cont


def up_to(agents: int) -> str:
    """Return the part of a message that allows fewer agents; "" where there is room for none."""
    return f"num_agents <= {agents}, or " if agents else ""


class Generator(NamedTuple):
    """One way to draw instances: what a file of this folder defines as MAP, to register itself."""

    params: type  # a NamedTuple of Annotated fields with defaults, given as ``map_params``
    make_map: Callable[[Any, int], Map]  # (parameters, number of agents) -> the map
    # Kernel (c, s, i, rng): draws landmark_pos, agent_pos, goal_pos and the radii of lane i, and
    # leaves the ``num_free`` cells that agents and goals are drawn from first in ``s.deck``.
    place: Any
    # (constants, arrays by name) -> the same fields of exported instances, axis 0 the episode
    instances: Callable[[Any, Mapping[str, Any]], dict[str, np.ndarray]]


def radii(name: str, ends: Range, default: tuple[float, float], where: str) -> tuple[float, float]:
    """Return a range of radii, checked, or ``default`` without one.

    Raises:
        ValueError: it does not hold two numbers 0 < low <= high.
    """
    if ends is None:
        return default
    if len(ends) != 2 or not 0 < ends[0] <= ends[1] < np.inf:
        raise ValueError(
            f"Parameter {name!r} of {where} was {ends!r}; allowed: two numbers (low, high) with "
            f"0 < low <= high."
        )
    return ends[0], ends[1]


def disc_radii(agent: Range, goal: Range, landmark_rad: float, where: str) -> dict[str, Any]:
    """Return the radii of a map whose obstacles are single discs, as fields of ``Map``.

    Raises ``ValueError`` for a range that is not 0 < low <= high.
    """
    default = (0.4 * landmark_rad, 0.4 * landmark_rad)
    low, high = radii("agent_rad_range", agent, default, where)
    share = 0.0 if goal else GOAL_SHARE
    goal_low, goal_high = radii("goal_rad_range", goal, (share * low, share * high), where)
    return {
        "agent_rad_low": low,
        "agent_rad_high": high,
        "goal_rad_low": goal_low,
        "goal_rad_high": goal_high,
        "goal_share": share,
    }


def cell_centres(rows: int, columns: int, cell: float) -> np.ndarray:
    """Return the centres of cells, (cells, 2), row by row; the first row has the lowest y."""
    x = cell * (np.arange(columns) + 0.5 - columns / 2)
    y = cell * (np.arange(rows) + 0.5 - rows / 2)
    return np.stack(np.broadcast_arrays(x, y[:, None]), -1).reshape(-1, 2)


def sides(width: float, height: float, along_x: int, along_y: int) -> list[np.ndarray]:
    """Return points on the top, right, bottom and left of a rectangle, clockwise.

    Each side has ``along_x`` or ``along_y`` points and includes its first corner only.
    """
    x = -width / 2 + width / along_x * np.arange(along_x)
    y = -height / 2 + height / along_y * np.arange(along_y)
    top = np.stack([x, np.full(along_x, height / 2)], -1)
    right = np.stack([np.full(along_y, width / 2), -y], -1)
    bottom = np.stack([-x, np.full(along_x, -height / 2)], -1)
    left = np.stack([np.full(along_y, -width / 2), y], -1)
    return [top, right, bottom, left]


@subroutine
def deal(deck, i, cells, count, rng):
    """Shuffle so that the first ``count`` of ``cells`` entries are drawn without replacement."""
    for k in range(count):
        other = k + integer(rng, i, cells - k)
        deck[i, k], deck[i, other] = deck[i, other], deck[i, k]


@subroutine
def build(landmark_pos, deck, i, first, centres, outline, border):
    """Write the discs of obstacles, whose cells begin at ``first`` in the deck, and of walls."""
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
def draw_all_radii(c, s, i, rng):
    """Draw the radii of agents and goals."""
    draw_radii(s.agent_rad, i, c.map.agent_rad_low, c.map.agent_rad_high, rng)
    draw_radii(s.goal_rad, i, c.map.goal_rad_low, c.map.goal_rad_high, rng)
    if c.map.goal_share > 0.0:
        for a in range(c.num_agents):
            s.goal_rad[i, a] = c.map.goal_share * s.agent_rad[i, a]


@subroutine
def draw_radii(radii, i, low, high, rng):
    """Draw radii from [low, high]; if the two are equal, no random number is used."""
    for a in range(radii.shape[1]):
        radii[i, a] = low
        if low < high:
            radii[i, a] = low + (high - low) * uniform(rng, i)


def obstacle_instances(c: Any, arrays: Mapping[str, Any], where: str) -> dict[str, np.ndarray]:
    """Return the state fields of a map whose obstacles are cells with outlines.

    Args:
        c: Constants with ``num_agents`` and ``map``.
        arrays: ``agent_cell`` and ``goal_cell`` (episodes, agents), ``obstacle_cell`` (episodes,
            obstacles), integers; ``agent_rad`` and ``goal_rad`` (episodes, agents) where the map
            draws radii from a range.
        where: Name of the map, for errors.

    Returns:
        ``agent_pos``, ``goal_pos``, ``landmark_pos``, ``agent_rad``, ``goal_rad``; axis 0 is the
        episode.

    Raises:
        ValueError: an array is missing, has the wrong shape, or names a cell that does not exist,
            or an agent or a goal stands on an obstacle.
    """
    m = c.map
    agents = given_cells(m, arrays, "agent_cell", c.num_agents, where)
    goals = given_cells(m, arrays, "goal_cell", c.num_agents, where)
    obstacles = given_cells(m, arrays, "obstacle_cell", m.num_obstacles, where)
    same_length([agents, goals, obstacles], where)
    episodes = len(agents)
    walls = np.zeros((episodes, len(m.centres)), bool)
    np.put_along_axis(walls, obstacles, True, 1)
    refuse_walls(walls, {"agent_cell": agents, "goal_cell": goals}, where)
    discs = m.centres[obstacles][:, None] + m.outline[:, None]
    border = np.broadcast_to(m.border, (episodes, *m.border.shape))
    return {
        "agent_pos": m.centres[agents],
        "goal_pos": m.centres[goals],
        "landmark_pos": np.concatenate([discs.reshape(episodes, -1, 2), border], 1),
        **instance_radii(c, arrays, episodes, where),
    }


def refuse_walls(walls: np.ndarray, places: Mapping[str, np.ndarray], where: str) -> None:
    """Raise ``ValueError`` if one of the places is a wall.

    ``walls`` are bools (episodes, cells), ``places`` arrays of cells (episodes, agents) by name.
    """
    for name, cells in places.items():
        inside = np.argwhere(np.take_along_axis(walls, cells, 1))
        if len(inside):
            episode, agent = inside[0]
            raise ValueError(
                f"Instance array {name!r} of {where} must hold cells that are not walls; episode "
                f"{episode} gives agent {agent} cell {cells[episode, agent]}, a wall."
            )


def same_length(arrays: list[np.ndarray], where: str) -> None:
    """Raise ``ValueError`` unless all arrays have the same number of episodes."""
    lengths = [len(array) for array in arrays]
    if len(set(lengths)) > 1:
        raise ValueError(
            f"Instance arrays of {where} must have the same number of episodes; given "
            f"{', '.join(map(str, lengths[:-1]))} and {lengths[-1]}."
        )


def given_cells(m: Map, arrays: Mapping[str, Any], name: str, size: int, where: str) -> np.ndarray:
    """Return the array ``name`` of cell indices, (episodes, size); ``ValueError`` if wrong."""
    cells = given_array(arrays, name, where)
    if cells.ndim != 2 or cells.shape[1] != size or cells.dtype.kind not in "iu":
        raise ValueError(
            f"Instance array {name!r} of {where} must hold integers of shape (episodes, {size}); "
            f"given {cells.dtype} of shape {cells.shape}."
        )
    if cells.size and not (cells.min() >= 0 and cells.max() < len(m.centres)):
        raise ValueError(
            f"Instance array {name!r} of {where} must hold cells in [0, {len(m.centres) - 1}]; "
            f"given {cells.min()} to {cells.max()}."
        )
    return cells.astype(np.int64)


def given_array(arrays: Mapping[str, Any], name: str, where: str) -> np.ndarray:
    """Return the array ``name``; raise ``ValueError`` with the names of all if it is missing."""
    if name not in arrays:
        raise ValueError(
            f"Instance arrays of {where} must hold {name!r}; given: {', '.join(sorted(arrays))}."
        )
    return np.asarray(arrays[name])


def instance_radii(
    c: Any, arrays: Mapping[str, Any], episodes: int, where: str
) -> dict[str, np.ndarray]:
    """Return the radii of instances: from ``arrays``, or those that the map fixes."""
    shape, m = (episodes, c.num_agents), c.map
    agent = _given_radii(arrays, "agent_rad", shape, (m.agent_rad_low, m.agent_rad_high), where)
    if m.goal_share > 0.0 and "goal_rad" not in arrays:
        return {"agent_rad": agent, "goal_rad": m.goal_share * agent}
    goal = _given_radii(arrays, "goal_rad", shape, (m.goal_rad_low, m.goal_rad_high), where)
    return {"agent_rad": agent, "goal_rad": goal}


def _given_radii(
    arrays: Mapping[str, Any],
    name: str,
    shape: tuple[int, int],
    drawn: tuple[float, float],
    where: str,
) -> np.ndarray:
    if name in arrays:
        radii = np.asarray(arrays[name], np.float64)
        if radii.shape != shape or not (radii > 0).all():
            raise ValueError(
                f"Instance array {name!r} of {where} must hold positive radii of shape {shape}; "
                f"given shape {radii.shape}."
            )
        return radii
    if drawn[0] < drawn[1]:
        raise ValueError(
            f"Instance arrays of {where} must hold {name!r}, because the map draws it from "
            f"[{drawn[0]:g}, {drawn[1]:g}]; given: {', '.join(sorted(arrays))}."
        )
    return np.full(shape, drawn[0])
