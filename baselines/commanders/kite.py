"""Kite: units attack the nearest enemy, and step back to reload from those of less reach."""

from typing import Annotated, Any, NamedTuple

import numpy as np

from coopbench.baselines.commanders.orders import Orders
from coopbench.baselines.policy import Entry, Game
from coopbench_envs.parameters import between


class Params(NamedTuple):
    """What stands after the colon: ``kite:1.5``."""

    margin: Annotated[
        float, between(0, 10, "cells beyond an enemy's reach at which units step back")
    ] = 1.5


class Kite:
    """Steps back only where that is legal, and if its own attack has more reach."""

    uses_state = True
    uses_masks = True

    def __init__(self, game: Game, parameters: Params) -> None:
        self._orders, self._margin = Orders(game, "kite"), parameters.margin

    def initial(self, game: Game, seeds: np.ndarray) -> None:
        """Return no memory."""

    def act(
        self, observations: np.ndarray, memory: None, state: Any, masks: np.ndarray
    ) -> tuple[np.ndarray, None]:
        """Return (lanes, agents) actions, all of them legal."""
        orders, n = self._orders, self._orders.num_agents
        candidates = orders.candidates(state)
        targets = orders.nearest(state, candidates)
        dx, dy = orders.offsets(state)
        roles = orders.roles(state)
        kinds, reach = roles.kinds, orders.army.reach
        # (lanes, agents, units): the reach of agents to units, and of units to agents.
        mine = reach[kinds[:, :n, None], kinds[:, None, :]]
        theirs = reach[kinds[:, None, :], kinds[:, :n, None]]
        can_outrange = (mine > theirs) & ~roles.heals[:, :, None]
        close = candidates & can_outrange & (np.hypot(dx, dy) < theirs + self._margin)
        threat = orders.nearest(state, close)
        retreats = (threat >= 0) & (state.cooldown[:, :n] > 0) & state.living[:, :n]
        back = orders.walk(state, threat, masks, away=True)
        return np.where(retreats, back, orders.actions(state, targets, masks)), None


ENTRY = Entry(
    "kite", Kite, "battles: attacks the nearest enemy, steps back to reload", "global", Params
)
