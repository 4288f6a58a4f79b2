"""Priority inheritance with backtracking: one step of a whole team from cell to cell.

Agents choose in the order of their priorities. An agent that wants to go where another one is in
the way lends it its priority, so that the other chooses next and gives way; if the other cannot,
the first takes its next best cell. Source: Okumura, Machida, Defago & Tamura, "Priority inheritance
with backtracking for iterative multi-agent path finding", Artificial Intelligence 310 (2022).

Two steps exclude each other if the discs come too close while both are on their way, instead of if
they share a cell, so that agents may be smaller or larger than cells and step diagonally.
"""

import math
from typing import NamedTuple

import numpy as np

from coopbench.baselines.planners.shortest_paths import (
    COLUMN_STEP,
    DIRECTIONS,
    ROW_STEP,
    beside,
    fits,
)
from coopbench_envs.core import integer, routine, subroutine

CHOICES = DIRECTIONS + 1  # the last is to stay
NEXT, AFTER = range(2)
_SPARE = 1.05  # distance that agents keep, per sum of their radii
_FLIGHT = 4  # rounds off the goal after which an agent flees, and rounds that it does
_ROUNDING = 1e-9


class Team(NamedTuple):
    """Where agents are and want to go; axis 0 is the lane."""

    cell: np.ndarray  # (lanes, agents, 2) int32: where this round leads to, and the next one
    ways: np.ndarray  # (lanes, agents, cells) distance to the goal, in fifths of a cell
    rank: np.ndarray  # (lanes, agents) priority: rounds off the goal, plus a share below 1
    feared: np.ndarray  # (lanes, agents) int32, whose goal an agent flees from
    flight: np.ndarray  # (lanes, agents) int32, rounds that it goes on fleeing
    rng: np.ndarray  # (lanes,) uint64


class Desk(NamedTuple):
    """Scratch of one round, without meaning between rounds."""

    near: np.ndarray  # (agents, agents) int32, who may come into conflict with an agent
    nears: np.ndarray  # (agents,) int32, how many these are
    order: np.ndarray  # (agents,) int32, by priority
    choices: np.ndarray  # (agents, 9) int64, directions with their costs, best first
    offered: np.ndarray  # (agents,) int32, how many these are
    tried: np.ndarray  # (agents,) int32, how many of them have been tried
    choice: np.ndarray  # (agents,) int32, direction of the present one
    decided: np.ndarray  # (agents,) bool, the present one counts
    stuck: np.ndarray  # (agents,) bool, decided to stay for good
    mark: np.ndarray  # (agents,) int32, length of the trail before an agent's present choice
    trail: np.ndarray  # (agents,) int32, agents in the order of their decisions
    stack: np.ndarray  # (agents,) int32, agents that have lent their priority on
    place: np.ndarray  # (agents, 2) int32, column and row
    radius: np.ndarray  # (agents,) in cells


def make_desk(agents: int) -> Desk:
    """Allocate the scratch of a team."""
    numbers = Desk._make(np.zeros(agents, np.int32) for _ in Desk._fields)
    return numbers._replace(
        near=np.zeros((agents, agents), np.int32),
        choices=np.zeros((agents, CHOICES), np.int64),
        decided=np.zeros(agents, np.bool_),
        stuck=np.zeros(agents, np.bool_),
        place=np.zeros((agents, 2), np.int32),
        radius=np.zeros(agents),
    )


@subroutine
def plan_round(team, desk, room, i, columns, side, radii, far, stop):
    """Choose the cells that come after the next ones; with ``stop`` no agent leaves its goal."""
    n = radii.shape[1]
    look_around(team, desk, i, columns, side, radii)
    sort_agents(team, desk, i)
    for a in range(n):
        desk.decided[a] = stop and team.ways[i, a, team.cell[i, a, NEXT]] == 0
        desk.stuck[a] = desk.decided[a]
        desk.choice[a] = DIRECTIONS
    for k in range(n):
        if not desk.decided[desk.order[k]]:
            decide(team, desk, room, i, columns, radii, far, desk.order[k])
    for a in range(n):
        here = team.cell[i, a, NEXT]
        target = beside(room.shape[1], columns, here, desk.choice[a])
        team.cell[i, a, AFTER] = target
        away = team.ways[i, a, target]
        team.flight[i, a] = max(team.flight[i, a] - 1, 0)
        if (away == 0 and team.flight[i, a] == 0) or away == far:
            team.rank[i, a] -= math.floor(team.rank[i, a])
        else:
            team.rank[i, a] += 1.0


@routine
def look_around(team, desk, i, columns, side, radii):
    """List for every agent who may get in its way during one step."""
    n, place = radii.shape[1], desk.place
    for a in range(n):
        place[a, 0] = team.cell[i, a, NEXT] % columns
        place[a, 1] = team.cell[i, a, NEXT] // columns
        desk.radius[a] = radii[i, a] / side
        desk.nears[a] = 0
    for a in range(n):
        for b in range(a):
            reach = int(_SPARE * (desk.radius[a] + desk.radius[b])) + 2
            if abs(place[a, 0] - place[b, 0]) <= reach and abs(place[a, 1] - place[b, 1]) <= reach:
                desk.near[a, desk.nears[a]] = b
                desk.near[b, desk.nears[b]] = a
                desk.nears[a] += 1
                desk.nears[b] += 1


@routine
def sort_agents(team, desk, i):
    """Put agents into the order of their priorities, highest first."""
    rank = team.rank
    for a in range(rank.shape[1]):
        k = a
        while k > 0 and rank[i, desk.order[k - 1]] < rank[i, a]:
            desk.order[k] = desk.order[k - 1]
            k -= 1
        desk.order[k] = a


@subroutine
def decide(team, desk, room, i, columns, radii, far, first):
    """Let agent ``first`` choose, and all that it pushes; a push that fails ends their choice."""
    depth, trailing = 0, 0
    desk.stack[0] = first
    list_choices(team, desk, room, i, columns, radii, far, first)
    while depth >= 0:
        a = desk.stack[depth]
        pushed = in_the_way(desk, a) if desk.decided[a] else -1
        if pushed >= 0 and not desk.decided[pushed]:
            depth += 1
            desk.stack[depth] = pushed
            list_choices(team, desk, room, i, columns, radii, far, pushed)
            continue
        if desk.decided[a] and pushed < 0:
            depth -= 1  # its step stands, unless one before it has to take its own back
            continue
        if desk.decided[a]:
            trailing = take_back(desk, trailing, desk.mark[a])
        desk.mark[a] = trailing
        if next_choice(desk, a):
            desk.trail[trailing] = a
            trailing += 1
        else:
            desk.choice[a] = DIRECTIONS
            desk.stuck[a] = True
            flee(team, i, a, first)
            depth -= 1
        desk.decided[a] = True


@routine
def flee(team, i, a, pusher):
    """Make an agent that was pushed into a dead end leave it, away from the goal of its pusher.

    Both have been off their goals for long. The two trade their priorities, so that now the other
    one has to give way. This goes beyond the source, which does not cover maps with dead ends.
    """
    if team.rank[i, a] >= _FLIGHT and team.rank[i, pusher] >= _FLIGHT and a != pusher:
        rank = team.rank[i, a]
        team.rank[i, a] = team.rank[i, pusher]
        team.rank[i, pusher] = rank
        team.feared[i, a] = pusher
        team.flight[i, a] = _FLIGHT + integer(team.rng, i, 3 * _FLIGHT)


@subroutine
def list_choices(team, desk, room, i, columns, radii, far, a):
    """Sort the steps that walls allow by distance from the goal; then those to empty cells first.

    What is left is decided by chance. Without a way to its goal an agent prefers to stay.
    """
    here, cells = team.cell[i, a, NEXT], room.shape[1]
    count = 0
    for d in range(CHOICES):
        target = beside(cells, columns, here, d)
        if target < 0 or (d < DIRECTIONS and not fits(room, i, here, target, d, radii[i, a])):
            continue
        away = np.int64(team.ways[i, a, target])
        if team.flight[i, a] > 0:
            away = far - np.int64(team.ways[i, team.feared[i, a], target])
        elif away == far:
            away = np.int64(far + (d < DIRECTIONS))
        taken = np.int64(0)
        for k in range(desk.nears[a]):
            if team.cell[i, desk.near[a, k], NEXT] == target:
                taken = np.int64(1)
        cost = (((away * 2 + taken) * 1024 + integer(team.rng, i, 1024)) << 4) + d
        k = count
        while k > 0 and desk.choices[a, k - 1] > cost:
            desk.choices[a, k] = desk.choices[a, k - 1]
            k -= 1
        desk.choices[a, k] = cost
        count += 1
    desk.offered[a] = count
    desk.tried[a] = 0


@subroutine
def next_choice(desk, a):
    """Take the next step that excludes no decided one; return whether there is one."""
    while desk.tried[a] < desk.offered[a]:
        d = int(desk.choices[a, desk.tried[a]] & 15)
        desk.tried[a] += 1
        free = True
        for k in range(desk.nears[a]):
            b = desk.near[a, k]
            if desk.decided[b] and exclude(desk, a, d, b, desk.choice[b]):
                free = False
                break
        if free:
            desk.choice[a] = d
            return True
    return False


@subroutine
def in_the_way(desk, a):
    """Return the agent that blocks the choice of ``a`` by staying where it is, or -1."""
    blocking = -1
    for k in range(desk.nears[a]):
        b = desk.near[a, k]
        stays = not desk.decided[b] or desk.choice[b] == DIRECTIONS
        if stays and exclude(desk, a, desk.choice[a], b, DIRECTIONS):
            if desk.decided[b]:
                return b
            blocking = b
    return blocking


@routine
def take_back(desk, trailing, mark):
    """Undo the decisions from ``mark`` on, except those to stay for good; return ``mark``."""
    for k in range(mark, trailing):
        if not desk.stuck[desk.trail[k]]:
            desk.decided[desk.trail[k]] = False
    return mark


@routine
def exclude(desk, a, d, b, e):
    """Return whether steps ``d`` of agent ``a`` and ``e`` of ``b`` at once bring them too close.

    Agents that are too close already must not come closer.
    """
    x, y = desk.place[a, 0] - desk.place[b, 0], desk.place[a, 1] - desk.place[b, 1]
    u, v = COLUMN_STEP[d] - COLUMN_STEP[e], ROW_STEP[d] - ROW_STEP[e]
    square = u * u + v * v
    if square == 0:
        return False
    share = min(max(-(x * u + y * v) / square, 0.0), 1.0)
    closest = (x + share * u) ** 2 + (y + share * v) ** 2
    apart = _SPARE * (desk.radius[a] + desk.radius[b])
    return closest < min(apart * apart, x * x + y * y) - _ROUNDING
