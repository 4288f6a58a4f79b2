"""Which steps between cells are clear of walls, and how far every cell is from a goal.

Cells are those of the map, numbered row by row along x. From a cell an agent goes to the middle of
one of the eight cells around it. Everything works on lane ``i`` of arrays that the caller owns.
"""

import math

import numpy as np

from coopbench_envs.core import routine, subroutine
from coopbench_envs.pathfinding.lattice import spacing
from coopbench_envs.pathfinding.maps.common import ABSENT

# The eight directions, of which the last four are the first four reversed; then to stay.
COLUMN_STEP = (1, 0, 1, -1, -1, 0, -1, 1, 0)
ROW_STEP = (0, 1, 1, 1, 0, -1, -1, -1, 0)
DIRECTIONS = 8
STRAIGHT, DIAGONAL = 5, 7  # lengths of steps in fifths of a cell; the second is 1 % below sqrt(2)
ROOMS = 5  # of a cell: around its middle, and along its ways in the first four directions
_TOUCH = 1e-6  # discs that exactly touch are apart; of the radius, rooms being float32


@routine
def beside(cells, columns, k, d):
    """Return the neighbour of ``k`` in direction ``d`` (8: ``k`` itself), -1 beyond the map."""
    if d == DIRECTIONS:
        return k
    column, row = k % columns + COLUMN_STEP[d], k // columns + ROW_STEP[d]
    if column < 0 or column >= columns or row < 0 or row >= cells // columns:
        return -1
    return row * columns + column


@routine
def fits(room, i, k, other, d, radius):
    """Return whether an agent gets from cell ``k`` to ``other``, which lies in direction ``d``."""
    if d == DIRECTIONS:
        return room[i, k, 0] >= radius * (1.0 - _TOUCH)
    if d < 4:
        return room[i, k, 1 + d] >= radius * (1.0 - _TOUCH)
    return room[i, other, d - 3] >= radius * (1.0 - _TOUCH)


@subroutine
def survey_room(room, i, centres, columns, landmarks, landmark_rad, widest):
    """Write the radius of the largest agent that fits, up to ``widest``, into ``room``.

    ``room`` is (lanes, cells, 5) float32: for an agent in the middle of a cell, and on its way to
    the next one right, above, above right and above left. Where nothing is near it is infinite.
    """
    cells, side = centres.shape[0], spacing(centres)
    around = int((landmark_rad + widest) / side) + 2  # ways begin one cell further off
    for k in range(cells):
        for r in range(ROOMS):
            room[i, k, r] = np.inf
    for o in range(landmarks.shape[1]):
        x, y = landmarks[i, o, 0], landmarks[i, o, 1]
        if x == ABSENT:
            continue
        column = math.floor((x - centres[0, 0]) / side + 0.5)
        row = math.floor((y - centres[0, 1]) / side + 0.5)
        for q in range(max(row - around, 0), min(row + around + 1, cells // columns)):
            for p in range(max(column - around, 0), min(column + around + 1, columns)):
                k = q * columns + p
                for r in range(ROOMS):
                    to_x = side * COLUMN_STEP[r - 1] if r > 0 else 0.0
                    to_y = side * ROW_STEP[r - 1] if r > 0 else 0.0
                    gap = distance_to(x - centres[k, 0], y - centres[k, 1], to_x, to_y)
                    room[i, k, r] = min(room[i, k, r], np.float32(gap - landmark_rad))


@routine
def distance_to(x, y, to_x, to_y):
    """Return the distance of a point from the segment from the origin to (to_x, to_y)."""
    square = to_x * to_x + to_y * to_y
    share = 0.0
    if square > 0.0:
        share = min(max((x * to_x + y * to_y) / square, 0.0), 1.0)
    dx, dy = x - share * to_x, y - share * to_y
    return math.sqrt(dx * dx + dy * dy)


@subroutine
def measure_ways(room, i, columns, a, radius, goal, ways, far, queues):
    """Write the distance of every cell from cell ``goal`` for agent ``a``, in fifths of a cell.

    ``ways`` is (lanes, agents, cells) integers, where ``far`` stands for cells that the goal cannot
    be reached from; ``queues`` are two arrays (cells,) int32 of scratch.

    Steps of two lengths need no heap: what is put behind a queue of one length only is in order.
    """
    cells, straight, diagonal = room.shape[1], queues[0], queues[1]
    for k in range(cells):
        ways[i, a, k] = far
    ways[i, a, goal] = 0
    straight[0] = goal
    first_s, last_s, first_d, last_d = 0, 1, 0, 0
    while first_s < last_s or first_d < last_d:
        ahead_s, ahead_d = far, far
        if first_s < last_s:
            ahead_s = np.int64(ways[i, a, straight[first_s]])
        if first_d < last_d:
            ahead_d = np.int64(ways[i, a, diagonal[first_d]])
        if first_d == last_d or (first_s < last_s and ahead_s <= ahead_d):
            k, first_s, ahead = straight[first_s], first_s + 1, ahead_s
        else:
            k, first_d, ahead = diagonal[first_d], first_d + 1, ahead_d
        for d in range(DIRECTIONS):
            other = beside(cells, columns, k, d)
            if other < 0 or not fits(room, i, k, other, d, radius):
                continue
            across = d % 4 >= 2
            longer = ahead + (DIAGONAL if across else STRAIGHT)
            if longer < ways[i, a, other]:
                ways[i, a, other] = longer
                if across:
                    diagonal[last_d] = other
                    last_d += 1
                else:
                    straight[last_s] = other
                    last_s += 1
