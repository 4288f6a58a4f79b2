"""Lattice: the cells of a map as a graph, to tell which goals can be reached and how far they are.

A cell is open when nothing stands in the way of an agent in its middle. Cells are numbered row by
row along x; an agent gets from one open cell to the next one beside it. Everything works on lane
``i`` of arrays that the caller owns.
"""

import math

import numpy as np

from coopbench_envs.core import integer, routine, subroutine
from coopbench_envs.pathfinding.maps.common import ABSENT

STRAIGHT, DIAGONAL = 5, 7  # lengths of steps in fifths of a cell; the second is 1 % below sqrt(2)
FAR = 2**31 - 1  # distance of what cannot be reached
# A way along eight directions is up to 1 / cos(22.5 degrees) longer than one in any direction.
SHORTCUT = math.cos(math.pi / 8)
_TRIES = 64  # draws per cell until an agent keeps its goal, because there is no other
_TOUCH = 1e-9  # discs that exactly touch are apart


def columns_of(centres: np.ndarray) -> int:
    """Number of columns of the cells (cells, 2), which are numbered row by row along x."""
    return int(np.argmax(centres[:, 1] != centres[0, 1])) or len(centres)


@routine
def cell_at(centres, columns, x, y):
    """Number of the cell whose middle is nearest; a point outside belongs to a cell at the edge."""
    side = spacing(centres)
    column = int(min(max((x - centres[0, 0]) / side + 0.5, 0.0), columns - 1.0))
    row = int(min(max((y - centres[0, 1]) / side + 0.5, 0.0), centres.shape[0] // columns - 1.0))
    return row * columns + column


@routine
def spacing(centres):
    """Side of a cell."""
    if centres.shape[0] == 1:
        return 1.0
    last = centres.shape[0] - 1
    return max(centres[1, 0] - centres[0, 0], centres[last, 1] - centres[last - 1, 1])


@subroutine
def mark_open(floor, i, centres, columns, landmarks, landmark_rad, agent_rad):
    """Write 1 into ``floor`` where the lane's largest agent touches no landmark, 0 elsewhere.

    ``floor`` is (lanes, cells) int32, ``landmarks`` (lanes, landmarks, 2), ``agent_rad`` (lanes,
    agents).
    """
    reach = 0.0
    for a in range(agent_rad.shape[1]):
        reach = max(reach, landmark_rad + agent_rad[i, a])
    side, rows = spacing(centres), centres.shape[0] // columns
    around, limit = int(reach / side) + 1, reach * (1.0 - _TOUCH)
    for k in range(centres.shape[0]):
        floor[i, k] = 1
    for o in range(landmarks.shape[1]):
        x, y = landmarks[i, o, 0], landmarks[i, o, 1]
        if x == ABSENT:
            continue
        column = math.floor((x - centres[0, 0]) / side + 0.5)
        row = math.floor((y - centres[0, 1]) / side + 0.5)
        for r in range(max(row - around, 0), min(row + around + 1, rows)):
            for q in range(max(column - around, 0), min(column + around + 1, columns)):
                dx, dy = x - centres[r * columns + q, 0], y - centres[r * columns + q, 1]
                if dx * dx + dy * dy < limit * limit:
                    floor[i, r * columns + q] = 0


@subroutine
def label(floor, i, columns, queue):
    """Number the connected parts of the open cells from 1 on, in place; return the largest one's.

    ``floor`` holds 0 for closed and 1 for open cells; ``queue`` (lanes, cells) int32 is scratch.
    Returns 0 if no cell is open.
    """
    cells, parts, best, most = floor.shape[1], 0, 0, 0
    for k in range(cells):
        floor[i, k] = -floor[i, k]  # -1: open and not yet visited
    for first in range(cells):
        if floor[i, first] < 0:
            parts += 1
            size = fill(floor, i, columns, queue, first, parts)
            if size > most:
                best, most = parts, size
    return best


@subroutine
def fill(floor, i, columns, queue, first, part):
    """Number the open cells that hang together with cell ``first``; return how many they are."""
    cells, head, tail = floor.shape[1], 0, 1
    queue[i, 0] = first
    floor[i, first] = part
    while head < tail:
        k = queue[i, head]
        head += 1
        column = k % columns
        for side in range(4):
            if side == 0:
                inside, other = column > 0, k - 1
            elif side == 1:
                inside, other = column < columns - 1, k + 1
            elif side == 2:
                inside, other = k >= columns, k - columns
            else:
                inside, other = k + columns < cells, k + columns
            if inside and floor[i, other] < 0:
                floor[i, other] = part
                queue[i, tail] = other
                tail += 1
    return tail


@subroutine
def measure_ways(floor, i, columns, source, target, away, straight, diagonal):
    """Write every cell's distance from ``source`` into ``away``, in fifths of a cell.

    A step goes to one of eight open neighbours, diagonally if one of the two cells beside the way
    is open. The search stops once ``target`` is certain (-1: goes everywhere) and returns its
    distance; ``FAR`` stands for cells that were not reached. ``away`` and the two queues are
    (lanes, cells) int32.

    Steps of two lengths need no heap: what is put behind a queue of one length only is in order.
    """
    cells, head_s, tail_s, head_d, tail_d = floor.shape[1], 0, 1, 0, 0
    for k in range(cells):
        away[i, k] = FAR
    away[i, source] = 0
    straight[i, 0] = source
    while head_s < tail_s or head_d < tail_d:
        # An entry whose cell has got nearer since also stands further ahead in the other queue, so
        # that its present distance can be used; to visit it again changes nothing.
        ahead_s = away[i, straight[i, head_s]] if head_s < tail_s else FAR
        ahead_d = away[i, diagonal[i, head_d]] if head_d < tail_d else FAR
        if ahead_s <= ahead_d:
            k = straight[i, head_s]
            head_s += 1
        else:
            k = diagonal[i, head_d]
            head_d += 1
        if k == target:
            break
        column = k % columns
        left, right, down, up = column > 0, column < columns - 1, k >= columns, k + columns < cells
        left, right = left and floor[i, k - 1] > 0, right and floor[i, k + 1] > 0
        down, up = down and floor[i, k - columns] > 0, up and floor[i, k + columns] > 0
        for n in range(4):
            there = left if n == 0 else right if n == 1 else down if n == 2 else up
            other = k - 1 if n == 0 else k + 1 if n == 1 else k - columns if n == 2 else k + columns
            if there and away[i, k] + STRAIGHT < away[i, other]:
                away[i, other] = away[i, k] + STRAIGHT
                straight[i, tail_s] = other
                tail_s += 1
        for n in range(4):
            beside, upright = left if n % 2 == 0 else right, down if n < 2 else up
            inside = column > 0 if n % 2 == 0 else column < columns - 1
            inside = inside and (k >= columns if n < 2 else k + columns < cells)
            other = k + (-1 if n % 2 == 0 else 1) + (-columns if n < 2 else columns)
            there = inside and (beside or upright) and floor[i, other] > 0
            if there and away[i, k] + DIAGONAL < away[i, other]:
                away[i, other] = away[i, k] + DIAGONAL
                diagonal[i, tail_d] = other
                tail_d += 1
    return FAR if target < 0 else away[i, target]


@routine
def send_on(c, s, i, a, rng):
    """Give agent ``a`` a new goal: the middle of an open cell that hangs together with the old."""
    floor, goal, cells = s.floor, s.goal_pos, s.floor.shape[1]
    old = cell_at(c.centres, c.columns, goal[i, a, 0], goal[i, a, 1])
    for _ in range(_TRIES * cells):
        k = integer(rng, i, cells)
        if k != old and floor[i, k] > 0 and floor[i, k] == floor[i, old]:
            goal[i, a, 0], goal[i, a, 1] = c.centres[k, 0], c.centres[k, 1]
            return
