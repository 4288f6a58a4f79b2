"""The earliest way of one train between the visits of all others.

A search over places and the gaps between two visits of a place (safe intervals; Phillips &
Likhachev 2011, ICRA): of two arrivals in one gap the earlier one is never worse, since a train can
wait there. Motion is exact: a cell takes so many steps at the train's speed, trains follow each
other without gaps, and two never swap their cells. Best first by a train's distance to its target.
"""

from typing import Any, NamedTuple

import numpy as np

from coopbench.baselines.dispatchers.visits import FAR, Plan
from coopbench_envs.core import routine, subroutine
from coopbench_envs.rail.cells import exits
from coopbench_envs.rail.distances import UNREACHABLE, cells_from, check_rows
from coopbench_envs.rail.trains import BROKEN_OFF_MAP, MOVING, WAITING

__all__ = [
    "Board",
    "Desk",
    "board_of",
    "dwell",
    "earliest",
    "make_desk",
    "nearer",
    "resource_of",
    "search",
]


class Board(NamedTuple):
    """What planners read of a game: arrays of its state, lane first, and a few numbers."""

    time: np.ndarray
    limit: np.ndarray
    rail: np.ndarray
    level_free: np.ndarray
    start: np.ndarray
    top_speed: np.ndarray
    departure: np.ndarray
    due: np.ndarray
    status: np.ndarray
    place: np.ndarray
    distance: np.ndarray
    broken: np.ndarray
    map_of: np.ndarray
    numbers: np.ndarray
    distances: np.ndarray
    delta: np.ndarray
    unit: int
    horizon: int
    by_steps: bool  # a train pays for every step until it arrives, not for its delay
    reserve: int  # steps before the due time from which arriving later costs something
    weight: float  # what such a step costs; one of delay costs 1 more


_OF_STATE = Board._fields[: Board._fields.index("delta")]


def board_of(c: Any, state: Any, **aims: Any) -> Board:
    """Return what planners read of a game's constants and state: no malfunction to come.

    ``aims`` are the last three fields. Raises ``ValueError`` if distances of a train are not kept.
    """
    check_rows(state)
    arrays = {name: getattr(state, name) for name in _OF_STATE}
    return Board(**arrays, delta=c.map.delta, unit=c.drive.unit, horizon=c.horizon, **aims)


class Desk(NamedTuple):
    """Scratch arrays of the search, for one train at a time.

    A node is a place in the gap before its first visit, or 4 * visit + heading in the gap after a
    visit, counted behind the places.
    """

    search: np.ndarray  # (2,) int64, number of the present search; nodes expanded so far
    seen: np.ndarray  # (nodes,) int32, the last search that came by
    time: np.ndarray  # (nodes,) int32, earliest step
    origin: np.ndarray  # (nodes,) int32, node before; -1 for the first
    following: np.ndarray  # (nodes,) int32, in its bucket; -1 for the last
    previous: np.ndarray  # (nodes,) int32, in its bucket; -1 for the first; -2 once it is expanded
    bucket: np.ndarray  # (steps,) int32, nodes by the earliest arrival that they promise
    resources: np.ndarray  # (longest,) int32, of the places of a way


def make_desk(cells: int, plan: Plan, steps: int) -> Desk:
    """Return scratch arrays for plans of this size that reach ``steps`` ahead."""
    nodes = 4 * cells + 4 * plan.begin.shape[1]
    names = ("seen", "time", "origin", "following", "previous")
    return Desk(
        search=np.zeros(2, np.int64),
        bucket=np.full(steps, -1, np.int32),
        resources=np.zeros(plan.place.shape[2], np.int32),
        **{name: np.zeros(nodes, np.int32) for name in names},
    )


@routine
def resource_of(b, i, place):
    """Return the resource of a place."""
    cell = place >> 2
    return 2 * cell + (place & 1) * b.level_free[i, cell]


@routine
def dwell(b, i, a):
    """Return the steps that train ``a`` needs for a cell."""
    return (b.unit + b.top_speed[i, a] - 1) // b.top_speed[i, a]


@routine
def earliest(b, i, a):
    """Return the first step in which a train can enter its next cell, or the map from home.

    As far as is visible now: a broken train stays so for the steps that it shows.
    """
    now, broken, status = b.time[i], b.broken[i, a], b.status[i, a]
    if status >= MOVING:
        rest = b.unit - b.distance[i, a]
        return now + broken + max((rest + b.top_speed[i, a] - 1) // b.top_speed[i, a], 1)
    if status == WAITING:
        return max(max(b.departure[i, a], now + 1) + 1, now + broken + 1)
    ready = now + broken + 1
    if status == BROKEN_OFF_MAP and b.departure[i, a] > ready:
        return np.int64(b.departure[i, a] + 1)
    return ready


@routine
def nearer(b, i, a, place):
    """Return the next place on a shortest way."""
    target = cells_from(b, i, a, place) - 1
    for turn in range(4):
        opens = (np.int64(b.rail[i, place >> 2]) >> (4 * (3 - (place & 3)) + 3 - turn)) & 1
        ahead = 4 * ((place >> 2) + b.delta[turn]) + turn
        if opens and cells_from(b, i, a, ahead) == target:
            return np.int64(ahead)
    return place


@routine
def steps_to_go(b, i, a, place):
    """Return the steps to the target from the moment a train enters a place; FAR: no way."""
    cells = cells_from(b, i, a, place)
    return FAR if cells == UNREACHABLE else cells * dwell(b, i, a)


@subroutine
def search(b, p, k, i, a, latest):
    """Write the earliest way of train ``a`` into the plan, without its visits.

    The train's visits must have been withdrawn; if it is on the map, its way goes on from there.
    Returns the index of the first new place; -1, with the way unchanged, if there is none that
    arrives by step ``latest``.
    """
    k.search[0] += 1
    latest = min(latest, k.bucket.shape[0] - 1)
    lowest = open_first_nodes(b, p, k, i, a, latest)
    goal, highest = -1, latest
    for promise in range(lowest, latest + 1):
        while k.bucket[promise] >= 0:
            node = k.bucket[promise]
            take_out(k, node, promise)
            k.previous[node] = -2
            k.search[1] += 1
            if cells_from(b, i, a, place_of(b, p, i, node)) == 0:
                goal = node
                break
            expand(b, p, k, i, a, node, latest)
        if goal >= 0:
            highest = promise
            break
    for promise in range(lowest, latest + 1):  # what is still open
        k.bucket[promise] = -1
    return write_way(b, p, k, i, a, goal) if goal >= 0 and highest <= latest else -1


@routine
def place_of(b, p, i, node):
    """Return the place of a node."""
    places = 2 * p.first.shape[1]
    if node < places:
        return np.int64(node)
    v = (node - places) >> 2
    return np.int64(4 * (p.resource[i, v] >> 1) + (node & 3))


@routine
def open_first_nodes(b, p, k, i, a, latest):
    """Open the nodes in which a way may begin; return the earliest arrival that they promise."""
    places, soonest = 2 * p.first.shape[1], earliest(b, i, a)
    place = np.int64(b.place[i, a])
    togo = steps_to_go(b, i, a, place)
    lowest = latest + 1
    if p.at[i, a] >= 0:
        v = p.visit[i, a, p.at[i, a]]
        lowest = min(lowest, soonest - dwell(b, i, a) + togo)
        lowest = max(lowest, 0)
        offer(k, places + 4 * v + (place & 3), soonest - dwell(b, i, a), -1, lowest, latest)
        return lowest
    resource = resource_of(b, i, place)
    v, begin, node = -1, np.int64(0), place
    while begin + togo <= latest:
        following = p.first[i, resource] if v < 0 else p.after[i, v]
        end = np.int64(p.begin[i, following]) - 1 if following >= 0 else FAR
        time = max(soonest, begin)
        if time <= end:
            lowest = min(lowest, time + togo)
            offer(k, node, time, -1, time + togo, latest)
        if following < 0:
            break
        v = following
        begin = np.int64(p.end[i, v]) + 1
        node = np.int64(places + 4 * v + (place & 3))
    return lowest


@routine
def offer(k, node, time, origin, promise, latest):
    """Open a node, or move it forward if this is earlier than what it has."""
    if promise > latest:
        return
    new = k.seen[node] != k.search[0]
    if not new and (k.previous[node] == -2 or k.time[node] <= time):
        return
    if not new:
        take_out(k, node, promise + k.time[node] - time)
    k.seen[node] = k.search[0]
    k.time[node], k.origin[node] = time, origin
    following = k.bucket[promise]
    k.following[node], k.previous[node] = following, -1
    if following >= 0:
        k.previous[following] = node
    k.bucket[promise] = node


@routine
def take_out(k, node, promise):
    """Take a node out of its bucket."""
    previous, following = k.previous[node], k.following[node]
    if previous >= 0:
        k.following[previous] = following
    else:
        k.bucket[promise] = following
    if following >= 0:
        k.previous[following] = previous


@routine
def expand(b, p, k, i, a, node, latest):
    """Open the nodes that a train can enter from ``node``."""
    places, place = 2 * p.first.shape[1], place_of(b, p, i, node)
    v = -1 if node < places else (node - places) >> 2
    blocker = p.after[i, v] if v >= 0 else p.first[i, resource_of(b, i, place)]
    leave = np.int64(p.begin[i, blocker]) if blocker >= 0 else FAR  # at the latest
    soonest = np.int64(k.time[node]) + dwell(b, i, a)
    bits = exits(b.rail[i, place >> 2], place & 3)
    for turn in range(4):
        ahead = 4 * ((place >> 2) + b.delta[turn]) + turn
        if (bits >> (3 - turn)) & 1 == 0 or exits(b.rail[i, ahead >> 2], turn) == 0:
            continue
        togo = steps_to_go(b, i, a, ahead)
        if soonest + togo <= latest:
            resource, step = resource_of(b, i, ahead), (node, soonest, leave, blocker, togo)
            enter(p, k, i, ahead, resource, step, latest)


@routine
def enter(p, k, i, ahead, resource, step, latest):
    """Open the gaps of a place that a train can enter in time."""
    node, soonest, leave, blocker, togo = step
    places = 2 * p.first.shape[1]
    v, begin = -1, np.int64(0)
    while begin <= leave:
        following = p.first[i, resource] if v < 0 else p.after[i, v]
        end = np.int64(p.begin[i, following]) - 1 if following >= 0 else FAR
        time = max(soonest, begin)
        if time > leave or time + togo > latest:
            break
        # The train there must not come here in the very same step.
        swaps = v >= 0 and time == begin and time == leave and p.train[i, v] == p.train[i, blocker]
        if time <= end and not swaps:
            other = ahead if v < 0 else places + 4 * v + (ahead & 3)
            offer(k, other, time, node, time + togo, latest)
        if following < 0:
            break
        v = following
        begin = np.int64(p.end[i, v]) + 1


@routine
def write_way(b, p, k, i, a, goal):
    """Write places and times from the last node back; return the index of the first new place."""
    begin = p.at[i, a] + 1  # a way from the map has its first node there already
    count, node = 0, goal
    while node >= 0 and not (p.at[i, a] >= 0 and k.origin[node] < 0):
        count += 1
        node = k.origin[node]
    if begin + count > p.place.shape[2]:
        return -1
    p.length[i, a] = begin + count
    node = goal
    for m in range(count):
        j = begin + count - 1 - m
        p.place[i, a, j] = place_of(b, p, i, node)
        p.time[i, a, j] = k.time[node]
        k.resources[j] = resource_of(b, i, np.int64(p.place[i, a, j]))
        node = k.origin[node]
    return begin
