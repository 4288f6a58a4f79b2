"""The policy astar_pibt: shortest paths on the cells of the map, and rounds of PIBT along them.

Once per episode it measures how far every cell is from every goal. Then the team moves in rounds:
in each, priority inheritance with backtracking (see ``pibt``) gives every agent a cell to go to or
to stay in, and ``path_following`` moves all of them there at the same time.
"""

from typing import Annotated, Any, NamedTuple

import numpy as np

from coopbench.baselines.planners.path_following import Track, follow, make_drive, make_track
from coopbench.baselines.planners.pibt import AFTER, NEXT, Desk, Team, make_desk, plan_round
from coopbench.baselines.planners.shortest_paths import (
    DIRECTIONS,
    ROOMS,
    fits,
    measure_ways,
    survey_room,
)
from coopbench.baselines.policy import Entry, Game
from coopbench_envs.compiling import compiled
from coopbench_envs.core import routine, subroutine, uniform
from coopbench_envs.parameters import between
from coopbench_envs.pathfinding.lattice import cell_at

# No shortest way visits more than half of all cells: it would touch itself.
_LONGEST = 3.5  # length of a way per cell of the map, in fifths of a cell


class Params(NamedTuple):
    """Parameters of the policy."""

    plans: Annotated[int, between(1, 1000, "plans that are tried ahead; the best is played")] = 8


class Memory(NamedTuple):
    """State of the planner; axis 0 is the lane."""

    planned: np.ndarray  # (lanes,) bool
    goal_pos: np.ndarray  # (lanes, agents, 2) goals that the ways lead to
    room: np.ndarray  # (lanes, cells, 5) float32, see shortest_paths.survey_room
    team: Team
    track: Track


class Task(NamedTuple):
    """Numbers and arrays of one game, as the kernels read them."""

    centres: np.ndarray
    columns: int
    side: float  # of a cell
    landmark_rad: float
    widest: float  # largest radius of an agent
    far: int  # in place of the distance of a cell that the goal cannot be reached from
    stop: bool  # agents that arrive cannot move any more
    plans: int
    rounds: int  # that an episode has time for
    queues: tuple[np.ndarray, np.ndarray]  # (cells,) int32 scratch
    desk: Desk  # scratch


class AstarPibt:
    """Plans on the state of the whole team; its memory is written in place."""

    uses_state = True

    def __init__(self, game: Game, parameters: Params) -> None:
        self._drive = make_drive(game, "astar_pibt")
        c = game.constants
        cells = len(c.map.centres)
        self._kind = np.uint16 if _LONGEST * cells < np.iinfo(np.uint16).max else np.int32
        self._task = Task(
            centres=c.map.centres,
            columns=c.map.columns,
            side=c.map.width / c.map.columns,
            landmark_rad=c.map.landmark_rad,
            widest=c.map.agent_rad_high,
            far=int(np.iinfo(self._kind).max),
            stop=self._drive.stop,
            # A new goal would make a plan for the whole episode void.
            plans=1 if c.rules.lifelong else parameters.plans,
            rounds=int(c.horizon * self._drive.rate),
            queues=(np.zeros(cells, np.int32), np.zeros(cells, np.int32)),
            desk=make_desk(c.num_agents),
        )

    def initial(self, game: Game, seeds: np.ndarray) -> Memory:
        """Return the memory of lanes that are planned when they are first seen."""
        lanes, agents, cells = len(seeds), len(game.agents), len(self._task.centres)
        return Memory(
            planned=np.zeros(lanes, np.bool_),
            goal_pos=np.zeros((lanes, agents, 2)),
            room=np.zeros((lanes, cells, ROOMS), np.float32),
            team=Team(
                cell=np.zeros((lanes, agents, 2), np.int32),
                ways=np.zeros((lanes, agents, cells), self._kind),
                rank=np.zeros((lanes, agents)),
                feared=np.zeros((lanes, agents), np.int32),
                flight=np.zeros((lanes, agents), np.int32),
                rng=np.array(seeds, np.uint64),
            ),
            track=make_track(lanes, agents),
        )

    def act(self, observations: np.ndarray, memory: Memory, state: Any) -> tuple[Any, Memory]:
        """Return (lanes, agents, 2) forces."""
        actions = np.zeros((*observations.shape[:2], 2))
        agents = state.agent_pos, state.agent_vel, state.agent_rad
        goals = state.goal_pos, state.on_goal
        play(self._task, self._drive, memory, *agents, *goals, state.landmark_pos, actions)
        return actions, memory


@compiled
def play(t, drive, m, pos, velocity, radii, goal, on_goal, landmarks, actions):
    """Plan where it is time to, and write the forces of every lane."""
    for i in range(pos.shape[0]):
        afresh = not m.planned[i]
        if afresh:
            survey_room(m.room, i, t.centres, t.columns, landmarks, t.landmark_rad, t.widest)
        changed = heed_goals(t, m, i, goal, radii, afresh)
        if afresh:
            choose_plan(t, m, i, pos, radii)
        elif changed:
            think(t, m, i, radii)
            write_places(t, m, i)
        m.planned[i] = True
        follow(drive, m.track, i, pos, velocity, on_goal, actions)
        if m.track.clock[i] >= 1.0:
            m.track.clock[i] -= 1.0
            step_on(m.team, i)
            think(t, m, i, radii)
            write_places(t, m, i)


@subroutine
def heed_goals(t, m, i, goal, radii, afresh):
    """Measure the ways of agents whose goals are new; return whether there are any."""
    changed = False
    for a in range(goal.shape[1]):
        x, y = goal[i, a, 0], goal[i, a, 1]
        if afresh or x != m.goal_pos[i, a, 0] or y != m.goal_pos[i, a, 1]:
            changed = True
            m.goal_pos[i, a, 0], m.goal_pos[i, a, 1] = x, y
            k = cell_at(t.centres, t.columns, x, y)
            measure_ways(m.room, i, t.columns, a, radii[i, a], k, m.team.ways, t.far, t.queues)
    return changed


@subroutine
def think(t, m, i, radii):
    """Plan the round after the next one."""
    plan_round(m.team, t.desk, m.room, i, t.columns, t.side, radii, t.far, t.stop)


@routine
def step_on(team, i):
    """Begin the next round."""
    for a in range(team.cell.shape[1]):
        team.cell[i, a, NEXT] = team.cell[i, a, AFTER]


@routine
def write_places(t, m, i):
    """Write the plan into the track: this round ends where the last one was planned to lead."""
    place, cell = m.track.place, m.team.cell
    for a in range(cell.shape[1]):
        for k in range(2):
            place[i, a, 0, k] = place[i, a, 1, k]
            place[i, a, 1, k] = t.centres[cell[i, a, NEXT], k]
            place[i, a, 2, k] = t.centres[cell[i, a, AFTER], k]


# --- the choice of a plan -------------------------------------------------------------------------


@subroutine
def choose_plan(t, m, i, pos, radii):
    """Simulate plans that differ by chance, and begin the one that is over first."""
    rng, best = m.team.rng, np.inf
    chosen = rng[i]
    for _ in range(t.plans if t.plans > 1 else 0):
        seed = rng[i]
        begin(t, m, i, pos, radii)
        cost = play_in_thought(t, m, i, radii)
        if cost < best:
            best, chosen = cost, seed
    rng[i] = chosen
    begin(t, m, i, pos, radii)
    m.track.clock[i] = 0.0
    for part in range(2):  # the first two rounds
        if part > 0:
            step_on(m.team, i)
        think(t, m, i, radii)
        write_places(t, m, i)


@subroutine
def begin(t, m, i, pos, radii):
    """Put the team on its first cells; agents with longer ways go first, up to chance."""
    n, longest, team = pos.shape[1], np.int64(1), m.team
    for a in range(n):
        k = entrance(t, m.room, i, pos[i, a, 0], pos[i, a, 1], radii[i, a])
        team.cell[i, a, NEXT] = k
        team.flight[i, a] = 0
        if team.ways[i, a, k] != t.far:
            longest = max(longest, np.int64(team.ways[i, a, k]))
    for a in range(n):
        away = min(np.int64(team.ways[i, a, team.cell[i, a, NEXT]]), longest)
        team.rank[i, a] = 0.499 * (away / longest + uniform(team.rng, i))


@routine
def entrance(t, room, i, x, y, radius):
    """Return the nearest cell that an agent fits into; the one that it is in if there is none."""
    entry = cell_at(t.centres, t.columns, x, y)
    if not fits(room, i, entry, entry, DIRECTIONS, radius):
        best = np.inf
        for k in range(t.centres.shape[0]):
            dx, dy = t.centres[k, 0] - x, t.centres[k, 1] - y
            if dx * dx + dy * dy < best and fits(room, i, k, k, DIRECTIONS, radius):
                best, entry = dx * dx + dy * dy, k
    return entry


@subroutine
def play_in_thought(t, m, i, radii):
    """Simulate to the end; the cost is agents that do not arrive, then rounds, then their sum."""
    n, total, away, played = radii.shape[1], 0, 1, 0
    while away > 0 and played < t.rounds:
        think(t, m, i, radii)
        step_on(m.team, i)
        played += 1
        away = 0
        for a in range(n):
            way = m.team.ways[i, a, m.team.cell[i, a, NEXT]]
            away += way > 0 and way != t.far
        total += away
    return away * (t.rounds + 1.0) + played + total / (n * (t.rounds + 1.0))


ENTRY = Entry(
    "astar_pibt",
    AstarPibt,
    "pathfinding: shortest paths on a grid, with priority inheritance and backtracking",
    "global",
    Params,
)
