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
from coopbench_envs.layouts import Part, consecutive
from coopbench_envs.marks import rebound
from coopbench_envs.parameters import Allowed, between, joined, named, one_of, positive, resolve
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
from coopbench_envs.pathfinding.scene import scene
from coopbench_envs.states import array, state

MAPS = maps.found()


class Shared(NamedTuple):
    """Parameters of either version."""

    num_agents: Annotated[int, between(1, 10_000, "agents, each with its own goal")] = 8
    map: Annotated[str, one_of(MAPS, "how instances are drawn")] = "random_grid"
    map_params: Annotated[dict, Allowed("parameters of the map")] = {}  # noqa: RUF012
    dynamics: Annotated[str, one_of(DYNAMICS, "how actions move agents")] = "holonomic"
    dynamics_params: Annotated[dict, Allowed("parameters of the dynamics")] = {}  # noqa: RUF012
    window: Annotated[float, positive(1e3, "range of sight, measured from disc to disc")] = 0.3
    frameskip: Annotated[int, between(0, 10_000, "substeps per step beyond the first")] = 15
    contact_force: Annotated[float, between(0, 1e9, "force per length of overlap")] = 500.0
    contact_margin: Annotated[float, positive(1e3, "length over which contact softens")] = 0.001
    horizon: Annotated[int, between(1, 1_000_000, "steps of an episode")] = 1000


class Own(NamedTuple):
    """Parameters that version 1 does not have."""

    max_obs: Annotated[
        int, between(1, 1000, "number of nearest objects that an agent observes")
    ] = 3
    pos_shaping_factor: Annotated[
        float, between(-1e6, 1e6, "reward per unit of length of progress towards the goal")
    ] = 1.0
    lifelong: Annotated[bool, Allowed("an agent that arrives gets a new goal")] = False


Params = joined(__name__, Shared, Own)


class Rules(NamedTuple):
    """Numbers of one task that its map and its dynamics do not have, ``c.rules``."""

    max_time: float  # time of arrival of an agent that never arrives
    window: float  # range of sight, from disc to disc
    max_obs: int  # objects that an agent observes
    pos_shaping_factor: float  # reward per unit of length
    contact_force: float  # per length of overlap
    contact_margin: float  # length over which contact softens
    lifelong: bool  # an agent that arrives gets a new goal
    shortens: bool  # forces longer than 1 are shortened to length 1
    stops: bool  # agents that have arrived can no longer move


class Constants(NamedTuple):
    """Numbers and arrays of one task, as the kernels read them."""

    num_agents: int
    horizon: int  # steps of an episode
    map_code: int  # position of the map in MAPS
    map: Map
    drive: Drives
    bins: Bins
    rules: Rules


def constants(p: Any, where: str = "coopbench/Routing-v0") -> Constants:
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


def _bins(p: Any, m: Map, way: float) -> Bins:
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


def _cells(c: Constants) -> int:
    return len(c.map.centres)


def _lattice(c: Constants) -> int:
    return len(c.map.centres) if c.rules.lifelong else 0


def _waves(c: Constants) -> int:
    return c.map.waves_x * c.map.waves_y


def _cave_cells(c: Constants) -> int:
    return len(c.map.centres) if _waves(c) else 0


def _cave_nodes(c: Constants) -> int:
    return (c.map.waves_x + 1) * (c.map.waves_y + 1) if _waves(c) else 0


def _num_bins(c: Constants) -> int:
    return c.bins.along_x * c.bins.along_y


def _narrow_bins(c: Constants) -> int:
    return NARROW * _num_bins(c) + 1


def _unsigned(objects: int) -> type:
    """Return the type of arrays that number this many objects.

    It has no sign: then an index read from such an array cannot count from the end of another one,
    which would have to be found out at every access.
    """
    return np.uint16 if objects <= 0xFFFF else np.uint32


def _number(c: Constants) -> type:
    return _unsigned(c.num_agents + c.map.num_landmarks)


def _radii(c: Constants) -> tuple[float, float]:
    # It depends on radii how many cells and bins are searched. States that were recorded in float32
    # may lie above the largest by its rounding.
    return 0, c.map.agent_rad_high * (1 + 1e-6)


# From ``deck`` on all are scratch.
State = state(
    __name__,
    agent_pos=array("centres of agents", "num_agents", 2),
    agent_vel=array("velocities", "num_agents", 2, start=0),
    agent_angle=array("heading in [-pi, pi]; 0 where there is none", "num_agents"),
    goal_pos=array("centres of goals", "num_agents", 2),
    landmark_pos=array("fixed discs: obstacles, walls, absent ones", "map.num_landmarks", 2),
    agent_rad=array("radii", "num_agents", bounds=_radii),
    goal_rad=array("an agent whose centre is nearer is on its goal", "num_agents"),
    on_goal=array("is on its goal", "num_agents", dtype=np.bool_),
    time_to_reach_goal=array(
        "time of the last arrival; max_time before any", "num_agents", start="rules.max_time"
    ),
    num_collisions=array("steps with a contact", "num_agents", dtype=np.int64, start=0),
    collided=array("contact in the last step", "num_agents", dtype=np.bool_, start=False),
    deck=array("cells in drawn order", _cells, dtype=lambda c: _unsigned(_cells(c)), scratch=True),
    slopes=array("slopes of the noise of caves, column by column", _cave_nodes, 2, scratch=True),
    noise=array("noise of caves", _cave_cells, scratch=True),
    bin_first=array(
        "where a narrow bin begins in bin_landmark", _narrow_bins, dtype=_number, scratch=True
    ),
    bin_landmark=array("landmarks by narrow bin", "map.num_landmarks", dtype=_number, scratch=True),
    bin_agent=array(
        "first agent in a bin; num_agents between surveys",
        _num_bins,
        dtype=np.uint16,
        start="num_agents",
        scratch=True,
    ),
    next_agent=array(
        "next agent in the same bin, or num_agents", "num_agents", dtype=np.uint16, scratch=True
    ),
    near=array("landmarks around one agent", "map.num_landmarks", dtype=_number, scratch=True),
    touches=array("number of possible contacts", dtype=np.int64, scratch=True),
    touch_agent=array(
        "agents of these contacts, in ascending order",
        "bins.room",
        dtype=np.uint16,
        scratch=True,
    ),
    touch=array(
        "objects that these may come into contact with", "bins.room", dtype=_number, scratch=True
    ),
    crowded=array(
        "contacts did not fit into the list: all pairs are tried", dtype=np.bool_, scratch=True
    ),
    paired=array("the agent is in the list of pairs", "num_agents", dtype=np.bool_, scratch=True),
    body=array("numbers of a body, see contacts.py", "num_agents", COLUMNS, scratch=True),
    contact_agent=array(
        "agents of contacts that are resolved at once", BATCH, dtype=np.uint16, scratch=True
    ),
    contact_object=array(
        "their objects: an agent or a landmark", BATCH, dtype=_number, scratch=True
    ),
    contact_x=array("from the object to the agent", BATCH, scratch=True),
    contact_y=array("from the object to the agent", BATCH, scratch=True),
    contact_reach=array("sum of their radii", BATCH, scratch=True),
    contact_push=array("force per length of that vector, or -1 if apart", BATCH, scratch=True),
    course=array(
        "headings and velocities of an agent in its next substeps", 3, BATCH, scratch=True
    ),
    turns=array(
        "agents that move together, then the others", "num_agents", dtype=np.uint16, scratch=True
    ),
    seen=array(
        "nearest visible objects, see neighbours.py",
        "num_agents",
        "rules.max_obs",
        dtype=np.int64,
        start=NOTHING,
        scratch=True,
    ),
    seen_walls=array(
        "where landmarks are noted: the same list, all objects compete", scratch=True, same="seen"
    ),
    hit_agent=array(
        "contact with an agent in the last step", "num_agents", dtype=np.bool_, scratch=True
    ),
    hit_wall=array(
        "contact with a landmark in the last step", "num_agents", dtype=np.bool_, scratch=True
    ),
    barriers=array(
        "open sides of cells, see lattice.py; no cells unless lifelong",
        _lattice,
        dtype=np.int32,
        scratch=True,
    ),
    floor=array(
        "number of each cell's connected part; 0: closed", _lattice, dtype=np.int32, scratch=True
    ),
    queue=array("cells of searches on the lattice", _lattice, dtype=np.int32, scratch=True),
)

_ROUNDING = 1 + 1e-9  # rounding must not take an agent at full speed beyond what a list covers
_STRONGEST = 1e100  # of an action; the squares of what follows from it are finite

draw_map: Any = None  # the kernel of a task's map, bound by ``kernels_for``


@subroutine
def draw_instance(c, s, i, rng):
    """Draw obstacles, positions of agents and goals, and radii, as the map does it."""
    draw_map(c, s, i, rng)


@kernel
def reset(c, s, i, rng):
    draw_instance(c, s, i, rng)
    face_goal(c, s, i)
    for a in range(c.num_agents):
        s.on_goal[i, a] = apart(s.goal_pos, s.agent_pos, i, a) < s.goal_rad[i, a]


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


def layout(c: Constants) -> Mapping[str, Part]:
    """Return the parts of one agent's observation."""
    meanings = {
        "goal": "vector to the goal / the larger of its length and the window",
        "objects": "per object in sight, nearest first: vector away from it, length 1 at contact",
    }
    return consecutive({"goal": 2, "objects": (c.rules.max_obs, 2)}, meanings)


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
    state=State,
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
    layout=layout,
    metrics={
        "success_rate": "share of agents on their goals at the end, in [0, 1]",
        "flowtime": "sum over agents of the time of their last arrival; max_time if none",
        "makespan": "latest arrival time over agents; max_time if one has never arrived",
        "coordination": "1 - share of steps with a contact, mean over agents, in [0, 1]",
    },
    dependent={"coordination": "success_rate"},  # a team that does not move has no contacts
    picture=picture.picture,
    text=picture.text,
    scene=scene,
    instances=instances,
    files=movingai.FILES,
    held_out="map",
    source="CAMAR 0.4.0",
)
