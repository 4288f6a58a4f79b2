"""Matcher: invests a share of what the others last invested in the good regime.

With a share of 1 it is tit for tat (Axelrod 1984), with less it is extortionate in the sense of
Press & Dyson (2012): it gives less than it gets, and answers more with more.
"""

from typing import Annotated, Any, NamedTuple

import numpy as np

from coopbench.baselines.policy import Entry, Game
from coopbench.baselines.strategies.ventures import Bar, Demand, Follow, Ignore, Venture
from coopbench_envs.parameters import between


class Params(NamedTuple):
    """What stands after the colon: ``matcher:0.6``."""

    share: Annotated[float, between(0, 1, "fraction invested over what the others invested")] = 1.0
    start: Annotated[float, between(0, 1, "what it takes the others to have invested first")] = 1.0
    demand: Demand = 0.5
    bar: Bar = 0.5
    ignore: Ignore = 1 / 3
    follow: Follow = 2 / 3


class Memory(NamedTuple):
    """What every seat remembers; axis 0 is the lane."""

    worth: np.ndarray  # (lanes, agents) fraction that was worth investing in the last step
    last: np.ndarray  # (lanes, agents) what the others last invested of it in the good regime


class Matcher:
    """Invests a share of what it got."""

    def __init__(self, game: Game, parameters: Params) -> None:
        p = parameters
        self._venture = Venture(game, "matcher", ignore=p.ignore, follow=p.follow)
        self._parameters = parameters

    def initial(self, game: Game, seeds: np.ndarray) -> Memory:
        """Return the memory before the first step."""
        shape = (len(seeds), len(game.agents))
        return Memory(np.zeros(shape), np.full(shape, self._parameters.start))

    def act(self, observations: np.ndarray, memory: Memory) -> tuple[Any, Memory]:
        """Look at the last step if the regime was good in it, and match."""
        p, venture = self._parameters, self._venture
        good, relative = venture.answered(observations, memory.worth)
        last = np.where(good, relative, memory.last)
        actions = venture.actions(observations, p.share * last, bar=p.bar, demand=p.demand)
        return actions, Memory(venture.worth(observations), last)


ENTRY = Entry(
    "matcher",
    Matcher,
    "invests a share of what the others last invested in the good regime",
    "local",
    Params,
)
