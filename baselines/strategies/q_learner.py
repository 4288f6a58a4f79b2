"""Q-learner: learns, within the episode, which investment brings most after which conduct.

Tabular Q-learning (Watkins & Dayan 1992) with three investments and three levels of what the others
last gave, which begins with the values of a player that returns what it gets: a learner with
other values than these has little to learn from in a hundred steps. Its reward is what it keeps
and what it gets of the others' investments as observed.
"""

from typing import Annotated, Any, NamedTuple

import numpy as np

from coopbench.baselines.policy import Entry, Game
from coopbench.baselines.strategies.ventures import Bar, Demand, Follow, Ignore, Venture, income
from coopbench_envs.core import draw, streams
from coopbench_envs.parameters import between

LEVELS = np.array([0.0, 0.5, 1.0])  # investments, and centers of what the others gave
LIKING = 0.3  # by which the value of what returns the others' investment is higher at first


class Params(NamedTuple):
    """What stands after the colon: ``q_learner:0.3,0.1``."""

    rate: Annotated[float, between(0, 1, "by which values move to what was experienced")] = 0.3
    explore: Annotated[float, between(0, 1, "probability of a random investment")] = 0.1
    discount: Annotated[float, between(0, 1, "weight of the value of what follows")] = 0.8
    demand: Demand = 0.5
    bar: Bar = 0.5
    ignore: Ignore = 1 / 3
    follow: Follow = 2 / 3


class Memory(NamedTuple):
    """What every seat remembers; axis 0 is the lane."""

    worth: np.ndarray  # (lanes, agents) fraction that was worth investing in the last step
    values: np.ndarray  # (lanes, agents, level of the others, own level)
    given: np.ndarray  # (lanes, agents) int64, level of the others before its last investment
    chosen: np.ndarray  # (lanes, agents) int64, level of its last investment
    random: np.ndarray  # (lanes, agents) uint64


class QLearner:
    """Updates its table after every good step, and invests by it."""

    def __init__(self, game: Game, parameters: Params) -> None:
        p = parameters
        self._venture = Venture(game, "q_learner", ignore=p.ignore, follow=p.follow)
        self._parameters = parameters

    def initial(self, game: Game, seeds: np.ndarray) -> Memory:
        """Return the memory before the first step: the others have given everything."""
        random = streams(seeds[:, None], np.arange(len(game.agents))[None, :])
        shape, most = random.shape, len(LEVELS) - 1
        likes = LIKING * (1.0 - abs(LEVELS[:, None] - LEVELS[None, :]))
        values = np.broadcast_to(likes, (*shape, *likes.shape)).copy()
        full = np.full(shape, most, np.int64)
        return Memory(np.zeros(shape), values, full, full, random)

    def act(self, observations: np.ndarray, memory: Memory) -> tuple[Any, Memory]:
        """Learn from the last good step, then choose."""
        p, m, venture = self._parameters, memory, self._venture
        good, relative = venture.answered(observations, m.worth)
        seen = np.where(good, np.rint(relative * (len(LEVELS) - 1)).astype(np.int64), m.given)
        reward = income(relative, LEVELS[m.chosen])
        reached = np.take_along_axis(m.values, seen[..., None, None], axis=2)[..., 0, :]
        target = (1.0 - p.discount) * reward + p.discount * reached.max(axis=-1)
        lanes, agents = np.ogrid[: len(seen), : seen.shape[1]]
        place = lanes, agents, m.given, m.chosen
        values = m.values.copy()
        values[place] += np.where(good, p.rate * (target - m.values[place]), 0.0)
        best = values[lanes, agents, seen].argmax(axis=-1)
        random = m.random.copy()
        explores = draw(random) < p.explore
        other = np.minimum((draw(random) * len(LEVELS)).astype(np.int64), len(LEVELS) - 1)
        chosen = np.where(explores, other, best)
        actions = venture.actions(observations, LEVELS[chosen], bar=p.bar, demand=p.demand)
        return actions, Memory(venture.worth(observations), values, seen, chosen, random)


ENTRY = Entry(
    "q_learner",
    QLearner,
    "learns within the episode which investment brings most",
    "local",
    Params,
)
