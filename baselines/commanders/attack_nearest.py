"""Attack the nearest: every unit attacks the nearest enemy, if it is in range, or walks there.

Healers heal the nearest that is hurt, and otherwise walk to the nearest that they can heal.
"""

from typing import Any, NamedTuple

import numpy as np

from coopbench.baselines.commanders.orders import Orders
from coopbench.baselines.policy import Entry, Game


class Params(NamedTuple):
    """No parameters."""


class AttackNearest:
    """Chooses anew in every step."""

    uses_state = True
    uses_masks = True

    def __init__(self, game: Game, parameters: Params) -> None:
        self._orders = Orders(game, "attack_nearest")

    def initial(self, game: Game, seeds: np.ndarray) -> None:
        """Return no memory."""

    def act(
        self, observations: np.ndarray, memory: None, state: Any, masks: np.ndarray
    ) -> tuple[np.ndarray, None]:
        """Return (lanes, agents) actions, all of them legal."""
        orders = self._orders
        targets = orders.nearest(state, orders.candidates(state))
        actions = orders.actions(state, targets, masks)
        escorted = orders.nearest(state, orders.patients(state))
        walks = (targets < 0) & (escorted >= 0)
        return np.where(walks, orders.walk(state, escorted, masks), actions), None


ENTRY = Entry(
    "attack_nearest", AttackNearest, "battles: each attacks the nearest enemy", "global", Params
)
