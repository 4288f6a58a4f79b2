"""Shortest path: every train takes the shortest path to its target, even if it is blocked.

It ignores other trains, so trains that meet on a single track are stuck.
"""

from typing import Any, NamedTuple

import numpy as np

from coopbench.baselines.dispatchers.railway import Railway
from coopbench.baselines.policy import Entry, Game


class Params(NamedTuple):
    """No parameters."""


class ShortestPath:
    """Takes the exit with the least distance, of equal ones the first of left, forward, right."""

    uses_state = True
    uses_masks = True

    def __init__(self, game: Game, parameters: Params) -> None:
        self._railway = Railway(game, "shortest_path")

    def initial(self, game: Game, seeds: np.ndarray) -> None:
        """Return no memory."""

    def act(
        self, observations: np.ndarray, memory: None, state: Any, masks: np.ndarray
    ) -> tuple[Any, None]:
        """Return (lanes, agents) actions, all of them legal."""
        return self._railway.shortest(state, masks).astype(np.int64), None


ENTRY = Entry(
    "shortest_path", ShortestPath, "railways: each train takes its shortest path", "global", Params
)
