"""What planning policies share: their memory, when they plan, and how their trains keep to it."""

from typing import Any, NamedTuple

import numpy as np

from coopbench.baselines.dispatchers.orders import choose, note_progress, update_times
from coopbench.baselines.dispatchers.planning import (
    Choice,
    improve,
    keep_home,
    make_choice,
    plan_all,
    sort_trains,
    withdraw_late,
)
from coopbench.baselines.dispatchers.railway import Railway
from coopbench.baselines.dispatchers.visits import Plan, forget_all, make_plan
from coopbench.baselines.dispatchers.way_search import (
    Board,
    Desk,
    board_of,
    dwell,
    make_desk,
)
from coopbench.baselines.policy import Game
from coopbench_envs.compiling import compiled
from coopbench_envs.core import routine, subroutine, uniform
from coopbench_envs.rail.distances import UNREACHABLE, cells_from
from coopbench_envs.rail.rewards import CHALLENGE_2020
from coopbench_envs.rail.trains import ARRIVED

__all__ = ["Planner", "Settings"]

_DETOURS = 4  # times the sides of the map, places of a way at most


class Settings(NamedTuple):
    """How much is planned."""

    orders: int  # orders in which all trains are planned at the beginning; the best is played
    effort: int  # nodes that the search expands for better plans at the beginning
    effort_at_strikes: int  # the same when trains break down; negative: the plan stays as it is
    reserve: int = 0  # steps before the due time from which arriving later costs something
    weight: float = 0.0  # what such a step costs; one of delay costs 1 more
    keeps_home: bool = False  # when trains break down, those at home may stay there; see keep_home


class Memory(NamedTuple):
    """State of a planner; axis 0 is the lane."""

    planned: np.ndarray  # (lanes,) bool
    broken: np.ndarray  # (lanes, trains) int32, as seen in the step before
    rng: np.ndarray  # (lanes,) uint64
    plan: Plan


class Planner:
    """Plans on the state of the game, but for the malfunctions to come; see ``Settings``."""

    uses_state = True
    uses_masks = True

    def __init__(self, game: Game, policy: str, settings: Settings) -> None:
        Railway(game, policy)
        c = self._constants = game.constants
        if c.rules.fair:  # a train that stays at home loses all that there is
            settings = settings._replace(keeps_home=False)
        self._settings, self._trains, self._cells = settings, c.num_agents, c.map.cells
        self._by_steps = c.rewards.code == CHALLENGE_2020
        steps = c.horizon + c.horizon // 2 + 2
        self._longest = min(steps, _DETOURS * (c.map.height + c.map.width))
        empty = make_plan(1, c.num_agents, c.map.cells, self._longest)
        self._desk = make_desk(c.map.cells, empty, steps)
        self._choice = make_choice(c.num_agents, self._longest)

    def initial(self, game: Game, seeds: np.ndarray) -> Memory:
        """Return the memory of lanes that are planned when they are first seen."""
        lanes = len(seeds)
        return Memory(
            planned=np.zeros(lanes, np.bool_),
            broken=np.zeros((lanes, self._trains), np.int32),
            rng=np.array(seeds, np.uint64),
            plan=make_plan(lanes, self._trains, self._cells, self._longest),
        )

    def act(
        self, observations: np.ndarray, memory: Memory, state: Any, masks: np.ndarray
    ) -> tuple[Any, Memory]:
        """Return (lanes, agents) actions, all of them legal."""
        settings, by_steps = self._settings, self._by_steps
        aims = {"by_steps": by_steps, "reserve": settings.reserve, "weight": settings.weight}
        board = board_of(self._constants, state, **aims)
        actions = np.zeros(masks.shape[:2], np.int64)
        play(board, memory, self._desk, self._choice, settings, actions)
        legal = np.take_along_axis(masks, actions[..., None], axis=-1)[..., 0]
        return np.where(legal, actions, 0), memory


@compiled
def play(b: Board, m: Memory, k: Desk, h: Choice, settings: Settings, actions: np.ndarray) -> None:
    """Plan where it is time to, and write the actions of every lane."""
    for i in range(actions.shape[0]):
        note_progress(b, m.plan, i)
        if not m.planned[i]:
            begin(b, m, k, h, i, settings)
            m.planned[i] = True
        elif settings.effort_at_strikes >= 0 and is_struck(b, m, i):
            update_times(b, m.plan, i)
            withdraw_late(b, m.plan, i)
            update_times(b, m.plan, i)
            if settings.keeps_home:
                keep_home(b, m.plan, i)
            improve(b, m.plan, k, h, i, m.rng, settings.effort_at_strikes)
        for a in range(actions.shape[1]):
            m.broken[i, a] = b.broken[i, a]
            actions[i, a] = choose(b, m.plan, i, a)


@routine
def is_struck(b, m, i):
    """Tell whether a train has broken down in the last step."""
    struck = False
    for a in range(m.broken.shape[1]):
        new = b.broken[i, a] > max(m.broken[i, a] - 1, 0)
        struck = struck or (new and b.status[i, a] != ARRIVED)
    return struck


@subroutine
def begin(b, m, k, h, i, settings):
    """Plan all trains, in several orders, and keep the plan that costs least."""
    best, chosen, first = np.inf, m.rng[i], 0
    for order in range(settings.orders):
        seed = m.rng[i]
        cost = plan_by_slack(b, m, k, h, i, order > 0)
        if cost < best:
            best, chosen, first = cost, seed, order
    m.rng[i] = chosen
    plan_by_slack(b, m, k, h, i, first > 0)
    improve(b, m.plan, k, h, i, m.rng, settings.effort)


@subroutine
def plan_by_slack(b, m, k, h, i, shuffled):
    """Plan all trains from nothing: first who has least time to spare, up to chance."""
    n = m.broken.shape[1]
    forget_all(m.plan, i)
    for a in range(n):
        cells = cells_from(b, i, a, b.place[i, a])
        travel = 0 if cells == UNREACHABLE else cells * dwell(b, i, a)
        h.key[a] = b.due[i, a] - travel
        if shuffled:
            h.key[a] *= 0.5 + uniform(m.rng, i)
    sort_trains(h, n)
    return plan_all(b, m.plan, k, h, i)
