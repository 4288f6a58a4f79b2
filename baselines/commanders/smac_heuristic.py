"""The heuristic of SMAC, with legal actions only: every unit keeps its target until it is dead."""

from typing import Any, NamedTuple

import numpy as np

from coopbench.baselines.commanders.orders import Orders
from coopbench.baselines.policy import Entry, Game


class Params(NamedTuple):
    """No parameters."""


class SmacHeuristic:
    """Each unit takes the nearest enemy; healers keep theirs until it is no longer hurt."""

    uses_state = True
    uses_masks = True

    def __init__(self, game: Game, parameters: Params) -> None:
        self._orders = Orders(game, "smac_heuristic")

    def initial(self, game: Game, seeds: np.ndarray) -> np.ndarray:
        """Return no targets, -1, for (lanes, agents)."""
        return np.full((len(seeds), len(game.agents)), -1)

    def act(
        self, observations: np.ndarray, memory: np.ndarray, state: Any, masks: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return (lanes, agents) actions, all of them legal, and the targets."""
        orders = self._orders
        candidates = orders.candidates(state)
        units = np.maximum(memory, 0)[:, :, None]
        keeps = np.take_along_axis(candidates, units, axis=2)[:, :, 0] & (memory >= 0)
        targets = np.where(keeps, memory, orders.nearest(state, candidates))
        return orders.actions(state, targets, masks), targets


ENTRY = Entry(
    *("smac_heuristic", SmacHeuristic),
    "battles: each attacks the nearest enemy until it is dead, as SMAC's heuristic",
    *("global", Params),
)
