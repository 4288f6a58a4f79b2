"""Extorter: matches the others, and gives a little less as long as they accept it.

It searches for the least share that the others accept, where ``matcher`` has a share of its own:
extortion in the sense of Press & Dyson (2012), with a factor that adapts.
"""

from typing import Annotated, Any, NamedTuple

import numpy as np

from coopbench.baselines.policy import Entry, Game
from coopbench.baselines.strategies.ventures import Bar, Demand, Follow, Ignore, Venture
from coopbench_envs.parameters import between

PATIENCE = 0.1  # by how much the others may fall short of what they invested usually
USUAL = 0.2  # weight of the last step in what they invested usually


class Params(NamedTuple):
    """What stands after the colon: ``extorter:0.4``."""

    least: Annotated[float, between(0, 1, "least fraction invested over what others did")] = 0.4
    step: Annotated[float, between(0, 1, "by which the fraction falls in a good step")] = 0.05
    demand: Demand = 0.5
    bar: Bar = 0.5
    ignore: Ignore = 1 / 3
    follow: Follow = 2 / 3


class Memory(NamedTuple):
    """What every seat remembers, (lanes, agents)."""

    worth: np.ndarray  # fraction that was worth investing in the last step
    last: np.ndarray  # what the others last invested of it in the good regime
    usual: np.ndarray  # smoothed mean of that
    share: np.ndarray  # fraction that it invests over what the others did


class Extorter:
    """Lowers its share while the others keep up, and raises it again when they invest less."""

    def __init__(self, game: Game, parameters: Params) -> None:
        p = parameters
        self._venture = Venture(game, "extorter", ignore=p.ignore, follow=p.follow)
        self._parameters = parameters

    def initial(self, game: Game, seeds: np.ndarray) -> Memory:
        """Return the memory before the first step."""
        shape = (len(seeds), len(game.agents))
        return Memory(np.zeros(shape), np.ones(shape), np.ones(shape), np.ones(shape))

    def act(self, observations: np.ndarray, memory: Memory) -> tuple[Any, Memory]:
        """Compare what the others invested with what they usually do, and match a share of it."""
        p, venture = self._parameters, self._venture
        good, relative = venture.answered(observations, memory.worth)
        last = np.where(good, relative, memory.last)
        change = np.where(last >= memory.usual - PATIENCE, -p.step, 2.0 * p.step)
        share = np.clip(memory.share + np.where(good, change, 0.0), p.least, 1.0)
        usual = np.where(good, memory.usual + USUAL * (last - memory.usual), memory.usual)
        actions = venture.actions(observations, share * last, bar=p.bar, demand=p.demand)
        return actions, Memory(venture.worth(observations), last, usual, share)


ENTRY = Entry(
    "extorter",
    Extorter,
    "matches the others, then gives less and less as long as they accept it",
    "local",
    Params,
)
