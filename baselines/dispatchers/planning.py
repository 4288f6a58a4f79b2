"""Planning: one train after the other around those before, and better orders for some of them.

What a plan costs is what its trains lose of the game's rewards. Large neighbourhood search (Li et
al. 2021, IJCAI) takes the ways of a few trains out of the plan, and plans these anew in another
order; what costs more is undone. Effort is counted in nodes of the search and not in seconds, so
that the same seeds give the same plans on every machine.
"""

from typing import NamedTuple

import numpy as np

from coopbench.baselines.dispatchers.orders import update_times
from coopbench.baselines.dispatchers.visits import append_way, hide, show, withdraw
from coopbench.baselines.dispatchers.way_search import (
    earliest,
    nearer,
    resource_of,
    search,
)
from coopbench_envs.core import routine, subroutine, uniform
from coopbench_envs.rail.distances import UNREACHABLE, cells_from
from coopbench_envs.rail.trains import ARRIVED, MOVING

__all__ = [
    "Choice",
    "cost_of",
    "improve",
    "keep_home",
    "make_choice",
    "plan_all",
    "sort_trains",
    "withdraw_late",
]

GROUP = 12  # trains at most that are planned anew together


class Choice(NamedTuple):
    """Scratch arrays: an order of trains, and the former ways of those that are planned anew."""

    order: np.ndarray  # (trains,) int32
    key: np.ndarray  # (trains,) float64, by which the order is sorted
    group: np.ndarray  # (GROUP,) int32, trains
    chosen: np.ndarray  # (trains,) bool, is in the group
    place: np.ndarray  # (GROUP, longest) int32
    time: np.ndarray  # (GROUP, longest) int32
    length: np.ndarray  # (GROUP,) int32


def make_choice(trains: int, longest: int) -> Choice:
    """Return scratch arrays."""
    return Choice(
        order=np.zeros(trains, np.int32),
        key=np.zeros(trains),
        group=np.zeros(GROUP, np.int32),
        chosen=np.zeros(trains, np.bool_),
        place=np.zeros((GROUP, longest), np.int32),
        time=np.zeros((GROUP, longest), np.int32),
        length=np.zeros(GROUP, np.int32),
    )


@routine
def travel(b, i, a):
    """Return the steps of the shortest way from where a train is, as the rewards count them."""
    cells = cells_from(b, i, a, b.place[i, a])
    if cells == UNREACHABLE:
        return 0
    return ((cells + 1) * b.unit + b.top_speed[i, a] - 1) // b.top_speed[i, a]


@routine
def lost(b, p, i, a):
    """Return what a train loses of the rewards under the plan."""
    limit = np.int64(min(b.limit[i], b.horizon))
    planned = p.length[i, a] > 0
    arrival = np.int64(p.time[i, a, p.length[i, a] - 1]) if planned else limit + 1
    if b.status[i, a] == ARRIVED:
        return 0.0
    if b.by_steps:
        return min(arrival, limit) * b.top_speed[i, a] / b.unit
    if not planned:
        return float(travel(b, i, a))
    return max(0.0, float(arrival - b.due[i, a]))


@routine
def cost_of(b, p, i, a):
    """Return what a train costs under the plan: what it loses, and what its reserve lacks."""
    if b.status[i, a] == ARRIVED or b.by_steps:
        return lost(b, p, i, a)
    lacking = float(b.reserve)
    if p.length[i, a] > 0:
        late = np.int64(p.time[i, a, p.length[i, a] - 1]) - b.due[i, a]
        lacking = max(0.0, float(late + b.reserve))
    return lost(b, p, i, a) + b.weight * lacking


@routine
def plan_train(b, p, k, i, a):
    """Give a train a way around all others; return whether there is one.

    A train at home has to arrive within the limit; one on the map at some time.
    """
    limit = np.int64(min(b.limit[i], b.horizon))
    latest = k.bucket.shape[0] - 1 if b.status[i, a] >= MOVING else limit
    first = search(b, p, k, i, a, latest)
    if first >= 0:
        append_way(p, i, a, k.resources, first)
    return first >= 0


@subroutine
def withdraw_late(b, p, i):
    """Let trains at home stay there if they would come after the limit."""
    limit = min(b.limit[i], b.horizon)
    for a in range(p.length.shape[1]):
        last = p.length[i, a] - 1
        if p.at[i, a] < 0 and last >= 0 and p.time[i, a, last] > limit:
            withdraw(p, i, a, 0)
            p.length[i, a] = 0


@subroutine
def keep_home(b, p, i):
    """Let trains stay at home, one after the other, if by that all together lose less.

    The plan's times must be, and are then, those that the orders lead to.
    """
    total = lost_by_all(b, p, i)
    for a in range(p.length.shape[1]):
        length = p.length[i, a]
        if total == 0.0 or length == 0 or p.at[i, a] >= 0:
            continue
        for j in range(length):
            hide(p, i, p.visit[i, a, j])
        p.length[i, a] = 0
        update_times(b, p, i)
        rest = lost_by_all(b, p, i)
        p.length[i, a] = length
        for j in range(length - 1, -1, -1):
            show(p, i, p.visit[i, a, j])
        if rest < total:
            total = rest
            withdraw(p, i, a, 0)
            p.length[i, a] = 0
    update_times(b, p, i)


@routine
def lost_by_all(b, p, i):
    """Return what all trains together lose of the rewards under the plan."""
    total = 0.0
    for a in range(p.length.shape[1]):
        total += lost(b, p, i, a)
    return total


@subroutine
def plan_all(b, p, k, h, i):
    """Plan all trains at home in the order of ``h.order``; return what the plan costs."""
    n, total = p.length.shape[1], 0.0
    for m in range(n):
        a = h.order[m]
        if p.at[i, a] < 0 and b.status[i, a] < MOVING:
            p.length[i, a] = 0
            plan_train(b, p, k, i, a)
        total += cost_of(b, p, i, a)
    return total


@subroutine
def sort_trains(h, n):
    """Sort the order by the keys, from the lowest; equal ones by their index."""
    for m in range(n):
        a, slot = m, m
        while slot > 0 and h.key[h.order[slot - 1]] > h.key[a]:
            h.order[slot] = h.order[slot - 1]
            slot -= 1
        h.order[slot] = a


@subroutine
def improve(b, p, k, h, i, rng, effort):
    """Plan groups of trains anew until no train loses, or ``effort`` nodes have been expanded."""
    end, n = k.search[1] + effort, p.length.shape[1]
    while k.search[1] < end:
        worst = draw_loser(b, p, i, rng)
        if worst < 0:
            return
        k.search[1] += 50  # so that this ends if nothing is searched
        count = choose_group(b, p, h, i, rng, worst)
        plan_group(b, p, k, h, i, rng, count)
        for a in range(n):
            h.chosen[a] = False


@routine
def draw_loser(b, p, i, rng):
    """Return one of the trains that lose anything, -1 if there is none."""
    n, losers = p.length.shape[1], 0
    for a in range(n):
        losers += cost_of(b, p, i, a) > 0.0
    if losers == 0:
        return -1
    rank = int(uniform(rng, i) * losers)
    for a in range(n):
        if cost_of(b, p, i, a) > 0.0:
            if rank == 0:
                return a
            rank -= 1
    return -1


@routine
def is_free(b, p, i, a):
    """Tell whether a train can be given another way."""
    if b.status[i, a] == ARRIVED:
        return False
    return b.status[i, a] < MOVING or p.length[i, a] > 0


@routine
def take(b, p, h, i, a, count):
    """Put a train into the group if it may be; return the size of the group."""
    if count < GROUP and not h.chosen[a] and is_free(b, p, i, a):
        h.chosen[a] = True
        h.group[count] = a
        return count + 1
    return count


@subroutine
def choose_group(b, p, h, i, rng, worst):
    """Choose the trains that are planned anew: by chance, or in the way of one that loses."""
    n = p.length.shape[1]
    size = min(2 + int(uniform(rng, i) * (GROUP - 1)), n)
    count = take(b, p, h, i, worst, 0)
    if uniform(rng, i) < 0.67:
        count = take_those_around(b, p, h, i, rng, size)
    for _ in range(4 * size):
        if count < size:
            count = take(b, p, h, i, int(uniform(rng, i) * n), count)
    return count


@routine
def take_those_around(b, p, h, i, rng, size):
    """Take trains that visit places of the first one's shortest way; return the group's size.

    Half of the time they visit the same place, which is chosen by chance.
    """
    worst, count, together = h.group[0], 1, uniform(rng, i) < 0.5
    place = np.int64(b.place[i, worst])
    cells = cells_from(b, i, worst, place)
    if cells == UNREACHABLE or cells == 0:
        return count
    only = int(uniform(rng, i) * cells)
    share = 0.1 + 0.4 * uniform(rng, i)
    for step in range(cells):
        if step == only or not together:
            v = p.first[i, resource_of(b, i, place)]
            while v >= 0 and count < size:
                if together or uniform(rng, i) < share:
                    count = take(b, p, h, i, p.train[i, v], count)
                v = p.after[i, v]
        place = nearer(b, i, worst, place)
    return count


@subroutine
def plan_group(b, p, k, h, i, rng, count):
    """Plan a group anew in a random order, and undo that if it costs more or is not possible."""
    before, fits = 0.0, True
    for m in range(count):
        slot = m + int(uniform(rng, i) * (count - m))
        h.group[m], h.group[slot] = h.group[slot], h.group[m]
    for m in range(count):
        a = h.group[m]
        before += cost_of(b, p, i, a)
        h.length[m] = p.length[i, a]
        for j in range(p.length[i, a]):
            h.place[m, j], h.time[m, j] = p.place[i, a, j], p.time[i, a, j]
        withdraw(p, i, a, earliest(b, i, a))
        if p.at[i, a] < 0:
            p.length[i, a] = 0
    after, planned = 0.0, 0
    while planned < count and fits and after <= before:
        a = h.group[planned]
        fits = plan_train(b, p, k, i, a) or p.at[i, a] < 0
        if fits:
            after += cost_of(b, p, i, a)
            planned += 1
    if fits and after <= before:
        return
    for m in range(planned):
        withdraw(p, i, h.group[m], earliest(b, i, h.group[m]))
    for m in range(count):
        restore(b, p, k, h, i, m)


@routine
def restore(b, p, k, h, i, m):
    """Give a train of the group its former way again."""
    a = h.group[m]
    p.length[i, a] = h.length[m]
    for j in range(h.length[m]):
        p.place[i, a, j], p.time[i, a, j] = h.place[m, j], h.time[m, j]
        k.resources[j] = resource_of(b, i, np.int64(h.place[m, j]))
    append_way(p, i, a, k.resources, p.at[i, a] + 1)
