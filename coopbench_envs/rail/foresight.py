"""Foresight: where trains will be if they take their shortest ways, and trees that show it.

The trees are those of version 0 with three changes: the distance to a potential conflict is right,
and two flags per node tell of deadlocks and of the shortest way.
"""

import numpy as np

from coopbench_envs.core import routine, subroutine
from coopbench_envs.rail.cells import count, exits, lone
from coopbench_envs.rail.distances import UNREACHABLE, distance_of
from coopbench_envs.rail.figures import count_deadlocked
from coopbench_envs.rail.trains import is_on_map
from coopbench_envs.rail.tree import BRANCHES, CONFLICT, FEATURES, grow, mark_trains, normalise

__all__ = ["FLAGS", "PREDICTED", "find_deadlocks", "foresee", "forget", "meets", "onward", "plant"]

PREDICTED = 50  # cells of a train's way that are predicted
FLAGS = 2  # per node of a tree
DEADLOCK, SHORTEST = range(FLAGS)


@subroutine
def find_deadlocks(c, s, i):
    """Note in ``s.stuck`` which trains can never move again, and return their number."""
    return count_deadlocked(c, s, i)


@routine
def onward(c, s, i, a, place):
    """Return the next place on the shortest way of train ``a``, -1 at its target or without one.

    Of equal ways it is the first of left, forward, right and back.
    """
    nearest, chosen = distance_of(c, s, i, a, place), np.int64(-1)
    if nearest == UNREACHABLE or nearest == 0:
        return chosen
    cell, heading = place >> 2, place & 3
    bits = exits(s.rail[i, cell], heading)
    for k in range(4):
        turn = (heading + 3 + k) & 3
        if (bits >> (3 - turn)) & 1:
            ahead = 4 * (cell + c.map.delta[turn]) + turn
            steps = distance_of(c, s, i, a, ahead)
            if steps < nearest:
                nearest, chosen = steps, np.int64(ahead)
    return chosen


@routine
def steps_until(c, s, i, a, cells):
    """Return the steps until train ``a`` enters the cell that lies ``cells`` ahead, unhindered."""
    if cells == 0:
        return 0
    departs = 0 if is_on_map(s.status[i, a]) else 1
    rest = cells * c.drive.unit - s.distance[i, a]
    return s.broken[i, a] + departs + (rest + s.top_speed[i, a] - 1) // s.top_speed[i, a]


@routine
def foresee(c, s, i):
    """List for every cell which trains on the map come by on their shortest ways.

    Visit ``e`` is that of train ``e // c.shown.predicted`` after ``e % c.shown.predicted`` cells.
    """
    for a in range(c.num_agents):
        place, k = np.int64(-1), 0
        if is_on_map(s.status[i, a]):
            place = np.int64(s.place[i, a])
        while k < c.shown.predicted:
            e = a * c.shown.predicted + k
            s.visit_place[i, e] = place
            if place >= 0:
                s.visit_next[i, e] = s.visit_first[i, place >> 2]
                s.visit_first[i, place >> 2] = e
                place = onward(c, s, i, a, place)
            k += 1


@routine
def forget(c, s, i):
    """Empty the lists of all cells."""
    for e in range(c.num_agents * c.shown.predicted):
        if s.visit_place[i, e] >= 0:
            s.visit_first[i, s.visit_place[i, e] >> 2] = -1


@routine
def meets(c, s, i, a, place, cells):
    """Tell whether train ``a`` would meet another one, ``cells`` ahead at ``place``.

    That is: both are in the cell at the same time, or one enters it as the other leaves, and the
    other one comes from where this one may go.
    """
    bits, first = exits(s.rail[i, place >> 2], place & 3), steps_until(c, s, i, a, cells)
    last = steps_until(c, s, i, a, cells + 1)
    e, conflict = np.int64(s.visit_first[i, place >> 2]), False
    while e >= 0 and not conflict:
        b, ahead, heading = e // c.shown.predicted, e % c.shown.predicted, s.visit_place[i, e] & 3
        back = (heading + 2) & 3
        if b != a and heading != place & 3 and (bits >> (3 - back)) & 1:
            enters, leaves = steps_until(c, s, i, b, ahead), steps_until(c, s, i, b, ahead + 1)
            conflict = first <= leaves and enters <= last
        e = np.int64(s.visit_next[i, e])
    return conflict


@subroutine
def plant(c, s, i, obs):
    """Write the trees of all trains, in [-1, 1]."""
    mark_trains(c, s, i)
    find_deadlocks(c, s, i)
    foresee(c, s, i)
    nodes = len(c.shown.node_level)
    for a in range(c.num_agents):
        grow(c, s, i, a, obs)
        for k in range(FLAGS * nodes):
            obs[i, a, FEATURES * nodes + k] = -1.0
        obs[i, a, FEATURES * nodes + DEADLOCK] = s.stuck[i, a]
        obs[i, a, FEATURES * nodes + SHORTEST] = 0.0
        for m in range(1, nodes):
            if s.node_place[i, m] >= 0:
                annotate(c, s, i, a, m, obs)
        for m in range(nodes):
            if c.shown.node_size[m] > 1:
                mark_shortest(c, s, i, a, m, obs)
        normalise(c, a, i, obs)
    forget(c, s, i)


@routine
def annotate(c, s, i, a, m, obs):
    """Follow the branch of node ``m`` once more: where is a conflict, and is a deadlock ahead?"""
    nodes = len(c.shown.node_level)
    flags = FEATURES * nodes + FLAGS * m
    place, steps = np.int64(s.node_place[i, m]), np.int64(s.node_steps[i, m])
    obs[i, a, flags + DEADLOCK] = 0.0
    s.walk[i] += 1
    while s.walked[i, place] != s.walk[i]:
        s.walked[i, place] = s.walk[i]
        cell = place >> 2
        other = s.train_at[i, cell]
        if other >= 0 and s.stuck[i, other]:
            obs[i, a, flags + DEADLOCK] = 1.0
        if obs[i, a, 6 * m + CONFLICT] > steps and meets(c, s, i, a, place, steps):
            obs[i, a, 6 * m + CONFLICT] = steps
        bits = exits(s.rail[i, cell], place & 3)
        if count(bits) == 1 and s.tracks_at[i, cell] > 1 and cell != s.target[i, a]:
            turn = np.int64(lone(bits))
            place = 4 * (cell + c.map.delta[turn]) + turn
            steps += 1


@routine
def mark_shortest(c, s, i, a, m, obs):
    """Flag the branches of node ``m`` that a shortest way to the target of train ``a`` takes."""
    nearest = np.int64(UNREACHABLE)
    for k in range(BRANCHES):
        place = s.node_place[i, m + 1 + k * c.shown.node_size[m + 1]]
        if place >= 0:
            nearest = min(nearest, distance_of(c, s, i, a, place))
    for k in range(BRANCHES):
        child = m + 1 + k * c.shown.node_size[m + 1]
        place = s.node_place[i, child]
        if place >= 0:
            best = nearest < UNREACHABLE and distance_of(c, s, i, a, place) == nearest
            obs[i, a, FEATURES * len(c.shown.node_level) + FLAGS * child + SHORTEST] = best
