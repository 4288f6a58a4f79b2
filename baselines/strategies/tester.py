"""Tester: takes first, to see who lets it; then it exploits these and matches the others.

After the TESTER of Axelrod's second tournament (Axelrod 1984): it begins with a defection. If the
others punish it, it makes amends and matches them from then on. If they let it pass, it takes in
every other part of the time.
"""

from typing import Annotated, Any, NamedTuple

import numpy as np

from coopbench.baselines.policy import Entry, Game
from coopbench.baselines.strategies.ventures import GOOD, Bar, Demand, Follow, Ignore, Venture
from coopbench_envs.parameters import between


class Params(NamedTuple):
    """What stands after the colon: ``tester:5,0.6``."""

    length: Annotated[
        int, between(1, 10_000, "steps of the good regime for which it takes, and then gives")
    ] = 4
    patience: Annotated[
        float, between(0, 1, "investment of the others below which it counts as punished")
    ] = 0.6
    demand: Demand = 0.5
    bar: Bar = 0.5
    ignore: Ignore = 1 / 3
    follow: Follow = 2 / 3


class Memory(NamedTuple):
    """What every seat remembers, (lanes, agents)."""

    worth: np.ndarray  # fraction that was worth investing in the last step
    steps: np.ndarray  # int64, good steps so far
    last: np.ndarray  # what the others last invested in the good regime
    amends: np.ndarray  # int64, good steps left of full investment after a punishment
    punished: np.ndarray  # bool, whether they have ever punished it


class Tester:
    """Takes and gives in turn until it is punished, then matches."""

    def __init__(self, game: Game, parameters: Params) -> None:
        p = parameters
        self._venture = Venture(game, "tester", ignore=p.ignore, follow=p.follow)
        self._parameters = parameters

    def initial(self, game: Game, seeds: np.ndarray) -> Memory:
        """Return the memory before the first step: nobody has punished."""
        shape = (len(seeds), len(game.agents))
        steps = np.zeros(shape, np.int64)
        return Memory(np.zeros(shape), steps, np.ones(shape), steps, np.zeros(shape, np.bool_))

    def act(self, observations: np.ndarray, memory: Memory) -> tuple[Any, Memory]:
        """Look whether the others punish, from the end of the first part on."""
        p, m, venture = self._parameters, memory, self._venture
        good, relative = venture.answered(observations, m.worth)
        last = np.where(good, relative, m.last)
        steps = m.steps + good
        first = good & ~m.punished & (steps >= p.length) & (relative < p.patience)
        amends = np.where(first, 2 * p.length, m.amends)
        punished = m.punished | first
        testing = np.where(steps // p.length % 2 == 0, 0.0, 1.0)
        share = np.where(punished, np.where(amends > 0, 1.0, last), testing)
        worth = venture.worth(observations)
        actions = venture.actions(observations, share, bar=p.bar, demand=p.demand)
        left = np.maximum(amends - (worth > GOOD), 0)
        return actions, Memory(worth, steps, last, left, punished)


ENTRY = Entry(
    "tester",
    Tester,
    "takes first, exploits those who let it, and matches those who punish",
    "local",
    Params,
)
