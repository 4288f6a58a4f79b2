"""What the reactive policies share: investments as fractions of endowments, seen and played."""

from typing import Any

import numpy as np

from coopbench.baselines.game import Game

__all__ = ["Fractions"]

CUSTOMARY = 0.5  # in every part of an action after the investment


class Fractions:
    """Reads and writes investments as fractions, for games with observed actions.

    Where an action has more parts than the investment, they are played as is customary.
    """

    def __init__(self, game: Game, policy: str) -> None:
        game.require(policy, "own_action", "others_actions")
        self._own, self._others = game.layout["own_action"], game.layout["others_actions"]
        self._layout = game.layout
        self._high, self._size = game.high[:, 0], game.high.shape[1]
        agents = len(game.agents)
        table = np.broadcast_to(self._high, (agents, agents))
        self._others_high = table[~np.eye(agents, dtype=bool)].reshape(agents, agents - 1)

    def own(self, observations: np.ndarray) -> np.ndarray:
        """Own last investments as fractions of the own endowment, (lanes, agents)."""
        return self._own.view(observations)[:, :, 0].astype(np.float64) / self._high

    def others(self, observations: np.ndarray) -> np.ndarray:
        """The others' last investments as fractions of theirs, (lanes, agents, others)."""
        return self._others.view(observations).astype(np.float64) / self._others_high

    def trust(self, observations: np.ndarray) -> np.ndarray:
        """Own trust in each of the others, (lanes, agents, others)."""
        if "trust_in_others" in self._layout:
            return self._layout["trust_in_others"].view(observations).astype(np.float64)
        lanes, agents = observations.shape[:2]
        whole = self._layout["trust"].view(observations)
        own = whole[:, np.arange(agents), np.arange(agents)].astype(np.float64)
        return own[:, ~np.eye(agents, dtype=bool)].reshape(lanes, agents, agents - 1)

    def units(self, fractions: Any) -> np.ndarray:
        """Actions (lanes, agents, parts) that invest these fractions, (lanes, agents)."""
        invested = np.clip(fractions, 0.0, 1.0) * self._high
        actions = np.full((*invested.shape, self._size), CUSTOMARY)
        actions[:, :, 0] = invested
        return actions
