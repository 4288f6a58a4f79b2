"""Weigher: invests more the better the others' record and answers, and less the better its own.

A linear rule with a latch, as searches for short rules find it: how much it invests in the good
regime is a weighted sum, and once the others' record or their recent answers fall too low it stops
for the rest of the episode. The weight of its own record is usually negative: who is trusted has
something to spend.
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

USUAL = 0.7  # record or answer at which a weight makes no difference


class Params(NamedTuple):
    """What stands after the colon: ``weigher:0.8,0.2,1.2,-0.9,threshold=0.2``."""

    level: Annotated[float, between(0, 1, "fraction invested where all values are 0.7")] = 0.8
    record: Annotated[float, between(-10, 10, "weight of the others' record")] = 0.0
    answers: Annotated[float, between(-10, 10, "weight of the average of their answers")] = 0.0
    own: Annotated[float, between(-10, 10, "weight of its own record")] = 0.0
    threshold: Annotated[float, between(0, 1, "record of the others that ends cooperation")] = 0.0
    least: Annotated[float, between(0, 1, "average answer that ends cooperation")] = 0.0
    newest: Annotated[float, between(0, 1, "weight of the newest answer in the average")] = 0.4
    bar: Bar = 0.5
    ignore: Ignore = 1 / 3
    follow: Follow = 2 / 3
    relative: Relative = 0
    last: Last = 2


class Memory(NamedTuple):
    """What every seat remembers; axis 0 is the lane."""

    begun: np.ndarray  # (lanes,) bool
    first: np.ndarray  # (lanes, agents, 2) the others' record and its own at the start
    worth: np.ndarray  # (lanes, agents) fraction that was worth investing in the last step
    answers: np.ndarray  # (lanes, agents) average share of it that the others invested, at first 1
    offended: np.ndarray  # (lanes, agents) bool


class Weigher:
    """Invests a weighted sum of records and answers in the good regime, until it is offended."""

    def __init__(self, game: Game, parameters: Params) -> None:
        p = parameters
        self._venture = Venture(game, "weigher", ignore=p.ignore, follow=p.follow)
        self._parameters = parameters

    def initial(self, game: Game, seeds: np.ndarray) -> Memory:
        """Return the memory before the first step: nobody is offended."""
        shape = (len(seeds), len(game.agents))
        begun, offended = np.zeros(len(seeds), np.bool_), np.zeros(shape, np.bool_)
        return Memory(begun, np.ones((*shape, 2)), np.zeros(shape), np.ones(shape), offended)

    def act(self, observations: np.ndarray, memory: Memory) -> tuple[Any, Memory]:
        """Weigh what is known, and stop for good where it is too little."""
        p, venture = self._parameters, self._venture
        theirs, own = venture.records(observations, p.bar), venture.own_record(observations)
        records = np.stack([theirs, own], axis=2)
        first = np.where(memory.begun[:, None, None], memory.first, records)
        judged = over_first(records, first) if p.relative else records
        good, answer = venture.answered(observations, memory.worth)
        moved = memory.answers + p.newest * (answer - memory.answers)
        answers = np.where(good, moved, memory.answers)
        offended = memory.offended | (judged[:, :, 0] < p.threshold) | (answers < p.least)
        attitude = p.level + p.answers * (answers - USUAL)
        attitude += p.record * (judged[:, :, 0] - USUAL) + p.own * (judged[:, :, 1] - USUAL)
        withheld = offended | venture.is_last(observations, p.last)
        attitude = np.where(withheld, 0.0, np.clip(attitude, 0.0, 1.0))
        actions = venture.actions(observations, attitude, bar=p.bar)
        begun, worth = np.ones_like(memory.begun), venture.worth(observations)
        return actions, Memory(begun, first, worth, answers, offended)


ENTRY = Entry(
    "weigher",
    Weigher,
    "invests a weighted sum of the others' record, their answers and its own record",
    "local",
    Params,
)
