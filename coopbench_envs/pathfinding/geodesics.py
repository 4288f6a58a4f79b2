"""Geodesics: how far it is along the ways of the map from an agent to its goal.

A field holds, for one agent, the distance of every cell's middle from its goal, in fifths of a
cell. It is measured once per goal; between the middles an agent's distance is read off the two
cells next to it. Everything works on lane ``i`` of arrays that the caller owns.
"""

import math

import numpy as np

from coopbench_envs.core import routine, subroutine
from coopbench_envs.pathfinding.lattice import cell_at, has_way, spacing

# The eight directions, of which the last four are the first four reversed.
_ACROSS = (1, 0, 1, -1, -1, 0, -1, 1)  # steps along x
_ALONG = (0, 1, 1, 1, 0, -1, -1, -1)  # steps along y
_LENGTH = (5, 5, 7, 7, 5, 5, 7, 7)  # in fifths of a cell; the diagonal is 1 % below sqrt(2)
_FIFTHS = 5.0
_UNKNOWN, _LONGEST = 65535, 65534  # distances are uint16; longer ones are cut


@subroutine
def list_moves(barriers, moves, i, columns):
    """Write into ``moves``, (lanes, cells) uint8, to which of its eight neighbours a cell leads.

    A diagonal is open if all four ways between the cells of its block are.
    """
    cells = moves.shape[1]
    for k in range(cells):
        moves[i, k] = 0
    for k in range(cells):
        right = k % columns < columns - 1
        up = k + columns < cells
        if right and has_way(barriers, i, k, False):
            moves[i, k] |= 1
            moves[i, k + 1] |= 16
        if up and has_way(barriers, i, k, True):
            moves[i, k] |= 2
            moves[i, k + columns] |= 32
        if right and up and is_block_open(barriers, i, k, columns):
            moves[i, k] |= 4
            moves[i, k + columns + 1] |= 64
            moves[i, k + 1] |= 8
            moves[i, k + columns] |= 128


@routine
def is_block_open(barriers, i, k, columns):
    """Tell whether all ways are open between cell ``k``, its neighbours right and up, and both."""
    lower = has_way(barriers, i, k, False) and has_way(barriers, i, k + columns, False)
    return lower and has_way(barriers, i, k, True) and has_way(barriers, i, k + 1, True)


@subroutine
def measure_field(moves, floor, ways, i, a, columns, goal, queue, other_queue):
    """Write the distance of every cell from cell ``goal`` into agent ``a``'s field.

    ``ways`` is (lanes, agents, cells) uint16. Cells that no way connects with the goal (walls,
    other parts of the map) continue the field as if nothing was in the way. ``queue`` and
    ``other_queue`` are scratch, (lanes, cells) int32.

    Moves of two lengths need no heap: what is put behind a queue of one length only is in order.
    """
    cells = ways.shape[2]
    for k in range(cells):
        ways[i, a, k] = _UNKNOWN
    ways[i, a, goal] = 0
    queue[i, 0] = goal
    head, tail, other_head, other_tail, level = 0, 1, 0, 0, np.int64(0)
    while head < tail or other_head < other_tail:
        near, far = np.int64(_UNKNOWN), np.int64(_UNKNOWN)
        if head < tail:
            near = np.int64(ways[i, a, queue[i, head]])
        if other_head < other_tail:
            far = np.int64(ways[i, a, other_queue[i, other_head]])
        if other_head == other_tail or (head < tail and near <= far):
            k, head, reached = queue[i, head], head + 1, near
        else:
            k, other_head, reached = other_queue[i, other_head], other_head + 1, far
        if reached < level:
            continue  # it stood in both queues
        level = reached
        for d in range(8):
            if (moves[i, k] >> d) & 1 == 0:
                continue
            other = k + _ALONG[d] * columns + _ACROSS[d]
            length = min(reached + _LENGTH[d], _LONGEST)
            if length < ways[i, a, other]:
                ways[i, a, other] = length
                if d % 4 >= 2:
                    other_queue[i, other_tail] = other
                    other_tail += 1
                else:
                    queue[i, tail] = other
                    tail += 1
    if max(tail, other_tail) < cells:
        extend_field(floor, ways, i, a, columns, goal)


@subroutine
def extend_field(floor, ways, i, a, columns, goal):
    """Continue a field over the cells that no way connects with the goal, in two sweeps."""
    cells, part = ways.shape[2], floor[i, goal]
    rows = cells // columns
    for sweep in range(2):
        for n in range(cells):
            k = n if sweep == 0 else cells - 1 - n
            if k == goal or (part > 0 and floor[i, k] == part):
                continue
            for b in range(4):
                d = b + 4 * (1 - sweep)
                column, row = k % columns + _ACROSS[d], k // columns + _ALONG[d]
                if 0 <= column < columns and 0 <= row < rows:
                    length = np.int64(ways[i, a, row * columns + column]) + _LENGTH[d]
                    ways[i, a, k] = min(np.int64(ways[i, a, k]), min(length, _LONGEST))


@routine
def find_way(c, s, i, a):
    """Return how far agent ``a`` has to go until it is on its goal, along the ways there."""
    x, y, k = s.agent_pos[i, a, 0], s.agent_pos[i, a, 1], max(s.way_cell[i, a], 0)
    off_middle = max(abs(x - c.centres[k, 0]), abs(y - c.centres[k, 1]))
    if s.way_cell[i, a] < 0 or off_middle > c.half_cell:
        enter_cell(c, s, i, a, cell_at(c.centres, c.columns, x, y), x, y)
    way = min(way_over(s, i, a, 0, x, y), way_over(s, i, a, 1, x, y))
    return max(way - s.goal_rad[i, a], 0.0)


@routine
def way_over(s, i, a, m, x, y):
    """Distance of agent ``a`` at (x, y) from its goal over one of the middles next to it."""
    dx, dy = s.way_over[i, a, m, 0] - x, s.way_over[i, a, m, 1] - y
    return s.way_over[i, a, m, 2] + math.sqrt(dx * dx + dy * dy)


@routine
def enter_cell(c, s, i, a, here, x, y):
    """Note the middles over which the ways of agent ``a`` lead: of its cell and of the next one.

    In a cell without a way to the goal, into which an agent may be pushed, it is those of the
    nearest neighbour that has one.
    """
    goal_x, goal_y = s.goal_pos[i, a, 0], s.goal_pos[i, a, 1]
    goal = cell_at(c.centres, c.columns, goal_x, goal_y)
    k = nearest_connected(s.floor, i, c.centres, c.columns, here, goal, x, y)
    s.way_cell[i, a] = here if k == here else -1  # which neighbour is nearest changes inside it
    for m in range(2):
        s.way_over[i, a, m, 0] = goal_x if k == goal else c.centres[k, 0]
        s.way_over[i, a, m, 1] = goal_y if k == goal else c.centres[k, 1]
        s.way_over[i, a, m, 2] = s.ways[i, a, k] * (spacing(c.centres) / _FIFTHS)
        k = step_down(s.moves, s.floor, s.ways, i, a, c.columns, k, goal)


@subroutine
def nearest_connected(floor, i, centres, columns, k, goal, x, y):
    """Return cell ``k`` if a way connects it with ``goal``, else its nearest neighbour that is."""
    part, best, least = floor[i, goal], k, np.inf
    if k == goal or part == 0 or floor[i, k] == part:
        return k
    for d in range(8):
        column, row = k % columns + _ACROSS[d], k // columns + _ALONG[d]
        if 0 <= column < columns and 0 <= row < floor.shape[1] // columns:
            other = row * columns + column
            dx, dy = centres[other, 0] - x, centres[other, 1] - y
            if floor[i, other] == part and dx * dx + dy * dy < least:
                best, least = other, dx * dx + dy * dy
    return best


@subroutine
def step_down(moves, floor, ways, i, a, columns, k, goal):
    """Return the neighbour over which the way from cell ``k`` is shortest; ``k`` at the goal."""
    best, least = k, np.int64(_UNKNOWN) + 8
    is_connected = floor[i, k] > 0 and floor[i, k] == floor[i, goal]
    for d in range(8):
        column, row = k % columns + _ACROSS[d], k // columns + _ALONG[d]
        is_open = not is_connected or (moves[i, k] >> d) & 1 == 1
        if k != goal and is_open and 0 <= column < columns and 0 <= row < ways.shape[2] // columns:
            length = np.int64(ways[i, a, row * columns + column]) + _LENGTH[d]
            if length < least:
                best, least = row * columns + column, length
    return best
