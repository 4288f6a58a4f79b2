"""Figures: the metrics of an episode, and who can never move again."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from coopbench_envs.core import routine
from coopbench_envs.rail.cells import exits
from coopbench_envs.rail.rewards import all_arrived
from coopbench_envs.rail.trains import ARRIVED, BROKEN_OFF_MAP, READY, is_on_map, resource

__all__ = ["METRICS", "inform", "write"]

METRICS = {
    "arrived": "share of trains that have reached their targets, in [0, 1]",
    "normalised_return": "sum of rewards per train and step of the limit, a train's at least -1, "
    "in [-1, 0]",
    "return_2020": "normalized return with the rewards of the 2020 challenge, for any `reward`",
    "deadlocked": "share of the trains on the map that can never move again; 0 without trains",
    "delay": "steps after the due time, mean over trains that have arrived",
    "punctual": "share of trains that have arrived by their due time, in [0, 1]",
    "malfunctions": "malfunctions of trains that had not arrived",
    "on_map": "share of trains that are on the map, in [0, 1]",
    "never_departed": "share of trains that have not entered the map, in [0, 1]",
}
# Values of s.outlook, which is free between steps, as are s.pace and s.held.
OPEN, MOVABLE, STUCK = range(1, 4)


@routine
def write(c, s, i, measures):
    """Write the metrics in their order."""
    n, limit = c.num_agents, max(min(s.limit[i], c.horizon), 1)
    arrived, late, punctual, on_map, home, strikes = 0, 0, 0, 0, 0, 0
    total = 0.0
    for a in range(n):
        status = s.status[i, a]
        if status == ARRIVED:
            arrived += 1
            late += max(0, s.arrival[i, a] - s.due[i, a])
            punctual += s.arrival[i, a] <= s.due[i, a]
        on_map += is_on_map(status)
        home += status <= BROKEN_OFF_MAP
        strikes += s.malfunctions[i, a]
        total += max(s.earned[i, a], -np.float64(limit))
    challenge = -s.open_speed[i] / c.drive.unit + n * all_arrived(c, s, i)
    measures[i, 0] = arrived / n
    measures[i, 1] = min(max(total / (limit * n), -1.0), 0.0)
    measures[i, 2] = challenge / (limit * n)
    measures[i, 3] = count_deadlocked(c, s, i) / max(on_map, 1)
    measures[i, 4] = late / max(arrived, 1)
    measures[i, 5] = punctual / n
    measures[i, 6] = strikes
    measures[i, 7] = on_map / n
    measures[i, 8] = home / n


@routine
def count_deadlocked(c, s, i):
    """Count the trains on the map that no actions of all trains can ever move.

    A train can move if one of its ways leads to a resource that is free, or held by a train that
    can move. Three or more trains that block each other in a ring can, too: they rotate. Who can
    never move again needs no second look.
    """
    n, stuck, free = c.num_agents, 0, 0
    for a in range(n):
        s.outlook[i, a] = MOVABLE
        if is_on_map(s.status[i, a]):
            s.outlook[i, a] = STUCK if s.stuck[i, a] else OPEN
            s.held[i, a] = resource(c, s, i, s.place[i, a])
            s.holder[i, s.held[i, a]] = a
            stuck += 1
            free += not s.stuck[i, a]
    changed = free > 0
    while changed:
        changed = False
        for a in range(n):
            if s.outlook[i, a] == OPEN and has_way(c, s, i, a):
                s.outlook[i, a] = MOVABLE
                stuck -= 1
                free -= 1
                changed = True
        if not changed and free > 2:
            for a in range(n):
                if s.outlook[i, a] == OPEN and not changed and is_in_ring(c, s, i, a):
                    s.outlook[i, a] = MOVABLE
                    stuck -= 1
                    free -= 1
                    changed = True
        changed = changed and free > 0
    for a in range(n):
        if is_on_map(s.status[i, a]):
            s.holder[i, s.held[i, a]] = -1
            s.stuck[i, a] = s.outlook[i, a] != MOVABLE
    return stuck


@routine
def blocker(c, s, i, a, turn):
    """Return the train that holds what ``a`` reaches by ``turn``; -1: none, -2: no such way."""
    cell, heading = s.place[i, a] >> 2, s.place[i, a] & 3
    if (exits(s.rail[i, cell], heading) >> (3 - turn)) & 1 == 0:
        return np.int64(-2)
    ahead = 4 * (cell + c.map.delta[turn]) + turn
    if exits(s.rail[i, ahead >> 2], turn) == 0:
        return np.int64(-2)
    return np.int64(s.holder[i, resource(c, s, i, ahead)])


@routine
def has_way(c, s, i, a):
    """Tell whether one of the ways of train ``a`` is free or will be."""
    for turn in range(4):
        b = blocker(c, s, i, a, turn)
        if b == -1 or (b >= 0 and s.outlook[i, b] == MOVABLE):
            return True
    return False


@routine
def is_in_ring(c, s, i, first):
    """Tell whether train ``first`` waits in a ring of at least three trains that do not move.

    For every train that it may wait for: does that one wait, through others, for the first?
    """
    ring = False
    for turn in range(4):
        b = blocker(c, s, i, first, turn)
        if b >= 0 and b != first and not ring:
            ring = waits_for(c, s, i, b, first)
    return ring


@routine
def waits_for(c, s, i, second, first):
    """Tell whether ``second`` waits for ``first``, other than directly."""
    for a in range(c.num_agents):
        s.pace[i, a] = 0
    s.queue[i, 0] = second
    s.pace[i, second] = 1
    k, last, arrives = 0, 1, False
    while k < last and not arrives:
        a = s.queue[i, k]
        k += 1
        for turn in range(4):
            b = blocker(c, s, i, a, turn)
            if b == first:
                arrives = arrives or a != second
            elif b >= 0 and s.pace[i, b] == 0:
                s.pace[i, b] = 1
                s.queue[i, last] = b
                last += 1
    return arrives


def inform(c: Any, s: Any) -> Mapping[str, np.ndarray]:
    """Return the four infos of flatland-rl, each (lanes, agents); its "state" is "train_state"."""
    on_map = (s.status > BROKEN_OFF_MAP) & (s.status < ARRIVED)
    return {
        "action_required": (s.status == READY)
        | (on_map & (s.distance + s.top_speed >= c.drive.unit)),
        "malfunction": s.broken,
        "speed": s.speed / c.drive.unit,
        "train_state": s.status,
    }
