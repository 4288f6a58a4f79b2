"""Unforgiving: cooperates until the others' record falls too low once, then never again.

Grim trigger (Friedman 1971) on the public record of conduct, or on what became of the first record:
records begin at different levels, which the others are not to blame for.
"""

from typing import Annotated, Any, NamedTuple

import numpy as np

from coopbench.baselines.policy import Entry, Game
from coopbench.baselines.strategies.ventures import (
    Bar,
    Follow,
    Ignore,
    Last,
    Relative,
    Venture,
    over_first,
)
from coopbench_envs.parameters import between


class Params(NamedTuple):
    """What stands after the colon: ``unforgiving:0.4`` or ``unforgiving:0.7,relative=1``."""

    threshold: Annotated[float, between(0, 1, "record of the others that ends cooperation")] = 0.4
    level: Annotated[float, between(0, 1, "fraction invested before")] = 1.0
    bar: Bar = 0.5
    ignore: Ignore = 1 / 3
    follow: Follow = 2 / 3
    relative: Relative = 0
    last: Last = 0


class Memory(NamedTuple):
    """What every seat remembers; axis 0 is the lane."""

    begun: np.ndarray  # (lanes,) bool
    first: np.ndarray  # (lanes, agents) record of the others at the start
    offended: np.ndarray  # (lanes, agents) bool


class Unforgiving:
    """Invests ``level`` in the good regime until the others' record falls below the threshold."""

    def __init__(self, game: Game, parameters: Params) -> None:
        p = parameters
        self._venture = Venture(game, "unforgiving", ignore=p.ignore, follow=p.follow)
        self._parameters = parameters

    def initial(self, game: Game, seeds: np.ndarray) -> Memory:
        """Return the memory before the first step: nobody is offended."""
        shape = (len(seeds), len(game.agents))
        return Memory(np.zeros(len(seeds), np.bool_), np.ones(shape), np.zeros(shape, np.bool_))

    def act(self, observations: np.ndarray, memory: Memory) -> tuple[Any, Memory]:
        """Punish permanently once the others' record has fallen."""
        p, venture = self._parameters, self._venture
        records = venture.records(observations, p.bar)
        first = np.where(memory.begun[:, None], memory.first, records)
        judged = over_first(records, first) if p.relative else records
        offended = memory.offended | (judged < p.threshold)
        withheld = offended | venture.is_last(observations, p.last)
        actions = venture.actions(observations, np.where(withheld, 0.0, p.level), bar=p.bar)
        return actions, Memory(np.ones_like(memory.begun), first, offended)


ENTRY = Entry(
    "unforgiving",
    Unforgiving,
    "invests until the others' record falls too low, then never again",
    "local",
    Params,
)
