"""Ways over the ground of a map: straight where no wall is between, else from cell to cell."""

from functools import lru_cache
from typing import NamedTuple

import numpy as np

from coopbench_envs.core import kernel, routine

__all__ = ["MOST_GROUND", "Ground", "ground_of", "heading", "is_ground", "piece_of"]

MOST_GROUND = 2048  # cells of ground of a map that is not a rectangle
# East, north, west, south, then the diagonals: the order in which equal ways are preferred.
_STEPS = ((1, 0), (0, 1), (-1, 0), (0, -1), (1, 1), (1, -1), (-1, 1), (-1, -1))
_NOWHERE = -1
_NO_WAYS = np.zeros((0, 0), np.int8)


class Ground(NamedTuple):
    """Where units can walk, and the next cell of the shortest way between any two cells."""

    walkable: np.ndarray  # (rows, columns) bool
    walls: np.ndarray  # (rows + 1, columns + 1) int32, number of walls in [:y, :x]
    cell: np.ndarray  # (rows, columns) int32, number of the nearest cell of ground
    way: np.ndarray  # (cells, cells) int8, [to, from], index of STEPS; -1: no way, or there
    steps: np.ndarray  # (8, 2) int64, x and y
    is_rectangle: bool  # every way is straight; ``way`` is empty


def ground_of(terrain: np.ndarray, where: str) -> Ground:
    """Return the ways of a terrain, (rows, columns) bool.

    Raises:
        ValueError: the ground is too large.
    """
    rows, columns = np.nonzero(terrain)
    area = (np.ptp(rows) + 1) * (np.ptp(columns) + 1)
    is_rectangle = len(rows) == area
    if not is_rectangle and len(rows) > MOST_GROUND:
        raise ValueError(
            f"{where} has {len(rows)} cells of ground; version 1 finds ways on at most "
            f"{MOST_GROUND}, or on a rectangle."
        )
    way = _NO_WAYS if is_rectangle else _ways(terrain.shape, terrain.tobytes())
    walls = np.zeros((terrain.shape[0] + 1, terrain.shape[1] + 1), np.int32)
    walls[1:, 1:] = np.cumsum(np.cumsum(~terrain, axis=0), axis=1)
    return Ground(
        walkable=np.array(terrain),
        walls=walls,
        cell=_nearest(terrain),
        way=way,
        steps=np.array(_STEPS),
        is_rectangle=is_rectangle,
    )


def piece_of(terrain: np.ndarray, row: int, column: int) -> np.ndarray:
    """Return the ground that can be reached from a cell, (rows, columns) bool."""
    closed = ~np.pad(terrain, 1)
    cells, wide = closed.ravel(), closed.shape[1]
    reached = np.zeros_like(cells)
    front = np.array([(row + 1) * wide + column + 1])
    front = front[~cells[front]]
    while front.size:
        reached[front] = cells[front] = True
        near = [front + step for step in (1, wide, -1, -wide)]
        front = np.unique(np.concatenate([places[~cells[places]] for places in near]))
    return reached.reshape(closed.shape)[1:-1, 1:-1].copy()


def _nearest(terrain: np.ndarray) -> np.ndarray:
    """Number the cells of ground row by row, and give walls the number of the nearest of them.

    Of cells equally far away the first counts. The nearest cell lies in some row, and is the
    nearest of that row; so each row is searched first, and then the rows.
    """
    rows, columns = terrain.shape
    far = 2 * (rows + columns)
    x = np.arange(columns)
    before = np.maximum.accumulate(np.where(terrain, x, -far), axis=1)
    behind = np.minimum.accumulate(np.where(terrain, x, far)[:, ::-1], axis=1)[:, ::-1]
    column = np.where(x - before <= behind - x, before, behind)
    across = (column - x) ** 2
    y = np.arange(rows)
    row = np.stack([(across + (y - k)[:, None] ** 2).argmin(axis=0) for k in range(rows)])
    numbers = np.cumsum(terrain).reshape(terrain.shape) - 1
    nearest: np.ndarray = numbers[row, column[row, x]].astype(np.int32)
    return nearest


@lru_cache(maxsize=16)
def _ways(shape: tuple[int, int], cells: bytes) -> np.ndarray:
    """Search breadth first from all cells at once; diagonal steps need both sides open."""
    terrain = np.frombuffer(cells, np.bool_).reshape(shape)
    wide = np.pad(terrain, 1)
    rows, columns = np.nonzero(wide)
    number = len(rows)
    cell = np.full(wide.shape, number)
    cell[rows, columns] = np.arange(number)
    # Neighbour k of each cell; the last number stands for a wall.
    neighbours = np.full((len(_STEPS), number), number)
    for k, (dx, dy) in enumerate(_STEPS):
        is_open = wide[rows + dy, columns] & wide[rows, columns + dx]
        neighbours[k] = np.where(is_open, cell[rows + dy, columns + dx], number)
    distance = _distances(neighbours)
    way = np.full((number, number), _NOWHERE, np.int8)
    for k in reversed(range(len(_STEPS))):
        way[distance[:, neighbours[k]] == distance[:, :number] - 1] = k
    return way  # not read-only: a copy would not be, and arrays of another type need a driver more


def _distances(neighbours: np.ndarray) -> np.ndarray:
    """Return the steps from every cell to every other, (to, from) int16.

    Unreached cells are as many steps away as there are cells; walls, the last column, one more.
    """
    number = neighbours.shape[1]
    distance = np.full((number, number + 1), number, np.int16)
    distance[:, number] = number + 1
    steps = distance.ravel()
    to, place = np.arange(number), np.arange(number)
    steps[to * (number + 1) + place] = 0
    for length in range(1, number):
        fronts = []
        for beside in neighbours:  # two places have no common neighbour in the same direction
            new = beside[place]
            at = to * (number + 1) + new
            fresh = steps[at] == number
            steps[at[fresh]] = length
            fronts.append((to[fresh], new[fresh]))
        to, place = (np.concatenate(parts) for parts in zip(*fronts, strict=True))
        if not to.size:
            break
    return distance


@routine
def is_ground(walkable, x, y):
    """Return whether (x, y) lies in a cell that can be walked on."""
    rows, columns = walkable.shape
    return 0.0 <= x < columns and 0.0 <= y < rows and walkable[int(y), int(x)]


@kernel
def heading(g, x, y, goal_x, goal_y):
    """Return where a unit on the ground at (x, y) walks next on its way to a goal.

    That is the goal itself if no wall is on the straight way, else the middle of the next cell.
    """
    rows, columns = g.walkable.shape
    next_x, next_y = goal_x, goal_y
    if not g.is_rectangle:
        column, row = min(int(x), columns - 1), min(int(y), rows - 1)  # also on the edge
        to_column = min(max(int(goal_x), 0), columns - 1)
        to_row = min(max(int(goal_y), 0), rows - 1)
        left, right = min(column, to_column), max(column, to_column) + 1
        bottom, top = min(row, to_row), max(row, to_row) + 1
        walls = g.walls[top, right] - g.walls[bottom, right]
        walls += g.walls[bottom, left] - g.walls[top, left]
        if walls > 0 and _is_barred(g, x, y, goal_x, goal_y, column, row, to_column, to_row):
            k = g.way[g.cell[to_row, to_column], g.cell[row, column]]
            if k >= 0:
                next_x = column + g.steps[k, 0] + 0.5
                next_y = row + g.steps[k, 1] + 0.5
    return next_x, next_y


@kernel
def _is_barred(g, x, y, goal_x, goal_y, column, row, to_column, to_row):
    """Return whether the straight way crosses a wall: look at its cells one after the other."""
    dx, dy = goal_x - x, goal_y - y
    step_x, step_y = 1 if dx > 0 else -1, 1 if dy > 0 else -1
    # Shares of the way after which it enters the next column and the next row, and from one to
    # the one after it.
    long_x = 1.0 / abs(dx) if dx != 0.0 else 1e30
    long_y = 1.0 / abs(dy) if dy != 0.0 else 1e30
    at_x = (column + 1 - x if dx > 0 else x - column) * long_x
    at_y = (row + 1 - y if dy > 0 else y - row) * long_y
    barred = False
    for _ in range(abs(to_column - column) + abs(to_row - row)):
        if at_x < at_y:
            column += step_x
            at_x += long_x
        else:
            row += step_y
            at_y += long_y
        rows, columns = g.walkable.shape
        if not (0 <= column < columns and 0 <= row < rows) or not g.walkable[row, column]:
            barred = True
            break
    return barred
