"""Forward: all trains depart and go straight on, wherever that leads."""

from typing import Any, NamedTuple

import numpy as np

from coopbench.baselines.dispatchers.railway import Railway
from coopbench.baselines.policy import Entry, Game
from coopbench_envs.rail.cells import FORWARD


class Params(NamedTuple):
    """No parameters."""


class Forward:
    """Takes no notice of anything; where going forward is not legal, the train does nothing."""

    uses_masks = True

    def __init__(self, game: Game, parameters: Params) -> None:
        Railway(game, "forward")

    def initial(self, game: Game, seeds: np.ndarray) -> None:
        """Return no memory."""

    def act(self, observations: np.ndarray, memory: None, masks: np.ndarray) -> tuple[Any, None]:
        """Return (lanes, agents) actions, all of them legal."""
        return np.where(masks[..., FORWARD], FORWARD, 0).astype(np.int64), None


ENTRY = Entry("forward", Forward, "railways: all trains go straight on", "none", Params)
