"""Bully: takes from agents with a good record, and gives to agents that punish it.

The opposite of a reciprocator: it invests more the worse the others' record is, as long as it takes
to be dealt with. Compare the "bully" strategies of Littman & Stone (2001), which lead rather than
follow.
"""

from typing import Annotated, Any, NamedTuple

import numpy as np

from coopbench.baselines.policy import Entry, Game
from coopbench.baselines.strategies.ventures import Demand, Follow, Ignore, Venture, ramp
from coopbench_envs.parameters import between


class Params(NamedTuple):
    """What stands after the colon: ``bully:0.2,0.6``."""

    low: Annotated[float, between(0, 1, "record of the others that it gives everything to")] = 0.2
    high: Annotated[float, between(0, 1, "record of the others that it gives nothing to")] = 0.6
    demand: Demand = 0.5
    ignore: Ignore = 1 / 3
    follow: Follow = 2 / 3


class Bully:
    """Invests more the worse the others' record is."""

    def __init__(self, game: Game, parameters: Params) -> None:
        p = parameters
        self._venture = Venture(game, "bully", ignore=p.ignore, follow=p.follow)
        self._parameters = parameters

    def initial(self, game: Game, seeds: np.ndarray) -> None:
        """Return no memory."""

    def act(self, observations: np.ndarray, memory: None) -> tuple[Any, None]:
        """Give in to those that give nothing."""
        p = self._parameters
        attitude = 1.0 - ramp(self._venture.records(observations), p.low, p.high)
        return self._venture.actions(observations, attitude, bar=0.0, demand=p.demand), None


ENTRY = Entry("bully", Bully, "invests more, the worse the others' record is", "local", Params)
