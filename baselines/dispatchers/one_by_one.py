"""One by one: a train departs when all that have departed before it have arrived.

Trains never meet, so every train whose target can be reached arrives if there is time enough: with
an unlimited episode reachability is all that a railway needs to be solvable.
"""

from typing import Any, NamedTuple

import numpy as np

from coopbench.baselines.dispatchers.railway import Railway
from coopbench.baselines.policy import Entry, Game
from coopbench_envs.rail.distances import UNREACHABLE
from coopbench_envs.rail.trains import ARRIVED, BROKEN_OFF_MAP, READY


class Params(NamedTuple):
    """No parameters."""


class OneByOne:
    """The train on the map goes its shortest way; of those ready the one with the shortest departs.

    Trains whose target cannot be reached stay at home.
    """

    uses_state = True
    uses_masks = True

    def __init__(self, game: Game, parameters: Params) -> None:
        self._railway = Railway(game, "one_by_one")
        self._unit = game.constants.drive.unit

    def initial(self, game: Game, seeds: np.ndarray) -> None:
        """Return no memory."""

    def act(
        self, observations: np.ndarray, memory: None, state: Any, masks: np.ndarray
    ) -> tuple[Any, None]:
        """Return (lanes, agents) actions, all of them legal."""
        railway = self._railway
        cells = railway.distance(state, state.place.astype(np.int64))
        travel = np.where(cells < UNREACHABLE, cells * self._unit / state.top_speed, np.inf)
        on_map = _on_map(state.status)
        waits = (state.status == READY) & np.isfinite(travel)
        first = np.argmin(np.where(waits, travel, np.inf), axis=1)
        departs = waits & (np.arange(waits.shape[1]) == first[:, None])
        goes = on_map | (departs & ~on_map.any(axis=1, keepdims=True))
        return np.where(goes, railway.shortest(state, masks), 0).astype(np.int64), None


def _on_map(status: np.ndarray) -> np.ndarray:
    """Return which trains of these statuses are on the map."""
    return (status > BROKEN_OFF_MAP) & (status < ARRIVED)


ENTRY = Entry(
    "one_by_one",
    OneByOne,
    "railways: a train departs when the one before it has arrived",
    "global",
    Params,
)
