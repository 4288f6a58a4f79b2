"""Cooperator: invests in the good regime, regardless of the others."""

from typing import Annotated, Any, NamedTuple

import numpy as np

from coopbench.baselines.policy import Entry, Game
from coopbench.baselines.strategies.ventures import Follow, Ignore, Trembles, Venture, trembling
from coopbench_envs.core import streams
from coopbench_envs.parameters import between


class Params(NamedTuple):
    """What stands after the colon: ``cooperator:0.7``."""

    level: Annotated[float, between(0, 1, "fraction invested, or share of a phase's level")] = 1.0
    ignore: Ignore = 1 / 3
    follow: Follow = 2 / 3
    trembles: Trembles = 0.0


class Cooperator:
    """Invests ``level`` in the good regime, and deals with all others."""

    def __init__(self, game: Game, parameters: Params) -> None:
        p = parameters
        self._venture = Venture(game, "cooperator", ignore=p.ignore, follow=p.follow)
        self._parameters = parameters

    def initial(self, game: Game, seeds: np.ndarray) -> np.ndarray:
        """Return one random state per lane and agent."""
        return streams(seeds[:, None], np.arange(len(game.agents))[None, :])

    def act(self, observations: np.ndarray, memory: np.ndarray) -> tuple[Any, np.ndarray]:
        """Invest by the regime alone."""
        attitude = np.full(observations.shape[:2], self._parameters.level)
        attitude, memory = trembling(attitude, self._parameters.trembles, memory)
        return self._venture.actions(observations, attitude, bar=0.0), memory


ENTRY = Entry(
    "cooperator",
    Cooperator,
    "invests in the good regime, regardless of the others",
    "local",
    Params,
)
