"""labmaze_grid: mazes of rooms and corridors; agents and goals begin in rooms.

For the published settings the mazes are the published ones, stored in ``labmaze_h21_w21.txt``. All
others come from a generator of this suite, which is not DeepMind's: it places rooms, fills the rest
with corridors, opens doors that connect all of them, and further doors with some probability.
Source: CAMAR, map ``labmaze_grid``.
"""

from collections.abc import Iterator
from functools import cache, partial
from importlib import resources
from typing import Annotated, Any, NamedTuple

import numpy as np

from coopbench_envs.core import draw, streams
from coopbench_envs.parameters import between, joined
from coopbench_envs.pathfinding.maps.common import Generator, Map
from coopbench_envs.pathfinding.maps.mazes import (
    AgentRad,
    LandmarkRad,
    Placed,
    is_wall,
    make_mazes,
    maze_instances,
    place,
)

_MOST = 1 << 22  # cells of all mazes, which take some microseconds each
NAME = "map 'labmaze_grid'"

# Letters of the stored mazes that are walls, for each published probability of extra connections.
# At all of them '.' is a cell of a room and '-' one of a corridor.
_FROZEN_WALLS = {0.4: "#21", 0.65: "#2", 1.0: "#"}
_FROZEN = {"height": 21, "width": 21, "max_rooms": -1, "room_min_size": 4, "room_max_size": 9}
_FROZEN_FREE = 50
_ATTEMPTS = 1000  # to place a room
_DIRECTIONS = ((0, 1), (1, 0), (0, -1), (-1, 0))
_SALT = 14
_AT_ONCE = 1024  # random numbers


class Own(NamedTuple):
    """Parameters that other mazes do not have."""

    num_maps: Annotated[int, between(1, 1000, "mazes, one of which is drawn per episode")] = 10
    height: Annotated[int, between(5, 501, "cells along y, an odd number")] = 11
    width: Annotated[int, between(5, 501, "cells along x, an odd number")] = 11
    max_rooms: Annotated[int, between(-1, 10_000, "rooms of a maze; -1: as many as fit")] = -1
    seed: Annotated[int, between(0, 2**31, "number of the first maze")] = 0
    room_min_size: Annotated[int, between(3, 501, "smallest side of a room, with a wall")] = 3
    room_max_size: Annotated[int, between(3, 501, "largest side of a room")] = 5
    extra_connection_probability: Annotated[
        float, between(0, 1, "probability of a door that is not needed for connectivity")
    ] = 0.05


class Sizes(NamedTuple):
    """Radii that other mazes have otherwise."""

    landmark_rad: LandmarkRad = 0.1
    agent_rad_range: AgentRad = (0.05, 0.05)


Params = joined(__name__, Own, Placed, Sizes)


def make_map(p: Any, num_agents: int) -> Map:
    """Return the map, from published or generated mazes.

    Raises:
        ValueError: sizes are even or reversed, or a maze has fewer free cells than agents.
    """
    for name in ("height", "width"):
        if getattr(p, name) % 2 == 0:
            raise ValueError(
                f"Parameter {name!r} of {NAME} was {getattr(p, name)}; allowed: odd numbers."
            )
    largest = min(p.height, p.width) - 2
    if not p.room_min_size <= p.room_max_size or p.room_min_size > largest:
        raise ValueError(
            f"Parameters 'room_min_size' and 'room_max_size' of {NAME} were {p.room_min_size} and "
            f"{p.room_max_size}; allowed: room_min_size <= room_max_size, and <= {largest}."
        )
    if p.num_maps * p.height * p.width > _MOST:
        raise ValueError(
            f"Parameters 'num_maps', 'height' and 'width' of {NAME} were {p.num_maps}, "
            f"{p.height} and {p.width}, together {p.num_maps * p.height * p.width:,} cells; "
            f"allowed: {_MOST:,}."
        )
    numbers = range(p.seed, p.seed + p.num_maps)
    mazes = [_frozen(p, k) or dig(p, k) for k in numbers]
    where = [f"{NAME}, maze {k}" for k in numbers]
    return make_mazes([w for w, _ in mazes], [f for _, f in mazes], p, num_agents, where)


def _frozen(p: Any, number: int) -> tuple[np.ndarray, np.ndarray] | None:
    """Return walls and free cells of a published maze, or None if it is not one of them."""
    signs = _FROZEN_WALLS.get(p.extra_connection_probability)
    if signs is None or any(getattr(p, name) != value for name, value in _FROZEN.items()):
        return None
    if number >= len(_read_frozen()):
        return None
    letters, free = _read_frozen()[number]
    rooms = np.flatnonzero(letters == ".")
    return is_wall(letters, signs), free if p.max_free_pos == _FROZEN_FREE else rooms


@cache
def _read_frozen() -> tuple[tuple[np.ndarray, np.ndarray], ...]:
    """Return the letters of every stored maze, and its published choice of 50 free cells."""
    text = (resources.files(__package__) / "labmaze_h21_w21.txt").read_text("utf-8")
    blocks = [block.splitlines() for block in text.strip().split("\n\n")]
    return tuple(
        (np.array([list(row) for row in rows]), np.array(free.split(), int))
        for *rows, free in blocks
    )


@cache
def dig(p: Any, number: int) -> tuple[np.ndarray, np.ndarray]:
    """Generate maze ``number``; return its walls (rows, columns) and the cells of its rooms."""
    units = _units(number)
    region = np.zeros((p.height, p.width), int)  # 0: wall
    rooms = _place_rooms(region, p, units)
    in_room = region > 0
    for row in range(1, p.height, 2):
        for column in range(1, p.width, 2):
            if region[row, column] == 0:
                rooms += 1
                _carve(region, row, column, rooms, units)
    _open_doors(region, rooms, p.extra_connection_probability, units)
    _fill_dead_ends(region, in_room)
    return region == 0, np.flatnonzero(in_room)


def _units(number: int) -> Iterator[float]:
    state, step = streams(np.array([number]), 0, _SALT), np.zeros(1, np.uint64)
    draw(step)  # adds to a state what every draw adds
    while True:  # many at once: one by one they take most of the time to make a maze
        states = state + step * np.arange(_AT_ONCE, dtype=np.uint64)
        yield from draw(states).tolist()
        state = states[-1:]


def _place_rooms(region: np.ndarray, p: Any, units: Iterator[float]) -> int:
    """Put rooms of odd sides at odd places where they do not overlap; return how many."""
    rooms, low = 0, (p.room_min_size - 1) // 2  # side = 2 * half + 1
    high = min((p.room_max_size - 1) // 2, (min(region.shape) - 3) // 2)
    for _ in range(_ATTEMPTS):
        if rooms == p.max_rooms:
            break
        halves = [low + int(next(units) * (high - low + 1)) for _ in range(2)]
        corner = [
            1 + 2 * int(next(units) * ((size - 1) // 2 - half))
            for size, half in zip(region.shape, halves, strict=True)
        ]
        inside = tuple(slice(c, c + 2 * h + 1) for c, h in zip(corner, halves, strict=True))
        if not region[inside].any():
            rooms += 1
            region[inside] = rooms
    return rooms


def _carve(region: np.ndarray, row: int, column: int, name: int, units: Iterator[float]) -> None:
    """Fill the free odd cells around one with a corridor without loops."""
    region[row, column] = name
    path = [(row, column)]
    while path:
        r, q = path[-1]
        ways = [
            (dr, dq)
            for dr, dq in _DIRECTIONS
            if 0 < r + 2 * dr < region.shape[0]
            and 0 < q + 2 * dq < region.shape[1]
            and region[r + 2 * dr, q + 2 * dq] == 0
        ]
        if not ways:
            path.pop()
            continue
        dr, dq = ways[int(next(units) * len(ways))]
        region[r + dr, q + dq] = region[r + 2 * dr, q + 2 * dq] = name
        path.append((r + 2 * dr, q + 2 * dq))


def _open_doors(
    region: np.ndarray, regions: int, probability: float, units: Iterator[float]
) -> None:
    """Connect all regions by doors in their walls, and open further doors at random."""
    doors = []
    for row in range(1, region.shape[0] - 1):
        for column in range(1 + row % 2, region.shape[1] - 1, 2):
            dr, dq = (0, 1) if row % 2 else (1, 0)
            ends = region[row - dr, column - dq], region[row + dr, column + dq]
            if region[row, column] == 0 and ends[0] != ends[1]:
                doors.append((next(units), row, column, *ends))
    joined = np.arange(regions + 1)
    for _, row, column, one, other in sorted(doors):
        needed = joined[one] != joined[other]
        joined[joined == joined[other]] = joined[one]
        if needed or next(units) < probability:
            region[row, column] = one


def _fill_dead_ends(region: np.ndarray, in_room: np.ndarray) -> None:
    ends = list(zip(*np.nonzero((region > 0) & ~in_room), strict=True))
    while ends:
        row, column = ends.pop()
        around = [(row + dr, column + dq) for dr, dq in _DIRECTIONS]
        around = [place for place in around if region[place] > 0]
        if region[row, column] > 0 and len(around) < 2:
            region[row, column] = 0
            ends.extend(place for place in around if not in_room[place])


MAP = Generator(Params, make_map, place, partial(maze_instances, where=NAME))
