"""Switcher: plays one policy up to a step of the episode, and another one after it."""

from typing import Annotated, Any, NamedTuple

import numpy as np

from coopbench.baselines.policy import Entry, Game
from coopbench.baselines.strategies import always_defect, cooperator, reciprocator
from coopbench_envs.parameters import between, one_of

PHASES = {
    "cooperator": cooperator.ENTRY,
    "reciprocator": reciprocator.ENTRY,
    "always_defect": always_defect.ENTRY,
}


class Params(NamedTuple):
    """What stands after the colon: ``switcher:reciprocator,always_defect,0.25``."""

    first: Annotated[str, one_of(PHASES, "policy up to the switch")]
    second: Annotated[str, one_of(PHASES, "policy after it")]
    time: Annotated[float, between(0, 1, "share of the horizon after which it switches")] = 0.5


class Memory(NamedTuple):
    """What every seat remembers; axis 0 is the lane."""

    steps: np.ndarray  # (lanes,) int64, steps seen
    first: Any
    second: Any


class Switcher:
    """Plays both policies all the time, and acts on the one of the present part."""

    def __init__(self, game: Game, parameters: Params) -> None:
        game.require("switcher", "trust_in_others", "trust_in_me", "productivity")
        entries = [PHASES[parameters.first], PHASES[parameters.second]]
        self._first, self._second = (entry.create(game, entry.params()) for entry in entries)
        self._step = round(parameters.time * game.constants.horizon)

    def initial(self, game: Game, seeds: np.ndarray) -> Memory:
        """Return the memories of both policies."""
        first, second = (p.initial(game, seeds) for p in (self._first, self._second))
        return Memory(np.zeros(len(seeds), np.int64), first, second)

    def act(self, observations: np.ndarray, memory: Memory) -> tuple[Any, Memory]:
        """Act on the policy of the present part of the episode."""
        before, first = self._first.act(observations, memory.first)
        after, second = self._second.act(observations, memory.second)
        switched = (memory.steps >= self._step)[:, None, None]
        return np.where(switched, after, before), Memory(memory.steps + 1, first, second)


ENTRY = Entry("switcher", Switcher, "plays one policy, then another", "local", Params)
