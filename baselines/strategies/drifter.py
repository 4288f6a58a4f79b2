"""Drifter: goes on in the direction in which it fares better, and turns where it fares worse.

Win-continue, lose-reverse, the rule by which firms grope for collusion without knowing each other
(Huck, Normann & Oechssler 2003): it invests a little more in every step, or a little less. It turns
if its income has fallen, and at times without a reason. Its income is what it keeps and what it
gets of the others' investments as observed, so that it plays where incomes are not shown.
"""

from typing import Annotated, Any, NamedTuple

import numpy as np

from coopbench.baselines.policy import Entry, Game
from coopbench.baselines.strategies.ventures import Bar, Demand, Follow, Ignore, Venture, income
from coopbench_envs.core import draw, streams
from coopbench_envs.parameters import between

WEIGHT = 0.4  # of the last step in the income that it compares with


class Params(NamedTuple):
    """What stands after the colon: ``drifter:0.1,0.5``."""

    step: Annotated[float, between(0, 1, "by which its investment changes", above=True)] = 0.1
    start: Annotated[float, between(0, 1, "fraction that it invests first")] = 0.8
    turn: Annotated[float, between(0, 1, "probability that it turns without a reason")] = 0.05
    demand: Demand = 0.5
    bar: Bar = 0.5
    ignore: Ignore = 1 / 3
    follow: Follow = 2 / 3


class Memory(NamedTuple):
    """What every seat remembers, (lanes, agents)."""

    worth: np.ndarray  # fraction that was worth investing in the last step
    level: np.ndarray  # what it last invested of it
    direction: np.ndarray  # 1.0 upwards, -1.0 downwards
    usual: np.ndarray  # smoothed income
    random: np.ndarray  # uint64


class Drifter:
    """Climbs its own income by steps of equal size."""

    def __init__(self, game: Game, parameters: Params) -> None:
        p = parameters
        self._venture = Venture(game, "drifter", ignore=p.ignore, follow=p.follow)
        self._parameters = parameters

    def initial(self, game: Game, seeds: np.ndarray) -> Memory:
        """Return the memory before the first step: upwards, as if the others had given as much."""
        random = streams(seeds[:, None], np.arange(len(game.agents))[None, :])
        level, upwards = np.full(random.shape, self._parameters.start), np.ones(random.shape)
        return Memory(np.zeros(random.shape), level, upwards, income(level, level), random)

    def act(self, observations: np.ndarray, memory: Memory) -> tuple[Any, Memory]:
        """Turn if the income of the last good step was below the usual one, then move on."""
        p, m, venture = self._parameters, memory, self._venture
        good, relative = venture.answered(observations, m.worth)
        earned = income(relative, m.level)
        random = m.random.copy()
        turns = (earned < m.usual) ^ (draw(random) < p.turn)
        direction = np.where(good & turns, -m.direction, m.direction)
        usual = np.where(good, m.usual + WEIGHT * (earned - m.usual), m.usual)
        moved = np.clip(m.level + p.step * direction, 0.0, 1.0)
        level = np.where(good, moved, m.level)
        actions = venture.actions(observations, level, bar=p.bar, demand=p.demand)
        return actions, Memory(venture.worth(observations), level, direction, usual, random)


ENTRY = Entry(
    "drifter",
    Drifter,
    "invests more and more, or less and less, and turns if its income falls",
    "local",
    Params,
)
