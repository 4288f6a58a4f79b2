"""Mazes: fixed maps whose wall cells are one disc each; an episode draws a map and cells in it.

Shared by ``string_grid``, ``batched_string_grid``, ``labmaze_grid`` and ``movingai``.
"""

import itertools
import math
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, NamedTuple

import numpy as np

from coopbench_envs.core import draw, integer, routine, streams, subroutine
from coopbench_envs.parameters import Allowed, between, positive
from coopbench_envs.pathfinding.maps.common import (
    ABSENT,
    Map,
    Range,
    cell_centres,
    deal,
    disc_radii,
    draw_all_radii,
    given_array,
    given_cells,
    instance_radii,
    refuse_walls,
    same_length,
    up_to,
)

WALLS = "@*#"
_SUBSET, _STARTS, _GOALS = 11, 12, 13  # salts of random streams that are the same in all episodes

LandmarkRad = Annotated[float, positive(1e3, "radius of a wall's disc, half a cell")]
AgentRad = Annotated[
    Range, between(0, 1e3, "lowest and highest agent radius; none: 0.4 of a wall's disc")
]
GoalRad = Annotated[
    Range, between(0, 1e3, "lowest and highest goal radius; none: 0.4 of the agent's")
]
RemoveBorder = Annotated[bool, Allowed("cut the outermost ring of cells")]
AddBorder = Annotated[bool, Allowed("put a ring of walls around the map")]


class Placed(NamedTuple):
    """Parameters of all mazes."""

    random_agents: Annotated[
        bool, Allowed("false: agents start on the same cells in every episode")
    ] = True
    random_goals: Annotated[
        bool, Allowed("false: goals lie on the same cells in every episode")
    ] = True
    landmark_rad: LandmarkRad = 0.05
    agent_rad_range: AgentRad = (0.03, 0.03)
    goal_rad_range: GoalRad = None
    max_free_pos: Annotated[
        int | None, between(1, 10**6, "number of free cells in a fixed random subset; none: all")
    ] = None


class Framed(NamedTuple):
    """Parameters of mazes that are given as text."""

    remove_border: RemoveBorder = False
    add_border: AddBorder = True


def read_rows(text: str, where: str) -> np.ndarray:
    """Return a text as letters (rows, columns), one row per line.

    Blank lines and a byte order mark at the beginning, of editors of Windows, are skipped.

    Raises:
        ValueError: there is no row, or rows differ in length; the message names the line.
    """
    lines = [(k, line.strip()) for k, line in enumerate(text.removeprefix("\ufeff").split("\n"), 1)]
    rows = [(k, line) for k, line in lines if line]
    if not rows:
        raise ValueError(f"{where} has no rows; allowed: one line of text per row of cells.")
    for k, line in rows:
        if len(line) != len(rows[0][1]):
            raise ValueError(
                f"{where} is ragged: line {k} has {len(line)} cells, line {rows[0][0]} has "
                f"{len(rows[0][1])}; allowed: rows of the same length."
            )
    return np.array([list(line) for _, line in rows])


def is_wall(letters: np.ndarray, walls: str = WALLS) -> np.ndarray:
    """Return which letters stand for walls, as bools of the same shape."""
    return np.isin(letters, list(walls))


def reframe(walls: np.ndarray, remove: bool, add: bool, where: str) -> np.ndarray:
    """Remove the outermost ring of cells if ``remove``, then add a ring of walls if ``add``."""
    if remove:
        if min(walls.shape) < 3:
            raise ValueError(
                f"{where} has {walls.shape[0]} x {walls.shape[1]} cells; with remove_border "
                f"allowed: at least 3 x 3."
            )
        walls = walls[1:-1, 1:-1]
    return np.pad(walls, 1, constant_values=True) if add else walls


def make_mazes(
    walls: Sequence[np.ndarray],
    free: Sequence[np.ndarray],
    p: Any,
    num_agents: int,
    where: Sequence[str],
) -> Map:
    """Build a map from the walls of mazes of one shape.

    Args:
        walls: One (rows, columns) array of bools per maze.
        free: Cells of each maze where agents and goals may begin, as cell indices.
        p: Parameters of the map, with the fields that all of these maps have.
        num_agents: Number of agents.
        where: Name of each maze, for errors.

    Raises:
        ValueError: a maze has fewer free cells than agents, or a radius is not possible.
    """
    rows, columns = walls[0].shape
    size = min(min(map(len, free)), p.max_free_pos or rows * columns)
    for cells, name in zip(free, where, strict=True):
        if min(len(cells), size) < num_agents:
            limit = "" if size >= len(cells) else f", of which max_free_pos keeps {size}"
            raise ValueError(
                f"{name} has {len(cells)} free cells{limit}; num_agents was {num_agents}; "
                f"allowed: {up_to(min(len(cells), size))}a map with more free cells."
            )
    cell = 2 * p.landmark_rad
    centres = cell_centres(rows, columns, cell)
    chosen = np.stack([_choice(cells, size, _SUBSET) for cells in free]).astype(np.int32)
    return Map(
        centres=centres,
        columns=columns,
        num_free=size,
        num_landmarks=max(int(w.sum()) for w in walls),
        landmark_rad=p.landmark_rad,
        **disc_radii(p.agent_rad_range, p.goal_rad_range, p.landmark_rad, where[0]),
        width=columns * cell,
        height=rows * cell,
        discs=_discs(walls, centres),
        free=chosen,
        starts=_fixed(chosen, 0 if p.random_agents else num_agents, _STARTS),
        goals=_fixed(chosen, 0 if p.random_goals else num_agents, _GOALS),
    )


def _choice(cells: np.ndarray, count: int, salt: int) -> np.ndarray:
    """Return ``count`` of the cells, always the same ones; all of them in their order."""
    if count == len(cells):
        return cells
    order = np.argsort(draw(streams(np.zeros(len(cells)), np.arange(len(cells)), salt)))
    return cells[order[:count]]


def _fixed(free: np.ndarray, count: int, salt: int) -> np.ndarray:
    keys = draw(streams(np.zeros(free.shape[1]), np.arange(free.shape[1]), salt))
    return np.ascontiguousarray(free[:, np.argsort(keys)[:count]])


def _discs(walls: Sequence[np.ndarray], centres: np.ndarray) -> np.ndarray:
    """Return the discs of every maze row by row, filled up with ABSENT to the same number."""
    longest = max(int(w.sum()) for w in walls)
    discs = np.full((len(walls), longest, 2), ABSENT)
    for maze, w in zip(discs, walls, strict=True):
        maze[: int(w.sum())] = centres[w.ravel()]
    return discs


@routine
def place(c, s, i, rng):
    """Draw an instance: a maze, then distinct cells for agents and, independently, for goals."""
    maze = 0
    if c.map.discs.shape[0] > 1:
        maze = integer(rng, i, c.map.discs.shape[0])
    for o in range(c.map.discs.shape[1]):
        s.landmark_pos[i, o, 0] = c.map.discs[maze, o, 0]
        s.landmark_pos[i, o, 1] = c.map.discs[maze, o, 1]
    for k in range(c.map.num_free):
        s.deck[i, k] = c.map.free[maze, k]
    settle(s.agent_pos, s.deck, i, c.map.centres, c.map.starts, maze, c.map.num_free, rng)
    settle(s.goal_pos, s.deck, i, c.map.centres, c.map.goals, maze, c.map.num_free, rng)
    draw_all_radii(c, s, i, rng)


@subroutine
def settle(places, deck, i, centres, fixed, maze, cells, rng):
    """Write the centres of fixed cells, or of cells dealt from the deck."""
    if fixed.shape[1] == 0:
        deal(deck, i, cells, places.shape[1], rng)
    for a in range(places.shape[1]):
        cell = deck[i, a] if fixed.shape[1] == 0 else fixed[maze, a]
        places[i, a, 0] = centres[cell, 0]
        places[i, a, 1] = centres[cell, 1]


def maze_instances(c: Any, arrays: Mapping[str, Any], where: str) -> dict[str, np.ndarray]:
    """Return the state fields of instances whose places are cell indices; see ``place``.

    Args:
        c: Constants with ``num_agents`` and ``map``.
        arrays: ``agent_cell`` and ``goal_cell`` (episodes, agents), integers, cell = column +
            columns * row; ``map_index`` (episodes,) where there are several mazes; ``agent_rad``
            and ``goal_rad`` (episodes, agents) where the map draws radii from a range.
        where: Name of the map, for errors.

    Raises:
        ValueError: an array is missing, has the wrong shape, or names a cell or a maze that does
            not exist, or a cell inside a wall.
    """
    m = c.map
    agents = given_cells(m, arrays, "agent_cell", c.num_agents, where)
    goals = given_cells(m, arrays, "goal_cell", c.num_agents, where)
    mazes = _given_mazes(m, arrays, len(agents), where)
    same_length([agents, goals, mazes], where)
    refuse_walls(wall_cells(m)[mazes], {"agent_cell": agents, "goal_cell": goals}, where)
    return {
        "agent_pos": m.centres[agents],
        "goal_pos": m.centres[goals],
        "landmark_pos": m.discs[mazes],
        **instance_radii(c, arrays, len(agents), where),
    }


def wall_cells(m: Map) -> np.ndarray:
    """Bools (mazes, cells): which cells are walls."""
    walls = np.zeros((len(m.discs), len(m.centres)), bool)
    for maze, discs in zip(walls, m.discs, strict=True):
        present = discs[discs[:, 0] != ABSENT]
        column, row = np.rint((present - m.centres[0]) / (2 * m.landmark_rad)).astype(int).T
        maze[column + m.columns * row] = True
    return walls


def roomy_cells(m: Map, rad: float) -> np.ndarray:
    """Return bools (mazes, cells): where an agent of radius ``rad`` at the centre fits."""
    reach = 0.5 * (1 + rad / m.landmark_rad)
    walls = wall_cells(m).reshape(len(m.discs), -1, m.columns)
    around = math.ceil(reach) - 1  # cells, like reach
    padded = np.pad(walls, ((0, 0), (around, around), (around, around)))
    near = np.zeros_like(walls)
    for down, right in itertools.product(range(2 * around + 1), repeat=2):
        if math.hypot(down - around, right - around) < reach * (1 - 1e-9):
            near |= padded[:, down : down + walls.shape[1], right : right + m.columns]
    return ~near.reshape(len(m.discs), -1)


def _given_mazes(m: Map, arrays: Mapping[str, Any], episodes: int, where: str) -> np.ndarray:
    if len(m.discs) == 1 and "map_index" not in arrays:
        return np.zeros(episodes, np.int64)
    mazes = given_array(arrays, "map_index", where)
    if mazes.ndim != 1 or mazes.dtype.kind not in "iu":
        raise ValueError(
            f"Instance array 'map_index' of {where} must hold integers of shape (episodes,); "
            f"given {mazes.dtype} of shape {mazes.shape}."
        )
    if mazes.size and not (mazes.min() >= 0 and mazes.max() < len(m.discs)):
        raise ValueError(
            f"Instance array 'map_index' of {where} must hold maps in [0, {len(m.discs) - 1}]; "
            f"given {mazes.min()} to {mazes.max()}."
        )
    return mazes.astype(np.int64)
