"""What dispatchers share: which game they run trains in, and where actions lead."""

from typing import Any

import numpy as np

from coopbench.baselines.policy import Game
from coopbench_envs.rail.cells import FORWARD, LEFT, RIGHT
from coopbench_envs.rail.distances import UNREACHABLE, distances_at

__all__ = ["Railway"]

_BARRED = UNREACHABLE + 1  # more than any distance


class Railway:
    """Reads the network and the trains of one game; arrays are (lanes, agents).

    Raises:
        ValueError: the game is no railway.
    """

    def __init__(self, game: Game, policy: str) -> None:
        if not game.env_id.startswith("coopbench/Rail-"):
            raise ValueError(
                f"Policy {policy!r} cannot play {game.env_id}: it runs trains, as in "
                f"coopbench/Rail-v0 and -v1."
            )
        self._delta = game.constants.map.delta
        self.num_agents = game.constants.num_agents

    def ahead(self, state: Any, action: int) -> np.ndarray:
        """Return the places that an action leads to; -1 where it leads nowhere."""
        lanes = np.arange(len(state.place))[:, None]
        place = state.place.astype(np.int64)
        heading = place & 3
        code = state.rail[lanes, place >> 2].astype(np.int64)
        bits = (code >> (4 * (3 - heading))) & 15
        shift = -1 if action == LEFT else 1 if action == RIGHT else 0
        turn = (heading + shift) & 3
        turn = np.where(_has(bits, turn), turn, heading)
        only = np.isin(bits, (1, 2, 4, 8))
        turn = np.where(only, 3 - np.log2(np.where(only, bits, 1)).astype(np.int64), turn)
        cell = (place >> 2) + self._delta[turn]
        entered = (state.rail[lanes, cell].astype(np.int64) >> (4 * (3 - turn))) & 15
        return np.where(_has(bits, turn) & (entered > 0), 4 * cell + turn, -1)

    def shortest(self, state: Any, masks: np.ndarray) -> np.ndarray:
        """Return the legal action that leads nearest to the target; 0 where no way is legal.

        Of equal ones it is the first of left, forward and right.
        """
        choices = np.array((LEFT, FORWARD, RIGHT))
        steps = [
            np.where(
                masks[..., action] == 1, self.distance(state, self.ahead(state, action)), _BARRED
            )
            for action in choices.tolist()
        ]
        best: np.ndarray = np.where(
            np.min(steps, axis=0) < _BARRED, choices[np.argmin(steps, axis=0)], 0
        )
        return best

    def distance(self, state: Any, places: np.ndarray) -> np.ndarray:
        """Return how many cells trains would be from their targets at these places."""
        steps = distances_at(state, np.maximum(places, 0))
        return np.where(places < 0, UNREACHABLE, steps)


def _has(bits: np.ndarray, turn: np.ndarray) -> np.ndarray:
    exits: np.ndarray = (bits >> (3 - turn)) & 1 == 1
    return exits
