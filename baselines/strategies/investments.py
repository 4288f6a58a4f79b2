"""Investments as fractions of endowments, observed and played, for the reactive policies."""

from typing import Any

import numpy as np

from coopbench.baselines.game import Game

__all__ = ["Fractions", "mean", "total"]

CUSTOMARY = 0.5  # in every part of an action after the investment


def total(values: np.ndarray) -> np.ndarray:
    """Return the sum of ``values`` over their last axis, added in its order.

    NumPy's reduction over an axis of a few numbers takes about ten times as long.
    """
    return np.asarray(sum(values[..., k] for k in range(values.shape[-1])))


def mean(values: np.ndarray) -> np.ndarray:
    """Return the mean of ``values`` over their last axis; see ``total``."""
    return np.asarray(total(values) / values.shape[-1])


class Fractions:
    """Reads and writes investments as fractions, for games with observed actions.

    Where an action has more parts than the investment, they are played as ``CUSTOMARY``.
    """

    def __init__(self, game: Game, policy: str) -> None:
        game.require(policy, "own_action", "others_actions")
        self._invested, self._others = game.layout["own_action"], game.layout["others_actions"]
        self._layout = game.layout
        self._high, self._size = game.high[:, 0], game.high.shape[1]
        agents = len(game.agents)
        table = np.broadcast_to(self._high, (agents, agents))
        self._others_high = table[~np.eye(agents, dtype=bool)].reshape(agents, agents - 1)

    def invested(self, observations: np.ndarray) -> np.ndarray:
        """Return each agent's last investment as a fraction of its endowment, (lanes, agents)."""
        units: np.ndarray = self._invested.view(observations)[:, :, 0].astype(np.float64)
        fractions: np.ndarray = units / self._high
        return fractions

    def others(self, observations: np.ndarray) -> np.ndarray:
        """Return the others' last investments as fractions of theirs, (lanes, agents, others)."""
        units: np.ndarray = self._others.view(observations).astype(np.float64)
        fractions: np.ndarray = units / self._others_high
        return fractions

    def trust(self, observations: np.ndarray) -> np.ndarray:
        """Return the trust of each agent in the others, (lanes, agents, others)."""
        if "trust_in_others" in self._layout:
            trust: np.ndarray = self._layout["trust_in_others"].view(observations)
            return trust.astype(np.float64)
        lanes, agents = observations.shape[:2]
        whole: np.ndarray = self._layout["trust"].view(observations)
        trust = whole[:, np.arange(agents), np.arange(agents)].astype(np.float64)
        return trust[:, ~np.eye(agents, dtype=bool)].reshape(lanes, agents, agents - 1)

    def units(self, fractions: Any) -> np.ndarray:
        """Return actions (lanes, agents, parts) that invest ``fractions``, (lanes, agents)."""
        invested = np.clip(fractions, 0.0, 1.0) * self._high
        actions = np.full((*invested.shape, self._size), CUSTOMARY)
        actions[:, :, 0] = invested
        return actions
