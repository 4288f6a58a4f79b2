"""RRT*: a short way through continuous space, from a tree that grows towards random points.

A new point joins the tree where its way from the root is shortest, and points around it are joined
to it where that shortens their ways. Source: Karaman & Frazzoli, "Sampling-based algorithms for
optimal motion planning", International Journal of Robotics Research 30 (2011), algorithm 6. Points
are drawn from cells that lie on ways not much longer than the shortest one over cells, as informed
RRT* draws them from an ellipse (Gammell, Srinivasa & Barfoot 2014), which a maze does not fit into.
"""

import math
from typing import NamedTuple

import numpy as np

from coopbench.baselines.planners.shortest_paths import DIAGONAL, distance_to, measure_ways
from coopbench_envs.core import integer, routine, subroutine, uniform
from coopbench_envs.pathfinding.lattice import FAR, cell_at, spacing
from coopbench_envs.pathfinding.maps.common import ABSENT

WALL_SPARE, AGENT_SPARE = 1.02, 1.05  # distances that agents keep, per radius and sum of radii
_DETOUR, _CELLS = 1.5, 6  # cells are drawn from on ways longer by this factor and so many cells
_STRIDE = 2.0  # length of a branch at most, in cells
_GOAL_EVERY = 10  # points, of which one is the goal until it is found


class Field(NamedTuple):
    """Scratch of one search: what is in the way, and the tree."""

    first: np.ndarray  # (cells + 1,) int32, where the landmarks of a cell begin
    wall: np.ndarray  # (landmarks,) int32, landmarks cell by cell
    body: np.ndarray  # (cells,) int32, first agent to be avoided in a cell, or -1
    next_body: np.ndarray  # (agents,) int32, the next one in the same cell, or -1
    body_pos: np.ndarray  # (agents, 2)
    pool: np.ndarray  # (cells,) int32, cells that points are drawn from
    ways: np.ndarray  # (lanes, 2, cells) int32 distances from start and goal
    queues: tuple[np.ndarray, np.ndarray]  # (cells,) int32
    node: np.ndarray  # (points + 1, 2) points of the tree; 0 is the root
    parent: np.ndarray  # (points + 1,) int32
    branch: np.ndarray  # (points + 1,) length of the way from the parent
    head: np.ndarray  # (cells,) int32, first node in a cell, or -1
    next_node: np.ndarray  # (points + 1,) int32, the next one in the same cell, or -1
    around: np.ndarray  # (points + 1,) int32, nodes near a new one


def make_field(lanes: int, agents: int, cells: int, landmarks: int, points: int) -> Field:
    """Allocate the scratch of searches."""
    numbers = {
        "first": cells + 1,
        "wall": landmarks,
        "body": cells,
        "next_body": agents,
        "pool": cells,
        "parent": points + 1,
        "head": cells,
        "next_node": points + 1,
        "around": points + 1,
    }
    return Field(
        body_pos=np.zeros((agents, 2)),
        ways=np.zeros((lanes, 2, cells), np.int32),
        queues=(np.zeros(cells, np.int32), np.zeros(cells, np.int32)),
        node=np.zeros((points + 1, 2)),
        branch=np.zeros(points + 1),
        **{name: np.zeros(size, np.int32) for name, size in numbers.items()},
    )


@subroutine
def sort_walls(f, i, centres, columns, landmarks):
    """Counting sort of the landmarks by cell."""
    cells = centres.shape[0]
    for k in range(cells + 1):
        f.first[k] = 0
    present = 0
    for o in range(landmarks.shape[1]):
        if landmarks[i, o, 0] != ABSENT:
            f.first[cell_at(centres, columns, landmarks[i, o, 0], landmarks[i, o, 1])] += 1
            present += 1
    for k in range(1, cells):  # counts become ends
        f.first[k] += f.first[k - 1]
    f.first[cells] = present
    for o in range(landmarks.shape[1]):  # ends become beginnings
        if landmarks[i, o, 0] != ABSENT:
            k = cell_at(centres, columns, landmarks[i, o, 0], landmarks[i, o, 1])
            f.first[k] -= 1
            f.wall[f.first[k]] = o


@routine
def forget_bodies(f):
    """Avoid no agent."""
    for k in range(f.body.shape[0]):
        f.body[k] = -1


@routine
def add_body(f, centres, columns, b, x, y):
    """Avoid agent ``b``, which stands at (x, y)."""
    k = cell_at(centres, columns, x, y)
    f.body_pos[b, 0], f.body_pos[b, 1] = x, y
    f.next_body[b] = f.body[k]
    f.body[k] = b


@subroutine
def search(t, f, room, i, a, radii, landmarks, start, goal, rng):
    """Grow a tree from ``start``; return the node that stands on ``goal``, -1 if none does.

    ``start`` and ``goal`` are (lanes, agents, 2). The way over cells has to exist already.
    """
    x, y = goal[i, a, 0], goal[i, a, 1]
    if not clear(t, f, i, a, radii, landmarks, x, y, x, y):
        return -1
    drawn = fill_pool(t, f, room, i, a, radii, start, goal)
    if drawn == 0:
        return -1
    for k in range(f.head.shape[0]):
        f.head[k] = -1
    side, reached = spacing(t.centres), -1
    plant(t, f, 0, -1, start[i, a, 0], start[i, a, 1])
    grown = 1
    widest = 2.0 * math.sqrt(1.5 * drawn * side * side / math.pi)
    for point in range(f.node.shape[0] - 1):
        x, y = goal[i, a, 0], goal[i, a, 1]
        if reached >= 0 or point % _GOAL_EVERY > 0:
            k = f.pool[integer(rng, i, drawn)]
            x = t.centres[k, 0] + side * (uniform(rng, i) - 0.5)
            y = t.centres[k, 1] + side * (uniform(rng, i) - 0.5)
        nearest = nearest_node(t, f, x, y)
        dx, dy = x - f.node[nearest, 0], y - f.node[nearest, 1]
        share = min(1.0, _STRIDE * side / max(math.sqrt(dx * dx + dy * dy), 1e-12))
        if share < 1.0:
            x, y = f.node[nearest, 0] + share * dx, f.node[nearest, 1] + share * dy
        if not clear(t, f, i, a, radii, landmarks, f.node[nearest, 0], f.node[nearest, 1], x, y):
            continue
        reach = min(_STRIDE * side, widest * math.sqrt(math.log(grown + 1.0) / (grown + 1.0)))
        graft(t, f, i, a, radii, landmarks, nearest, grown, x, y, reach)
        if x == goal[i, a, 0] and y == goal[i, a, 1]:
            reached = grown
        grown += 1
    return reached


@subroutine
def fill_pool(t, f, room, i, a, radii, start, goal):
    """Collect cells on ways that are not much longer than the shortest; return how many."""
    for end in range(2):
        x = start[i, a, 0] if end == 0 else goal[i, a, 0]
        y = start[i, a, 1] if end == 0 else goal[i, a, 1]
        k = cell_at(t.centres, t.columns, x, y)
        measure_ways(room, i, t.columns, end, radii[i, a], k, f.ways, FAR, f.queues)
    target = cell_at(t.centres, t.columns, goal[i, a, 0], goal[i, a, 1])
    if f.ways[i, 0, target] == FAR:
        return 0
    most = _DETOUR * f.ways[i, 0, target] + 2 * _CELLS * DIAGONAL
    drawn = 0
    for k in range(f.pool.shape[0]):
        if f.ways[i, 0, k] != FAR and f.ways[i, 0, k] + np.int64(f.ways[i, 1, k]) <= most:
            f.pool[drawn] = k
            drawn += 1
    return drawn


@routine
def plant(t, f, node, parent, x, y):
    """Add a node to the tree, and to the list of its cell."""
    f.node[node, 0], f.node[node, 1] = x, y
    f.parent[node] = parent
    f.branch[node] = 0.0
    if parent >= 0:
        f.branch[node] = between(f, parent, x, y)
    k = cell_at(t.centres, t.columns, x, y)
    f.next_node[node] = f.head[k]
    f.head[k] = node


@routine
def between(f, node, x, y):
    """Return the distance of a point from a node."""
    dx, dy = x - f.node[node, 0], y - f.node[node, 1]
    return math.sqrt(dx * dx + dy * dy)


@routine
def way_to(f, node):
    """Return the length of the way from the root to a node."""
    total = 0.0
    while node > 0:
        total += f.branch[node]
        node = f.parent[node]
    return total


@subroutine
def nearest_node(t, f, x, y):
    """Search cells in growing squares until no nearer node is possible."""
    k, side = cell_at(t.centres, t.columns, x, y), spacing(t.centres)
    column, row, rows = k % t.columns, k // t.columns, f.head.shape[0] // t.columns
    best, nearest, ring = np.inf, 0, 0
    while ring <= max(rows, t.columns) and (ring - 1) * side < best:
        for r in range(max(row - ring, 0), min(row + ring, rows - 1) + 1):
            stride = 1 if r == row - ring or r == row + ring else max(2 * ring, 1)
            for q in range(column - ring, column + ring + 1, stride):
                node = f.head[r * t.columns + q] if 0 <= q < t.columns else -1
                while node >= 0:
                    gap = between(f, node, x, y)
                    if gap < best:
                        best, nearest = gap, node
                    node = f.next_node[node]
        ring += 1
    return nearest


@subroutine
def graft(t, f, i, a, radii, landmarks, nearest, node, x, y, reach):
    """Join a new node to the tree by the shortest way, and nodes around it to the new one."""
    side = spacing(t.centres)
    k, ring = cell_at(t.centres, t.columns, x, y), int(reach / side) + 1
    column, row, rows = k % t.columns, k // t.columns, f.head.shape[0] // t.columns
    parent, best, count = nearest, way_to(f, nearest) + between(f, nearest, x, y), 0
    for r in range(max(row - ring, 0), min(row + ring, rows - 1) + 1):
        for q in range(max(column - ring, 0), min(column + ring, t.columns - 1) + 1):
            other = f.head[r * t.columns + q]
            while other >= 0:
                gap = between(f, other, x, y)
                if gap <= reach:
                    f.around[count] = other
                    count += 1
                    length = way_to(f, other) + gap
                    to_x, to_y = f.node[other, 0], f.node[other, 1]
                    if length < best and clear(t, f, i, a, radii, landmarks, to_x, to_y, x, y):
                        parent, best = other, length
                other = f.next_node[other]
    plant(t, f, node, parent, x, y)
    for c in range(count):
        other = f.around[c]
        gap, to_x, to_y = between(f, other, x, y), f.node[other, 0], f.node[other, 1]
        shorter = best + gap < way_to(f, other) - 1e-9
        if shorter and clear(t, f, i, a, radii, landmarks, to_x, to_y, x, y):
            f.parent[other] = node
            f.branch[other] = gap


@subroutine
def clear(t, f, i, a, radii, landmarks, x, y, to_x, to_y):
    """Return whether agent ``a`` gets straight from one point to another past all that stands."""
    columns, rows = t.columns, f.head.shape[0] // t.columns
    wall = WALL_SPARE * radii[i, a] + t.landmark_rad
    reach = max(wall, AGENT_SPARE * (radii[i, a] + t.widest))
    low = cell_at(t.centres, columns, min(x, to_x) - reach, min(y, to_y) - reach)
    high = cell_at(t.centres, columns, max(x, to_x) + reach, max(y, to_y) + reach)
    for r in range(low // columns, min(high // columns + 1, rows)):
        for k in range(r * columns + low % columns, r * columns + high % columns + 1):
            for o in range(f.first[k], f.first[k + 1]):
                left, up = landmarks[i, f.wall[o], 0] - x, landmarks[i, f.wall[o], 1] - y
                if distance_to(left, up, to_x - x, to_y - y) < wall:
                    return False
            b = f.body[k]
            while b >= 0:
                left, up = f.body_pos[b, 0] - x, f.body_pos[b, 1] - y
                apart = AGENT_SPARE * (radii[i, a] + radii[i, b])
                # Who stands too close already may go, if not closer.
                apart = min(apart, math.sqrt(left * left + up * up) - 1e-9)
                if distance_to(left, up, to_x - x, to_y - y) < apart:
                    return False
                b = f.next_body[b]
    return True
