"""Rail-v1: trains share a railway network, and each is paid for arriving, most if it is on time.

A train is paid once, when it arrives: the time that its timetable allows / the time that it has
taken, at most 1. There are no intermediate stops; version 0 pays for them in the same step. Motion
is that of version 0, with other rules of the game: trains leave a station one after the other,
break down on the map only, and who has waited longest enters a contested cell first.
Page: docs/environments/rail_v1.md.
"""

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated, Any, NamedTuple

import numpy as np
from gymnasium.spaces import Box

from coopbench_envs.core import integer, kernel, routine
from coopbench_envs.elementary import exponential
from coopbench_envs.layouts import Part, consecutive
from coopbench_envs.parameters import between, joined, one_of
from coopbench_envs.rail import figures, foresight, graph, instances, rail, tree
from coopbench_envs.rail.cells import FORWARD, LEFT, RIGHT, STOP, exits, lone
from coopbench_envs.rail.distances import UNREACHABLE, distance_of
from coopbench_envs.rail.rail import Constants
from coopbench_envs.rail.rewards import all_arrived, is_last
from coopbench_envs.rail.speeds import read_shares
from coopbench_envs.rail.trains import ARRIVED, MOVING, WAITING, advance, is_on_map
from coopbench_envs.states import declared, state

OBSERVATIONS = ("tree", "graph", "global", "short", "none")
GRAPH = len(rail.OBSERVATIONS)  # the codes of the others are those of version 0
ON_DEADLOCK = ("play", "end")


# With fair rules these three decide: they are kept.
_BASE = declared(rail.State)
State = state(
    __name__,
    rail.State,
    rank=replace(_BASE["rank"], scratch=False),
    waited=replace(_BASE["waited"], scratch=False, start=0),
    planned=replace(_BASE["planned"], scratch=False, start=False),
)


class Own(NamedTuple):
    """Parameters that version 0 does not share."""

    observation: Annotated[str, one_of(OBSERVATIONS, "what trains see")] = "tree"
    radius: Annotated[int, between(1, 10_000, "cells at which a distance in a tree is 1")] = 10
    shaping: Annotated[
        float, between(0, 1, "weight of the rewards for coming nearer to the target")
    ] = 0.0
    on_deadlock: Annotated[
        str, one_of(ON_DEADLOCK, "what happens when all trains on the map are deadlocked")
    ] = "play"
    horizon: Annotated[
        int | None, between(1, 100_000, "upper bound on steps; none: the limit of the longest ways")
    ] = None


Params = joined(__name__, rail.Network, Own)


def constants(p: Any) -> Constants:
    """Return the constants of a task, those of version 0 with the rules of this one.

    Raises ``ValueError`` for speeds or shares that do not fit, and for cities without room.
    """
    horizon = p.horizon or _longest_limit(p)
    shared = {name: value for name, value in p._asdict().items() if name in rail.Params._fields}
    is_graph = p.observation == "graph"
    shared |= {"horizon": horizon, "observation": "none" if is_graph else p.observation}
    values = rail.constants(rail.Params(**shared))
    sizes = {"tree": (tree.FEATURES + foresight.FLAGS) * len(values.shown.node_level)}
    sizes |= {"graph": graph.FEATURES}
    shown = values.shown._replace(
        code=GRAPH if is_graph else values.shown.code,
        features=sizes.get(p.observation, values.shown.features),
        predicted=foresight.PREDICTED if p.observation in sizes else 0,
    )
    return values._replace(
        rules=values.rules._replace(fair=True, halting=p.on_deadlock == "end"),
        rewards=values.rewards._replace(shaping=p.shaping),
        shown=shown,
        strikes=values.strikes._replace(most=_most_strikes(p.malfunction_rate, horizon)),
    )


def _longest_limit(p: Any) -> int:
    """Return a limit for the longest ways of networks of this size.

    They lead through several cities and around others: with 4 of them at most twice, with 25 at
    most five times as far as the map is high and wide. A network with a longer way, which was not
    among thousands, would get this limit.
    """
    slowest = math.ceil(1 / min(read_shares(p.speeds)))
    longest = (p.height + p.width) * max(2, math.ceil(math.sqrt(p.cities)))
    return slowest * (2 * longest + p.num_agents) + 20


def _most_strikes(rate: float, steps: int) -> int:
    """Return how many malfunctions the schedule of a train has at most.

    Strikes come at every step with the same chance. By Bernstein's inequality the probability of
    more of them is below exp(-40), less than what a random number of 53 bits can tell from 0.
    """
    if rate <= 0.0:
        return 0
    chance = 1.0 - exponential(-rate)
    third, variance = 40.0 / 3.0, steps * chance * (1.0 - chance)
    surplus = third + math.sqrt(third**2 + 80.0 * variance)
    return min(math.ceil(steps * chance + surplus), steps)


@kernel
def reset(c, s, i, rng):
    rail.reset(c, s, i, rng)
    n = c.num_agents
    for a in range(n):
        s.rank[i, a] = a
    for a in range(n - 1):
        b = a + integer(rng, i, n - a)
        rank = s.rank[i, b]
        s.rank[i, b] = s.rank[i, a]
        s.rank[i, a] = rank


@kernel
def step(c, s, i, rng, actions, rewards, terminated):
    advance(c, s, i, actions)
    everybody = all_arrived(c, s, i)
    s.halted[i] = c.rules.halting and not everybody and is_deadlocked(c, s, i)
    over = is_last(c, s, i) or s.halted[i]
    limit = max(min(s.limit[i], c.horizon), 1)
    for a in range(c.num_agents):
        reward = punctuality(s, i, a) if s.arriving[i, a] else 0.0
        s.earned[i, a] += reward
        if c.rewards.shaping > 0.0:
            reward += shaped(c, s, i, a, over, limit)
        rewards[i, a] = reward
        terminated[i, a] = everybody or s.status[i, a] == ARRIVED


@routine
def punctuality(s, i, a):
    """Return the share of the time that train ``a``, which has arrived, took that is allowed."""
    allowed = max(s.due[i, a] - s.departure[i, a], 1)
    return min(1.0, allowed / (s.arrival[i, a] - s.departure[i, a]))


@routine
def is_deadlocked(c, s, i):
    """Tell whether there are trains on the map, and none of them can ever move again."""
    on_map = 0
    for a in range(c.num_agents):
        on_map += is_on_map(s.status[i, a])
    return on_map > 0 and foresight.find_deadlocks(c, s, i) == on_map


@routine
def shaped(c, s, i, a, over, limit):
    """Return the gain of potential in a step: minus the distance to the target / limit.

    The potential is 0 at the end of an episode, so that the gains of every episode add up to minus
    the potential at its begin, whatever is done.
    """
    before = s.left[i, a] if s.left[i, a] >= 0 else s.start[i, a]
    if s.status[i, a] == ARRIVED and not s.arriving[i, a]:
        return 0.0
    gain = np.float64(min(distance_of(c, s, i, a, before), limit))
    if not over and s.status[i, a] != ARRIVED:
        gain -= min(distance_of(c, s, i, a, s.place[i, a]), limit)
    return c.rewards.shaping * gain / limit


@kernel
def late(c, s, i):
    return s.time[i] if s.halted[i] else s.limit[i]


@kernel
def mask(c, s, i, masks):
    for a in range(c.num_agents):
        status, place = s.status[i, a], s.place[i, a]
        bits, heading = exits(s.rail[i, place >> 2], place & 3), place & 3
        active = status not in (WAITING, ARRIVED) and s.broken[i, a] == 0
        only = lone(bits) >= 0
        masks[i, a, 0] = 1
        masks[i, a, LEFT] = active and not only and (bits >> (3 - ((heading + 3) & 3))) & 1
        masks[i, a, FORWARD] = active and (only or (bits >> (3 - heading)) & 1)
        masks[i, a, RIGHT] = active and not only and (bits >> (3 - ((heading + 1) & 3))) & 1
        masks[i, a, STOP] = active and status == MOVING


OBSERVERS = {**rail.OBSERVERS, rail.TREE: foresight.plant, GRAPH: graph.write}


METRICS = {
    "arrived": "share of trains that have reached their targets, in [0, 1]",
    "normalised_return": "time allowed / time taken of a train, at most 1, or 0 if it has not "
    "arrived, mean over trains, in [0, 1]; 1: all have arrived by their due time",
    "progress": "share of the way to its target that a train has covered, mean over trains, in "
    "[0, 1]",
    "deadlocked": "share of the trains on the map that can never move again; 0 without trains",
    "delay": "steps after the due time, mean over trains that have arrived",
    "punctual": "share of trains that have arrived by their due time, in [0, 1]",
    "malfunctions": "malfunctions of trains on the map",
    "on_map": "share of trains that are on the map, in [0, 1]",
    "never_departed": "share of trains that have not entered the map, in [0, 1]",
    "solvable": "1: a plan is known that brings all trains home within the limit if none breaks "
    "down; 0: each train can reach its target, alone",
}


@kernel
def measure(c, s, i, measures):
    figures.write(c, s, i, measures)
    n, total, covered = c.num_agents, 0.0, 0.0
    for a in range(n):
        total += s.earned[i, a]
        way = distance_of(c, s, i, a, s.start[i, a])
        rest = distance_of(c, s, i, a, s.place[i, a])
        if s.status[i, a] == ARRIVED:
            covered += 1.0
        elif 0 < way < UNREACHABLE and rest < way:
            covered += (way - rest) / way
    measures[i, 1] = total / n
    measures[i, 2] = covered / n
    measures[i, 9] = s.planned[i]


def observation_space(c: Constants, agent: int) -> Box:
    """Return the bounds: -1 to 1 for every observation."""
    return Box(-1.0, 1.0, (c.shown.features,), np.float32)


def layout(c: Constants) -> Mapping[str, Part]:
    """Return the parts of an observation, by the parameter ``observation``.

    A tree has n nodes, 1 + 4 + ... + 4**tree_depth of them.

    - tree: distances (n, 6), to_target (n,), trains (n, 5), flags (n, 2);
    - graph: status (7,), train (4,), times (2,), target (1,), waits (2,), ways (3, 3, 14);
    - global, short and none: as in version 0.
    """
    nodes = len(c.shown.node_level)
    if c.shown.code == GRAPH:
        return consecutive(graph.PARTS, graph.MEANINGS)
    if c.shown.code == rail.TREE:
        trains = {"trains": (nodes, 5), "flags": (nodes, foresight.FLAGS)}
        shapes: dict[str, int | tuple[int, ...]] = {
            "distances": (nodes, 6),
            "to_target": nodes,
            **trains,
        }
        return consecutive(shapes, tree.MEANINGS)
    return rail.layout(c)


def fields_of(c: Constants, arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Turn arrays of instances into initial states, see ``instances.fields_of``.

    An instance with the array ``plan`` counts as planned.
    """
    fields = instances.fields_of(c, arrays)
    return {**fields, "planned": np.full(len(fields["limit"]), "plan" in arrays)}


KERNELS = rail.KERNELS._replace(
    state=State, reset=reset, step=step, measure=measure, mask=mask, late=late
)
SPEC = replace(
    rail.SPEC,
    id="coopbench/Rail-v1",
    module=__name__,
    kernels=lambda c: KERNELS._replace(observe=OBSERVERS[c.shown.code]),
    params=Params,
    constants=constants,
    observation_space=observation_space,
    layout=layout,
    metrics=METRICS,
    instances=fields_of,
    source="flatland-rl 4.3.0, with rules of this package",
)
