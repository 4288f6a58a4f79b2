"""Orders: trains keep the order in which the plan has them visit every place.

A late train delays the trains after it, but trains never block each other: the plan shows an order
in which all of them can continue.
"""

import numpy as np

from coopbench.baselines.dispatchers.visits import remove
from coopbench.baselines.dispatchers.way_search import dwell, earliest
from coopbench_envs.core import routine, subroutine
from coopbench_envs.rail.cells import FORWARD, LEFT, RIGHT, STOP, follow
from coopbench_envs.rail.trains import ARRIVED, BROKEN_OFF_MAP, MOVING, READY

__all__ = ["choose", "note_progress", "update_times"]


@routine
def note_progress(b, p, i):
    """Remove the visits of places that trains have left."""
    for a in range(p.length.shape[1]):
        status, at = b.status[i, a], p.at[i, a]
        if p.length[i, a] == 0 or status < MOVING or at >= p.length[i, a]:
            continue
        if at < 0:
            at = 0
        elif status != ARRIVED and b.place[i, a] != p.place[i, a, at]:
            remove(p, i, p.visit[i, a, at])
            p.visit[i, a, at] = -1
            at += 1
        if status == ARRIVED:
            for j in range(at, p.length[i, a]):
                remove(p, i, p.visit[i, a, j])
                p.visit[i, a, j] = -1
            at = p.length[i, a]
        p.at[i, a] = at


@routine
def may_enter(p, i, a, j):
    """Tell whether it is a train's turn at place ``j`` of its way.

    So it is when the train before has left, or is there: it may leave in the same step.
    """
    before = p.before[i, p.visit[i, a, j]]
    return before < 0 or p.number[i, before] == p.at[i, p.train[i, before]]


@routine
def choose(b, p, i, a):
    """Return the action of a train that keeps to its way and its turn."""
    status = b.status[i, a]
    if p.length[i, a] == 0 or status == ARRIVED or b.broken[i, a] > 0:
        return 0
    if status < MOVING:
        if status in (READY, BROKEN_OFF_MAP) and may_enter(p, i, a, 0):
            ahead = p.place[i, a, 1] if p.length[i, a] > 1 else -1
            return action_to(b, i, p.place[i, a, 0], ahead)
        return 0
    j = p.at[i, a] + 1
    if j >= p.length[i, a]:
        return STOP
    leaves = b.distance[i, a] + b.top_speed[i, a] >= b.unit
    if leaves and not may_enter(p, i, a, j):
        return STOP
    return action_to(b, i, p.place[i, a, j - 1], p.place[i, a, j])


@routine
def action_to(b, i, place, ahead):
    """Return the action that leads from one place to another, or anywhere if that is -1."""
    for action in (FORWARD, LEFT, RIGHT):
        other = follow(b.rail, i, b.delta, np.int64(place), action)
        if other >= 0 and (ahead < 0 or other == ahead):
            return action
    return STOP


@subroutine
def update_times(b, p, i):
    """Write the times that the plan has from now on, with every order as it is.

    Times are the least that hold for all: the longest path through the visits. Trains that rotate
    wait for each other without any loss of time, so that times are raised until all fit.
    """
    n = p.length.shape[1]
    for a in range(n):
        for j in range(max(p.at[i, a] + 1, 0), p.length[i, a]):
            p.time[i, a, j] = 0
    changed = True
    while changed:
        changed = False
        for a in range(n):
            if p.at[i, a] < p.length[i, a]:
                changed = raise_times(b, p, i, a) or changed
    for a in range(n):
        for j in range(max(p.at[i, a], 0), p.length[i, a]):
            v, last = p.visit[i, a, j], j + 1 == p.length[i, a]
            p.begin[i, v] = b.time[i] if j == p.at[i, a] else p.time[i, a, j]
            p.end[i, v] = p.time[i, a, j] if last else p.time[i, a, j + 1] - 1


@routine
def raise_times(b, p, i, a):
    """Raise the times of one train so that they fit those before; return whether any changed."""
    changed, time, steps = False, earliest(b, i, a), dwell(b, i, a)
    for j in range(p.at[i, a] + 1, p.length[i, a]):
        before = p.before[i, p.visit[i, a, j]]
        if before >= 0:
            time = max(time, left_at(p, i, p.train[i, before], p.number[i, before]))
        if p.time[i, a, j] < time:
            p.time[i, a, j] = time
            changed = True
        time = p.time[i, a, j] + steps
    return changed


@routine
def left_at(p, i, a, j):
    """Return the first step in which another train can be at place ``j`` of a train's way."""
    if j + 1 == p.length[i, a]:
        return p.time[i, a, j] + 1  # it has arrived, and is gone
    return p.time[i, a, j + 1]
