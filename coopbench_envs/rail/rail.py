"""Rail: trains share a railway network and have to reach their targets on time.

Trains choose their way at switches and may stop; a cell holds one train. Dynamics, rewards and
observations are those of flatland-rl 4.3.0, bit for bit. Page: docs/environments/rail.md.
"""

import math
from collections.abc import Mapping
from typing import Annotated, Any, NamedTuple

import numpy as np
from gymnasium.spaces import Box, Discrete

from coopbench_envs.core import EnvSpec, Kernels, kernel
from coopbench_envs.layouts import Part, consecutive
from coopbench_envs.parameters import Allowed, between, mapping, one_of, span
from coopbench_envs.rail import (
    figures,
    generator,
    instances,
    panorama,
    picture,
    scene,
    short,
    tree,
)
from coopbench_envs.rail.cells import steps
from coopbench_envs.rail.distances import map_targets
from coopbench_envs.rail.lines import FAR
from coopbench_envs.rail.rewards import CHALLENGE_2020, NEVER, NO_VISIT, all_arrived, pay
from coopbench_envs.rail.speeds import read_factor, read_shares, read_unit
from coopbench_envs.rail.trains import ARRIVED, WAITING, advance

REWARDS = ("timetable", "challenge2020")
OBSERVATIONS = ("tree", "tree_raw", "global", "short", "none")
TREE, TREE_RAW, GLOBAL, SHORT, NOTHING = range(5)
ALTERNATIVES = 4  # places at most that serve one intermediate stop


class Params(NamedTuple):
    """Parameters of one task; every field can be given to ``make`` and in a protocol."""

    num_agents: Annotated[int, between(1, 2000, "trains")] = 7
    height: Annotated[int, between(5, 500, "rows of the map")] = 30
    width: Annotated[int, between(5, 500, "columns of the map")] = 30
    cities: Annotated[int, between(0, 1000, "cities at most; 0: a ring of rails")] = 2
    rails_between_cities: Annotated[int, between(1, 20, "tracks between two cities at most")] = 2
    rail_pairs_in_city: Annotated[int, between(1, 10, "pairs of tracks in a city at most")] = 2
    grid_mode: Annotated[bool, Allowed("cities are evenly spaced")] = False
    level_free: Annotated[float, between(0, 1, "share of diamonds without conflict")] = 0.0
    speeds: Annotated[dict, mapping("speeds as fractions, and their shares")] = {"1": 1.0}  # noqa: RUF012
    acceleration: Annotated[str, Allowed("gain of speed per step, a fraction")] = "1"
    braking: Annotated[str, Allowed("loss of speed per step, a fraction")] = "1"
    malfunction_rate: Annotated[
        float, between(0, 1e3, "malfunctions per train and step, of a train that runs")
    ] = 0.0
    malfunction_duration: Annotated[
        tuple[int, int], span(0, 10_000, "steps; the actual ones are one longer")
    ] = (20, 50)
    line_length: Annotated[int, between(2, 10, "stops of a train, start and target included")] = 2
    reward: Annotated[str, one_of(REWARDS, "what is paid for")] = "timetable"
    cancellation_factor: Annotated[
        float, between(0, 1e6, "penalty per step of travel of a train that never departs")
    ] = 1.0
    cancellation_buffer: Annotated[
        float, between(0, 1e6, "steps added to the travel of a train that never departs")
    ] = 0.0
    min_penalty: Annotated[
        float, between(0, 1e6, "least penalty of a train that is on the map at the end")
    ] = 0.0
    not_served_penalty: Annotated[float, between(0, 1e6, "penalty of a stop left out")] = 1.0
    late_factor: Annotated[float, between(0, 1e6, "penalty per step late at a stop")] = 0.2
    early_factor: Annotated[
        float, between(0, 1e6, "penalty per step that a stop is left early")
    ] = 0.5
    collision_factor: Annotated[
        float, between(0, 1e6, "penalty, times the speed, of a train that is stopped by others")
    ] = 0.0
    observation: Annotated[str, one_of(OBSERVATIONS, "what trains see")] = "tree"
    tree_depth: Annotated[int, between(1, 5, "switches in a row that a tree looks beyond")] = 2
    radius: Annotated[int, between(1, 10_000, "cells at which a distance in a tree is 1")] = 2
    horizon: Annotated[
        int | None, between(1, 100_000, "upper bound of steps; none: what the formula can reach")
    ] = None


class Constants(NamedTuple):
    """Numbers and arrays of one task, as the kernels read them."""

    num_agents: int
    horizon: int
    height: int
    width: int
    columns: int  # of the grid with its ring
    cells: int  # of the grid with its ring
    delta: np.ndarray  # (4,) difference of cells of a step
    unit: int  # speeds and distances within a cell are in 1 / unit
    acceleration: int
    braking: int
    num_strikes: int  # at most, per train
    longest_strike: int
    num_stops: int  # between start and target
    reward_code: int
    fair: bool  # the rules of version 1: releases, malfunctions on the map, who waited goes first
    halting: bool  # an episode ends when all trains on the map are deadlocked; with fair rules
    shaping: float  # weight of the potential in the rewards; with fair rules
    predicted: int  # cells of a train's way that are predicted, see foresight.py
    cancellation_factor: float
    cancellation_buffer: float
    min_penalty: float
    not_served_penalty: float
    late_factor: float
    early_factor: float
    collision_factor: float
    observation_code: int
    features: int
    radius: int
    node_level: np.ndarray  # (nodes,) of a tree
    node_size: np.ndarray  # (nodes,) of the subtrees
    speed_units: np.ndarray  # (speeds,) the fields of generator.Plan
    speed_shares: np.ndarray
    strike_gaps: np.ndarray
    strike_low: int
    strike_span: int
    num_cities: int
    pairs: int
    rails_between: int
    grid_centres: np.ndarray
    level_free_share: float
    is_type: np.ndarray
    radius_city: int


def constants(p: Params) -> Constants:
    """Return the constants of a task.

    Raises ``ValueError`` for speeds or shares that do not fit, and for cities without room.
    """
    shares = read_shares(p.speeds)
    acceleration = read_factor("acceleration", p.acceleration)
    braking = read_factor("braking", p.braking)
    unit = read_unit([*shares, acceleration, braking])
    horizon = p.horizon or generator.longest_limit(p)
    levels, subtree = tree.sizes(p.tree_depth)
    code = OBSERVATIONS.index(p.observation)
    pixels = p.height * p.width
    features = (
        tree.FEATURES * len(levels),
        tree.FEATURES * len(levels),
        sum(panorama.CHANNELS) * pixels,
        short.FEATURES,
        1,
    )
    shortest = p.malfunction_duration[0] + 1
    return Constants(
        num_agents=p.num_agents,
        horizon=horizon,
        height=p.height,
        width=p.width,
        columns=p.width + 2,
        cells=(p.width + 2) * (p.height + 2),
        delta=steps(p.width + 2),
        unit=unit,
        acceleration=int(acceleration * unit),
        braking=int(braking * unit),
        num_strikes=math.ceil(horizon / shortest) if p.malfunction_rate > 0 else 0,
        longest_strike=p.malfunction_duration[1] + 1,
        num_stops=p.line_length - 2,
        reward_code=REWARDS.index(p.reward),
        fair=False,
        halting=False,
        shaping=0.0,
        predicted=0,
        **{name: getattr(p, name) for name in _FACTORS},
        observation_code=code,
        features=features[code],
        radius=p.radius,
        node_level=levels,
        node_size=subtree,
        **generator.plan_of(p, shares, unit, horizon)._asdict(),
    )


_FACTORS = (
    *("cancellation_factor", "cancellation_buffer", "min_penalty", "not_served_penalty"),
    *("late_factor", "early_factor", "collision_factor"),
)


class State(NamedTuple):
    """Arrays over lanes; axis 0 is always the lane ``i``. Fields from ``map_of`` on are scratch.

    So are ``rank``, ``waited`` and ``planned``, except under fair rules.
    """

    time: np.ndarray  # (lanes,) int64, steps played; written by the driver
    rail: np.ndarray  # (lanes, cells) uint16, codes, with the ring
    level_free: np.ndarray  # (lanes, cells) int8, 1 where two tracks cross on different levels
    limit: np.ndarray  # (lanes,) int64, steps of the episode
    start: np.ndarray  # (lanes, agents) int32, place
    target: np.ndarray  # (lanes, agents) int32, cell
    target_headings: np.ndarray  # (lanes, agents) int32, bits of the headings that arrive
    top_speed: np.ndarray  # (lanes, agents) int32, in units
    departure: np.ndarray  # (lanes, agents) int32, earliest step
    due: np.ndarray  # (lanes, agents) int32, latest step of arrival without a penalty
    stop_place: np.ndarray  # (lanes, agents, stops, alternatives) int32, place, -1 for none
    stop_departure: np.ndarray  # the same shape, int32, earliest step
    stop_due: np.ndarray  # the same shape, int32, latest step of arrival
    strike_time: np.ndarray  # (lanes, agents, strikes) int32, ascending; FAR behind the last
    strike_length: np.ndarray  # (lanes, agents, strikes) int32, steps
    status: np.ndarray  # (lanes, agents) int8, index in STATUSES
    place: np.ndarray  # (lanes, agents) int32, off the map the start, at the end the target
    speed: np.ndarray  # (lanes, agents) int32, in units
    distance: np.ndarray  # (lanes, agents) int32, in the cell, in units
    broken: np.ndarray  # (lanes, agents) int32, steps until the train is repaired
    fresh: np.ndarray  # (lanes, agents) bool, entered its cell in the last step that it moved
    arrival: np.ndarray  # (lanes, agents) int32, step of arrival; -1 before
    next_strike: np.ndarray  # (lanes, agents) int32, index in the schedule
    malfunctions: np.ndarray  # (lanes, agents) int32, so far, of trains that had not arrived
    stop_since: np.ndarray  # (lanes, agents, stops, alternatives) int32, begin of the open visit
    stop_best: np.ndarray  # the same shape, float64, value of the best visit that has ended
    stop_served: np.ndarray  # the same shape, bool, the train has stopped there
    earned: np.ndarray  # (lanes, agents) float64, sum of rewards
    open_speed: np.ndarray  # (lanes,) int64, sum over steps of the top speeds not yet arrived
    rank: np.ndarray  # (lanes, agents) int32, decides between trains that have waited equally
    waited: np.ndarray  # (lanes, agents) int32, steps in a row that a claim was denied
    planned: np.ndarray  # (lanes,) bool, a plan is known that brings all trains home in time
    map_of: np.ndarray  # (lanes, agents) int32, row of the train's target in distances
    distances: np.ndarray  # (lanes, maps, places) uint16, cells to a target
    queue: np.ndarray  # (lanes, places) int32
    mapped: np.ndarray  # (lanes,) bool, the distances hold for the rails of the lane
    outlook: np.ndarray  # (lanes, agents) int8, see trains.py
    wish: np.ndarray  # (lanes, agents) int32, place in which the train wants to be, -1: none
    pace: np.ndarray  # (lanes, agents) int32, speed if it moves
    left: np.ndarray  # (lanes, agents) int32, place on the map before the last step, -1: none
    crash: np.ndarray  # (lanes, agents) int32, speed at which others stopped it, 0: they did not
    arriving: np.ndarray  # (lanes, agents) bool, in the last step
    order: np.ndarray  # (lanes, agents) int32, trains, who wins a claim first; see trains.py
    held: np.ndarray  # (lanes, agents) int32, resource, see motion.py
    claim: np.ndarray  # (lanes, agents) int32
    verdict: np.ndarray  # (lanes, agents) int8
    swapping: np.ndarray  # (lanes, agents) bool
    holder: np.ndarray  # (lanes, 2 * cells) int32, -1 between steps
    winner: np.ndarray  # (lanes, 2 * cells) int32, -1 between steps
    train_at: np.ndarray  # (lanes, cells) int32, see tree.py
    waiting_at: np.ndarray  # (lanes, cells) int32
    targets_at: np.ndarray  # (lanes, cells) int32, trains with that target
    tracks_at: np.ndarray  # (lanes, cells) int32, transitions of the cell
    seen_cell: np.ndarray  # (lanes, agents) int32
    node_place: np.ndarray  # (lanes, nodes) int32
    node_steps: np.ndarray  # (lanes, nodes) int32
    walk: np.ndarray  # (lanes,) int64
    walked: np.ndarray  # (lanes, places) int64, the last walk that came by
    stuck: np.ndarray  # (lanes, agents) bool, can never move again, see figures.py
    halted: np.ndarray  # (lanes,) bool, the last step has ended the episode by a deadlock
    visit_first: np.ndarray  # (lanes, cells) int32, -1 between steps, see foresight.py
    visit_next: np.ndarray  # (lanes, agents * predicted) int32
    visit_place: np.ndarray  # the same shape, int32
    painted: np.ndarray  # (lanes,) bool, see panorama.py
    shown_pixel: np.ndarray  # (lanes, agents) int32
    shown_status: np.ndarray  # (lanes, agents) int8
    closed: np.ndarray  # (lanes, cells) int32, see generator.py
    label: np.ndarray  # (lanes, places) int32
    previous: np.ndarray  # (lanes, places) int32
    search: np.ndarray  # (lanes,) int32
    city: np.ndarray  # (lanes, cities, 3) int32
    route: np.ndarray  # (lanes, cities) int32, cities that a line serves


_PER_TRAIN = {
    **dict.fromkeys(("start", "target", "target_headings", "top_speed", "departure"), np.int32),
    **dict.fromkeys(("due", "place", "speed", "distance", "broken", "arrival"), np.int32),
    **dict.fromkeys(("next_strike", "malfunctions", "map_of", "wish", "pace", "left"), np.int32),
    **dict.fromkeys(("rank", "waited", "order"), np.int32),
    **dict.fromkeys(("crash", "held", "claim", "seen_cell", "shown_pixel"), np.int32),
    **dict.fromkeys(("status", "outlook", "verdict", "shown_status"), np.int8),
    **dict.fromkeys(("fresh", "arriving", "swapping", "stuck"), np.bool_),
    "earned": np.float64,
}
_PER_CELL = dict.fromkeys(("train_at", "waiting_at", "targets_at", "tracks_at", "closed"), np.int32)
_PER_STOP = dict.fromkeys(("stop_place", "stop_departure", "stop_due", "stop_since"), np.int32)
_PER_LANE = {
    **dict.fromkeys(("time", "limit", "open_speed", "walk"), np.int64),
    **dict.fromkeys(("mapped", "painted", "planned", "halted"), np.bool_),
    "search": np.int32,
}


def allocate(c: Constants, lanes: int) -> State:
    """Return a new state for ``lanes`` games."""
    n, places = c.num_agents, 4 * c.cells
    stops, nodes = (lanes, n, c.num_stops, ALTERNATIVES), len(c.node_level)
    fields: dict[str, np.ndarray] = {k: np.zeros(lanes, kind) for k, kind in _PER_LANE.items()}
    fields |= {name: np.zeros((lanes, n), kind) for name, kind in _PER_TRAIN.items()}
    fields |= {name: np.zeros((lanes, c.cells), kind) for name, kind in _PER_CELL.items()}
    fields |= {name: np.zeros(stops, kind) for name, kind in _PER_STOP.items()}
    fields["train_at"][:] = -1
    return State(
        **fields,
        rail=np.zeros((lanes, c.cells), np.uint16),
        level_free=np.zeros((lanes, c.cells), np.int8),
        strike_time=np.zeros((lanes, n, c.num_strikes), np.int32),
        strike_length=np.zeros((lanes, n, c.num_strikes), np.int32),
        stop_best=np.zeros(stops),
        stop_served=np.zeros(stops, np.bool_),
        # One row more than there are trains: for intermediate stops, which need it only once.
        distances=np.zeros((lanes, n + 1, places), np.uint16),
        queue=np.zeros((lanes, places), np.int32),
        holder=np.full((lanes, 2 * c.cells), -1, np.int32),
        winner=np.full((lanes, 2 * c.cells), -1, np.int32),
        visit_first=np.full((lanes, c.cells), -1, np.int32),
        visit_next=np.zeros((lanes, n * c.predicted), np.int32),
        visit_place=np.zeros((lanes, n * c.predicted), np.int32),
        node_place=np.zeros((lanes, nodes), np.int32),
        node_steps=np.zeros((lanes, nodes), np.int32),
        walked=np.zeros((lanes, places), np.int64),
        label=np.zeros((lanes, places), np.int32),
        previous=np.zeros((lanes, places), np.int32),
        city=np.zeros((lanes, c.num_cities, 3), np.int32),
        route=np.zeros((lanes, c.num_cities), np.int32),
    )


@kernel
def reset(c, s, i, rng):
    generator.draw_instance(c, s, i, rng)
    s.open_speed[i] = 0
    for a in range(c.num_agents):
        s.status[i, a] = WAITING
        s.place[i, a] = s.start[i, a]
        s.speed[i, a] = s.top_speed[i, a]
        s.distance[i, a] = 0
        s.broken[i, a] = 0
        s.fresh[i, a] = True
        s.arrival[i, a] = -1
        s.next_strike[i, a] = 0
        s.malfunctions[i, a] = 0
        s.earned[i, a] = 0.0
        s.swapping[i, a] = False
        for k in range(c.num_stops):
            for j in range(ALTERNATIVES):
                s.stop_since[i, a, k, j] = NEVER
                s.stop_best[i, a, k, j] = NO_VISIT
                s.stop_served[i, a, k, j] = False


@kernel
def prepare(c, s, i):
    if not s.mapped[i]:
        map_targets(c, s, i)
    s.mapped[i] = False  # a state that is restored later may have other rails
    s.painted[i] = False
    s.halted[i] = False
    for cell in range(c.cells):
        s.targets_at[i, cell] = 0
        s.train_at[i, cell] = -1
        s.waiting_at[i, cell] = 0
        code = s.rail[i, cell]
        s.tracks_at[i, cell] = tree.tracks_of(code) if code != 0 else 0
    for a in range(c.num_agents):
        s.stuck[i, a] = False
        s.order[i, a] = a
        s.targets_at[i, s.target[i, a]] += 1
        s.seen_cell[i, a] = s.target[i, a]


@kernel
def step(c, s, i, rng, actions, rewards, terminated):
    advance(c, s, i, actions)
    pay(c, s, i, rewards)
    # Where something is paid to trains that have arrived, they take part until the end.
    lasting = c.reward_code == CHALLENGE_2020
    everybody = all_arrived(c, s, i)
    for a in range(c.num_agents):
        terminated[i, a] = everybody or (not lasting and s.status[i, a] == ARRIVED)


@kernel
def late(c, s, i):
    return s.limit[i]


@kernel
def mask(c, s, i, masks):
    for a in range(c.num_agents):
        status = s.status[i, a]
        idle = status in (WAITING, ARRIVED) or s.broken[i, a] > 0
        masks[i, a, 0] = 1
        for k in range(1, 5):
            masks[i, a, k] = not idle


@kernel
def observe_tree(c, s, i, obs):
    tree.plant(c, s, i, c.observation_code == TREE_RAW, obs)


@kernel
def observe_global(c, s, i, obs):
    panorama.paint(c, s, i, obs)


@kernel
def observe_short(c, s, i, obs):
    short.write(c, s, i, obs)


@kernel
def observe_nothing(c, s, i, obs):
    for a in range(c.num_agents):
        obs[i, a, 0] = 0.0


OBSERVERS = {
    TREE: observe_tree,
    TREE_RAW: observe_tree,
    GLOBAL: observe_global,
    SHORT: observe_short,
    NOTHING: observe_nothing,
}


def kernels(c: Constants) -> Kernels:
    """Return the kernels of a task: of the observations only the one that it shows is compiled."""
    return Kernels(
        allocate=allocate,
        reset=reset,
        step=step,
        observe=OBSERVERS[c.observation_code],
        measure=figures.write,
        prepare=prepare,
        mask=mask,
        late=late,
    )


def observation_space(c: Constants, agent: int) -> Box:
    """Return the bounds; those of a raw tree and of the global picture are infinite above."""
    low, high = np.full(c.features, -1.0), np.ones(c.features)
    if c.observation_code == TREE_RAW:
        low[:], high[:] = -np.inf, np.inf
    elif c.observation_code == GLOBAL:
        pixels = c.height * c.width
        low[: 16 * pixels] = 0.0
        low[21 * pixels :] = 0.0
        high[16 * pixels : 21 * pixels] = np.inf
    return Box(low.astype(np.float32), high.astype(np.float32), dtype=np.float32)


def layout(c: Constants) -> Mapping[str, Part]:
    """Return the parts of an observation, by the parameter ``observation``.

    A tree has n nodes, 1 + 4 + ... + 4**tree_depth of them.

    - tree and tree_raw: distances (n, 6), to_target (n,), trains (n, 5);
    - global: rails (height, width, 16), trains (height, width, 5), targets (height, width, 2);
    - short: status (7,), train (4,), times (2,), ways (3, 4);
    - none: nothing (1,), a zero.
    """
    nodes, size = len(c.node_level), (c.height, c.width)
    if c.observation_code in (TREE, TREE_RAW):
        return consecutive({"distances": (nodes, 6), "to_target": nodes, "trains": (nodes, 5)})
    if c.observation_code == GLOBAL:
        names = ("rails", "trains", "targets")
        sizes = zip(names, panorama.CHANNELS, strict=True)
        return consecutive({name: (*size, channels) for name, channels in sizes})
    if c.observation_code == SHORT:
        return consecutive(short.PARTS)
    return consecutive({"nothing": 1})


def ranges(c: Constants) -> Mapping[str, tuple[Any, Any]]:
    """Return the bounds of fields that kernels index and divide by, or walk along.

    There are no rails on the ring around the grid: nothing that follows rails leaves it.
    """
    first, last = c.columns + 1, c.cells - c.columns - 2  # cells of the grid without its ring
    inside = np.pad(np.ones((c.height, c.width), np.int64), 1)
    places = 4 * first, 4 * last + 3
    return {
        "rail": (0, 0xFFFF * inside.ravel()),
        "level_free": (0, 1),
        "limit": (0, c.horizon),
        "start": places,
        "target": (first, last),
        "target_headings": (0, 0b1111),
        "top_speed": (1, c.unit),
        "stop_place": (-1, places[1]),
        "strike_length": (0, FAR),
        "status": (WAITING, ARRIVED),
        "place": places,
        "speed": (0, c.unit),
        "distance": (0, c.unit - 1),
        "broken": (0, FAR),
        "next_strike": (0, c.num_strikes),
    }


SPEC = EnvSpec(
    id="coopbench/Rail-v0",
    module=__name__,
    kernels=kernels,
    params=Params,
    constants=constants,
    agents=lambda c: tuple(f"train_{a}" for a in range(c.num_agents)),
    observation_space=observation_space,
    action_space=lambda c, agent: Discrete(5),
    layout=layout,
    metrics=figures.METRICS,
    dependent={"delay": "arrived"},
    # Without fair rules nobody reads ranks and waiting times.
    scratch=frozenset(State._fields[State._fields.index("rank") :]),
    picture=picture.picture,
    text=picture.text,
    scene=scene.scene,
    instances=instances.fields_of,
    info=figures.inform,
    ranges=ranges,
    source="flatland-rl 4.3.0",
)
