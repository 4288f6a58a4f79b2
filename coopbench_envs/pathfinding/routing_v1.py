"""Routing, version 1: discs steer to goals that can all be reached, with richer observations.

Agents start clear of walls, of each other and of their goals, and every goal can be reached. They
see their own motion, the distance of the goal, and the nearest agents apart from the nearest
obstacles. An agent that arrives stops, stays in play, or gets a new goal. Rewards pay for arriving,
and for the progress along the shortest way; time and contacts cost. Differences from version 0 and
what they are for: docs/environments/routing_v1.md.
"""

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated, Any, NamedTuple

import numpy as np
from gymnasium.spaces import Box

from coopbench_envs.core import Kernels, kernel, routine, subroutine
from coopbench_envs.layouts import Part, consecutive
from coopbench_envs.parameters import between, joined, one_of
from coopbench_envs.pathfinding import routing
from coopbench_envs.pathfinding.angles import sine_cosine
from coopbench_envs.pathfinding.contacts import apart
from coopbench_envs.pathfinding.dynamics import (
    DIFFDRIVE,
    HOLONOMIC,
    PUSHED,
    STEERED,
    Drives,
    face_goal,
)
from coopbench_envs.pathfinding.geodesics import BUCKETS, VIEW, bound_way, find_way, list_moves
from coopbench_envs.pathfinding.lattice import cell_at, explore, send_on, spacing
from coopbench_envs.pathfinding.maps.common import Map, up_to
from coopbench_envs.pathfinding.maps.mazes import roomy_cells
from coopbench_envs.pathfinding.motion import advance
from coopbench_envs.pathfinding.neighbours import NOTHING, Bins, object_of, sort_landmarks, survey
from coopbench_envs.pathfinding.routing import draw_instance
from coopbench_envs.pathfinding.solvable import settle
from coopbench_envs.states import array, state

ON_GOAL = ("stay", "stop", "lifelong")

_INSTANCES = 50  # draws of a whole instance before one with unreachable goals is accepted
_FASTEST = 2.0  # largest velocity that is observed, in units of the top speed
_PER_AGENT, _PER_OBSTACLE = 6, 3  # numbers by which an agent and an obstacle are observed


class Further(NamedTuple):
    """Parameters that version 0 does not have."""

    on_goal: Annotated[
        str,
        one_of(
            ON_GOAL, "an agent that arrives stays in play, stops permanently, or gets a new goal"
        ),
    ] = "stop"
    max_agents: Annotated[
        int, between(1, 1000, "number of nearest agents that an agent observes")
    ] = 4
    max_obstacles: Annotated[
        int, between(1, 1000, "number of nearest obstacles that an agent observes")
    ] = 4
    shaping: Annotated[
        float, between(0, 1e6, "reward for shortening the way by the diagonal of the world")
    ] = 1.0
    arrival_bonus: Annotated[float, between(0, 1e6, "reward for arriving, paid once")] = 1.0
    time_cost: Annotated[float, between(0, 1e6, "cost of a whole episode off the goal")] = 1.0
    contact_cost: Annotated[
        float, between(0, 1e6, "cost of a whole episode in contact with agents, off the goal")
    ] = 1.0
    patience: Annotated[
        int, between(1, 1_000_000, "steps in one place, off the goal, that count as a deadlock")
    ] = 100


Params = joined(__name__, routing.Shared, Further)


class Own(NamedTuple):
    """Numbers of one task that version 0 does not have, ``c.own``."""

    patience: int  # steps in one place, off the goal, that count as a deadlock
    top_speed: np.ndarray  # (agents,) at a constant action of length 1
    pace: float  # largest of them; velocities are observed in units of it
    diagonal: float  # of the world; distances of goals are observed in units of it
    half_cell: float  # less a little
    max_agents: int  # that an agent observes
    max_obstacles: int  # that an agent observes
    shaping: float  # reward of an agent per length by which its way becomes shorter
    arrival_bonus: float  # of an agent
    time_cost: float  # of an agent's step off its goal
    contact_cost: float  # of an agent's step off its goal in contact with another agent


class Constants(NamedTuple):
    """Numbers and arrays of one task, as the kernels read them."""

    num_agents: int
    horizon: int  # steps of an episode
    map_code: int  # position of the map in MAPS
    map: Map
    drive: Drives
    bins: Bins
    rules: routing.Rules
    own: Own


def constants(p: Any) -> Constants:
    """Check the map and the dynamics against the task and derive what the kernels read."""
    shared = {name: getattr(p, name) for name in routing.Params._fields if name in p._fields}
    c = routing.constants(routing.Params(**shared), SPEC.id)
    if c.map.free.size:
        _check_room(c, p.map)
    speeds = top_speeds(c)
    diagonal = math.hypot(c.map.width, c.map.height)
    own = Own(
        patience=p.patience,
        top_speed=speeds,
        pace=max(speeds.max(), 1e-12),
        diagonal=diagonal,
        half_cell=0.499999 * float(spacing(c.map.centres)),
        max_agents=p.max_agents,
        max_obstacles=p.max_obstacles,
        # An agent is paid its share of the team, so that teams of all sizes have like returns.
        shaping=p.shaping / (diagonal * p.num_agents),
        arrival_bonus=p.arrival_bonus / p.num_agents,
        time_cost=p.time_cost / (p.horizon * p.num_agents),
        contact_cost=p.contact_cost / (p.horizon * p.num_agents),
    )
    rules = c.rules._replace(
        max_time=p.horizon * c.drive.step_dt,
        lifelong=p.on_goal == "lifelong",
        stops=p.on_goal == "stop",
        shortens=True,
    )
    return Constants(*c._replace(rules=rules), own)


def _check_room(c: Any, name: str) -> None:
    """Raise ``ValueError`` if the smallest possible agents do not all fit into some fixed map."""
    roomy = np.take_along_axis(roomy_cells(c.map, c.map.agent_rad_low), c.map.free, 1).sum(1)
    maze = int(roomy.argmin())
    if roomy[maze] < c.num_agents:
        which = f", entry {maze}," if len(roomy) > 1 else ""
        raise ValueError(
            f"map {name!r}{which} has {roomy[maze]} free cells in whose middle an agent of radius "
            f"{c.map.agent_rad_low:g} touches no wall; num_agents was {c.num_agents}; allowed: "
            f"{up_to(int(roomy[maze]))}a smaller 'agent_rad_range', or a wider map."
        )


def top_speeds(c: Any) -> np.ndarray:
    """Speed of every agent (agents,) that a constant action of length 1 leads to, untouched."""
    drive = c.drive
    gain, substeps = drive.accel * drive.impulse, c.horizon * drive.substeps
    lost = np.maximum(1.0 - drive.retained, 1e-300)
    # Without damping the speed grows as long as the episode lasts.
    pushed = gain * np.where(drive.retained < 1.0, 1.0 / lost, substeps)
    pushed = np.where(drive.max_speed >= 0.0, np.minimum(pushed, drive.max_speed), pushed)
    driven = np.maximum(np.abs(drive.slowest), np.abs(drive.fastest))
    return np.where(drive.code == DIFFDRIVE, driven, pushed)


def _cells(c: Any) -> int:
    return len(c.map.centres)


def _rows(c: Any) -> int:
    return _cells(c) // int(c.map.columns)


State = state(
    __name__,
    routing.State,
    arrivals=array("times that an agent came to its goal", "num_agents", dtype=np.int64),
    agent_contacts=array("steps with a contact with an agent", "num_agents", dtype=np.int64),
    wall_contacts=array("steps with a contact with a landmark", "num_agents", dtype=np.int64),
    path_length=array("way so far", "num_agents"),
    path_before=array("of it, what led to earlier goals", "num_agents"),
    reachable=array("the goal can be reached", "num_agents", dtype=np.bool_),
    shortest=array("lower bound of the way to the present goal", "num_agents"),
    efficiency=array("shortest / own way, summed over goals reached", "num_agents"),
    anchor_pos=array("place that an agent has not left since", "num_agents", 2),
    anchor_time=array("steps played when it came there", "num_agents", dtype=np.int64),
    explored=array("the lattice has just been made", dtype=np.bool_, scratch=True),
    before=array("place at the beginning of the step", "num_agents", 2, scratch=True),
    moves=array(
        "neighbours that open sides, and ways, lead to", 2, _cells, dtype=np.uint8, scratch=True
    ),
    ways=array(
        "how far the cells around an agent are from its goal",
        "num_agents",
        lambda c: min(_rows(c), VIEW),
        lambda c: min(c.map.columns, VIEW),
        dtype=np.uint16,
        scratch=True,
    ),
    ways_at=array(
        "first column and row of the view; before any cell: none",
        "num_agents",
        2,
        dtype=np.int32,
        scratch=True,
    ),
    distance=array("of cells in a search", _cells, dtype=np.uint16, scratch=True),
    links=array(
        "lists of cells that wait in a search",
        lambda c: _cells(c) + BUCKETS,
        2,
        dtype=np.int32,
        scratch=True,
    ),
    goal_cell=array("cell that an agent's goal is in", "num_agents", dtype=np.int32, scratch=True),
    way_cell=array("cell that an agent is in", "num_agents", dtype=np.int32, scratch=True),
    way_over=array(
        "middles of it and of the next: x, y, way from it", "num_agents", 2, 3, scratch=True
    ),
    way_left=array("length of the shortest way to the goal; 0 on it", "num_agents", scratch=True),
    seen=array(
        "nearest visible agents, see neighbours.py",
        "num_agents",
        "own.max_agents",
        dtype=np.int64,
        start=NOTHING,
        scratch=True,
    ),
    seen_walls=array(
        "nearest visible landmarks",
        "num_agents",
        "own.max_obstacles",
        dtype=np.int64,
        start=NOTHING,
        scratch=True,
    ),
    barriers=array("open sides of cells, see lattice.py", _cells, dtype=np.int32, scratch=True),
    floor=array(
        "number of each cell's connected part; 0: closed", _cells, dtype=np.int32, scratch=True
    ),
    queue=array("cells of searches on the lattice", _cells, dtype=np.int32, scratch=True),
)


# --- the beginning of an episode ------------------------------------------------------------------


@kernel
def reset(c, s, i, rng):
    for _ in range(_INSTANCES):
        draw_instance(c, s, i, rng)
        if settle(c, s, i, rng):
            break
    face_goal(c, s, i)


@kernel
def prepare(c, s, i):
    sort_landmarks(c, s, i)
    if not s.explored[i]:
        explore(c, s, i)
    s.explored[i] = False
    list_moves(s.barriers, s.moves, i, c.map.columns)
    if s.time[i] == 0:
        open_records(c, s, i)
    for a in range(c.num_agents):
        open_way(c, s, i, a, s.time[i] == 0)


@subroutine
def open_records(c, s, i):
    """Set everything that an episode adds up to its beginning, as agents and goals now stand."""
    for a in range(c.num_agents):
        s.on_goal[i, a] = apart(s.goal_pos, s.agent_pos, i, a) < s.goal_rad[i, a]
        # An agent that begins on its goal has arrived, unless it gets a new one at once.
        has_arrived = s.on_goal[i, a] and not c.rules.lifelong
        s.time_to_reach_goal[i, a] = 0.0 if has_arrived else c.rules.max_time
        s.num_collisions[i, a] = 0
        s.collided[i, a] = False
        s.arrivals[i, a] = has_arrived
        s.agent_contacts[i, a] = 0
        s.wall_contacts[i, a] = 0
        s.path_length[i, a] = 0.0
        s.efficiency[i, a] = has_arrived
        drop_anchor(s, i, a)


@routine
def drop_anchor(s, i, a):
    """Take the present place as the one that agent ``a`` has to leave."""
    s.anchor_pos[i, a, 0] = s.agent_pos[i, a, 0]
    s.anchor_pos[i, a, 1] = s.agent_pos[i, a, 1]
    s.anchor_time[i, a] = s.time[i]


@subroutine
def open_way(c, s, i, a, is_new):
    """Measure how far agent ``a`` has to go.

    With ``is_new`` its goal is: note also whether it can be reached, and a lower bound.
    """
    goal = cell_at(c.map.centres, c.map.columns, s.goal_pos[i, a, 0], s.goal_pos[i, a, 1])
    s.goal_cell[i, a] = goal
    if is_new:
        here = cell_at(c.map.centres, c.map.columns, s.agent_pos[i, a, 0], s.agent_pos[i, a, 1])
        s.path_before[i, a] = s.path_length[i, a]
        s.reachable[i, a] = s.floor[i, here] > 0 and s.floor[i, here] == s.floor[i, goal]
        bound_way(c, s, i, a)
    s.way_cell[i, a] = -1
    s.ways_at[i, a, 0] = s.ways_at[i, a, 1] = -VIEW - 1
    stands = s.on_goal[i, a] and not c.rules.lifelong
    s.way_left[i, a] = 0.0 if stands else find_way(c, s, i, a)


# --- a step ---------------------------------------------------------------------------------------


@kernel
def step(c, s, i, rng, actions, rewards, terminated):
    for a in range(c.num_agents):
        clip(c, i, a, actions)
        s.before[i, a, 0], s.before[i, a, 1] = s.agent_pos[i, a, 0], s.agent_pos[i, a, 1]
    advance(c, s, i, actions)
    for a in range(c.num_agents):
        keep_record(s, i, a)
    judge(c, s, i, rng, rewards, terminated)


@routine
def clip(c, i, a, actions):
    """Shorten a force to length 1, so that no direction is faster than another."""
    length = math.sqrt(actions[i, a, 0] ** 2 + actions[i, a, 1] ** 2)
    if PUSHED and c.drive.code[a] == HOLONOMIC and length > 1.0:
        actions[i, a, 0] /= length
        actions[i, a, 1] /= length


@routine
def keep_record(s, i, a):
    """Add up contacts and the way of agent ``a``; move its anchor if it has left the place."""
    s.num_collisions[i, a] += s.collided[i, a]
    s.agent_contacts[i, a] += s.hit_agent[i, a]
    s.wall_contacts[i, a] += s.hit_wall[i, a]
    s.path_length[i, a] += apart(s.agent_pos, s.before, i, a)
    if s.on_goal[i, a] or apart(s.agent_pos, s.anchor_pos, i, a) > 2 * s.agent_rad[i, a]:
        drop_anchor(s, i, a)


@routine
def judge(c, s, i, rng, rewards, terminated):
    """Pay rewards and note arrivals; the episode ends once all agents are on their goals."""
    together = True
    for a in range(c.num_agents):
        arrived = apart(s.goal_pos, s.agent_pos, i, a) < s.goal_rad[i, a]
        arrived = arrived or (c.rules.stops and s.on_goal[i, a])
        rewards[i, a] = pay(c, s, i, a, arrived)
        if arrived and (c.rules.lifelong or not s.on_goal[i, a]):
            arrive(c, s, i, a)
        s.on_goal[i, a] = arrived
        together = together and arrived
        if arrived and c.rules.lifelong:
            send_on(c, s, i, a, rng)
            open_way(c, s, i, a, True)
    for a in range(c.num_agents):
        terminated[i, a] = together and not c.rules.lifelong


@routine
def pay(c, s, i, a, arrived):
    """Return the reward of agent ``a``; note how long its way to the goal is now."""
    way = s.way_left[i, a]
    s.way_left[i, a] = 0.0 if arrived else find_way(c, s, i, a)
    reward = c.own.shaping * (way - s.way_left[i, a])
    if not arrived:
        return reward - c.own.time_cost - c.own.contact_cost * s.hit_agent[i, a]
    if c.rules.lifelong or s.arrivals[i, a] == 0:
        reward += c.own.arrival_bonus
    return reward


@routine
def arrive(c, s, i, a):
    """Note when agent ``a`` came to its goal, and how its way compares with the shortest one."""
    s.time_to_reach_goal[i, a] = (s.time[i] + 1) * c.drive.step_dt
    s.arrivals[i, a] += 1
    way = s.path_length[i, a] - s.path_before[i, a]
    ratio = 1.0
    if way > s.shortest[i, a]:
        ratio = s.shortest[i, a] / way
    s.efficiency[i, a] = ratio + (s.efficiency[i, a] if c.rules.lifelong else 0.0)


# --- what is seen and measured --------------------------------------------------------------------


@kernel
def observe(c, s, i, obs):
    survey(c, s, i)
    goal, pos, velocity = s.goal_pos, s.agent_pos, s.agent_vel
    for a in range(c.num_agents):
        distance = apart(goal, pos, i, a)
        obs[i, a, 0] = pace_of(velocity[i, a, 0], c.own.pace)
        obs[i, a, 1] = pace_of(velocity[i, a, 1], c.own.pace)
        obs[i, a, 2], obs[i, a, 3] = 0.0, 0.0
        if STEERED and c.drive.code[a] == DIFFDRIVE:
            sine, cosine = sine_cosine(s.agent_angle[i, a])
            obs[i, a, 2], obs[i, a, 3] = cosine, sine
        obs[i, a, 4] = (goal[i, a, 0] - pos[i, a, 0]) / max(distance, c.rules.window)
        obs[i, a, 5] = (goal[i, a, 1] - pos[i, a, 1]) / max(distance, c.rules.window)
        obs[i, a, 6] = min(distance / c.own.diagonal, 1.0)
        for k in range(c.own.max_agents):
            see_agent(c, s, i, a, k, obs)
        for k in range(c.own.max_obstacles):
            see_obstacle(c, s, i, a, k, obs)


@routine
def pace_of(speed, pace):
    """Speed along an axis in units of the top speed; pushes can make it much higher."""
    return min(max(speed / pace, -_FASTEST), _FASTEST)


@routine
def see_agent(c, s, i, a, k, obs):
    """Write where the ``k``-th nearest agent in sight is, how it moves and how large it is."""
    o, pos, rad, velocity = object_of(s.seen[i, a, k]), s.agent_pos, s.agent_rad, s.agent_vel
    at = 7 + _PER_AGENT * k
    for j in range(_PER_AGENT):
        obs[i, a, at + j] = 0.0
    if o >= 0:
        dx, dy = pos[i, o, 0] - pos[i, a, 0], pos[i, o, 1] - pos[i, a, 1]
        reach = c.rules.window + rad[i, a] + rad[i, o]
        if dx * dx + dy * dy < reach * reach:
            obs[i, a, at], obs[i, a, at + 1] = dx / reach, dy / reach
            obs[i, a, at + 2] = pace_of(velocity[i, o, 0], c.own.pace)
            obs[i, a, at + 3] = pace_of(velocity[i, o, 1], c.own.pace)
            obs[i, a, at + 4] = rad[i, o] / c.rules.window
            obs[i, a, at + 5] = 1.0


@routine
def see_obstacle(c, s, i, a, k, obs):
    """Write where the ``k``-th nearest obstacle in sight is."""
    o, pos, landmarks = object_of(s.seen_walls[i, a, k]), s.agent_pos, s.landmark_pos
    at = 7 + _PER_AGENT * c.own.max_agents + _PER_OBSTACLE * k
    for j in range(_PER_OBSTACLE):
        obs[i, a, at + j] = 0.0
    if o >= 0:
        o -= c.num_agents
        dx, dy = landmarks[i, o, 0] - pos[i, a, 0], landmarks[i, o, 1] - pos[i, a, 1]
        reach = c.rules.window + s.agent_rad[i, a] + c.map.landmark_rad
        if dx * dx + dy * dy < reach * reach:
            obs[i, a, at], obs[i, a, at + 1], obs[i, a, at + 2] = dx / reach, dy / reach, 1.0


@kernel
def measure(c, s, i, measures):
    n, steps = c.num_agents, max(1, s.time[i])
    for m in range(measures.shape[1]):
        measures[i, m] = 0.0
    for a in range(n):
        measures[i, 0] += s.on_goal[i, a]
        measures[i, 1] += s.time_to_reach_goal[i, a]
        measures[i, 2] = max(measures[i, 2], s.time_to_reach_goal[i, a])
        measures[i, 3] += steps - s.num_collisions[i, a]
        measures[i, 4] += s.arrivals[i, a] > 0
        measures[i, 5] += s.agent_contacts[i, a]
        measures[i, 6] += s.wall_contacts[i, a]
        measures[i, 7] += s.path_length[i, a]
        measures[i, 8] += way_share(c, s, i, a)
        stood = s.time[i] - s.anchor_time[i, a]
        measures[i, 9] += stood >= c.own.patience and not s.on_goal[i, a]
        measures[i, 10] += s.arrivals[i, a]
        measures[i, 11] += s.reachable[i, a]
        quickest = s.shortest[i, a] / max(c.own.top_speed[a], 1e-12)
        measures[i, 12] = max(measures[i, 12], min(quickest, c.rules.max_time))
    for m in (0, 4, 7, 8, 9, 11):
        measures[i, m] /= n
    for m in (3, 5, 6):
        measures[i, m] /= n * steps
    measures[i, 10] /= steps


@routine
def way_share(c, s, i, a):
    """Shortest way over own way: of the goal that agent ``a`` stands on, or mean over its goals."""
    if c.rules.lifelong:
        return s.efficiency[i, a] / (s.arrivals[i, a] + 1)
    return s.efficiency[i, a] if s.on_goal[i, a] else 0.0


MEANINGS = {
    "velocity": "own velocity / top speed of the team",
    "heading": "cosine and sine of the own heading; 0, 0 without one",
    "goal": "vector to the goal / the larger of its length and the window",
    "distance": "distance of the goal / diagonal of the world",
    "agents": "per agent in sight, nearest first: relative place (2), velocity (2), radius, 1",
    "obstacles": "per obstacle in sight, nearest first: relative place (2), 1",
}


def layout(c: Any) -> Mapping[str, Part]:
    """Parts of one agent's observation."""
    return consecutive(
        {
            "velocity": 2,
            "heading": 2,
            "goal": 2,
            "distance": 1,
            "agents": (c.own.max_agents, _PER_AGENT),
            "obstacles": (c.own.max_obstacles, _PER_OBSTACLE),
        },
        MEANINGS,
    )


def observation_space(c: Any, agent: int) -> Box:
    """Every part inside its own bounds; vectors of position have length 1 at most."""
    size = min(1.0, c.map.agent_rad_high / c.rules.window)
    seen = [1.0, 1.0, _FASTEST, _FASTEST, size, 1.0] * c.own.max_agents
    walls = [1.0, 1.0, 1.0] * c.own.max_obstacles
    high = [_FASTEST, _FASTEST, 1.0, 1.0, 1.0, 1.0, 1.0, *seen, *walls]
    low = -np.array(high)
    low[6] = 0.0
    low[11 : 7 + len(seen) : _PER_AGENT] = low[12 : 7 + len(seen) : _PER_AGENT] = 0.0
    low[9 + len(seen) :: _PER_OBSTACLE] = 0.0
    room = np.float32(1 + 1e-6)  # for the rounding to float32
    return Box(low.astype(np.float32) * room, np.array(high, np.float32) * room, dtype=np.float32)


KERNELS = Kernels(
    state=State,
    reset=reset,
    step=step,
    observe=observe,
    measure=measure,
    prepare=prepare,
)
SPEC = replace(
    routing.SPEC,
    id="coopbench/Routing-v1",
    module=__name__,
    kernels=lambda c: routing.kernels_for(c, KERNELS),
    params=Params,
    constants=constants,
    observation_space=observation_space,
    layout=layout,
    metrics={
        **routing.SPEC.metrics,
        "ever_arrived": "share of agents that reached a goal at some time, in [0, 1]",
        "agent_contacts": "share of steps with a contact with an agent, mean over agents",
        "wall_contacts": "share of steps with a contact with an obstacle, mean over agents",
        "path_length": "distance traveled, mean over agents",
        "spl": "success times shortest path over path taken, mean over agents, in [0, 1]",
        "deadlock_rate": "share of agents that end off their goals without recent progress",
        "throughput": "arrivals at goals per step, sum over agents",
        "solvable": "share of agents whose goals are reachable, in [0, 1]",
        "shortest_time": "lower bound of the makespan: the longest of the shortest paths",
    },
    # Taken as they are: agents may overlap, and what cannot be reached shows in ``solvable``.
    instances=routing.placed,
    source="after CAMAR 0.4.0",
)
