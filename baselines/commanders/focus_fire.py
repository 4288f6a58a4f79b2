"""Focus fire: every unit attacks, of the enemies in range, the one with the least health."""

from typing import Any, NamedTuple

import numpy as np

from coopbench.baselines.commanders.orders import Orders
from coopbench.baselines.policy import Entry, Game


class Params(NamedTuple):
    """No parameters."""


class FocusFire:
    """Counts health and shield; healers heal who has the least; without any in range, walks."""

    uses_state = True
    uses_masks = True

    def __init__(self, game: Game, parameters: Params) -> None:
        self._orders = Orders(game, "focus_fire")

    def initial(self, game: Game, seeds: np.ndarray) -> None:
        """Return no memory."""

    def act(
        self, observations: np.ndarray, memory: None, state: Any, masks: np.ndarray
    ) -> tuple[np.ndarray, None]:
        """Return (lanes, agents) actions, all of them legal."""
        orders = self._orders
        candidates = orders.candidates(state)
        in_range = candidates & orders.legal(state, masks)
        weakest = orders.least((state.hp + state.shield)[:, None, :], in_range)
        targets = np.where(weakest >= 0, weakest, orders.nearest(state, candidates))
        return orders.actions(state, targets, masks), None


ENTRY = Entry(
    "focus_fire", FocusFire, "battles: each attacks the weakest enemy in range", "global", Params
)
