"""Deadlock avoidance: shortest paths, but trains wait if an oncoming train could not pass.

After the heuristic of this name in the community of flatland-rl. A train enters its next cell only
if, for every train that comes to it on its shortest way, there is a cell before the two meet that
lies on the way of the one and not on the way of the other. There it can let the other one pass.
"""

from typing import Any, NamedTuple

import numpy as np

from coopbench.baselines.dispatchers.railway import Railway
from coopbench.baselines.dispatchers.way_search import Board, board_of, nearer
from coopbench.baselines.policy import Entry, Game
from coopbench_envs.compiling import compiled
from coopbench_envs.core import routine
from coopbench_envs.rail.cells import FORWARD, LEFT, RIGHT, STOP, follow
from coopbench_envs.rail.distances import UNREACHABLE, cells_from
from coopbench_envs.rail.trains import ARRIVED, MOVING, READY


class Params(NamedTuple):
    """No parameters."""


class Scratch(NamedTuple):
    """Scratch arrays, of one lane."""

    holder: np.ndarray  # (cells,) int32, train on the map that is there; -1: none
    ways: np.ndarray  # (trains, cells) bool, lies on the train's shortest way from where it is
    met: np.ndarray  # (trains,) int32, trains that come to the one looked at


class DeadlockAvoidance:
    """Decides for one train after the other; those that have decided to go on count as there."""

    uses_state = True
    uses_masks = True

    def __init__(self, game: Game, parameters: Params) -> None:
        Railway(game, "deadlock_avoidance")
        c = self._constants = game.constants
        self._scratch = Scratch(
            holder=np.full(c.map.cells, -1, np.int32),
            ways=np.zeros((c.num_agents, c.map.cells), np.bool_),
            met=np.zeros(c.num_agents, np.int32),
        )

    def initial(self, game: Game, seeds: np.ndarray) -> None:
        """Return no memory."""

    def act(
        self, observations: np.ndarray, memory: None, state: Any, masks: np.ndarray
    ) -> tuple[Any, None]:
        """Return (lanes, agents) actions, all of them legal."""
        board = board_of(self._constants, state, by_steps=False, reserve=0, weight=0.0)
        actions = np.zeros(masks.shape[:2], np.int64)
        decide(board, self._scratch, actions)
        legal = np.take_along_axis(masks, actions[..., None], axis=-1)[..., 0]
        return np.where(legal, actions, 0), None


@compiled
def decide(b: Board, w: Scratch, actions: np.ndarray) -> None:
    """Write the actions of every lane."""
    n = actions.shape[1]
    for i in range(actions.shape[0]):
        for a in range(n):
            if MOVING <= b.status[i, a] < ARRIVED:
                w.holder[b.place[i, a] >> 2] = a
                mark_way(b, w, i, a, True)
        for a in range(n):
            status = b.status[i, a]
            if b.broken[i, a] == 0 and READY <= status < ARRIVED:
                actions[i, a] = action_of(b, w, i, a)
            if status == READY and actions[i, a] != 0 and w.holder[b.place[i, a] >> 2] < 0:
                w.holder[b.place[i, a] >> 2] = a  # it departs
                mark_way(b, w, i, a, True)
        for a in range(n):
            w.holder[b.place[i, a] >> 2] = -1
            mark_way(b, w, i, a, False)


@routine
def mark_way(b, w, i, a, mark):
    """Mark the cells of a train's shortest way, the first one included."""
    place = np.int64(b.place[i, a])
    cells = cells_from(b, i, a, place)
    w.ways[a, place >> 2] = mark
    for _ in range(cells if cells < UNREACHABLE else 0):
        place = nearer(b, i, a, place)
        w.ways[a, place >> 2] = mark


@routine
def action_of(b, w, i, a):
    """Return the action of one train: on its way, or to stay where it is."""
    place, on_map = np.int64(b.place[i, a]), b.status[i, a] >= MOVING
    cells = cells_from(b, i, a, place)
    if cells == UNREACHABLE or (not on_map and w.holder[place >> 2] >= 0):
        return 0
    ahead = nearer(b, i, a, place)
    action = STOP
    for choice in (RIGHT, LEFT, FORWARD):
        other = follow(b.rail, i, b.delta, place, choice)
        if other >= 0 and (other == ahead or cells == 0):
            action = choice
    if on_map and b.distance[i, a] + b.top_speed[i, a] < b.unit:
        return action  # it stays in its cell
    if can_go_on(b, w, i, a):
        return action
    return STOP if on_map else 0


@routine
def can_go_on(b, w, i, a):
    """Tell whether a train can let all pass that come to it, if it enters its next cell.

    For as many as come to it there must be cells of its way, from the next one on, that lie on the
    way of none of them.
    """
    place = np.int64(b.place[i, a])
    cells = cells_from(b, i, a, place)
    met = 0
    for _ in range(cells):
        place = nearer(b, i, a, place)
        other = w.holder[place >> 2]
        if other >= 0 and other != a and comes_to(b, i, other, place):
            w.met[met] = other
            met += 1
            if count_free(b, w, i, a, met, place) < met:
                return False
    return True


@routine
def comes_to(b, i, other, place):
    """Tell whether a train's shortest way leads against the heading of ``place``."""
    if cells_from(b, i, other, b.place[i, other]) in (0, UNREACHABLE):
        return False
    ahead = nearer(b, i, other, np.int64(b.place[i, other]))
    return ahead >> 2 == (place >> 2) - b.delta[place & 3]


@routine
def count_free(b, w, i, a, met, last):
    """Count the cells of a train's way before ``last`` that are on the way of none it meets."""
    place, free = np.int64(b.place[i, a]), 0
    while place != last:
        place = nearer(b, i, a, place)
        blocked = place == last
        for m in range(met):
            blocked = blocked or w.ways[w.met[m], place >> 2]
        free += not blocked
    return free


ENTRY = Entry(
    "deadlock_avoidance",
    DeadlockAvoidance,
    "railways: shortest paths; trains wait if an oncoming train could not pass",
    "global",
    Params,
)
