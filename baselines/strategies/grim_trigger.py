"""Grim trigger: cooperate until anybody falls short once, then never again (Friedman 1971)."""

from typing import Annotated, Any, NamedTuple

import numpy as np

from coopbench.baselines.policy import Entry, Game
from coopbench.baselines.strategies.investments import Fractions, total
from coopbench_envs.parameters import between


class Params(NamedTuple):
    """What stands after the colon: ``grim_trigger:0.5,0.4``."""

    level: Annotated[float, between(0, 1, "fraction invested as long as all keep up")] = 0.5
    threshold: Annotated[float, between(0, 1, "fraction below which another falls short")] = 0.4


class Memory(NamedTuple):
    """What every seat remembers; axis 0 is the lane."""

    begun: np.ndarray  # (lanes,) bool
    angry: np.ndarray  # (lanes, agents) bool


class GrimTrigger:
    """Invests ``level`` until another agent invests less than ``threshold``, then nothing."""

    def __init__(self, game: Game, parameters: Params) -> None:
        self._fractions = Fractions(game, "grim_trigger")
        self._level, self._threshold = parameters.level, parameters.threshold

    def initial(self, game: Game, seeds: np.ndarray) -> Memory:
        """Return the memory before the first step."""
        lanes = len(seeds)
        return Memory(np.zeros(lanes, np.bool_), np.zeros((lanes, len(game.agents)), np.bool_))

    def act(self, observations: np.ndarray, memory: Memory) -> tuple[Any, Memory]:
        """Punish permanently once another agent has fallen short."""
        short = total(self._fractions.others(observations) < self._threshold) > 0
        angry = memory.angry | (short & memory.begun[:, None])
        played = np.where(angry, 0.0, self._level)
        return self._fractions.units(played), Memory(np.ones_like(memory.begun), angry)


ENTRY = Entry(
    "grim_trigger",
    GrimTrigger,
    "invests until another agent falls short, then never again",
    "local",
    Params,
)
