"""Gradual: punishes the n-th offense for n steps of the good regime, then cooperates for two.

After Beaufils, Delahaye & Mathieu (1997), Our meeting with gradual: a good strategy for the
iterated prisoner's dilemma. Here an offense is an investment below a share of what was worthwhile.
"""

from typing import Annotated, Any, NamedTuple

import numpy as np

from coopbench.baselines.policy import Entry, Game
from coopbench.baselines.strategies.ventures import GOOD, Bar, Follow, Ignore, Venture
from coopbench_envs.parameters import between

PEACE = 2  # steps of the good regime after a punishment, in which it forgives everything


class Params(NamedTuple):
    """What stands after the colon: ``gradual:0.4``."""

    threshold: Annotated[
        float, between(0, 1, "the others' share of what was worthwhile that is no offence")
    ] = 0.5
    most: Annotated[int, between(1, 10_000, "longest punishment, in good-regime steps")] = 100
    bar: Bar = 0.5
    ignore: Ignore = 1 / 3
    follow: Follow = 2 / 3


class Memory(NamedTuple):
    """What every seat remembers, (lanes, agents)."""

    worth: np.ndarray  # fraction that was worth investing in the last step
    offences: np.ndarray  # int64
    left: np.ndarray  # int64, steps left of the punishment and the peace after it


class Gradual:
    """Invests everything in the good regime, except in punishments that grow with each offense."""

    def __init__(self, game: Game, parameters: Params) -> None:
        p = parameters
        self._venture = Venture(game, "gradual", ignore=p.ignore, follow=p.follow)
        self._parameters = parameters

    def initial(self, game: Game, seeds: np.ndarray) -> Memory:
        """Return the memory before the first step."""
        shape = (len(seeds), len(game.agents))
        return Memory(np.zeros(shape), np.zeros(shape, np.int64), np.zeros(shape, np.int64))

    def act(self, observations: np.ndarray, memory: Memory) -> tuple[Any, Memory]:
        """Begin a punishment after an offence, unless one is under way."""
        p, venture = self._parameters, self._venture
        good, relative = venture.answered(observations, memory.worth)
        offended = good & (relative < p.threshold) & (memory.left == 0)
        offences = memory.offences + offended
        left = np.where(offended, np.minimum(offences, p.most) + PEACE, memory.left)
        attitude = np.where(left > PEACE, 0.0, 1.0)
        worth = venture.worth(observations)
        actions = venture.actions(observations, attitude, bar=p.bar)
        return actions, Memory(worth, offences, np.maximum(left - (worth > GOOD), 0))


ENTRY = Entry(
    "gradual",
    Gradual,
    "punishes each offense one step longer than the previous one, then makes peace",
    "local",
    Params,
)
