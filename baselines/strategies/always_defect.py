"""Always defect: invest nothing, regardless of the others."""

from typing import Any, NamedTuple

import numpy as np

from coopbench.baselines.policy import Entry, Game
from coopbench.baselines.strategies.investments import Fractions


class Params(NamedTuple):
    """No parameters."""


class AlwaysDefect:
    """Invests nothing."""

    def __init__(self, game: Game, parameters: Params) -> None:
        self._fractions = Fractions(game, "always_defect")

    def initial(self, game: Game, seeds: np.ndarray) -> None:
        """Return no memory."""

    def act(self, observations: np.ndarray, memory: None) -> tuple[Any, None]:
        """Return zeros."""
        return self._fractions.units(np.zeros(observations.shape[:2])), None


ENTRY = Entry("always_defect", AlwaysDefect, "invests nothing", "none", Params)
