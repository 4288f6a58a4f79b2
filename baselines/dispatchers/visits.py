"""Visits: who is where from when to when, the visits of every place on the rails in their order.

A visit is a train's stay in one resource (see ``rail.motion``), from the step after which it is
there to the last step after which it still is. The visits of a resource are a linked list in the
order of time; -1 is no visit.
"""

from typing import NamedTuple

import numpy as np

from coopbench_envs.core import routine

__all__ = [
    "FAR",
    "Plan",
    "add",
    "append_way",
    "forget_all",
    "hide",
    "make_plan",
    "remove",
    "show",
    "withdraw",
]

FAR = 1 << 30  # a step that never comes


class Plan(NamedTuple):
    """The ways of all trains and the visits that they consist of; axis 0 is the lane."""

    length: np.ndarray  # (lanes, trains) int32, places of a way; 0: the train has none
    at: np.ndarray  # (lanes, trains) int32, index of the train's place in its way; -1: off the map
    place: np.ndarray  # (lanes, trains, longest) int32
    time: np.ndarray  # (lanes, trains, longest) int32, step after which the train is there
    visit: np.ndarray  # (lanes, trains, longest) int32, -1 for places that it has left
    first: np.ndarray  # (lanes, resources) int32, first visit
    begin: np.ndarray  # (lanes, visits) int32
    end: np.ndarray  # (lanes, visits) int32
    train: np.ndarray  # (lanes, visits) int32
    number: np.ndarray  # (lanes, visits) int32, index of the place in the way of the train
    resource: np.ndarray  # (lanes, visits) int32
    before: np.ndarray  # (lanes, visits) int32
    after: np.ndarray  # (lanes, visits) int32; of unused visits the next unused one
    unused: np.ndarray  # (lanes,) int32, first unused visit


def make_plan(lanes: int, trains: int, cells: int, longest: int) -> Plan:
    """Return an empty plan."""
    visits = trains * longest
    per_train, per_visit = (lanes, trains), (lanes, visits)
    ways = {name: np.zeros((*per_train, longest), np.int32) for name in ("place", "time", "visit")}
    names = ("begin", "end", "train", "number", "resource", "before", "after")
    plan = Plan(
        length=np.zeros(per_train, np.int32),
        at=np.full(per_train, -1, np.int32),
        first=np.full((lanes, 2 * cells), -1, np.int32),
        unused=np.zeros(lanes, np.int32),
        **ways,
        **{name: np.zeros(per_visit, np.int32) for name in names},
    )
    plan.after[:] = np.arange(1, visits + 1)
    plan.after[:, -1:] = -1
    return plan


@routine
def add(p, i, resource, begin, end):
    """Add a visit to its resource in the order of time, and return it."""
    v = p.unused[i]
    p.unused[i] = p.after[i, v]
    p.resource[i, v], p.begin[i, v], p.end[i, v] = resource, begin, end
    previous, following = -1, p.first[i, resource]
    while following >= 0 and p.begin[i, following] < begin:
        previous, following = following, p.after[i, following]
    p.before[i, v], p.after[i, v] = previous, following
    if previous >= 0:
        p.after[i, previous] = v
    else:
        p.first[i, resource] = v
    if following >= 0:
        p.before[i, following] = v
    return v


@routine
def hide(p, i, v):
    """Take a visit out of its resource; it still knows its place there, see ``show``."""
    previous, following = p.before[i, v], p.after[i, v]
    if previous >= 0:
        p.after[i, previous] = following
    else:
        p.first[i, p.resource[i, v]] = following
    if following >= 0:
        p.before[i, following] = previous


@routine
def show(p, i, v):
    """Put back the visit that was hidden last; several in the reverse order."""
    previous, following = p.before[i, v], p.after[i, v]
    if previous >= 0:
        p.after[i, previous] = v
    else:
        p.first[i, p.resource[i, v]] = v
    if following >= 0:
        p.before[i, following] = v


@routine
def remove(p, i, v):
    """Take a visit out of its resource for good."""
    hide(p, i, v)
    p.after[i, v] = p.unused[i]
    p.unused[i] = v


@routine
def append_way(p, i, a, resources, first):
    """Add the visits of the places of a way from index ``first`` on, whose times are written.

    ``resources`` are those of the places. The visit before them ends when the first one begins.
    """
    last = p.length[i, a] - 1
    for j in range(first, last + 1):
        begin = p.time[i, a, j]
        end = p.time[i, a, j + 1] - 1 if j < last else begin
        v = add(p, i, resources[j], begin, end)
        p.train[i, v], p.number[i, v] = a, j
        p.visit[i, a, j] = v
    if 0 < first <= last:
        p.end[i, p.visit[i, a, first - 1]] = p.time[i, a, first] - 1


@routine
def withdraw(p, i, a, earliest):
    """Take the visits of a train out of the plan, but for the one where it is.

    That one ends before step ``earliest``, in which the train can leave at the soonest. The way
    itself stays written, its length too.
    """
    for j in range(p.at[i, a] + 1, p.length[i, a]):
        remove(p, i, p.visit[i, a, j])
        p.visit[i, a, j] = -1
    if p.at[i, a] >= 0 and p.length[i, a] > 0:
        p.end[i, p.visit[i, a, p.at[i, a]]] = earliest - 1


@routine
def forget_all(p, i):
    """Take all visits and ways out of the plan of a lane."""
    for a in range(p.length.shape[1]):
        for j in range(max(p.at[i, a], 0), p.length[i, a]):
            remove(p, i, p.visit[i, a, j])
        p.length[i, a] = 0
        p.at[i, a] = -1
