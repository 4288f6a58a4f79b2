"""Geodesics: how far it is along the ways of the map from an agent to its goal.

Distances of the cells' middles from a goal are in fifths of a cell; between the middles an agent's
distance is read off the two cells next to it. They are searched from the goal towards the agent (A*
with buckets), until all cells on and beside its shortest ways are measured, and those around it are
kept: its *view*. Where an agent comes to a cell that its view does not tell, they are searched
again. A view is not larger than the map, and need not grow with it. The least number of moves over
open sides, from which the lower bound of an agent's way follows, is searched alike. Everything
works on lane ``i`` of arrays that the caller owns.
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

# The eight directions, of which the last four are the first four reversed.
_ACROSS = (1, 0, 1, -1, -1, 0, -1, 1)  # steps along x
_ALONG = (0, 1, 1, 1, 0, -1, -1, -1)  # steps along y
STRAIGHT, DIAGONAL, _FIFTHS = 5, 7, 5.0  # in fifths of a cell; the diagonal is 1 % below sqrt(2)
UNREACHED = 65535  # the largest distance; longer ones are cut
SIDES, WAYS = 0, 1  # the two graphs in ``moves``
VIEW = 32  # cells along a side of a view, at most
# The sum of distance and estimate grows by two diagonals at most per move: no two sums that wait
# for their turn share a bucket.
BUCKETS = 16
_BESIDE = 14  # sums by so much larger include all neighbours of cells on a shortest way
_NEXT, _LAST, _NONE = 0, 1, -1  # links of cells in a bucket


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
def search(moves, distance, links, ends, lengths, margin, columns):
    """Measure how far cells are from ``ends[0]``, in order, until ``ends[1]`` is measured (A*).

    ``moves`` and ``distance`` are (cells,), ``lengths`` those of straight and of diagonal moves.
    ``links``, (cells + BUCKETS, 2) int32, is scratch: lists of the cells that wait, by the sum of
    their distance and an estimate of what is left, which is never too long. Cells up to ``margin``
    beyond the sum of ``ends[1]`` are measured, too, and all that moves connect if it is not one of
    them. Returns the largest sum of which distances are exact; the others are upper bounds.
    """
    cells, goal, target = moves.shape[0], np.int64(ends[0]), np.int64(ends[1])
    for cell in range(cells):
        distance[cell] = UNREACHED
    for place in range(cells, cells + BUCKETS):
        links[place, _NEXT] = _NONE
    across, along = target % columns, target // columns
    total = estimate(goal % columns - across, goal // columns - along, lengths)
    most, empty = np.int64(1) << 40, 0
    distance[goal] = 0
    insert(links, goal, np.int64(cells + total % BUCKETS))
    while empty < BUCKETS and total <= most:
        bucket = np.uint64(cells) + (np.uint64(total) & np.uint64(BUCKETS - 1))
        k = np.int64(links[bucket, _NEXT])
        if k == _NONE:
            total += 1
            empty += 1
            continue
        empty = 0
        after = links[np.uint64(k), _NEXT]
        links[bucket, _NEXT] = after
        if after != _NONE:
            links[np.uint64(after), _LAST] = _NONE
        if k == target:
            most = total + margin
        row = np.int64(np.uint64(k) // np.uint64(columns))
        relax(
            moves, distance, links, k, (k - row * columns - across, row - along), lengths, columns
        )
    return most


@routine
def relax(moves, distance, links, k, off_target, lengths, columns):
    """Shorten the distances of the cells to which ``k`` leads, and let those that change wait."""
    cells, here = moves.shape[0], np.int64(distance[np.uint64(k)])
    leads = np.int64(moves[np.uint64(k)])
    for d in range(8):
        if leads & (1 << d):
            other = np.uint64(k + _ALONG[d] * columns + _ACROSS[d])
            length = here + (lengths[0] if d % 4 < 2 else lengths[1])
            before = np.int64(distance[other])
            if length < before:
                left = estimate(off_target[0] + _ACROSS[d], off_target[1] + _ALONG[d], lengths)
                if before != UNREACHED:
                    remove(links, np.int64(other), bucket_of(cells, before + left))
                distance[other] = length
                insert(links, np.int64(other), bucket_of(cells, length + left))


@routine
def bucket_of(cells, total):
    """Return which of the links leads to the first cell with this sum."""
    return cells + (total & (BUCKETS - 1))


@routine
def estimate(across, along, lengths):
    """Return the length of the shortest way to a cell ``across`` and ``along`` on an empty map."""
    one, other = abs(across), abs(along)
    return lengths[0] * (max(one, other) - min(one, other)) + lengths[1] * min(one, other)


@routine
def insert(links, k, bucket):
    """Make cell ``k`` the first one of a bucket."""
    after = links[np.uint64(bucket), _NEXT]
    links[np.uint64(k), _NEXT], links[np.uint64(k), _LAST] = after, _NONE
    links[np.uint64(bucket), _NEXT] = k
    if after != _NONE:
        links[np.uint64(after), _LAST] = k


@routine
def remove(links, k, bucket):
    """Take cell ``k`` out of its bucket."""
    after, before = links[np.uint64(k), _NEXT], links[np.uint64(k), _LAST]
    if after != _NONE:
        links[np.uint64(after), _LAST] = before
    links[np.uint64(bucket if before == _NONE else before), _NEXT] = after


@subroutine
def extend(distance, floor, part, columns):
    """Continue distances over the cells outside the goal's ``part`` of the map, in two sweeps.

    No way connects walls and other parts with the goal: the distances go on as if nothing was in
    the way. Both arrays are (cells,); a part of 0 is a goal in a wall, from where no way leads.
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
                    length = STRAIGHT if d % 4 < 2 else DIAGONAL
                    over = np.int64(distance[row * columns + column]) + length
                    distance[k] = min(np.int64(distance[k]), over)


@routine
def look_around(c, s, i, a, k):
    """Fill the view of agent ``a`` with the cells around cell ``k``, of which its way is measured.

    In it UNREACHED is also what is not known to be exact. No way is shorter over such a cell.
    """
    columns, goal, lengths = c.map.columns, s.goal_cell[i, a], (STRAIGHT, DIAGONAL)
    distance, ends = s.distance[i], (goal, k)
    most = search(s.moves[i, WAYS], distance, s.links[i], ends, lengths, _BESIDE, columns)
    if s.floor[i, k] != s.floor[i, goal] or s.floor[i, k] == 0:
        extend(distance, s.floor[i], s.floor[i, goal], columns)
    height, width = s.ways.shape[2], s.ways.shape[3]
    column, row = k % columns, k // columns
    left = min(max(column - width // 2, 0), columns - width)
    low = min(max(row - height // 2, 0), s.floor.shape[1] // columns - height)
    s.ways_at[i, a, 0], s.ways_at[i, a, 1] = left, low
    for y in range(height):
        for x in range(width):
            way = np.int64(distance[(low + y) * columns + left + x])
            is_exact = way + estimate(left + x - column, low + y - row, lengths) <= most
            s.ways[i, a, y, x] = way if is_exact else UNREACHED


@routine
def is_in_view(c, s, i, a, k):
    """Tell whether the view of agent ``a`` has the distances of cell ``k`` and of those around."""
    columns, height, width = c.map.columns, s.ways.shape[2], s.ways.shape[3]
    x, y = k % columns - s.ways_at[i, a, 0], k // columns - s.ways_at[i, a, 1]
    # Cells at an edge of the view have neighbours beyond, unless it is one of the map.
    left, low = min(s.ways_at[i, a, 0], 1), min(s.ways_at[i, a, 1], 1)
    right = width - (s.ways_at[i, a, 0] + width < columns)
    high = height - (s.ways_at[i, a, 1] + height < s.floor.shape[1] // columns)
    return left <= x < right and low <= y < high and s.ways[i, a, y, x] < UNREACHED


@routine
def bound_way(c, s, i, a):
    """Note a lower bound of the way of agent ``a``.

    A path as long as one side stays inside a block of 2 x 2 cells, so that no path between any
    points of two cells is shorter than the number of moves over open sides, less one, in sides. The
    straight distance is a bound, too, and the better one if no side closes the straight line.
    """
    centres, columns, goal, pos = c.map.centres, c.map.columns, s.goal_pos, s.agent_pos
    rad = s.goal_rad[i, a]
    s.shortest[i, a] = max(apart(goal, pos, i, a) - rad, 0.0)
    # A goal that reaches into other cells may be near on their side of a wall.
    if (
        not lies_in_cell(centres, columns, goal[i, a, 0], goal[i, a, 1], rad)
        or is_straight_open(s.barriers, i, centres, columns, pos, goal, a)
        or walks_straight(c, s, i, a)
    ):
        return
    here = cell_at(centres, columns, pos[i, a, 0], pos[i, a, 1])
    # The search ends at the agent's cell.
    ends, moves = (s.goal_cell[i, a], here), s.moves[i, SIDES]
    search(moves, s.distance[i], s.links[i], ends, (1, 1), -1, columns)
    least = np.int64(s.distance[i, here])
    if least < UNREACHED:
        s.shortest[i, a] = max(s.shortest[i, a], (least - 1) * spacing(centres) - rad)


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
def way_from(ways, ways_at, i, a, column, row):
    """Return how far a cell in view is from agent ``a``'s goal, in fifths of a cell."""
    return np.int64(ways[i, a, row - ways_at[i, a, 1], column - ways_at[i, a, 0]])


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
    if not is_in_view(c, s, i, a, k):
        look_around(c, s, i, a, k)
    columns = c.map.columns
    s.way_cell[i, a] = here if k == here else -1  # which neighbour is nearest changes inside it
    for m in range(2):
        s.way_over[i, a, m, 0] = goal_x if k == goal else c.map.centres[k, 0]
        s.way_over[i, a, m, 1] = goal_y if k == goal else c.map.centres[k, 1]
        way = way_from(s.ways, s.ways_at, i, a, k % columns, k // columns)
        s.way_over[i, a, m, 2] = way * (spacing(c.map.centres) / _FIFTHS)
        if m == 0:
            k = step_down(s.moves, s.floor, s.ways, s.ways_at, i, a, columns, k, goal)


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
def step_down(moves, floor, ways, ways_at, i, a, columns, k, goal):
    """Return the neighbour over which the way from cell ``k`` is shortest; ``k`` at the goal."""
    best, least, cells = k, np.int64(UNREACHED) + 8, floor.shape[1]
    way = way_from(ways, ways_at, i, a, k % columns, k // columns)
    is_connected = floor[i, k] > 0 and floor[i, k] == floor[i, goal]
    for d in range(8):
        column, row = k % columns + _ACROSS[d], k // columns + _ALONG[d]
        is_open = not is_connected or (moves[i, WAYS, k] >> d) & 1 == 1
        if k != goal and is_open and 0 <= column < columns and 0 <= row < cells // columns:
            length = way_from(ways, ways_at, i, a, column, row) + (
                STRAIGHT if d % 4 < 2 else DIAGONAL
            )
            if length < least:
                best, least = row * columns + column, length
            if is_connected and least == way:
                break  # none is shorter
    return best
