"""The random policy: uniform over each agent's action space."""

from typing import Any, NamedTuple

import gymnasium as gym
import numpy as np

from coopbench.baselines.policy import Entry, Game
from coopbench_envs.core import draw, streams


class Params(NamedTuple):
    """No parameters."""


class Random:
    """Draws every action anew; each seat of each episode has a stream of its own."""

    def __init__(self, game: Game, parameters: Params) -> None:
        self._game = game

    def initial(self, game: Game, seeds: np.ndarray) -> np.ndarray:
        """Return one random state per lane and agent."""
        return streams(seeds[:, None], np.arange(len(game.agents))[None, :])

    def act(self, observations: np.ndarray, memory: np.ndarray) -> tuple[Any, np.ndarray]:
        """Draw uniformly between the bounds, or among all choices."""
        states = memory.copy()
        game = self._game
        if isinstance(game.action_space, gym.spaces.Discrete):
            return (draw(states) * game.action_space.n).astype(np.int64), states
        draws = np.stack([draw(states) for _ in range(game.low.shape[1])], axis=-1)
        return game.low + draws * (game.high - game.low), states


class RandomElsewhere(Random):
    """Draws from the action spaces of an environment of another package, among legal choices."""

    uses_masks = True

    def act(
        self, observations: np.ndarray, memory: np.ndarray, masks: np.ndarray | None = None
    ) -> tuple[Any, np.ndarray]:
        """Draw an element of every agent's space."""
        states = memory.copy()
        return self._game.codec.sampled(states, masks), states


def create(game: Game, parameters: Params) -> Random:
    """Make the policy for a game."""
    return Random(game, parameters) if game.codec is None else RandomElsewhere(game, parameters)


ENTRY = Entry("random", create, "draws uniformly from the action space", "none", Params)
