"""What the reactive policies share: investments as fractions of endowments, seen and played."""

from typing import Any

import numpy as np

from coopbench.baselines.policy import Game

__all__ = ["Fractions"]


class Fractions:
    """Reads and writes investments as fractions, for games with observed actions."""

    def __init__(self, game: Game, policy: str) -> None:
        game.require(policy, "own_action", "others_actions")
        self._own, self._others = game.layout["own_action"], game.layout["others_actions"]
        self._high = game.high[:, 0]
        agents = len(game.agents)
        table = np.broadcast_to(self._high, (agents, agents))
        self._others_high = table[~np.eye(agents, dtype=bool)].reshape(agents, agents - 1)

    def own(self, observations: np.ndarray) -> np.ndarray:
        """Own last investments as fractions of the own endowment, (lanes, agents)."""
        return observations[:, :, self._own][:, :, 0].astype(np.float64) / self._high

    def others(self, observations: np.ndarray) -> np.ndarray:
        """The others' last investments as fractions of theirs, (lanes, agents, others)."""
        return observations[:, :, self._others].astype(np.float64) / self._others_high

    def units(self, fractions: Any) -> np.ndarray:
        """Actions (lanes, agents, 1) that invest these fractions, (lanes, agents)."""
        return (np.clip(fractions, 0.0, 1.0) * self._high)[:, :, None]
