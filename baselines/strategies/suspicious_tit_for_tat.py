"""Suspicious tit for tat: open with nothing, then mirror (Boyd & Lorberbaum 1987)."""

from typing import Any, NamedTuple

import numpy as np

from coopbench.baselines.policy import Entry, Game
from coopbench.baselines.strategies.investments import Fractions, mean


class Params(NamedTuple):
    """No parameters."""


class SuspiciousTitForTat:
    """Mirrors the others' mean fraction, but does not trust them at first."""

    def __init__(self, game: Game, parameters: Params) -> None:
        self._fractions = Fractions(game, "suspicious_tit_for_tat")

    def initial(self, game: Game, seeds: np.ndarray) -> np.ndarray:
        """Return whether the episode has begun: not yet."""
        return np.zeros(len(seeds), np.bool_)

    def act(self, observations: np.ndarray, memory: np.ndarray) -> tuple[Any, np.ndarray]:
        """Open with nothing, then mirror."""
        mirrored = mean(self._fractions.others(observations))
        return self._fractions.units(mirrored * memory[:, None]), np.ones_like(memory)


ENTRY = Entry(
    "suspicious_tit_for_tat",
    SuspiciousTitForTat,
    "mirrors the others' last fraction, opens with 0",
    "local",
    Params,
)
