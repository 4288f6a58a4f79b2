"""The best constant profile of a game, from its certificate: what a trained policy must beat."""

from typing import Any, NamedTuple

import numpy as np

from coopbench.baselines.policy import Entry, Game
from coopbench.baselines.strategies.certified import certificate_entry
from coopbench.baselines.strategies.investments import CUSTOMARY
from coopbench_envs.roles import role_of


class Params(NamedTuple):
    """No parameters."""


class BestConstant:
    """Plays, at every step, the constant action that the certificate found for each role."""

    def __init__(self, game: Game, parameters: Params) -> None:
        game.require("best_constant", "own_action")
        roles = certificate_entry("best_constant", game, "best_constant")
        fractions = np.full_like(game.high, CUSTOMARY)
        for seat, agent in enumerate(game.agents):
            # Parts that grow with the number of agents stand last, and are customary throughout.
            parts = roles[role_of(agent)][: fractions.shape[1]]
            fractions[seat, : len(parts)] = parts
        self._actions = game.low + fractions * (game.high - game.low)

    def initial(self, game: Game, seeds: np.ndarray) -> None:
        """Return no memory."""

    def act(self, observations: np.ndarray, memory: None) -> tuple[Any, None]:
        """Return the same actions for every lane."""
        return np.broadcast_to(self._actions, (len(observations), *self._actions.shape)), None


ENTRY = Entry(
    "best_constant", BestConstant, "plays the certificate's best constant profile", "none", Params
)
