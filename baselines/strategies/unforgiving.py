"""Unforgiving: cooperates until the others' record falls too low once, then never again.

Grim trigger (Friedman 1971) on the public record of conduct.
"""

from typing import Annotated, Any, NamedTuple

import numpy as np

from coopbench.baselines.policy import Entry, Game
from coopbench.baselines.strategies.ventures import Bar, Follow, Ignore, Venture
from coopbench_envs.parameters import between


class Params(NamedTuple):
    """What stands after the colon: ``unforgiving:0.4``."""

    threshold: Annotated[float, between(0, 1, "record of the others that ends cooperation")] = 0.4
    level: Annotated[float, between(0, 1, "fraction invested before")] = 1.0
    bar: Bar = 0.5
    ignore: Ignore = 1 / 3
    follow: Follow = 2 / 3


class Unforgiving:
    """Invests ``level`` in the good regime until the others' record falls below the threshold."""

    def __init__(self, game: Game, parameters: Params) -> None:
        p = parameters
        self._venture = Venture(game, "unforgiving", ignore=p.ignore, follow=p.follow)
        self._parameters = parameters

    def initial(self, game: Game, seeds: np.ndarray) -> np.ndarray:
        """Return whether agents are offended, (lanes, agents) bool."""
        return np.zeros((len(seeds), len(game.agents)), np.bool_)

    def act(self, observations: np.ndarray, memory: np.ndarray) -> tuple[Any, np.ndarray]:
        """Punish permanently once the others' record has fallen."""
        p = self._parameters
        offended = memory | (self._venture.records(observations, p.bar) < p.threshold)
        attitude = np.where(offended, 0.0, p.level)
        return self._venture.actions(observations, attitude, bar=p.bar), offended


ENTRY = Entry(
    "unforgiving",
    Unforgiving,
    "invests until the others' record falls too low, then never again",
    "local",
    Params,
)
