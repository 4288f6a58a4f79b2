"""Tit for tat: open in the middle, then do what the others did (Axelrod 1984), in fractions."""

from typing import Any, NamedTuple

import numpy as np
from coopbench.baselines.policy import Entry, Game

OPENING = 0.5  # fraction of the own endowment


class Params(NamedTuple):
    """No parameters."""


class TitForTat:
    """Mirrors the mean fraction of their endowments that the other agents invested last."""

    def __init__(self, game: Game, parameters: Params) -> None:
        game.require("tit_for_tat", "others_actions")
        self._game = game
        agents = len(game.agents)
        others = ~np.eye(agents, dtype=bool)
        highs = np.broadcast_to(game.high[:, 0], (agents, agents))
        self._others_high = highs[others].reshape(agents, agents - 1)

    def initial(self, game: Game, seeds: np.ndarray) -> np.ndarray:
        """Return whether the episode has begun: not yet."""
        return np.zeros(len(seeds), np.bool_)

    def act(self, observations: np.ndarray, memory: np.ndarray) -> tuple[Any, np.ndarray]:
        """Open with half, then mirror."""
        seen = observations[:, :, self._game.layout["others_actions"]].astype(np.float64)
        mirrored = (seen / self._others_high).mean(axis=2)
        fraction = np.where(memory[:, None], mirrored, OPENING)
        return (fraction * self._game.high[:, 0])[:, :, None], np.ones_like(memory)


ENTRY = Entry(
    "tit_for_tat", TitForTat, "mirrors the others' last fraction, opens with 0.5", "local", Params
)
