"""Geodesics: how far it is along the ways of the map from an agent to its goal.

A field holds, for one agent, the distance of every cell's middle from its goal, in fifths of a
cell. It is measured once per goal; between the middles an agent's distance is read off the two
cells next to it. The least numbers of moves over open sides, from which the lower bound of an
agent's way follows, are measured alike.

Fields of ``WIDTH`` agents form a block, (cells + 1, WIDTH) uint16, whose last row is never reached.
The cells are relaxed row by row, up and down the map, for all agents of a block at once: the
compiler makes a few vector instructions of the loop over them. Everything works on lane ``i`` of
arrays that the caller owns.
"""

import math

import numpy as np

from coopbench_envs.core import routine, subroutine
from coopbench_envs.pathfinding.contacts import apart
from coopbench_envs.pathfinding.lattice import (
    cell_at,
    has_way,
    is_side_open,
    is_straight_open,
    lies_in_cell,
    spacing,
)

WIDTH = 16  # agents of a block, as many as one vector instruction works on

# The eight directions, of which the last four are the first four reversed.
_ACROSS = (1, 0, 1, -1, -1, 0, -1, 1)  # steps along x
_ALONG = (0, 1, 1, 1, 0, -1, -1, -1)  # steps along y
STRAIGHT, DIAGONAL, _FIFTHS = 5, 7, 5.0  # in fifths of a cell; the diagonal is 1 % below sqrt(2)
UNREACHED = 65535  # the largest distance; longer ones are cut
SIDES, WAYS = 0, 1  # the two graphs in ``moves``
_UPWARDS, _DOWNWARDS = 1, 2  # bits of rows that have to be relaxed


def blocks_of(agents: int) -> int:
    """Return how many blocks the fields of ``agents`` agents take."""
    return -(-agents // WIDTH)


@subroutine
def list_moves(barriers, moves, i, columns):
    """Write into ``moves``, (lanes, 2, cells) uint8, to which of its eight neighbours a cell leads.

    Bit ``d`` is set if it does in direction ``d``: first over sides, where a move is open if open
    sides connect the two cells inside a block of 2 x 2, then along ways, where a diagonal is open
    if all four ways of its block are.
    """
    cells = barriers.shape[1]
    for k in range(cells):
        moves[i, SIDES, k] = moves[i, WAYS, k] = 0
    for k in range(cells):
        right, up = k % columns < columns - 1, k + columns < cells
        if right and has_way(barriers, i, k, False):
            link(moves, i, WAYS, k, k + 1, 0)
        if up and has_way(barriers, i, k, True):
            link(moves, i, WAYS, k, k + columns, 1)
        if right and is_side_open(barriers, i, k, False):
            link(moves, i, SIDES, k, k + 1, 0)
        if up and is_side_open(barriers, i, k, True):
            link(moves, i, SIDES, k, k + columns, 1)
        if right and up:
            link_block(barriers, moves, i, k, columns)


@routine
def link_block(barriers, moves, i, k, columns):
    """Note the moves that are open because of all sides or ways of the block above cell ``k``."""
    over, beside = k + columns, k + 1
    if (
        has_way(barriers, i, k, False)
        and has_way(barriers, i, over, False)
        and has_way(barriers, i, k, True)
        and has_way(barriers, i, beside, True)
    ):
        link(moves, i, WAYS, k, over + 1, 2)
        link(moves, i, WAYS, beside, over, 3)
    low, high = is_side_open(barriers, i, k, False), is_side_open(barriers, i, over, False)
    left, right = is_side_open(barriers, i, k, True), is_side_open(barriers, i, beside, True)
    if left and high and right:
        link(moves, i, SIDES, k, beside, 0)
    if left and low and right:
        link(moves, i, SIDES, over, over + 1, 0)
    if low and right and high:
        link(moves, i, SIDES, k, over, 1)
    if low and left and high:
        link(moves, i, SIDES, beside, over + 1, 1)
    if (low and right) or (left and high):
        link(moves, i, SIDES, k, over + 1, 2)
    if (low and left) or (right and high):
        link(moves, i, SIDES, beside, over, 3)


@routine
def link(moves, i, graph, k, other, d):
    """Note that cell ``k`` leads in direction ``d`` to ``other``, and ``other`` back."""
    moves[i, graph, k] |= 1 << d
    moves[i, graph, other] |= 16 << d


@subroutine
def measure_fields(moves, field, goals, agents, lengths, columns, rows):
    """Measure the fields of agents ``agents[0]`` to ``agents[1]`` - 1, which are in one block.

    ``field`` is a block, of which all else is written over; ``goals``, (agents,), are the cells at
    distance 0; the others are as in ``spread``.
    """
    skip = agents[0] // WIDTH * WIDTH
    for k in range(field.shape[0]):
        for a in range(WIDTH):
            field[k, a] = UNREACHED
    for a in range(agents[0], agents[1]):
        field[goals[a], a - skip] = 0
    spread(moves, field, lengths, columns, rows)


@subroutine
def spread(moves, field, lengths, columns, rows):
    """Measure the distances of all cells from those with distance 0, for one block.

    ``moves`` is (cells,), ``lengths`` are those of straight and of diagonal moves. ``rows``,
    (cells,) int32, is scratch: in which directions a row is still to be relaxed. It is as long as
    it, or the row before it, has changed since, so that the distances are exact in the end, however
    much a way winds.
    """
    count, is_upwards, quiet = moves.shape[0] // columns, True, 0
    for row in range(count):
        rows[row] = _UPWARDS | _DOWNWARDS
    while quiet < 2:
        quiet += 1
        one, reverse = (_UPWARDS, _DOWNWARDS) if is_upwards else (_DOWNWARDS, _UPWARDS)
        ahead = 1 if is_upwards else -1
        for n in range(count):
            row = n if is_upwards else count - 1 - n
            if rows[row] & one == 0:
                continue
            rows[row] &= reverse
            if relax_row(moves, field, lengths, columns, row, ahead):
                quiet = 0
                if 0 <= row + ahead < count:
                    rows[row + ahead] |= one
                if 0 <= row - ahead < count:
                    rows[row - ahead] |= reverse
        is_upwards = not is_upwards


@routine
def relax_row(moves, field, lengths, columns, row, ahead):
    """Shorten the distances of a row by moves from the row before it and along it; tell if any.

    ``ahead`` is 1 if the row before is the one below, and cells follow each other from left to
    right and then back, and -1 for the reverse: ways that turn to and fro along rows would take a
    sweep of the map for each turn otherwise. A closed move comes from the last row of the field,
    which is never reached. Numbers of cells have no sign, so that no index counts from an end.
    """
    cells, shift, changed = moves.shape[0], 4 if ahead > 0 else 0, np.uint16(0)
    first, nowhere = row * columns if ahead > 0 else (row + 1) * columns - 1, np.uint64(cells)
    for n in range(columns):
        k = first + ahead * n
        is_open = moves[np.uint64(k)] >> shift & 15
        if is_open:
            beside = np.uint64(k - ahead if is_open & 1 else cells)
            before = np.uint64(k - ahead * columns if is_open & 2 else cells)
            left = np.uint64(k - ahead * (columns + 1) if is_open & 4 else cells)
            right = np.uint64(k - ahead * (columns - 1) if is_open & 8 else cells)
            changed |= relax_cell(field, lengths, np.uint64(k), beside, before, left, right)
    for n in range(columns - 1):
        k = first + ahead * (columns - 2 - n)
        if moves[np.uint64(k)] >> (4 - shift) & 1:
            beside = np.uint64(k + ahead)
            # With more neighbours than it has: short loops are unrolled, and not made vectors.
            changed |= relax_cell(field, lengths, np.uint64(k), beside, nowhere, nowhere, nowhere)
    return changed != 0


@routine
def relax_cell(field, lengths, here, beside, before, left, right):
    """Shorten the distances of a cell by moves from four others; return bits that have changed."""
    changed = np.uint16(0)
    near, far = np.uint16(UNREACHED - lengths[0]), np.uint16(UNREACHED - lengths[1])
    for a in range(WIDTH):
        straight = min(min(field[beside, a], field[before, a]), near)
        diagonal = min(min(field[left, a], field[right, a]), far)
        least = min(np.uint16(straight + lengths[0]), np.uint16(diagonal + lengths[1]))
        least = min(least, field[here, a])
        changed = np.uint16(changed | (least ^ field[here, a]))
        field[here, a] = least
    return changed


@subroutine
def extend(field, floor, part, slots, columns):
    """Continue fields over the cells outside the goals' ``part`` of the map, in two sweeps.

    No way connects walls and other parts with the goals: the distances go on as if nothing was in
    the way. ``floor`` is (cells,); a part of 0 is a goal in a wall, from where no way leads.
    """
    cells = floor.shape[0]
    for sweep in range(2):
        for n in range(cells):
            k = n if sweep == 0 else cells - 1 - n
            if part > 0 and floor[k] == part:
                continue
            for b in range(4):
                d = b + 4 * (1 - sweep)
                column, row = k % columns + _ACROSS[d], k // columns + _ALONG[d]
                if 0 <= column < columns and 0 <= row < cells // columns:
                    other = row * columns + column
                    length = np.uint16(STRAIGHT if d % 4 < 2 else DIAGONAL)
                    limit = np.uint16(UNREACHED - length)
                    for a in range(slots[0], slots[1]):
                        over = np.uint16(min(field[other, a], limit) + length)
                        field[k, a] = min(field[k, a], over)


@subroutine
def extend_fields(field, floor, goals, agents, columns):
    """Continue the fields of agents ``agents[0]`` to ``agents[1]`` - 1 where no way leads."""
    begin, skip = agents[0], agents[0] // WIDTH * WIDTH
    while begin < agents[1]:  # agents whose goals are in the same part of the map at once
        part, end = floor[goals[begin]], begin + 1
        while end < agents[1] and floor[goals[end]] == part:
            end += 1
        extend(field, floor, part, (np.uint64(begin - skip), np.uint64(end - skip)), columns)
        begin = end


@subroutine
def copy_field(scratch, field, slot):
    """Copy the field of one agent into its block."""
    for k in range(field.shape[0]):
        field[k, slot] = scratch[k, slot]


@routine
def bound_ways(c, s, i, first, last):
    """Note lower bounds of the ways of agents ``first`` to ``last`` - 1, all of one block.

    A path as long as one side stays inside a block of 2 x 2 cells, so that no path between any
    points of two cells is shorter than the number of moves over open sides, less one, in sides. The
    straight distance is a bound, too, and the better one if no side closes the straight line.
    """
    centres, columns, goal, pos = c.map.centres, c.map.columns, s.goal_pos, s.agent_pos
    is_open, is_bound = True, True  # by their lines, all of them
    for a in range(first, last):
        s.shortest[i, a] = max(apart(goal, pos, i, a) - s.goal_rad[i, a], 0.0)
        is_open = is_open and is_straight_open(s.barriers, i, centres, columns, pos, goal, a)
        is_bound = is_bound and (
            not lies_in_cell(centres, columns, goal[i, a, 0], goal[i, a, 1], s.goal_rad[i, a])
            or walks_straight(c, s, i, a)
        )
    if is_open or is_bound:
        return
    field, agents = s.ways[i, s.ways.shape[1] - 1], (first, last)
    lengths = (np.uint16(1), np.uint16(1))
    measure_fields(s.moves[i, SIDES], field, s.goal_cell[i], agents, lengths, columns, s.queue[i])
    for a in range(first, last):
        moves = np.int64(field[cell_at(centres, columns, pos[i, a, 0], pos[i, a, 1]), a % WIDTH])
        rad = s.goal_rad[i, a]
        # A goal that reaches into other cells may be near on their side of a wall.
        if moves < UNREACHED and lies_in_cell(centres, columns, goal[i, a, 0], goal[i, a, 1], rad):
            s.shortest[i, a] = max(s.shortest[i, a], (moves - 1) * spacing(centres) - rad)


@routine
def walks_straight(c, s, i, a):
    """Tell whether so few moves lead agent ``a`` to its goal that they give no better bound.

    It makes moves that lead nearest to the goal, which most often are as few as there can be. Where
    they are too many, or lead nowhere, the fewest are to be searched.
    """
    centres, columns, pos = c.map.centres, c.map.columns, s.agent_pos
    k, goal = cell_at(centres, columns, pos[i, a, 0], pos[i, a, 1]), np.int64(s.goal_cell[i, a])
    side, rad, moves = spacing(centres), s.goal_rad[i, a], 0
    while k != goal and moves < centres.shape[0] and (moves - 1) * side - rad <= s.shortest[i, a]:
        right, up = goal % columns - k % columns, goal // columns - k // columns
        best, least = k, np.int64(1) << 40
        for d in range(8):
            dx, dy = abs(right - _ACROSS[d]), abs(up - _ALONG[d])
            rank = max(dx, dy) * columns + min(dx, dy)  # the longer one first
            if (s.moves[i, SIDES, k] >> d) & 1 and rank < least:
                best, least = k + _ALONG[d] * columns + _ACROSS[d], rank
        if best == k:
            return False
        k = best
        moves += 1
    return k == goal and (moves - 1) * side - rad <= s.shortest[i, a]


@routine
def way_from(ways, i, a, k):
    """Return how far cell ``k`` is from agent ``a``'s goal, in fifths of a cell."""
    return np.int64(ways[i, a // WIDTH, k, a % WIDTH])


@routine
def find_way(c, s, i, a):
    """Return how far agent ``a`` has to go until it is on its goal, along the ways there."""
    x, y, k = s.agent_pos[i, a, 0], s.agent_pos[i, a, 1], max(s.way_cell[i, a], 0)
    off_middle = max(abs(x - c.map.centres[k, 0]), abs(y - c.map.centres[k, 1]))
    if s.way_cell[i, a] < 0 or off_middle > c.own.half_cell:
        enter_cell(c, s, i, a, cell_at(c.map.centres, c.map.columns, x, y), x, y)
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
    goal = s.goal_cell[i, a]
    k = nearest_connected(s.floor, i, c.map.centres, c.map.columns, here, goal, x, y)
    s.way_cell[i, a] = here if k == here else -1  # which neighbour is nearest changes inside it
    for m in range(2):
        s.way_over[i, a, m, 0] = goal_x if k == goal else c.map.centres[k, 0]
        s.way_over[i, a, m, 1] = goal_y if k == goal else c.map.centres[k, 1]
        s.way_over[i, a, m, 2] = way_from(s.ways, i, a, k) * (spacing(c.map.centres) / _FIFTHS)
        if m == 0:
            k = step_down(s.moves, s.floor, s.ways, i, a, c.map.columns, k, goal)


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
    best, least, cells = k, np.int64(UNREACHED) + 8, floor.shape[1]
    way = way_from(ways, i, a, k)
    is_connected = floor[i, k] > 0 and floor[i, k] == floor[i, goal]
    for d in range(8):
        column, row = k % columns + _ACROSS[d], k // columns + _ALONG[d]
        is_open = not is_connected or (moves[i, WAYS, k] >> d) & 1 == 1
        if k != goal and is_open and 0 <= column < columns and 0 <= row < cells // columns:
            length = way_from(ways, i, a, row * columns + column) + (
                STRAIGHT if d % 4 < 2 else DIAGONAL
            )
            if length < least:
                best, least = row * columns + column, length
            if is_connected and least == way:
                break  # none is shorter
    return best
