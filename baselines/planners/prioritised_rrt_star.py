"""The policy prioritised_rrt_star: agents planned one after the other, each around those before.

Agents with longer ways plan first. Each finds a way by RRT* (see ``rrt_star``) past the walls, past
the starts of those that have no plan yet and past the goals of those that have, and then the
earliest moments to go and to wait along it, so that it meets no agent with a plan: prioritised
planning as in Cap, Novak, Kleiner & Selecky 2015 (IEEE Transactions on Automation Science and
Engineering 12). ``path_following`` moves all of them along at the same time.
"""

import math
from typing import Annotated, Any, NamedTuple

import numpy as np

from coopbench.baselines.planners.path_following import Track, follow, make_drive, make_track
from coopbench.baselines.planners.rrt_star import (
    AGENT_SPARE,
    add_body,
    forget_bodies,
    make_field,
    search,
    sort_walls,
)
from coopbench.baselines.planners.shortest_paths import ROOMS, distance_to, survey_room
from coopbench.baselines.policy import Entry, Game
from coopbench_envs.compiling import compiled
from coopbench_envs.core import routine, subroutine
from coopbench_envs.parameters import between

_STEPS = 2  # that a round takes at full speed
_EFFORT = 20  # moments per round that are tried in search of when to go and when to wait
_ROUNDS = 2000  # that a plan reaches ahead at most; then agents stay where they are
# How an agent plans: past the places of all others; only in time past those that have a plan; past
# walls alone.
_CAREFUL, _TIMELY, _REGARDLESS = range(3)


class Params(NamedTuple):
    """Parameters of the policy."""

    samples: Annotated[int, between(1, 25_000, "random points that an agent's tree gets")] = 2500


class Memory(NamedTuple):
    """State of the planner; axis 0 is the lane."""

    begun: np.ndarray  # (lanes,) bool
    round: np.ndarray  # (lanes,) int32, rounds that are over
    plan: np.ndarray  # (lanes, agents, rounds + 1, 2) float32 places
    planned: np.ndarray  # (lanes, agents) bool, has a plan that leads to its goal
    goal_pos: np.ndarray  # (lanes, agents, 2) goals of the plans
    start_pos: np.ndarray  # (lanes, agents, 2) where the plans begin
    room: np.ndarray  # (lanes, cells, 5) float32, see shortest_paths.survey_room
    ways: np.ndarray  # (lanes, 2, cells) int32, see rrt_star.Field
    rng: np.ndarray  # (lanes,) uint64
    track: Track


class Task(NamedTuple):
    """Numbers and arrays of one game, as the kernels read them."""

    centres: np.ndarray
    columns: int
    landmark_rad: float
    widest: float  # largest radius of an agent
    step: float  # way of one round
    order: np.ndarray  # (agents,) int32 scratch
    path: np.ndarray  # (rounds + 1, 2) scratch: an agent's way, round by round
    chain: np.ndarray  # (points + 1,) int32 scratch: nodes of the way
    seen: np.ndarray  # (rounds + 1, rounds + 1) bool scratch: parts of the way at times
    moved: np.ndarray  # (rounds + 1,) bool scratch: goes on instead of waiting


class PrioritisedRrtStar:
    """Plans on the state of the whole team; its memory is written in place."""

    uses_state = True

    def __init__(self, game: Game, parameters: Params) -> None:
        self._drive = make_drive(game, "prioritised_rrt_star", _STEPS)
        c = game.constants
        self._points = parameters.samples
        self._rounds = min(int(c.horizon * self._drive.rate) + 2, _ROUNDS)
        self._task = Task(
            centres=c.map.centres,
            columns=c.map.columns,
            landmark_rad=c.map.landmark_rad,
            widest=c.map.agent_rad_high,
            step=_STEPS * self._drive.pace,
            order=np.zeros(c.num_agents, np.int32),
            path=np.zeros((self._rounds + 1, 2)),
            chain=np.zeros(self._points + 1, np.int32),
            seen=np.zeros((self._rounds + 1, self._rounds + 1), np.bool_),
            moved=np.zeros(self._rounds + 1, np.bool_),
        )
        self._field = make_field(
            1, c.num_agents, len(c.map.centres), c.map.num_landmarks, parameters.samples
        )

    def initial(self, game: Game, seeds: np.ndarray) -> Memory:
        """Return the memory of lanes that are planned when they are first seen."""
        lanes, agents, cells = len(seeds), len(game.agents), len(self._task.centres)
        return Memory(
            begun=np.zeros(lanes, np.bool_),
            round=np.zeros(lanes, np.int32),
            plan=np.zeros((lanes, agents, self._rounds + 1, 2), np.float32),
            planned=np.zeros((lanes, agents), np.bool_),
            goal_pos=np.zeros((lanes, agents, 2)),
            start_pos=np.zeros((lanes, agents, 2)),
            room=np.zeros((lanes, cells, ROOMS), np.float32),
            ways=np.zeros((lanes, 2, cells), np.int32),
            rng=np.array(seeds, np.uint64),
            track=make_track(lanes, agents),
        )

    def act(self, observations: np.ndarray, memory: Memory, state: Any) -> tuple[Any, Memory]:
        """Return (lanes, agents, 2) forces."""
        actions = np.zeros((*observations.shape[:2], 2))
        field = self._field._replace(ways=memory.ways)
        agents = state.agent_pos, state.agent_vel, state.agent_rad
        goals = state.goal_pos, state.on_goal
        walls = state.landmark_pos
        play(self._task, self._drive, field, memory, *agents, *goals, walls, actions)
        return actions, memory


@compiled
def play(t, drive, f, m, pos, velocity, radii, goal, on_goal, landmarks, actions):
    """Plan where it is time to, and write the forces of every lane."""
    for i in range(pos.shape[0]):
        changed = False
        for a in range(goal.shape[1]):
            for k in range(2):
                changed |= goal[i, a, k] != m.goal_pos[i, a, k]
        if changed or not m.begun[i]:
            sort_walls(f, i, t.centres, t.columns, landmarks)
            make_plans(t, drive, f, m, i, pos, radii, goal, landmarks)
            write_places(m, i)
        follow(drive, m.track, i, pos, velocity, on_goal, actions)
        if m.track.clock[i] >= 1.0:
            m.track.clock[i] -= 1.0
            m.round[i] += 1
            write_places(m, i)


@routine
def write_places(m, i):
    """Write the plan into the track."""
    last = m.plan.shape[2] - 1
    for a in range(m.plan.shape[1]):
        for part in range(3):
            for k in range(2):
                m.track.place[i, a, part, k] = m.plan[i, a, min(m.round[i] + part, last), k]


@subroutine
def make_plans(t, drive, f, m, i, pos, radii, goal, landmarks):
    """Plan the agents that have no plan to their goals, beginning with the end of this round."""
    n, now = pos.shape[1], 0
    if m.begun[i]:
        now = min(m.round[i] + 1, m.plan.shape[2] - 1)
    else:
        survey_room(m.room, i, t.centres, t.columns, landmarks, t.landmark_rad, t.widest)
        m.begun[i] = True
        for a in range(n):
            stay(m, i, a, 0, pos[i, a, 0], pos[i, a, 1])
    for a in range(n):
        for k in range(2):
            m.planned[i, a] &= goal[i, a, k] == m.goal_pos[i, a, k]
            m.goal_pos[i, a, k] = goal[i, a, k]
            m.start_pos[i, a, k] = m.plan[i, a, now, k]
    sort_by_way(t, m, i)
    for care in range(3):
        progress = True
        while progress:
            progress = False
            for k in range(n):
                a = t.order[k]
                if not m.planned[i, a] and make_plan(
                    t, drive, f, m, i, a, now, care, radii, landmarks
                ):
                    m.planned[i, a] = True
                    progress = care == _CAREFUL  # others may now get past its start


@routine
def stay(m, i, a, now, x, y):
    """Plan to stand at (x, y) from round ``now`` on."""
    for time in range(now, m.plan.shape[2]):
        m.plan[i, a, time, 0], m.plan[i, a, time, 1] = x, y


@routine
def sort_by_way(t, m, i):
    """Put agents into the order of their ways, longest first."""
    for a in range(t.order.shape[0]):
        k = a
        while k > 0 and span(m, i, t.order[k - 1]) < span(m, i, a):
            t.order[k] = t.order[k - 1]
            k -= 1
        t.order[k] = a


@routine
def span(m, i, a):
    """Return the square of the distance from the start of a plan to its goal."""
    dx = m.goal_pos[i, a, 0] - m.start_pos[i, a, 0]
    dy = m.goal_pos[i, a, 1] - m.start_pos[i, a, 1]
    return dx * dx + dy * dy


@subroutine
def make_plan(t, drive, f, m, i, a, now, care, radii, landmarks):
    """Plan agent ``a`` from round ``now`` on; return whether it was possible with this margin."""
    last = m.plan.shape[2] - 1
    forget_bodies(f)
    for b in range(radii.shape[1]):
        if b != a and care == _CAREFUL:
            time = last if m.planned[i, b] else now
            add_body(f, t.centres, t.columns, b, m.plan[i, b, time, 0], m.plan[i, b, time, 1])
    goal = search(t, f, m.room, i, a, radii, landmarks, m.start_pos, m.goal_pos, m.rng)
    if goal < 0:
        return False
    length = lay_path(t, drive, f, goal, last - now)
    if length < 0:
        return False
    arrived = now + length
    for time in range(now, arrived):
        t.moved[time] = True
    if care != _REGARDLESS:
        arrived = time_path(t, m, i, a, now, length, radii)
    if arrived < 0:
        return False
    part = 0
    for time in range(now, last + 1):
        for k in range(2):
            m.plan[i, a, time, k] = t.path[part, k]
        part += time < arrived and t.moved[time]
    return True


@routine
def lay_path(t, drive, f, goal, most):
    """Cut the way to a node into rounds; return their number, -1 if it exceeds ``most``."""
    count, node = 0, goal
    while node >= 0:
        t.chain[count] = node
        node = f.parent[node]
        count += 1
    length = 0
    t.path[0, 0], t.path[0, 1] = f.node[0, 0], f.node[0, 1]
    for c in range(count - 1, 0, -1):
        one, other = t.chain[c], t.chain[c - 1]
        dx, dy = f.node[other, 0] - f.node[one, 0], f.node[other, 1] - f.node[one, 1]
        far = math.sqrt(dx * dx + dy * dy) if drive.disc else max(abs(dx), abs(dy))
        parts = max(1, math.ceil(far / t.step - 1e-9))
        if length + parts > most:
            return -1
        for p in range(1, parts + 1):
            t.path[length + p, 0] = f.node[one, 0] + dx * p / parts
            t.path[length + p, 1] = f.node[one, 1] + dy * p / parts
        length += parts
    return length


@subroutine
def time_path(t, m, i, a, now, length, radii):
    """Find when to go on and when to wait (depth first, to go on first); return the arrival.

    Writes ``moved``. Returns -1 if the agent cannot arrive without meeting somebody with a plan.
    """
    last = m.plan.shape[2] - 1
    quiet = quiet_from(t, m, i, a, now, length, radii)
    for part in range(length + 1):
        for time in range(now, last + 1):
            t.seen[part, time] = False
    part, time, effort = 0, now, _EFFORT * (last - now)
    while time >= now and effort > 0:
        effort -= 1
        if part == length and time >= quiet:
            return time
        on = 1 if part < length else 0
        for _ in range(2):
            free = time < last and not t.seen[part + on, time + 1]
            if free:
                t.seen[part + on, time + 1] = True
                free = passes(t, m, i, a, time, part, part + on, radii)
            if free or on == 0:
                break
            on = 0
        if free:
            t.moved[time] = on == 1
            part += on
            time += 1
        else:
            time -= 1
            if time >= now and t.moved[time]:
                part -= 1
    return -1


@routine
def quiet_from(t, m, i, a, now, length, radii):
    """Return the round after which no agent with a plan passes the end of the path."""
    last, quiet = m.plan.shape[2] - 1, now
    for time in range(last - 1, now - 1, -1):
        if not passes(t, m, i, a, time, length, length, radii):
            quiet = time + 1
            break
    return quiet


@routine
def passes(t, m, i, a, time, one, other, radii):
    """Return whether agent ``a`` keeps its distance in a round that leads along its path."""
    for b in range(radii.shape[1]):
        if b == a or not m.planned[i, b]:
            continue
        x, y = t.path[one, 0] - m.plan[i, b, time, 0], t.path[one, 1] - m.plan[i, b, time, 1]
        to_x = t.path[other, 0] - m.plan[i, b, time + 1, 0]
        to_y = t.path[other, 1] - m.plan[i, b, time + 1, 1]
        apart = AGENT_SPARE * (radii[i, a] + radii[i, b])
        apart = min(apart, math.sqrt(x * x + y * y) - 1e-6)  # too close already: not closer
        if distance_to(-x, -y, to_x - x, to_y - y) < apart:
            return False
    return True


ENTRY = Entry(
    "prioritised_rrt_star",
    PrioritisedRrtStar,
    "pathfinding: RRT* paths, planned one agent after the other around the earlier ones",
    "global",
    Params,
)
