"""Velocity obstacles: half-planes of velocities that avoid others, and the best velocity in them.

A half-plane is a row (nx, ny, b): the velocities v with n . v >= b, n of length 1. Source: van den
Berg, Guy, Lin & Manocha 2011, Reciprocal n-body collision avoidance (sections 4 and 5).
"""

import math
from typing import NamedTuple

import numpy as np

from coopbench_envs.compiling import compiled
from coopbench_envs.core import routine
from coopbench_envs.pathfinding.neighbours import NARROW, Bins, bin_at, bin_of, narrow_bin_of

_DISCS = 24  # nearest discs of walls that an agent minds
_TOUCH = 1.01  # times the sum of radii: discs closer than that touch
_FAR = 1e6  # times the top speed: a target so far away that only its direction matters
_ROUNDING = 1e-9  # share of the top speed by which interval ends may cross


class World(NamedTuple):
    """What is read of the state; arrays over lanes."""

    pos: np.ndarray  # (lanes, agents, 2)
    vel: np.ndarray  # (lanes, agents, 2)
    rad: np.ndarray  # (lanes, agents)
    goal: np.ndarray  # (lanes, agents, 2)
    discs: np.ndarray  # (lanes, landmarks, 2) of walls
    bin_first: np.ndarray  # (lanes, narrow bins + 1)
    bin_landmark: np.ndarray  # (lanes, landmarks)


class Rules(NamedTuple):
    """Numbers of one game and of the policy."""

    bins: Bins
    disc_rad: float
    step_dt: float  # duration of a step
    top: np.ndarray  # (agents,) highest speed
    ahead: float  # time for which agents are avoided
    wall_ahead: float  # time for which walls are avoided
    margin: float  # length added to the sum of radii
    sight: float  # length from disc to disc within which agents are seen
    largest: float  # radius of an agent at most


class Scratch(NamedTuple):
    """Room for one lane and one agent at a time."""

    head: np.ndarray  # (bins,) int64, first agent in a bin; -1 between lanes
    after: np.ndarray  # (agents,) int64, next agent in the same bin or -1
    near: np.ndarray  # (neighbours,) int64, nearest agents, nearest first
    near_square: np.ndarray  # (neighbours,) squares of their distances
    disc: np.ndarray  # (discs,) int64, nearest discs of walls, likewise
    disc_square: np.ndarray  # (discs,)
    within: np.ndarray  # (discs,) bool, disc is an end of a side that the agent stands before
    planes: np.ndarray  # (rows, 3) half-planes: walls, then agents
    relaxed: np.ndarray  # (rows, 3)


def allocate(bins: int, agents: int, neighbours: int) -> Scratch:
    """Allocate the room that ``plan`` needs."""
    rows = _DISCS * (_DISCS + 1) // 2 + neighbours
    return Scratch(
        head=np.full(bins, -1),
        after=np.zeros(agents, np.int64),
        near=np.zeros(neighbours, np.int64),
        near_square=np.zeros(neighbours),
        disc=np.zeros(_DISCS, np.int64),
        disc_square=np.zeros(_DISCS),
        within=np.zeros(_DISCS, np.bool_),
        planes=np.zeros((rows, 3)),
        relaxed=np.zeros((rows, 3)),
    )


@compiled
def plan(w, r, s, velocities):
    """Write every agent's new velocity, (lanes, agents, 2)."""
    for i in range(velocities.shape[0]):
        enter(w, r, s, i)
        for a in range(velocities.shape[1]):
            choose(w, r, s, i, a, velocities)
        for a in range(velocities.shape[1]):
            s.head[bin_at(r.bins, w.pos[i, a, 0], w.pos[i, a, 1])] = -1


@routine
def enter(w, r, s, i):
    """Chain the agents of lane ``i`` by bin."""
    for a in range(w.pos.shape[1] - 1, -1, -1):
        b = bin_at(r.bins, w.pos[i, a, 0], w.pos[i, a, 1])
        s.after[a] = s.head[b]
        s.head[b] = a


@routine
def choose(w, r, s, i, a, velocities):
    """Take the allowed velocity nearest to the one straight to the goal."""
    top = r.top[a]
    x, y = w.goal[i, a, 0] - w.pos[i, a, 0], w.goal[i, a, 1] - w.pos[i, a, 1]
    distance = math.sqrt(x * x + y * y)
    share = min(top, distance / r.step_dt) / max(distance, 1e-12)
    walls = add_walls(w, r, s, i, a)
    count = add_agents(w, r, s, i, a, walls)
    x, y = x * share, y * share
    failed, vx, vy = closest(s.planes, count, top, x, y)
    if failed < count:
        vx, vy = least_harm(s.planes, s.relaxed, walls, failed, count, top, vx, vy)
    velocities[i, a, 0], velocities[i, a, 1] = vx, vy


@routine
def insert(items, squares, count, item, square):
    """Insert an item into a list of the nearest ones; return the list's new length."""
    k = count
    if count == items.shape[0]:
        k -= 1
        if square >= squares[k]:
            return count
    while k > 0 and square < squares[k - 1]:
        items[k], squares[k] = items[k - 1], squares[k - 1]
        k -= 1
    items[k], squares[k] = item, square
    return min(count + 1, items.shape[0])


@routine
def add_walls(w, r, s, i, a):
    """Write the half-planes of walls near agent ``a``; return how many there are.

    They are taken for the velocity 0, which all of them allow. Discs that touch count as one wall
    with straight sides: without that agents would get caught in the dents between them.
    """
    reach = w.rad[i, a] + r.disc_rad + r.margin
    near, longest = reach + r.top[a] * r.wall_ahead, _TOUCH * 2.0 * r.disc_rad
    # The near point of a side may be at one end of it; the disc at its other end counts, too.
    discs = find_discs(w, r, s, i, a, math.sqrt(near * near + longest * longest))
    x, y, count = w.pos[i, a, 0], w.pos[i, a, 1], 0
    for k in range(discs):
        s.within[k] = False
        px, py = w.discs[i, s.disc[k], 0] - x, w.discs[i, s.disc[k], 1] - y
        for j in range(k):
            dx, dy = w.discs[i, s.disc[j], 0] - x - px, w.discs[i, s.disc[j], 1] - y - py
            square = dx * dx + dy * dy
            t = -(px * dx + py * dy)  # where the side is nearest, times its square
            if square < longest * longest and 0.0 < t < square:
                t /= square
                count = add_wall(r, s, count, px + t * dx, py + t * dy, reach, r.top[a])
                s.within[j] = s.within[k] = True
    for k in range(discs):
        if not s.within[k]:
            px, py = w.discs[i, s.disc[k], 0] - x, w.discs[i, s.disc[k], 1] - y
            count = add_wall(r, s, count, px, py, reach, r.top[a])
    return count


@routine
def bins_around(bins, x, y, radius):
    """Return first and last column of the bins within ``radius``, first row and end of rows.

    Rows are given by their first bin, so that they can be walked in steps of ``along_x``.
    """
    x_0 = bin_of(x - radius, bins.x_low, bins.per_length, bins.along_x)
    x_1 = bin_of(x + radius, bins.x_low, bins.per_length, bins.along_x)
    y_0 = bin_of(y - radius, bins.y_low, bins.per_length, bins.along_y)
    y_1 = bin_of(y + radius, bins.y_low, bins.per_length, bins.along_y)
    return x_0, x_1, y_0 * bins.along_x, (y_1 + 1) * bins.along_x


@routine
def find_discs(w, r, s, i, a, radius):
    """List the nearest discs within ``radius`` of agent ``a``; return how many there are."""
    x, y, count = w.pos[i, a, 0], w.pos[i, a, 1], 0
    _, _, begin, end = bins_around(r.bins, x, y, radius)
    x_0, x_1 = narrow_bin_of(r.bins, x - radius), narrow_bin_of(r.bins, x + radius)
    for row in range(NARROW * begin, NARROW * end, NARROW * r.bins.along_x):
        for k in range(w.bin_first[i, row + x_0], w.bin_first[i, row + x_1 + 1]):
            o = w.bin_landmark[i, k]
            dx, dy = w.discs[i, o, 0] - x, w.discs[i, o, 1] - y
            if dx * dx + dy * dy < radius * radius:
                count = insert(s.disc, s.disc_square, count, o, dx * dx + dy * dy)
    return count


@routine
def add_wall(r, s, count, px, py, reach, top):
    """Keep from a wall's nearest point at (px, py) for ``wall_ahead``; no effect beyond reach."""
    distance = math.sqrt(px * px + py * py)
    limit = max(0.0, distance - reach) / r.wall_ahead
    if limit >= top or distance == 0.0:
        return count
    s.planes[count, 0], s.planes[count, 1] = -px / distance, -py / distance
    s.planes[count, 2] = -limit
    return count + 1


@routine
def add_agents(w, r, s, i, a, count):
    """Append the half-planes of the nearest agents in sight; return how many there are now."""
    x, y = w.pos[i, a, 0], w.pos[i, a, 1]
    for k in range(find_agents(w, r, s, i, a)):
        o = s.near[k]
        reach = w.rad[i, a] + w.rad[i, o] + r.margin
        px, py = w.pos[i, o, 0] - x, w.pos[i, o, 1] - y
        vx, vy = w.vel[i, a, 0] - w.vel[i, o, 0], w.vel[i, a, 1] - w.vel[i, o, 1]
        nx, ny, outside = exit_of(px, py, vx, vy, reach, r.ahead, r.step_dt)
        # Each of the two does half of what is missing, or may give away half of what is to spare.
        speed = nx * w.vel[i, a, 0] + ny * w.vel[i, a, 1]
        s.planes[count, 0], s.planes[count, 1], s.planes[count, 2] = nx, ny, speed - 0.5 * outside
        count += 1
    return count


@routine
def find_agents(w, r, s, i, a):
    """List the nearest agents in sight of agent ``a``; return how many there are."""
    x, y, count = w.pos[i, a, 0], w.pos[i, a, 1], 0
    x_0, x_1, begin, end = bins_around(r.bins, x, y, r.sight + w.rad[i, a] + r.largest)
    for row in range(begin, end, r.bins.along_x):
        for b in range(row + x_0, row + x_1 + 1):
            o = s.head[b]
            while o >= 0:
                dx, dy = w.pos[i, o, 0] - x, w.pos[i, o, 1] - y
                radius = r.sight + w.rad[i, a] + w.rad[i, o]
                if o != a and dx * dx + dy * dy < radius * radius:
                    count = insert(s.near, s.near_square, count, o, dx * dx + dy * dy)
                o = s.after[o]
    return count


@routine
def exit_of(px, py, vx, vy, reach, ahead, step_dt):
    """Return the nearest way out of a velocity obstacle: normal, and distance of (vx, vy).

    The obstacle holds the relative velocities that bring two discs, of radii with the sum ``reach``
    and (px, py) apart, together within ``ahead``: a cone cut off by a disc.
    """
    square = px * px + py * py
    touching = square <= reach * reach
    span = step_dt if touching else ahead  # those who touch part within one step
    wx, wy = vx - px / span, vy - py / span  # from the centre of the disc that cuts the cone
    length = math.sqrt(wx * wx + wy * wy)
    inward = wx * px + wy * py
    if touching or (inward < 0.0 and inward * inward > reach * reach * length * length):
        if length == 0.0:
            return -1.0, 0.0, -reach / span
        return wx / length, wy / length, length - reach / span
    leg = math.sqrt(square - reach * reach)
    side = 1.0 if px * vy - py * vx > 0.0 else -1.0  # to the left of the other, or to the right
    lx, ly = (px * leg - side * py * reach) / square, (py * leg + side * px * reach) / square
    nx, ny = -side * ly, side * lx
    return nx, ny, nx * vx + ny * vy


@routine
def closest(planes, count, top, x, y):
    """Return the velocity closest to (x, y) in ``count`` half-planes and the disc of ``top``.

    Returns (count, vx, vy), or (k, vx, vy) where half-plane k shares nothing with those before it,
    and the velocity is the best for those. Incremental: one line at a time where it is violated.
    """
    length = math.sqrt(x * x + y * y)
    share = min(1.0, top / max(length, 1e-300))
    vx, vy = x * share, y * share
    for k in range(count):
        if planes[k, 0] * vx + planes[k, 1] * vy < planes[k, 2]:
            low, high = interval(planes, k, top)
            if low > high + _ROUNDING * top:
                return k, vx, vy
            nx, ny, b = planes[k, 0], planes[k, 1], planes[k, 2]
            t = min(max(nx * y - ny * x, low), high)
            vx, vy = b * nx - t * ny, b * ny + t * nx
    return count, vx, vy


@routine
def interval(planes, k, top):
    """Return the part of half-plane ``k``'s edge in the disc and in all half-planes before.

    The edge is b n + t (-ny, nx); returned are the lowest and highest t, crossed if there is none.
    """
    nx, ny, b = planes[k, 0], planes[k, 1], planes[k, 2]
    if abs(b) > top:
        return 1.0, -1.0
    high = math.sqrt(top * top - b * b)
    low = -high
    for j in range(k):
        along = planes[j, 1] * nx - planes[j, 0] * ny
        missing = planes[j, 2] - b * (planes[j, 0] * nx + planes[j, 1] * ny)
        if abs(along) < 1e-12:
            if missing > _ROUNDING * top:
                return 1.0, -1.0
        elif along > 0.0:
            low = max(low, missing / along)
        else:
            high = min(high, missing / along)
    return low, high


@routine
def least_harm(planes, relaxed, walls, failed, count, top, vx, vy):
    """Return the velocity that violates the half-planes of agents least, within those of the walls.

    The first ``walls`` half-planes hold. Wherever a later one is violated more than those before,
    the best is found where it is violated most of all and as little as possible.
    """
    for k in range(walls):
        for d in range(3):
            relaxed[k, d] = planes[k, d]
    worst = 0.0
    for k in range(max(failed, walls), count):
        nx, ny, b = planes[k, 0], planes[k, 1], planes[k, 2]
        if b - nx * vx - ny * vy <= worst:
            continue
        rows = walls
        for j in range(walls, k):
            dx, dy = planes[j, 0] - nx, planes[j, 1] - ny
            length = math.sqrt(dx * dx + dy * dy)
            if length > 1e-12:
                relaxed[rows, 0], relaxed[rows, 1] = dx / length, dy / length
                relaxed[rows, 2] = (planes[j, 2] - b) / length
                rows += 1
        done, x, y = closest(relaxed, rows, top, _FAR * top * nx, _FAR * top * ny)
        if done == rows:  # always, but for rounding
            vx, vy = x, y
        worst = b - nx * vx - ny * vy
    return vx, vy
