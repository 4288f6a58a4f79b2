"""The constant policy: every agent plays the same fraction of its own range at every step."""

from typing import Annotated, Any, NamedTuple

import numpy as np

from coopbench.baselines.policy import Entry, Game
from coopbench_envs.parameters import between


class Params(NamedTuple):
    """What stands after the colon: ``constant:0.35``."""

    fraction: Annotated[float, between(0, 1, "share of the own endowment, or of the action range")]


class Constant:
    """Plays low + fraction * (high - low) of each agent's own action bounds."""

    def __init__(self, game: Game, parameters: Params) -> None:
        game.require("constant")
        self._actions = game.low + parameters.fraction * (game.high - game.low)

    def initial(self, game: Game, seeds: np.ndarray) -> None:
        """Return no memory."""

    def act(self, observations: np.ndarray, memory: None) -> tuple[Any, None]:
        """Return the same actions for every lane."""
        return np.broadcast_to(self._actions, (len(observations), *self._actions.shape)), None


ENTRY = Entry("constant", Constant, "invests a fixed fraction of its own endowment", "none", Params)
