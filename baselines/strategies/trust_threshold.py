"""Trust threshold: cooperate as long as one's own mean trust in the others is high enough."""

from typing import Annotated, Any, NamedTuple

import numpy as np

from coopbench.baselines.policy import Entry, Game
from coopbench.baselines.strategies.investments import Fractions, mean
from coopbench_envs.parameters import between


class Params(NamedTuple):
    """What stands after the colon: ``trust_threshold:0.5,0.3``."""

    level: Annotated[float, between(0, 1, "fraction invested while trust holds")] = 0.5
    threshold: Annotated[float, between(0, 1, "mean trust in the others that is enough")] = 0.3


class TrustThreshold:
    """Invests ``level`` where its mean trust in the others reaches ``threshold``."""

    def __init__(self, game: Game, parameters: Params) -> None:
        trust = "trust_in_others" if "trust_in_others" in game.layout else "trust"
        game.require("trust_threshold", trust)
        self._fractions = Fractions(game, "trust_threshold")
        self._level, self._threshold = parameters.level, parameters.threshold

    def initial(self, game: Game, seeds: np.ndarray) -> None:
        """Return no memory."""

    def act(self, observations: np.ndarray, memory: None) -> tuple[Any, None]:
        """Compare its trust in the others with the threshold."""
        trust = mean(self._fractions.trust(observations))
        played = np.where(trust >= self._threshold, self._level, 0.0)
        return self._fractions.units(played), None


ENTRY = Entry(
    "trust_threshold",
    TrustThreshold,
    "invests while its trust in the others holds",
    "local",
    Params,
)
