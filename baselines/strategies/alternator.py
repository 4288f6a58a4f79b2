"""Alternator: in the good regime invests for some steps, then takes for as many."""

from typing import Annotated, Any, NamedTuple

import numpy as np

from coopbench.baselines.policy import Entry, Game
from coopbench.baselines.strategies.ventures import Bar, Follow, Ignore, Venture
from coopbench_envs.parameters import between


class Params(NamedTuple):
    """What stands after the colon: ``alternator:3``."""

    length: Annotated[
        int, between(1, 10_000, "steps of the good regime for which it invests, then takes")
    ] = 1
    level: Annotated[float, between(0, 1, "fraction invested when it does")] = 1.0
    bar: Bar = 0.5
    ignore: Ignore = 1 / 3
    follow: Follow = 2 / 3


class Alternator:
    """Counts the steps that are worth investing in, and invests in every other part of them."""

    def __init__(self, game: Game, parameters: Params) -> None:
        p = parameters
        self._venture = Venture(game, "alternator", ignore=p.ignore, follow=p.follow)
        self._parameters = parameters

    def initial(self, game: Game, seeds: np.ndarray) -> np.ndarray:
        """Return the number of steps of the good regime so far, (lanes, agents) int64."""
        return np.zeros((len(seeds), len(game.agents)), np.int64)

    def act(self, observations: np.ndarray, memory: np.ndarray) -> tuple[Any, np.ndarray]:
        """Invest or take, by the number of steps of the good regime so far."""
        p, venture = self._parameters, self._venture
        attitude = np.where(memory // p.length % 2 == 0, p.level, 0.0)
        actions = venture.actions(observations, attitude, bar=p.bar)
        return actions, memory + (venture.worth(observations) > 0.0)


ENTRY = Entry(
    "alternator",
    Alternator,
    "invests in the good regime for some steps, then takes for as many steps",
    "local",
    Params,
)
