"""The impulsive policy: invests everything with a given probability, otherwise nothing."""

from typing import Annotated, NamedTuple

import numpy as np

from coopbench.baselines.policy import Entry, Game
from coopbench_envs.core import draw, streams
from coopbench_envs.parameters import between


class Params(NamedTuple):
    """What stands after the colon: ``impulsive:0.3``."""

    chance: Annotated[float, between(0, 1, "probability of investing everything")] = 0.5


class Impulsive:
    """Draws at every step, for every seat of every lane at once."""

    def __init__(self, game: Game, parameters: Params) -> None:
        game.require("impulsive")  # actions that are a Box
        self._low, self._high, self._chance = game.low, game.high, parameters.chance

    def initial(self, game: Game, seeds: np.ndarray) -> np.ndarray:
        """Return one random state per lane and agent; the seeds are the only source of chance."""
        return streams(seeds[:, None], np.arange(len(game.agents))[None, :])

    def act(self, observations: np.ndarray, memory: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return one of the two ends of every seat's range, and the new random states."""
        states = memory.copy()
        invests = draw(states) < self._chance
        return np.where(invests[..., None], self._high, self._low), states


ENTRY = Entry("impulsive", Impulsive, "invests everything at random steps", "none", Params)
