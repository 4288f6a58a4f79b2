"""Routing: disc-shaped agents steer around obstacles to individual goals at the same time.

Each agent observes its nearest objects and the direction of its goal. Agents in contact push each
other apart and receive a negative reward; the episode ends when all are on their goals at once.
Equations, defaults and provenance: docs/environments/routing.md. Source: CAMAR.
"""

import functools
import math
from collections.abc import Mapping
from typing import Annotated, Any, NamedTuple

import numpy as np
from gymnasium.spaces import Box

from coopbench_envs.core import EnvSpec, Kernels, kernel, routine, subroutine
from coopbench_envs.layouts import consecutive
from coopbench_envs.marks import rebound
from coopbench_envs.parameters import Allowed, between, mapping, named, one_of, resolve
from coopbench_envs.pathfinding import maps, picture
from coopbench_envs.pathfinding.contacts import BATCH, COLUMNS, apart
from coopbench_envs.pathfinding.dynamics import (
    DIFFDRIVE,
    DYNAMICS,
    HOLONOMIC,
    Drives,
    face_goal,
    first_angles,
    longest_way,
    make_drives,
    read_blocks,
)
from coopbench_envs.pathfinding.lattice import explore, send_on
from coopbench_envs.pathfinding.maps import movingai
from coopbench_envs.pathfinding.maps.common import Map
from coopbench_envs.pathfinding.motion import advance
from coopbench_envs.pathfinding.neighbours import (
    NARROW,
    NOTHING,
    Bins,
    distance_of,
    object_of,
    sort_landmarks,
    survey,
)

MAPS = maps.found()


class Params(NamedTuple):
    """Parameters of one task; every field can be given to ``make`` and in a protocol."""

    num_agents: Annotated[int, between(1, 10_000, "agents, each with its own goal")] = 8
    map: Annotated[str, one_of(MAPS, "how instances are drawn")] = "random_grid"
    map_params: Annotated[dict, mapping("parameters of the map")] = {}  # noqa: RUF012
    dynamics: Annotated[str, one_of(DYNAMICS, "how actions move agents")] = "holonomic"
    dynamics_params: Annotated[dict, mapping("parameters of the dynamics")] = {}  # noqa: RUF012
    window: Annotated[
        float, between(0, 1e3, "range of sight, measured from disc to disc", above=True)
    ] = 0.3
    frameskip: Annotated[int, between(0, 10_000, "substeps per step beyond the first")] = 15
    max_obs: Annotated[
        int, between(1, 1000, "number of nearest objects that an agent observes")
    ] = 3
    pos_shaping_factor: Annotated[
        float, between(-1e6, 1e6, "reward per unit of length of progress towards the goal")
    ] = 1.0
    contact_force: Annotated[float, between(0, 1e9, "force per length of overlap")] = 500.0
    contact_margin: Annotated[
        float, between(0, 1e3, "length over which contact softens", above=True)
    ] = 0.001
    lifelong: Annotated[bool, Allowed("an agent that arrives gets a new goal")] = False
    horizon: Annotated[int, between(1, 1_000_000, "steps of an episode")] = 1000


class Rules(NamedTuple):
    """Numbers of one task beside its map and its dynamics, ``c.rules``."""

    max_time: float  # time of arrival of an agent that never arrives
    window: float
    max_obs: int
    pos_shaping_factor: float
    contact_force: float
    contact_margin: float
    lifelong: bool
    shortens: bool  # forces longer than 1 are shortened to length 1
    stops: bool  # agents that have arrived can no longer move


class Constants(NamedTuple):
    """Numbers and arrays of one task, as the kernels read them."""

    num_agents: int
    horizon: int
    map_code: int  # position of the map in MAPS
    map: Map
    drive: Drives
    bins: Bins
    rules: Rules


def constants(p: Params, where: str = "coopbench/Routing-v0") -> Constants:
    """Return the constants, from the checked map and dynamics; ``where`` names them in errors.

    Raises:
        TypeError: a parameter of the map or of the dynamics is unknown.
        ValueError: a value is not allowed, or values do not fit together.
    """
    generator = named("map", p.map, MAPS, where)
    parameters = resolve(generator.params, p.map_params, f"map {p.map!r}")
    m = generator.make_map(parameters, p.num_agents)
    if not m.agent_rad_high < p.window:
        raise ValueError(
            f"Parameter 'window' of {where} was {p.window:g} with agents of radius up to "
            f"{m.agent_rad_high:g}; allowed: more than that radius."
        )
    blocks = read_blocks(p.dynamics, p.dynamics_params, p.num_agents, where)
    drive = make_drives(blocks, p.frameskip + 1)
    return Constants(
        num_agents=p.num_agents,
        horizon=p.horizon,
        map_code=list(MAPS).index(p.map),
        map=m,
        drive=drive,
        bins=_bins(p, m, longest_way(blocks, drive.substeps)),
        rules=Rules(
            max_time=(p.horizon - 1) * drive.step_dt,
            window=p.window,
            max_obs=min(p.max_obs, p.num_agents + m.num_landmarks - 1),
            pos_shaping_factor=p.pos_shaping_factor,
            contact_force=p.contact_force,
            contact_margin=p.contact_margin,
            lifelong=p.lifelong,
            shortens=False,
            stops=False,
        ),
    )


def _bins(p: Params, m: Map, way: float) -> Bins:
    """Return the bins of a world whose agents go at most so long a way in one step."""
    sight = p.window + m.agent_rad_high + max(m.agent_rad_high, m.landmark_rad)
    # With bins as wide as the sight, an agent searches nine of them; no more bins than cells.
    size = max(sight, math.sqrt(m.width * m.height / len(m.centres)))
    skin = min(_ROUNDING * 2 * way, sight)
    return Bins(
        x_low=-0.5 * m.width,
        y_low=-0.5 * m.height,
        per_length=1 / size,
        along_x=math.ceil(m.width / size),
        along_y=math.ceil(m.height / size),
        skin=skin,
        room=p.num_agents * (4 + math.ceil(_landmarks_at_hand(m, skin) / 2)),
    )


def _landmarks_at_hand(m: Map, skin: float) -> int:
    """Return a generous estimate of the landmarks that one agent may come into contact with."""
    if len(m.outline) > 1:
        return 8 * (len(m.outline) // 4)
    reach = (m.agent_rad_high + m.landmark_rad + 0.5 * skin) / (2 * m.landmark_rad)  # in cells
    return min(math.ceil(math.pi * (reach + 0.5) ** 2), m.num_landmarks)


class State(NamedTuple):
    """Arrays over lanes; axis 0 is always the lane ``i``. Fields from ``deck`` on are scratch."""

    time: np.ndarray  # (lanes,) int64, steps played; written by the driver
    agent_pos: np.ndarray  # (lanes, agents, 2) centres
    agent_vel: np.ndarray  # (lanes, agents, 2) velocities
    agent_angle: np.ndarray  # (lanes, agents) heading in [-pi, pi]; 0 where there is none
    goal_pos: np.ndarray  # (lanes, agents, 2)
    landmark_pos: np.ndarray  # (lanes, landmarks, 2) fixed discs: obstacles, walls, absent ones
    agent_rad: np.ndarray  # (lanes, agents)
    goal_rad: np.ndarray  # (lanes, agents) an agent whose centre is nearer is on its goal
    on_goal: np.ndarray  # (lanes, agents) bool
    time_to_reach_goal: np.ndarray  # (lanes, agents) of the last arrival; max_time before any
    num_collisions: np.ndarray  # (lanes, agents) int64, steps with a contact
    collided: np.ndarray  # (lanes, agents) bool, contact in the last step
    deck: np.ndarray  # (lanes, cells) unsigned, cells in drawn order
    slopes: np.ndarray  # (lanes, nodes, 2) slopes of the noise of caves, column by column
    noise: np.ndarray  # (lanes, cells) noise of caves
    bin_first: np.ndarray  # (lanes, narrow bins + 1) unsigned, where one begins in bin_landmark
    bin_landmark: np.ndarray  # (lanes, landmarks) unsigned, landmarks by narrow bin
    bin_agent: np.ndarray  # (lanes, bins) uint16, first agent in a bin; num_agents between surveys
    next_agent: np.ndarray  # (lanes, agents) uint16, next agent in the same bin, or num_agents
    near: np.ndarray  # (lanes, landmarks) unsigned, landmarks around one agent
    touches: np.ndarray  # (lanes,) int64, number of possible contacts
    touch_agent: np.ndarray  # (lanes, room) uint16, their agents, in ascending order
    touch: np.ndarray  # (lanes, room) unsigned, objects that these may come into contact with
    crowded: np.ndarray  # (lanes,) bool, contacts did not fit into the list: all pairs are tried
    paired: np.ndarray  # (lanes, agents) bool, the agent is in the list of pairs
    body: np.ndarray  # (lanes, agents, COLUMNS), see contacts.py
    contact_agent: np.ndarray  # (lanes, BATCH) uint16, of contacts that are resolved at once
    contact_object: np.ndarray  # (lanes, BATCH) unsigned, an agent or a landmark
    contact_x: np.ndarray  # (lanes, BATCH) from the object to the agent
    contact_y: np.ndarray
    contact_reach: np.ndarray  # (lanes, BATCH) sum of their radii
    contact_push: np.ndarray  # (lanes, BATCH) force per length of that vector, or -1 if apart
    course: np.ndarray  # (lanes, 3, BATCH) headings and velocities of an agent in its next substeps
    turns: np.ndarray  # (lanes, agents) uint16, agents that move together, then the others
    seen: np.ndarray  # (lanes, agents, max_obs) int64, nearest visible objects, see neighbours.py
    seen_walls: np.ndarray  # where landmarks are noted: the same list, all objects compete
    hit_agent: np.ndarray  # (lanes, agents) bool, contact with an agent in the last step
    hit_wall: np.ndarray  # (lanes, agents) bool, contact with a landmark in the last step
    barriers: np.ndarray  # (lanes, cells) int32, see lattice.py; no cells unless lifelong
    floor: np.ndarray  # (lanes, cells) int32, number of each cell's connected part; 0: closed
    queue: np.ndarray  # (lanes, cells) int32, for searches on the lattice


_ROUNDING = 1 + 1e-9  # rounding must not take an agent at full speed beyond what a list covers
_STRONGEST = 1e100  # of an action; the squares of what follows from it are finite
_LATTICE = ("barriers", "floor", "queue")


def allocate(c: Constants, lanes: int) -> State:
    """Return a new state for ``lanes`` games."""
    n, landmarks, bins = c.num_agents, c.map.num_landmarks, c.bins.along_x * c.bins.along_y
    cells, waves = len(c.map.centres), c.map.waves_x * c.map.waves_y
    lattice = cells if c.rules.lifelong else 0
    nodes = (c.map.waves_x + 1) * (c.map.waves_y + 1) if waves else 0
    number = _number(n + landmarks)
    seen = np.full((lanes, n, c.rules.max_obs), NOTHING)
    return State(
        time=np.zeros(lanes, np.int64),
        agent_pos=np.zeros((lanes, n, 2)),
        agent_vel=np.zeros((lanes, n, 2)),
        agent_angle=np.zeros((lanes, n)),
        goal_pos=np.zeros((lanes, n, 2)),
        landmark_pos=np.zeros((lanes, landmarks, 2)),
        agent_rad=np.zeros((lanes, n)),
        goal_rad=np.zeros((lanes, n)),
        on_goal=np.zeros((lanes, n), np.bool_),
        time_to_reach_goal=np.zeros((lanes, n)),
        num_collisions=np.zeros((lanes, n), np.int64),
        collided=np.zeros((lanes, n), np.bool_),
        deck=np.zeros((lanes, cells), _number(cells)),
        slopes=np.zeros((lanes, nodes, 2)),
        noise=np.zeros((lanes, cells if waves else 0)),
        bin_first=np.zeros((lanes, NARROW * bins + 1), number),
        bin_landmark=np.zeros((lanes, landmarks), number),
        bin_agent=np.full((lanes, bins), n, np.uint16),
        next_agent=np.zeros((lanes, n), np.uint16),
        near=np.zeros((lanes, landmarks), number),
        touches=np.zeros(lanes, np.int64),
        touch_agent=np.zeros((lanes, c.bins.room), np.uint16),
        touch=np.zeros((lanes, c.bins.room), number),
        crowded=np.zeros(lanes, np.bool_),
        paired=np.zeros((lanes, n), np.bool_),
        body=np.zeros((lanes, n, COLUMNS)),
        contact_agent=np.zeros((lanes, BATCH), np.uint16),
        contact_object=np.zeros((lanes, BATCH), number),
        contact_x=np.zeros((lanes, BATCH)),
        contact_y=np.zeros((lanes, BATCH)),
        contact_reach=np.zeros((lanes, BATCH)),
        contact_push=np.zeros((lanes, BATCH)),
        course=np.zeros((lanes, 3, BATCH)),
        turns=np.zeros((lanes, n), np.uint16),
        seen=seen,
        seen_walls=seen,
        hit_agent=np.zeros((lanes, n), np.bool_),
        hit_wall=np.zeros((lanes, n), np.bool_),
        **{name: np.zeros((lanes, lattice), np.int32) for name in _LATTICE},
    )


def _number(objects: int) -> type:
    """Return the type of arrays that hold numbers of so many objects.

    It has no sign: then an index read from such an array cannot count from the end of another one,
    which would have to be found out at every access.
    """
    return np.uint16 if objects <= 0xFFFF else np.uint32


draw_map: Any = None  # the kernel of a task's map, bound by ``kernels_for``


@subroutine
def draw_instance(c, s, i, rng):
    """Draw obstacles, positions of agents and goals, and radii, as the map does it."""
    draw_map(c, s, i, rng)


@kernel
def reset(c, s, i, rng):
    draw_instance(c, s, i, rng)
    face_goal(c, s, i)
    velocity = s.agent_vel
    for a in range(c.num_agents):
        velocity[i, a, 0] = 0.0
        velocity[i, a, 1] = 0.0
        s.on_goal[i, a] = apart(s.goal_pos, s.agent_pos, i, a) < s.goal_rad[i, a]
        s.time_to_reach_goal[i, a] = c.rules.max_time
        s.num_collisions[i, a] = 0
        s.collided[i, a] = False


@kernel
def prepare(c, s, i):
    sort_landmarks(c, s, i)
    if c.rules.lifelong:
        explore(c, s, i)


@kernel
def step(c, s, i, rng, actions, rewards, terminated):
    for a in range(c.num_agents):
        rewards[i, a] = c.rules.pos_shaping_factor * apart(s.goal_pos, s.agent_pos, i, a)
        for k in range(2):  # not published: squares of larger ones are infinite
            actions[i, a, k] = min(max(actions[i, a, k], -_STRONGEST), _STRONGEST)
    advance(c, s, i, actions)
    judge(c, s, i, rng, rewards, terminated)


@routine
def judge(c, s, i, rng, rewards, terminated):
    """Record arrivals and collisions, add rewards, and end the episode if all have arrived."""
    n, shaping, on_goal = c.num_agents, c.rules.pos_shaping_factor, s.on_goal
    together = True
    for a in range(n):
        distance, hit = apart(s.goal_pos, s.agent_pos, i, a), s.collided[i, a]
        arrived = distance < s.goal_rad[i, a]
        if arrived and not on_goal[i, a]:
            s.time_to_reach_goal[i, a] = (s.time[i] + 1) * c.drive.step_dt
        on_goal[i, a] = arrived
        s.num_collisions[i, a] += hit
        together = together and arrived
        rewards[i, a] += 0.5 * arrived - hit - shaping * distance
        if arrived and c.rules.lifelong:
            send_on(c, s, i, a, rng)
    for a in range(n):
        rewards[i, a] += 0.5 * together
        terminated[i, a] = together and not c.rules.lifelong


@kernel
def observe(c, s, i, obs):
    survey(c, s, i)
    goal, pos, window = s.goal_pos, s.agent_pos, c.rules.window
    for a in range(c.num_agents):
        scale = max(apart(goal, pos, i, a), window)
        obs[i, a, 0] = (goal[i, a, 0] - pos[i, a, 0]) / scale
        obs[i, a, 1] = (goal[i, a, 1] - pos[i, a, 1]) / scale
        for k in range(c.rules.max_obs):
            see(c, s, i, a, k, obs)


@routine
def see(c, s, i, a, k, obs):
    """Write the ``k``-th nearest object of agent ``a``: a vector of length 1 at contact.

    It points away from the object, and is shorter the farther the object is.
    """
    o, pos, landmarks = object_of(s.seen[i, a, k]), s.agent_pos, s.landmark_pos
    n, window, rad, dx, dy, scale = c.num_agents, c.rules.window, s.agent_rad[i, a], 0.0, 0.0, 0.0
    if o >= 0:
        if o < n:
            other = rad  # as published, the observer assumes that others have its radius
            dx, dy = pos[i, o, 0] - pos[i, a, 0], pos[i, o, 1] - pos[i, a, 1]
        else:
            other = c.map.landmark_rad
            dx, dy = landmarks[i, o - n, 0] - pos[i, a, 0], landmarks[i, o - n, 1] - pos[i, a, 1]
        distance = math.sqrt(dx * dx + dy * dy)
        # In float32, like the order of the objects: agents start exactly at the window's edge.
        gap = abs(distance_of(s.seen[i, a, k]) - np.float32(rad + other))
        if gap < np.float32(window) and distance > 0.0:
            scale = (1.0 - (window + other) / distance) / (window - rad)
    obs[i, a, 2 + 2 * k] = dx * scale
    obs[i, a, 3 + 2 * k] = dy * scale


@kernel
def measure(c, s, i, measures):
    reached, collisions, total, last = 0, 0, 0.0, 0.0
    for a in range(c.num_agents):
        reached += s.on_goal[i, a]
        collisions += s.num_collisions[i, a]
        total += s.time_to_reach_goal[i, a]
        last = max(last, s.time_to_reach_goal[i, a])
    measures[i, 0] = reached / c.num_agents
    measures[i, 1] = total
    measures[i, 2] = last
    measures[i, 3] = 1.0 - collisions / (c.num_agents * max(1, s.time[i]))


def observation_space(c: Constants, agent: int) -> Box:
    """Return the bounds: the goal's direction in the unit disc, objects up to full overlap."""
    window, radius = c.rules.window, c.map.agent_rad_high
    largest = max(c.map.landmark_rad, radius)
    limit = np.float32((window + largest) / (window - radius) * (1 + 1e-6))
    high = np.concatenate([np.ones(2), np.full(2 * c.rules.max_obs, limit)]).astype(np.float32)
    return Box(-high, high, dtype=np.float32)


def placed(c: Any, arrays: Mapping[str, Any]) -> dict[str, np.ndarray]:
    """Return what an exported instance fixes in every version: places, radii and headings."""
    fields = list(MAPS.values())[c.map_code].instances(c, arrays)
    return {**fields, "agent_angle": first_angles(c, fields["agent_pos"], fields["goal_pos"])}


def instances(c: Constants, arrays: Mapping[str, Any]) -> dict[str, np.ndarray]:
    """Turn exported instance arrays into initial states with a leading axis of episodes.

    Arrays and errors are those of the map's own ``instances``; the fields go into
    ``reset(options={"state": ...})``.
    """
    fields = placed(c, arrays)
    away = np.sqrt(((fields["goal_pos"] - fields["agent_pos"]) ** 2).sum(-1))
    return {
        **fields,
        "on_goal": away < fields["goal_rad"],
        "time_to_reach_goal": np.full(away.shape, c.rules.max_time),
    }


def ranges(c: Any) -> Mapping[str, tuple[Any, Any]]:
    """Return the bounds of radii, on which it depends how many cells and bins are searched.

    States that were recorded in float32 may lie above the largest by its rounding.
    """
    return {"agent_rad": (0, c.map.agent_rad_high * (1 + 1e-6))}


def kernels_for(c: Any, kernels: Kernels) -> Kernels:
    """Return the kernels of a task: only its own map and its own dynamics are compiled."""
    codes = set(c.drive.code.tolist())
    place = list(MAPS.values())[c.map_code].place
    return _bound(kernels, place, HOLONOMIC in codes, DIFFDRIVE in codes)


@functools.cache
def _bound(kernels: Kernels, place: Any, pushed: bool, steered: bool) -> Kernels:
    bound: Kernels = rebound(kernels, {"draw_map": place, "PUSHED": pushed, "STEERED": steered})
    return bound


KERNELS = Kernels(
    allocate=allocate,
    reset=reset,
    step=step,
    observe=observe,
    measure=measure,
    prepare=prepare,
)
SPEC = EnvSpec(
    id="coopbench/Routing-v0",
    module=__name__,
    kernels=lambda c: kernels_for(c, KERNELS),
    params=Params,
    constants=constants,
    agents=lambda c: tuple(f"agent_{a}" for a in range(c.num_agents)),
    observation_space=observation_space,
    action_space=lambda c, agent: Box(-1.0, 1.0, (2,), np.float32),
    layout=lambda c: consecutive({"goal": 2, "objects": (c.rules.max_obs, 2)}),
    metrics={
        "success_rate": "share of agents on their goals at the end, in [0, 1]",
        "flowtime": "sum over agents of the time of their last arrival; max_time if none",
        "makespan": "latest arrival time over agents; max_time if one has never arrived",
        "coordination": "1 - share of steps with a contact, mean over agents, in [0, 1]",
    },
    dependent={"coordination": "success_rate"},  # a team that does not move has no contacts
    scratch=frozenset(State._fields[State._fields.index("deck") :]),
    picture=picture.picture,
    text=picture.text,
    scene=picture.scene,
    instances=instances,
    files=movingai.FILES,
    held_out="map",
    ranges=ranges,
    source="CAMAR 0.4.0",
)
