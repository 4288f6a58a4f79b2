"""Reciprocator: invests by the others' records of conduct, and makes amends for its own.

A graded conditional cooperator (Fischbacher, Gaechter & Fehr 2001). A contrite one (Boyd 1989;
Wu & Axelrod 1995) excuses others by its own low record: an agent that was punished for a good
reason does not punish back, so that errors do not end cooperation.
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
    Trembles,
    Venture,
    over_first,
    ramp,
    trembling,
)
from coopbench_envs.core import streams
from coopbench_envs.parameters import between


class Params(NamedTuple):
    """What stands after the colon: ``reciprocator:0.3,0.9`` or ``reciprocator:contrite=0``."""

    low: Annotated[float, between(0, 1, "record of the others up to which it invests least")] = 0.3
    high: Annotated[float, between(0, 1, "record of the others that earns everything")] = 0.9
    contrite: Annotated[
        float, between(0, 1, "part of what its own record lacks that excuses the others")
    ] = 1.0
    floor: Annotated[float, between(0, 1, "attitude to the worst record")] = 0.0
    bar: Bar = 0.5
    ignore: Ignore = 1 / 3
    follow: Follow = 2 / 3
    smooth: Annotated[
        float, between(0, 1, "weight of the present record in its opinion", above=True)
    ] = 1.0
    opinion: Annotated[
        float, between(-1, 1, "its opinion before the first step; negative: the first record")
    ] = -1.0
    trembles: Trembles = 0.0
    relative: Relative = 0
    last: Last = 0


class Memory(NamedTuple):
    """What every seat remembers; axis 0 is the lane."""

    begun: np.ndarray  # (lanes,) bool
    first: np.ndarray  # (lanes, agents, 2) record of the others and own one at the start
    opinion: np.ndarray  # (lanes, agents) smoothed record of the others
    random: np.ndarray  # (lanes, agents) uint64


class Reciprocator:
    """Invests more the better the others' record is, less what its own record excuses."""

    def __init__(self, game: Game, parameters: Params) -> None:
        p = parameters
        self._venture = Venture(game, "reciprocator", ignore=p.ignore, follow=p.follow)
        self._parameters = parameters

    def initial(self, game: Game, seeds: np.ndarray) -> Memory:
        """Return the memory before the first step."""
        random = streams(seeds[:, None], np.arange(len(game.agents))[None, :])
        opinion = np.full(random.shape, self._parameters.opinion)
        first = np.ones((*random.shape, 2))
        return Memory(np.zeros(len(seeds), np.bool_), first, opinion, random)

    def act(self, observations: np.ndarray, memory: Memory) -> tuple[Any, Memory]:
        """Compare the others' record with its own."""
        p, venture = self._parameters, self._venture
        records, own = venture.records(observations, p.bar), venture.own_record(observations)
        first = np.where(memory.begun[:, None, None], memory.first, np.stack([records, own], 2))
        if p.relative:
            records, own = over_first(records, first[..., 0]), over_first(own, first[..., 1])
        blank = ~memory.begun[:, None] & (p.opinion < 0.0)
        opinion = memory.opinion + p.smooth * (records - memory.opinion)
        opinion = np.where(blank, records, opinion)
        excuse = p.contrite * np.maximum(p.high - own, 0.0)
        attitude = p.floor + (1.0 - p.floor) * ramp(opinion + excuse, p.low, p.high)
        attitude, random = trembling(attitude, p.trembles, memory.random)
        attitude = np.where(venture.is_last(observations, p.last), 0.0, attitude)
        actions = venture.actions(observations, attitude, bar=p.bar)
        return actions, Memory(np.ones_like(memory.begun), first, opinion, random)


ENTRY = Entry(
    "reciprocator",
    Reciprocator,
    "invests by the others' records; excuses them if its own is low",
    "local",
    Params,
)
