"""Graph: the next decision points along the exits of a train, and the trains before them.

Its size does not depend on the map. All entries are in [-1, 1]; a distance of d cells is written as
``d / (d + c.shown.radius)``.
"""

import numpy as np

from coopbench_envs.core import routine, subroutine
from coopbench_envs.rail import short
from coopbench_envs.rail.cells import count, exits, lone
from coopbench_envs.rail.distances import UNREACHABLE, distance_of
from coopbench_envs.rail.foresight import find_deadlocks, foresee, forget, meets, onward
from coopbench_envs.rail.short import describe
from coopbench_envs.rail.trains import ARRIVED
from coopbench_envs.rail.tree import mark_trains

__all__ = ["FEATURES", "MEANINGS", "PARTS", "write"]

WAYS, POINTS, ENTRIES = 3, 3, 14  # exits, decision points along each, numbers per point
PARTS: dict[str, int | tuple[int, ...]] = {
    "status": 7,
    "train": 4,
    "times": 2,
    "target": 1,
    "waits": 2,
    "ways": (WAYS, POINTS, ENTRIES),
}
MEANINGS = short.MEANINGS | {
    "target": "distance to the target, d / (d + radius)",
    "waits": "train ahead: 0 none, 1 one that waits for this one, -1 another; 1 if deadlocked",
    "ways": "left, forward, right: the next decision points, in 14 numbers each",
}
FIRST = 7 + 4 + 2 + 1 + 2
FEATURES = FIRST + WAYS * POINTS * ENTRIES
LONGEST = 1000  # cells to a decision point at most
# Numbers of a decision point; those from PRESENT on are of the first train before it.
EXISTS, AWAY, DETOUR, TARGET, CHOICES, CONFLICT, PRESENT = range(7)
DISTANCE, DIRECTION, SPEED, TOP_SPEED, BROKEN_FOR, WAITS_FOR, STUCK = range(7, ENTRIES)


@subroutine
def write(c, s, i, obs):
    """Write what all trains see."""
    mark_trains(c, s, i)
    find_deadlocks(c, s, i)
    foresee(c, s, i)
    for a in range(c.num_agents):
        for k in range(FEATURES):
            obs[i, a, k] = 0.0
        describe(c, s, i, a, obs)
        look_ahead(c, s, i, a, obs)
        if s.status[i, a] != ARRIVED:
            look_around(c, s, i, a, obs)
    forget(c, s, i)


@routine
def look_ahead(c, s, i, a, obs):
    """Write how far train ``a`` is from its target, whom it waits for, and whether it is stuck."""
    obs[i, a, 13] = scaled(c, distance_of(c, s, i, a, s.place[i, a]))
    other = holder_ahead(c, s, i, a)
    if other >= 0:
        obs[i, a, 14] = 1.0 if holder_ahead(c, s, i, other) == a else -1.0
    obs[i, a, 15] = s.stuck[i, a]


@routine
def scaled(c, cells):
    """Return a distance in [0, 1]; 1 where there is no way."""
    return 1.0 if cells == UNREACHABLE else cells / (cells + c.shown.radius)


@routine
def holder_ahead(c, s, i, a):
    """Return which train is in the next cell of the shortest way of train ``a``; -1 for none."""
    ahead = np.int64(-1)
    if s.status[i, a] != ARRIVED:
        ahead = onward(c, s, i, a, np.int64(s.place[i, a]))
    return np.int64(s.train_at[i, ahead >> 2]) if ahead >= 0 else np.int64(-1)


@routine
def look_around(c, s, i, a, obs):
    """Write the ways that begin left, forward and right of train ``a``; a lone exit is forward."""
    cell, heading = np.int64(s.place[i, a] >> 2), np.int64(s.place[i, a] & 3)
    bits = exits(s.rail[i, cell], heading)
    only = np.int64(lone(bits))
    for way in range(WAYS):
        turn = (heading + 3 + way) & 3
        if only >= 0:
            turn = only
        if (bits >> (3 - turn)) & 1 and (only < 0 or way == 1):
            place, cells = 4 * (cell + c.map.delta[turn]) + turn, np.int64(1)
            for point in range(POINTS):
                if place >= 0:
                    entry = FIRST + ENTRIES * (POINTS * way + point)
                    place, cells = look_along(c, s, i, a, place, cells, entry, obs)
                    cells += 1


@routine
def look_along(c, s, i, a, place, cells, entry, obs):
    """Write the way from ``place``, ``cells`` ahead, to the next decision point.

    Returns the next place behind it on the shortest way, or -1, and its distance less one.
    """
    obs[i, a, entry + EXISTS] = 1.0
    obs[i, a, entry + CONFLICT] = 1.0
    last, goal = cells + LONGEST, s.target[i, a]
    while True:
        cell = place >> 2
        look_at(c, s, i, a, place, cells, entry, obs)
        bits = exits(s.rail[i, cell], place & 3)
        choices = count(bits)
        if cell == goal or choices != 1 or cells >= last:
            break
        turn = np.int64(lone(bits))
        place = 4 * (cell + c.map.delta[turn]) + turn
        cells += 1
    obs[i, a, entry + AWAY] = scaled(c, cells)
    obs[i, a, entry + TARGET] = cell == goal
    obs[i, a, entry + CHOICES] = choices / 3.0
    shortest, rest = distance_of(c, s, i, a, s.place[i, a]), distance_of(c, s, i, a, place)
    if rest == UNREACHABLE or shortest == UNREACHABLE:
        obs[i, a, entry + DETOUR] = 1.0
    else:
        obs[i, a, entry + DETOUR] = scaled(c, max(cells + rest - shortest, 0))
    if cell == goal:
        return np.int64(-1), cells
    return onward(c, s, i, a, place), cells


@routine
def look_at(c, s, i, a, place, cells, entry, obs):
    """Note the first conflict and the first other train before a decision point."""
    if obs[i, a, entry + CONFLICT] == 1.0 and meets(c, s, i, a, place, cells):
        obs[i, a, entry + CONFLICT] = scaled(c, cells)
    other = s.train_at[i, place >> 2]
    if other < 0 or other == a or obs[i, a, entry + PRESENT] == 1.0:
        return
    obs[i, a, entry + PRESENT] = 1.0
    obs[i, a, entry + DISTANCE] = scaled(c, cells)
    obs[i, a, entry + DIRECTION] = 1.0 if s.place[i, other] & 3 == place & 3 else -1.0
    obs[i, a, entry + SPEED] = s.speed[i, other] / c.drive.unit
    obs[i, a, entry + TOP_SPEED] = s.top_speed[i, other] / c.drive.unit
    obs[i, a, entry + BROKEN_FOR] = min(s.broken[i, other] / c.strikes.longest, 1.0)
    blocker = holder_ahead(c, s, i, other)
    if blocker >= 0:
        obs[i, a, entry + WAITS_FOR] = 1.0 if blocker == a else -1.0
    obs[i, a, entry + STUCK] = s.stuck[i, other]
