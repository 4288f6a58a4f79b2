"""Never depart: all trains stay at home.

A baseline for the rewards of flatland-rl, under which it does better than trains that block each
other.
"""

from typing import Any, NamedTuple

import numpy as np

from coopbench.baselines.dispatchers.railway import Railway
from coopbench.baselines.policy import Entry, Game


class Params(NamedTuple):
    """No parameters."""


class NeverDepart:
    """Does nothing."""

    def __init__(self, game: Game, parameters: Params) -> None:
        self._agents = Railway(game, "never_depart").num_agents

    def initial(self, game: Game, seeds: np.ndarray) -> None:
        """Return no memory."""

    def act(self, observations: np.ndarray, memory: None) -> tuple[Any, None]:
        """Return (lanes, agents) zeros."""
        return np.zeros((len(observations), self._agents), np.int64), None


ENTRY = Entry("never_depart", NeverDepart, "railways: no train departs", "none", Params)
