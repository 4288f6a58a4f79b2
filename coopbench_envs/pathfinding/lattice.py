"""Lattice: the cells of a map as a graph, for reachability and distances of goals.

Cells are numbered row by row along x, and form two graphs. A *way* connects neighbouring cells if
an agent that moves straight from centre to centre touches nothing: cells that ways connect are
reachable. A *side* between two cells is closed if an agent's centre cannot be at any point of it:
any path crosses only sides that are not closed, which gives a lower bound of distances. All
functions work on lane ``i`` of arrays that the caller allocates.
"""

import math

import numpy as np

from coopbench_envs.core import integer, routine, subroutine
from coopbench_envs.pathfinding.maps.common import ABSENT

FAR = 2**31 - 1  # distance of cells that cannot be reached
# Bits of ``barriers`` for landmarks in a cell, to its right, and above it.
_MIDDLE, _WAY_RIGHT, _WAY_UP = 1, 2, 4  # an agent would touch something there
_QUARTERS = 4  # a side is closed when each of its quarters is within reach of one landmark
_SIDE_RIGHT, _SIDE_UP = 8, 128  # lowest bits of the quarters
_ALL = (1 << _QUARTERS) - 1
_TRIES = 64  # draws per cell, after which an agent keeps its goal
_TOUCH = 1e-9  # discs that exactly touch are apart


@routine
def cell_at(centres, columns, x, y):
    """Return the cell whose centre is nearest; for a point outside, one at the edge.

    The first numbers of ``max`` are what it returns of a nan, which is then the first cell.
    """
    side = spacing(centres)
    column = int(min(max(0.0, (x - centres[0, 0]) / side + 0.5), columns - 1.0))
    row = int(min(max(0.0, (y - centres[0, 1]) / side + 0.5), centres.shape[0] // columns - 1.0))
    return row * columns + column


@routine
def spacing(centres):
    """Return the length of a cell's side."""
    if centres.shape[0] == 1:
        return 1.0
    last = centres.shape[0] - 1
    return max(centres[1, 0] - centres[0, 0], centres[last, 1] - centres[last - 1, 1])


@routine
def lies_in_cell(centres, columns, x, y, rad):
    """Return whether a disc lies entirely in one cell."""
    k = cell_at(centres, columns, x, y)
    off_middle = max(abs(x - centres[k, 0]), abs(y - centres[k, 1]))
    return off_middle + rad <= 0.5 * spacing(centres)


@subroutine
def mark_barriers(barriers, i, centres, columns, landmarks, landmark_rad, agent_rad):
    """Write into ``barriers`` what blocks the agents of a lane, cell by cell.

    Centres and ways are checked for its largest agent, and hold for all smaller ones; sides are
    closed for its smallest agent, and thus for all. ``barriers`` is (lanes, cells) int32,
    ``landmarks`` (lanes, landmarks, 2), ``agent_rad`` (lanes, agents).
    """
    side, rows = spacing(centres), centres.shape[0] // columns
    reach, least = 0.0, np.inf
    for a in range(agent_rad.shape[1]):
        reach = max(reach, (landmark_rad + agent_rad[i, a]) * (1.0 - _TOUCH))
        least = min(least, (landmark_rad + agent_rad[i, a]) * (1.0 - _TOUCH))
    for k in range(centres.shape[0]):
        barriers[i, k] = 0
    for o in range(landmarks.shape[1]):
        x, y = landmarks[i, o, 0], landmarks[i, o, 1]
        if x == ABSENT:
            continue
        # A cell has the bits of its centre, its right and upper sides, and the ways across them.
        left = max(math.ceil((x - reach - centres[0, 0]) / side - 1.0), 0)
        right = min(math.floor((x + reach - centres[0, 0]) / side + 0.5), columns - 1)
        low = max(math.ceil((y - reach - centres[0, 1]) / side - 1.0), 0)
        high = min(math.floor((y + reach - centres[0, 1]) / side + 0.5), rows - 1)
        for row in range(low, high + 1):
            for column in range(left, right + 1):
                k = row * columns + column
                dx, dy = x - centres[k, 0], y - centres[k, 1]
                barriers[i, k] |= in_the_way(dx, dy, side, reach)
                barriers[i, k] |= quarters(dx, dy, side, least, _SIDE_RIGHT)
                barriers[i, k] |= quarters(dy, dx, side, least, _SIDE_UP)


@routine
def in_the_way(dx, dy, side, reach):
    """Return the bits of a cell's centre and ways for a landmark at (dx, dy) from its centre."""
    bits, square = 0, reach * reach
    if dx * dx + dy * dy < square:
        bits |= _MIDDLE
    if off(dx, side) ** 2 + dy * dy < square:
        bits |= _WAY_RIGHT
    if off(dy, side) ** 2 + dx * dx < square:
        bits |= _WAY_UP
    return bits


@routine
def off(d, side):
    """Return the distance of ``d`` from the interval [0, side]."""
    return max(-d, d - side, 0.0)


@routine
def quarters(across, along, side, reach, lowest):
    """Return the bits of a side's quarters within ``reach``; it is half a cell away ``across``."""
    bits, near, square = 0, (across - 0.5 * side) ** 2, reach * reach
    if near >= square:
        return bits
    for q in range(_QUARTERS):
        start = along + side * (0.5 - q / _QUARTERS)
        stop = start - side / _QUARTERS
        if near + max(start * start, stop * stop) < square:
            bits |= lowest << q
    return bits


@routine
def has_way(barriers, i, k, upwards):
    """Return whether an agent can move straight from cell ``k`` to the one above, or right."""
    return barriers[i, k] & (_WAY_UP if upwards else _WAY_RIGHT) == 0


@routine
def is_side_open(barriers, i, k, upwards):
    """Return whether an agent's centre can cross from cell ``k`` to the one above, or right."""
    lowest = _SIDE_UP if upwards else _SIDE_RIGHT
    return barriers[i, k] // lowest & _ALL != _ALL


@subroutine
def label(barriers, floor, i, columns, queue):
    """Number the connected parts of the map from 1; return the number of the largest part.

    ``floor`` and ``queue`` are (lanes, cells) int32. ``floor`` receives the number of each cell's
    part, and 0 where an agent at the centre would touch something. Returns 0 if all cells are so.
    """
    cells, parts, best, most = floor.shape[1], 0, 0, 0
    for k in range(cells):
        floor[i, k] = -1 if barriers[i, k] & _MIDDLE == 0 else 0  # -1: not yet visited
    for first in range(cells):
        if floor[i, first] < 0:
            parts += 1
            size = fill(barriers, floor, i, columns, queue, first, parts)
            if size > most:
                best, most = parts, size
    return best


@subroutine
def fill(barriers, floor, i, columns, queue, first, part):
    """Number the cells that ways connect with cell ``first``; return how many there are."""
    cells, head, tail = floor.shape[1], 0, 1
    queue[i, 0] = first
    floor[i, first] = part
    while head < tail:
        k = queue[i, head]
        head += 1
        column = k % columns
        for n in range(4):
            if n == 0:
                free, other = column > 0 and has_way(barriers, i, k - 1, False), k - 1
            elif n == 1:
                free, other = column < columns - 1 and has_way(barriers, i, k, False), k + 1
            elif n == 2:
                free, other = (
                    k >= columns and has_way(barriers, i, k - columns, True),
                    k - columns,
                )
            else:
                free, other = k + columns < cells and has_way(barriers, i, k, True), k + columns
            if free and floor[i, other] < 0:
                floor[i, other] = part
                queue[i, tail] = other
                tail += 1
    return tail


@routine
def is_straight_open(barriers, i, centres, columns, one, other, a):
    """Return whether the straight line between two positions of ``a`` crosses open sides only.

    The number of moves then gives no better bound than the line's length.
    """
    k = cell_at(centres, columns, one[i, a, 0], one[i, a, 1])
    last = cell_at(centres, columns, other[i, a, 0], other[i, a, 1])
    dx, dy = other[i, a, 0] - one[i, a, 0], other[i, a, 1] - one[i, a, 1]
    side, right, up = spacing(centres), dx > 0.0, dy > 0.0
    while k != last:
        # Shares of the line that remain where it leaves the cell across, and along.
        x = centres[k, 0] + (0.5 * side if right else -0.5 * side)
        y = centres[k, 1] + (0.5 * side if up else -0.5 * side)
        left_x = (other[i, a, 0] - x) / dx if dx != 0.0 else -1.0
        left_y = (other[i, a, 1] - y) / dy if dy != 0.0 else -1.0
        if max(left_x, left_y) < 0.0:
            return False  # rounding at the end: leave it to the search
        upwards = left_y > left_x
        step = (columns if up else -columns) if upwards else (1 if right else -1)
        beside = k % columns == (columns - 1 if right else 0) and not upwards
        if beside or not 0 <= k + step < centres.shape[0]:
            return False  # it leaves the map
        if not is_side_open(barriers, i, min(k, k + step), upwards):
            return False
        k += step
    return True


@subroutine
def explore(c, s, i):
    """Number the connected parts of the map; return the number of the largest."""
    landmarks, rad = s.landmark_pos, s.agent_rad
    mark_barriers(s.barriers, i, c.map.centres, c.map.columns, landmarks, c.map.landmark_rad, rad)
    return label(s.barriers, s.floor, i, c.map.columns, s.queue)


@routine
def send_on(c, s, i, a, rng):
    """Give agent ``a`` a new goal: the centre of another cell in the part of the old goal."""
    floor, goal, cells = s.floor, s.goal_pos, s.floor.shape[1]
    old = cell_at(c.map.centres, c.map.columns, goal[i, a, 0], goal[i, a, 1])
    for _ in range(_TRIES * cells):
        k = integer(rng, i, cells)
        if k != old and floor[i, k] > 0 and floor[i, k] == floor[i, old]:
            goal[i, a, 0], goal[i, a, 1] = c.map.centres[k, 0], c.map.centres[k, 1]
            return
