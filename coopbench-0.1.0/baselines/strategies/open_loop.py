"""The best fixed sequence of a game, from its certificate: it depends on the step alone.

A game in which it wins does not test how agents respond to each other.
"""

from typing import Any, NamedTuple

import numpy as np

from coopbench.baselines.policy import Entry, Game
from coopbench.baselines.strategies.certified import certificate_entry
from coopbench.baselines.strategies.investments import Fractions
from coopbench_envs.roles import role_of


class Params(NamedTuple):
    """No parameters."""


class OpenLoop:
    """Invests the certificate's fraction of each step and role; after the last step, the last."""

    def __init__(self, game: Game, parameters: Params) -> None:
        self._fractions = Fractions(game, "open_loop")
        table = certificate_entry("open_loop", game, "open_loop")
        self._sequence = np.array([table[role_of(agent)] for agent in game.agents]).T

    def initial(self, game: Game, seeds: np.ndarray) -> np.ndarray:
        """Return the steps played: none."""
        return np.zeros(len(seeds), np.int64)

    def act(self, observations: np.ndarray, memory: np.ndarray) -> tuple[Any, np.ndarray]:
        """Look up the step's fraction."""
        played = self._sequence[np.minimum(memory, len(self._sequence) - 1)]
        return self._fractions.units(played), memory + 1


ENTRY = Entry("open_loop", OpenLoop, "plays the certificate's best fixed sequence", "none", Params)
