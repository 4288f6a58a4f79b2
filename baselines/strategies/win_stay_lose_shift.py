"""Win-stay, lose-shift: repeat what went well, change what did not (Nowak & Sigmund 1993).

In a dilemma one fares well where the others cooperated. So it cooperates after a step in which all
did alike, and defects after one in which they did not.
"""

from typing import Annotated, Any, NamedTuple

import numpy as np

from coopbench.baselines.policy import Entry, Game
from coopbench.baselines.strategies.investments import Fractions, mean
from coopbench_envs.parameters import between


class Params(NamedTuple):
    """What stands after the colon: ``win_stay_lose_shift:0.6,0.4``."""

    level: Annotated[float, between(0, 1, "fraction invested when cooperating")] = 0.5
    threshold: Annotated[float, between(0, 1, "fraction that counts as cooperation")] = 0.4


class WinStayLoseShift:
    """Invests ``level`` if it and the others were on one side of ``threshold``."""

    def __init__(self, game: Game, parameters: Params) -> None:
        self._fractions = Fractions(game, "win_stay_lose_shift")
        self._level, self._threshold = parameters.level, parameters.threshold

    def initial(self, game: Game, seeds: np.ndarray) -> np.ndarray:
        """Return whether the episode has begun: not yet."""
        return np.zeros(len(seeds), np.bool_)

    def act(self, observations: np.ndarray, memory: np.ndarray) -> tuple[Any, np.ndarray]:
        """Open with cooperation, then stay or shift."""
        cooperated = self._fractions.invested(observations) >= self._threshold
        others = mean(self._fractions.others(observations)) >= self._threshold
        cooperate = (cooperated == others) | ~memory[:, None]
        played = np.where(cooperate, self._level, 0.0)
        return self._fractions.units(played), np.ones_like(memory)


ENTRY = Entry(
    "win_stay_lose_shift",
    WinStayLoseShift,
    "cooperates after steps in which all agents acted alike",
    "local",
    Params,
)
