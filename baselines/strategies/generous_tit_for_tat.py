"""Generous tit for tat: mirror the others, but forgive a part of what they held back.

A continuous form of the strategy of Nowak & Sigmund (1992), who forgive with a probability.
"""

from typing import Annotated, Any, NamedTuple

import numpy as np

from coopbench.baselines.policy import Entry, Game
from coopbench.baselines.strategies.investments import Fractions, mean
from coopbench_envs.parameters import between

OPENING = 0.5  # fraction of the own endowment


class Params(NamedTuple):
    """What stands after the colon: ``generous_tit_for_tat:0.2``."""

    generosity: Annotated[float, between(0, 1, "share of the gap to the top that is forgiven")] = (
        0.1
    )


class GenerousTitForTat:
    """Plays f + generosity * (1 - f), where f is the others' mean fraction."""

    def __init__(self, game: Game, parameters: Params) -> None:
        self._fractions = Fractions(game, "generous_tit_for_tat")
        self._generosity = parameters.generosity

    def initial(self, game: Game, seeds: np.ndarray) -> np.ndarray:
        """Return whether the episode has begun: not yet."""
        return np.zeros(len(seeds), np.bool_)

    def act(self, observations: np.ndarray, memory: np.ndarray) -> tuple[Any, np.ndarray]:
        """Open with half, then mirror generously."""
        mirrored = mean(self._fractions.others(observations))
        forgiven = mirrored + self._generosity * (1.0 - mirrored)
        played = np.where(memory[:, None], forgiven, OPENING)
        return self._fractions.units(played), np.ones_like(memory)


ENTRY = Entry(
    "generous_tit_for_tat",
    GenerousTitForTat,
    "mirrors the others' last fraction and forgives part of the gap",
    "local",
    Params,
)
