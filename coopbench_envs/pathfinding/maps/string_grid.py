"""string_grid: a map given as text, one row of cells per line; every wall cell is a disc.

Source: CAMAR, map ``string_grid``.
"""

from functools import partial
from typing import Annotated, Any, NamedTuple

import numpy as np

from coopbench_envs.parameters import Allowed, joined
from coopbench_envs.pathfinding.maps.common import Generator, Map
from coopbench_envs.pathfinding.maps.mazes import (
    Framed,
    Placed,
    is_wall,
    make_mazes,
    maze_instances,
    place,
    read_rows,
    reframe,
)

NAME = "map 'string_grid'"

Places = tuple[tuple[int, ...], ...] | None


class Own(NamedTuple):
    """Parameters that other mazes do not have."""

    map_str: Annotated[str | None, Allowed("rows of cells; '@', '*' and '#' are walls")] = None
    free_pos_str: Annotated[
        str | None, Allowed("rows as in map_str; agents and goals start where neither has a wall")
    ] = None
    agent_idx: Annotated[Places, Allowed("(row, column) of each agent; none: drawn")] = None
    goal_idx: Annotated[Places, Allowed("(row, column) of each goal; none: drawn")] = None


Params = joined(__name__, Own, Placed, Framed)


def make_map(p: Any, num_agents: int) -> Map:
    """Return the map, from the text of the parameters.

    Raises:
        ValueError: the map is missing or ragged, has too few free cells, or a radius or an
            explicit cell is not possible.
    """
    if p.map_str is None:
        raise ValueError(f"Parameter 'map_str' of {NAME} is missing; allowed: rows of cells.")
    walls, free = parse(p.map_str, p.free_pos_str, p, NAME)
    m = make_mazes([walls], [free], p, num_agents, [NAME])
    starts = _explicit("agent_idx", p.agent_idx, walls, p, num_agents)
    goals = _explicit("goal_idx", p.goal_idx, walls, p, num_agents)
    return m._replace(
        starts=m.starts if starts is None else starts, goals=m.goals if goals is None else goals
    )


def parse(text: str, free_text: str | None, p: Any, where: str) -> tuple[np.ndarray, np.ndarray]:
    """Return walls (rows, columns), with the border of ``p``, and the free cells' indices."""
    walls = is_wall(read_rows(text, where))
    closed = walls
    if free_text is not None:
        closed = is_wall(read_rows(free_text, f"free_pos_str of {where}"))
        if closed.shape != walls.shape:
            raise ValueError(
                f"free_pos_str of {where} has {closed.shape[0]} rows of {closed.shape[1]} cells; "
                f"allowed: {walls.shape[0]} rows of {walls.shape[1]}, like the map."
            )
    walls, closed = (reframe(w, p.remove_border, p.add_border, where) for w in (walls, closed))
    return walls, np.flatnonzero(~(walls | closed))


def _explicit(
    name: str, places: Places, walls: np.ndarray, p: Any, num_agents: int
) -> np.ndarray | None:
    """Return the cells that a parameter names, as indices in the map with its border."""
    if places is None:
        return None
    if len(places) != num_agents or any(len(place) != 2 for place in places):
        raise ValueError(
            f"Parameter {name!r} of {NAME} was {places!r}; allowed: one (row, column) for each of "
            f"{num_agents} agents."
        )
    shift = p.add_border - p.remove_border
    for k, (row, column) in enumerate(places):
        r, q = row + shift, column + shift
        inside = 0 <= r < walls.shape[0] and 0 <= q < walls.shape[1]
        if not inside or walls[r, q]:
            reason = "a wall" if inside else "outside of the map"
            raise ValueError(
                f"Parameter {name!r} of {NAME}: entry {k}, row {row}, column {column}, is "
                f"{reason}; allowed: cells of map_str, counted from 0, that are not walls."
            )
    cells = [(row + shift) * walls.shape[1] + column + shift for row, column in places]
    if len(set(cells)) < len(cells):
        raise ValueError(f"Parameter {name!r} of {NAME} names a cell twice: {places!r}.")
    return np.array([cells], np.int32)


MAP = Generator(Params, make_map, place, partial(maze_instances, where=NAME))
