"""Tit for tat: open in the middle, then do what the others did (Axelrod 1984), in fractions."""

from typing import Any, NamedTuple

import numpy as np

from coopbench.baselines.policy import Entry, Game
from coopbench.baselines.strategies.investments import Fractions, mean

OPENING = 0.5  # fraction of the own endowment


class Params(NamedTuple):
    """No parameters."""


class TitForTat:
    """Mirrors the mean fraction of their endowments that the other agents invested last."""

    def __init__(self, game: Game, parameters: Params) -> None:
        self._fractions = Fractions(game, "tit_for_tat")

    def initial(self, game: Game, seeds: np.ndarray) -> np.ndarray:
        """Return whether the episode has begun: not yet."""
        return np.zeros(len(seeds), np.bool_)

    def act(self, observations: np.ndarray, memory: np.ndarray) -> tuple[Any, np.ndarray]:
        """Open with half, then mirror."""
        mirrored = mean(self._fractions.others(observations))
        played = np.where(memory[:, None], mirrored, OPENING)
        return self._fractions.units(played), np.ones_like(memory)


ENTRY = Entry(
    "tit_for_tat", TitForTat, "mirrors the others' last fraction, opens with 0.5", "local", Params
)
