"""Rail: trains share a railway network and have to reach their targets on time.

Trains choose their way at switches and may stop; a cell holds one train. Dynamics, rewards and
observations are those of flatland-rl 4.3.0, bit for bit. Page: docs/environments/rail.md.
"""

from collections.abc import Mapping
from typing import Annotated, Any, NamedTuple

import numpy as np
from gymnasium.spaces import Box, Discrete

from coopbench_envs.core import EnvSpec, Kernels, kernel
from coopbench_envs.layouts import Part, consecutive
from coopbench_envs.parameters import Allowed, between, joined, one_of, span
from coopbench_envs.rail import figures, generator, instances, panorama, picture, scene, short, tree
from coopbench_envs.rail.cells import steps
from coopbench_envs.rail.distances import map_targets, room
from coopbench_envs.rail.lines import FAR
from coopbench_envs.rail.rewards import CHALLENGE_2020, NEVER, NO_VISIT, all_arrived, pay
from coopbench_envs.rail.speeds import read_factor, read_shares, read_unit
from coopbench_envs.rail.trains import ARRIVED, WAITING, advance
from coopbench_envs.states import Array, array, state

REWARDS = ("timetable", "challenge2020")
OBSERVATIONS = ("tree", "tree_raw", "global", "short", "none")
TREE, TREE_RAW, GLOBAL, SHORT, NOTHING = range(5)
ALTERNATIVES = 4  # places at most that serve one intermediate stop


class Network(NamedTuple):
    """Parameters of either version."""

    num_agents: Annotated[int, between(1, 2000, "trains")] = 7
    height: Annotated[int, between(5, 500, "rows of the map")] = 30
    width: Annotated[int, between(5, 500, "columns of the map")] = 30
    cities: Annotated[int, between(0, 1000, "cities at most; 0: a ring of rails")] = 2
    rails_between_cities: Annotated[int, between(1, 20, "tracks between two cities at most")] = 2
    rail_pairs_in_city: Annotated[int, between(1, 10, "pairs of tracks in a city at most")] = 2
    grid_mode: Annotated[bool, Allowed("cities are evenly spaced")] = False
    level_free: Annotated[float, between(0, 1, "share of diamonds without conflict")] = 0.0
    speeds: Annotated[dict, Allowed("share of the trains with each speed, a fraction")] = {"1": 1.0}  # noqa: RUF012
    malfunction_rate: Annotated[
        float, between(0, 1e3, "malfunctions per step of a train that is not broken")
    ] = 0.0
    malfunction_duration: Annotated[
        tuple[int, int],
        span(0, 10_000, "shortest and longest, in steps; actual ones are one step longer"),
    ] = (20, 50)
    tree_depth: Annotated[int, between(1, 5, "depth of the tree, in switches")] = 2


class Own(NamedTuple):
    """Parameters that version 1 does not share."""

    acceleration: Annotated[str, Allowed("gain of speed per step, a fraction")] = "1"
    braking: Annotated[str, Allowed("loss of speed per step, a fraction")] = "1"
    line_length: Annotated[int, between(2, 10, "stops of a train, start and target included")] = 2
    reward: Annotated[str, one_of(REWARDS, "what trains are paid for")] = "timetable"
    cancellation_factor: Annotated[
        float, between(0, 1e6, "penalty per step of travel of a train that never departs")
    ] = 1.0
    cancellation_buffer: Annotated[
        float, between(0, 1e6, "steps added to the travel of a train that never departs")
    ] = 0.0
    min_penalty: Annotated[
        float, between(0, 1e6, "smallest penalty of a train that is on the map at the end")
    ] = 0.0
    not_served_penalty: Annotated[float, between(0, 1e6, "penalty for a missed stop")] = 1.0
    late_factor: Annotated[float, between(0, 1e6, "penalty per step late at a stop")] = 0.2
    early_factor: Annotated[
        float, between(0, 1e6, "penalty per step that a stop is left early")
    ] = 0.5
    collision_factor: Annotated[
        float, between(0, 1e6, "penalty, times the speed, of a train that is stopped by others")
    ] = 0.0
    observation: Annotated[str, one_of(OBSERVATIONS, "what trains see")] = "tree"
    radius: Annotated[int, between(1, 10_000, "cells at which a distance in a tree is 1")] = 2
    horizon: Annotated[
        int | None,
        between(1, 100_000, "upper bound on steps; none: the largest limit of the formula"),
    ] = None


Params = joined(__name__, Network, Own)


class Map(NamedTuple):
    """Size of the map, ``c.map``."""

    height: int  # rows, without the ring
    width: int  # columns, without the ring
    columns: int  # of the grid with its ring
    cells: int  # of the grid with its ring
    delta: np.ndarray  # (4,) int64, difference of cells of a step in each heading


class Drive(NamedTuple):
    """How trains run, ``c.drive``."""

    unit: int  # speeds and distances within a cell are in 1 / unit
    acceleration: int  # units of speed per step
    braking: int  # units of speed per step


class Rules(NamedTuple):
    """What the game asks for, ``c.rules``."""

    num_stops: int  # between start and target
    fair: bool  # version 1: releases, malfunctions on the map, longest waiting train goes first
    halting: bool  # an episode ends when all trains on the map are deadlocked; with fair rules


class Rewards(NamedTuple):
    """What is paid, ``c.rewards``."""

    code: int  # position in REWARDS
    shaping: float  # weight of the potential; with fair rules
    cancellation_factor: float  # penalty per step of travel, of a train that never departs
    cancellation_buffer: float  # steps added to this travel
    min_penalty: float  # at least, of a train on the map at the end
    not_served_penalty: float  # per missed stop
    late_factor: float  # penalty per step late at a stop
    early_factor: float  # penalty per step too early away from a stop
    collision_factor: float  # penalty, times the speed, of a train stopped by others


class Shown(NamedTuple):
    """What trains see, ``c.shown``."""

    code: int  # position in OBSERVATIONS
    features: int
    radius: int  # cells at which a distance in a tree is 1
    predicted: int  # cells of a train's way that are predicted, see foresight.py
    node_level: np.ndarray  # (nodes,) int64, of a tree
    node_size: np.ndarray  # (nodes,) int64, of the subtrees


class Constants(NamedTuple):
    """Numbers and arrays of one task, as the kernels read them."""

    num_agents: int
    horizon: int  # steps of an episode at most
    map: Map
    drive: Drive
    rules: Rules
    rewards: Rewards
    shown: Shown
    strikes: generator.Strikes
    plan: generator.Plan


def constants(p: Any) -> Constants:
    """Return the constants of a task.

    Raises ``ValueError`` for speeds or shares that do not fit, and for cities without room.
    """
    shares = read_shares(p.speeds)
    acceleration = read_factor("acceleration", p.acceleration)
    braking = read_factor("braking", p.braking)
    unit = read_unit([*shares, acceleration, braking])
    horizon = p.horizon or generator.longest_limit(p)
    return Constants(
        num_agents=p.num_agents,
        horizon=horizon,
        map=Map(
            height=p.height,
            width=p.width,
            columns=p.width + 2,
            cells=(p.width + 2) * (p.height + 2),
            delta=steps(p.width + 2),
        ),
        drive=Drive(unit, int(acceleration * unit), int(braking * unit)),
        rules=Rules(num_stops=p.line_length - 2, fair=False, halting=False),
        rewards=Rewards(
            code=REWARDS.index(p.reward),
            shaping=0.0,
            **{name: getattr(p, name) for name in Rewards._fields[2:]},
        ),
        shown=_shown(p),
        strikes=generator.strikes_of(p, horizon),
        plan=generator.plan_of(p, shares, unit),
    )


def _shown(p: Any) -> Shown:
    """Return the sizes of the observation that is asked for."""
    code, pixels = OBSERVATIONS.index(p.observation), p.height * p.width
    levels, subtree = tree.sizes(p.tree_depth)
    features = (
        tree.FEATURES * len(levels),
        tree.FEATURES * len(levels),
        sum(panorama.CHANNELS) * pixels,
        short.FEATURES,
        1,
    )
    return Shown(
        code=code,
        features=features[code],
        radius=p.radius,
        predicted=0,
        node_level=levels,
        node_size=subtree,
    )


def _per_train(meaning: str, dtype: Any = np.int32, **more: Any) -> Array:
    return array(meaning, "num_agents", dtype=dtype, **more)


def _per_stop(meaning: str, dtype: Any = np.int32, **more: Any) -> Array:
    return array(meaning, "num_agents", "rules.num_stops", ALTERNATIVES, dtype=dtype, **more)


def _per_cell(meaning: str, dtype: Any = np.int32, **more: Any) -> Array:
    return array(meaning, "map.cells", dtype=dtype, **more)


def _per_resource(meaning: str) -> Array:
    return array(
        f"{meaning}, -1 between steps; see motion.py",
        lambda c: 2 * c.map.cells,
        dtype=np.int32,
        start=-1,
        scratch=True,
    )


def _num_places(c: Constants) -> int:
    return 4 * c.map.cells


def _nodes(c: Constants) -> int:
    return len(c.shown.node_level)


def _visits(c: Constants) -> int:
    return c.num_agents * c.shown.predicted


def _rails(c: Constants) -> tuple[Any, Any]:
    # There are no rails on the ring around the grid: nothing that follows rails leaves it.
    inside = np.pad(np.ones((c.map.height, c.map.width), np.int64), 1)
    return 0, 0xFFFF * inside.ravel()


def _cells(c: Constants) -> tuple[int, int]:
    return c.map.columns + 1, c.map.cells - c.map.columns - 2  # of the grid without its ring


def _places(c: Constants) -> tuple[int, int]:
    first, last = _cells(c)
    return 4 * first, 4 * last + 3


# From ``map_of`` on all are scratch. So are ``rank``, ``waited`` and ``planned``, which are not
# read without fair rules.
State = state(
    __name__,
    rail=_per_cell("codes, with the ring", dtype=np.uint16, bounds=_rails),
    level_free=_per_cell(
        "1 where two tracks cross on different levels", dtype=np.int8, bounds=lambda c: (0, 1)
    ),
    limit=array("steps of the episode", dtype=np.int64, bounds=lambda c: (0, c.horizon)),
    start=_per_train("place on the map", bounds=_places),
    target=_per_train("cell", bounds=_cells),
    target_headings=_per_train("bits of the headings that arrive", bounds=lambda c: (0, 0b1111)),
    top_speed=_per_train("highest speed, in units", bounds=lambda c: (1, c.drive.unit)),
    departure=_per_train("earliest step"),
    due=_per_train("latest step of arrival without a penalty"),
    stop_place=_per_stop("place, -1 for none", bounds=lambda c: (-1, _places(c)[1])),
    stop_departure=_per_stop("earliest step"),
    stop_due=_per_stop("latest step of arrival"),
    strike_time=array(
        "steps, ascending; FAR behind the last", "num_agents", "strikes.most", dtype=np.int32
    ),
    strike_length=array(
        "steps", "num_agents", "strikes.most", dtype=np.int32, bounds=lambda c: (0, FAR)
    ),
    status=_per_train(
        "index in STATUSES", dtype=np.int8, start=WAITING, bounds=lambda c: (WAITING, ARRIVED)
    ),
    place=_per_train("place: off the map the start, at the end the target", bounds=_places),
    speed=_per_train("speed, in units", bounds=lambda c: (0, c.drive.unit)),
    distance=_per_train(
        "way in the cell, in units", start=0, bounds=lambda c: (0, c.drive.unit - 1)
    ),
    broken=_per_train("steps until the train is repaired", start=0, bounds=lambda c: (0, FAR)),
    fresh=_per_train("entered its cell in the last step that it moved", np.bool_, start=True),
    arrival=_per_train("step of arrival; -1 before", start=-1),
    next_strike=_per_train("index in the schedule", start=0, bounds=lambda c: (0, c.strikes.most)),
    malfunctions=_per_train("malfunctions so far, of trains that had not arrived", start=0),
    stop_since=_per_stop("begin of the open visit", start=NEVER),
    stop_best=_per_stop("value of the best visit that has ended", np.float64, start=NO_VISIT),
    stop_served=_per_stop("the train has stopped there", np.bool_, start=False),
    earned=_per_train("sum of rewards", np.float64, start=0),
    open_speed=array("sum over steps of the top speeds not yet arrived", dtype=np.int64, start=0),
    rank=_per_train("decides between trains that have waited equally", scratch=True),
    waited=_per_train("steps in a row that a claim was denied", scratch=True),
    planned=array(
        "a plan is known that brings all trains home in time", dtype=np.bool_, scratch=True
    ),
    map_of=_per_train(
        "where the row of its target begins in distances; 0: it has none", scratch=True
    ),
    distances=array(
        "cells to targets from places with rails, see distances.py",
        lambda c: room(c.num_agents, c.map.cells),
        dtype=np.uint16,
        scratch=True,
    ),
    row_length=array("places with rails, and one", dtype=np.int32, scratch=True),
    searched=array(
        "train whose distances the first row has, -1: none", dtype=np.int32, scratch=True
    ),
    queue=array("places of a search", _num_places, dtype=np.int32, scratch=True),
    mapped=array("the distances hold for the rails of the lane", dtype=np.bool_, scratch=True),
    outlook=_per_train("what the train can do, see trains.py", dtype=np.int8, scratch=True),
    wish=_per_train("place in which the train wants to be, -1: none", scratch=True),
    pace=_per_train("speed if it moves", scratch=True),
    left=_per_train("place on the map before the last step, -1: none", scratch=True),
    crash=_per_train("speed at which others stopped it, 0: they did not", scratch=True),
    arriving=_per_train("arrived in the last step", dtype=np.bool_, scratch=True),
    order=_per_train("trains in the order in which they win claims; see trains.py", scratch=True),
    held=_per_train("resource, see motion.py", scratch=True),
    claim=_per_train("resource that the train asks for, see motion.py", scratch=True),
    verdict=_per_train("whether it gets it, see motion.py", dtype=np.int8, scratch=True),
    swapping=_per_train(
        "claims what another one holds that claims its own, see motion.py",
        dtype=np.bool_,
        scratch=True,
    ),
    holder=_per_resource("train that holds it"),
    winner=_per_resource("train that wins it"),
    train_at=_per_cell("train there, see tree.py", start=-1, scratch=True),
    waiting_at=_per_cell("trains that wait there, see tree.py", scratch=True),
    targets_at=_per_cell("trains with that target", scratch=True),
    tracks_at=_per_cell("transitions of the cell", scratch=True),
    seen_cell=_per_train("cell that a train is seen in, see tree.py", scratch=True),
    node_place=array("place of a node, see tree.py", _nodes, dtype=np.int32, scratch=True),
    node_steps=array("cells from the train to it", _nodes, dtype=np.int32, scratch=True),
    walk=array("number of the last walk, see tree.py", dtype=np.int64, scratch=True),
    walked=array("the last walk that came by", _num_places, dtype=np.int64, scratch=True),
    stuck=_per_train("can never move again, see figures.py", dtype=np.bool_, scratch=True),
    halted=array("the last step has ended the episode by a deadlock", dtype=np.bool_, scratch=True),
    visit_first=_per_cell(
        "first visit, -1 between steps, see foresight.py", start=-1, scratch=True
    ),
    visit_next=array("next visit of the same cell", _visits, dtype=np.int32, scratch=True),
    visit_place=array("place of a visit", _visits, dtype=np.int32, scratch=True),
    painted=array("the picture is drawn, see panorama.py", dtype=np.bool_, scratch=True),
    shown_pixel=_per_train("pixel that shows the train, see panorama.py", scratch=True),
    shown_status=_per_train("status that it shows", dtype=np.int8, scratch=True),
    closed=_per_cell("cells that lines must not enter, see generator.py", scratch=True),
    label=array(
        "last search that came by, see network.py", _num_places, dtype=np.int32, scratch=True
    ),
    previous=array("place before on its way", _num_places, dtype=np.int32, scratch=True),
    # Needed once the network has been drawn, where "previous" is not any more.
    numbers=array("numbers of places, see distances.py", same="previous", scratch=True),
    search=array("number of the last search", dtype=np.int32, scratch=True),
    city=array(
        "cell, axis and tracks, see generator.py",
        "plan.num_cities",
        3,
        dtype=np.int32,
        scratch=True,
    ),
    route=array("cities that a line serves", "plan.num_cities", dtype=np.int32, scratch=True),
)


@kernel
def reset(c, s, i, rng):
    generator.draw_instance(c, s, i, rng)
    for a in range(c.num_agents):
        s.place[i, a] = s.start[i, a]
        s.speed[i, a] = s.top_speed[i, a]
        s.swapping[i, a] = False


@kernel
def prepare(c, s, i):
    if not s.mapped[i]:
        map_targets(c, s, i)
    s.mapped[i] = False  # a state that is restored later may have other rails
    s.searched[i] = -1
    s.painted[i] = False
    s.halted[i] = False
    for cell in range(c.map.cells):
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
    lasting = c.rewards.code == CHALLENGE_2020
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
    tree.plant(c, s, i, c.shown.code == TREE_RAW, obs)


@kernel
def observe_nothing(c, s, i, obs):
    for a in range(c.num_agents):
        obs[i, a, 0] = 0.0


OBSERVERS = {
    TREE: observe_tree,
    TREE_RAW: observe_tree,
    GLOBAL: panorama.paint,
    SHORT: short.write,
    NOTHING: observe_nothing,
}


def observation_space(c: Constants, agent: int) -> Box:
    """Return the bounds; those of a raw tree and of the global picture are infinite above."""
    low, high = np.full(c.shown.features, -1.0), np.ones(c.shown.features)
    if c.shown.code == TREE_RAW:
        low[:], high[:] = -np.inf, np.inf
    elif c.shown.code == GLOBAL:
        pixels = c.map.height * c.map.width
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
    nodes, size = len(c.shown.node_level), (c.map.height, c.map.width)
    if c.shown.code in (TREE, TREE_RAW):
        shapes: dict[str, int | tuple[int, ...]] = {
            "distances": (nodes, 6),
            "to_target": nodes,
            "trains": (nodes, 5),
        }
        return consecutive(shapes, tree.MEANINGS)
    if c.shown.code == GLOBAL:
        names = ("rails", "trains", "targets")
        sizes = zip(names, panorama.CHANNELS, strict=True)
        return consecutive({name: (*size, channels) for name, channels in sizes}, panorama.MEANINGS)
    if c.shown.code == SHORT:
        return consecutive(short.PARTS, short.MEANINGS)
    return consecutive({"nothing": 1}, {"nothing": "0"})


KERNELS = Kernels(
    state=State,
    reset=reset,
    step=step,
    observe=observe_tree,
    measure=figures.write,
    prepare=prepare,
    mask=mask,
    late=late,
)
SPEC = EnvSpec(
    id="coopbench/Rail-v0",
    module=__name__,
    # Of the observations only the one that a task shows is compiled.
    kernels=lambda c: KERNELS._replace(observe=OBSERVERS[c.shown.code]),
    params=Params,
    constants=constants,
    agents=lambda c: tuple(f"train_{a}" for a in range(c.num_agents)),
    observation_space=observation_space,
    action_space=lambda c, agent: Discrete(5),
    layout=layout,
    metrics=figures.METRICS,
    dependent={"delay": "arrived"},
    picture=picture.picture,
    text=picture.text,
    scene=scene.scene,
    instances=instances.fields_of,
    info=figures.inform,
    source="flatland-rl 4.3.0",
)
