"""Predicting: models with ``predict``, such as Stable-Baselines3's, as policies."""

import inspect
from typing import Any

import gymnasium as gym
import numpy as np

from coopbench.baselines.game import Game
from coopbench.baselines.policy import label

__all__ = ["Predicting"]


class Predicting:
    """A model with ``predict(observations)`` as a policy for all seats, without exploration.

    A model of the game in joint control, with observations (agents, features), gets one row per
    lane; any other one gets a row of features for every agent of every lane, as in ``sb3_vec_env``.
    ``predict`` returns actions, or like Stable-Baselines3 a pair of actions and memory.

    Raises ``ValueError`` for a model of observations of another shape, and during play for one with
    memory, which has to be a policy with ``initial`` and ``act``.
    """

    def __init__(self, model: Any, game: Game) -> None:
        self._model = model
        features = max(part.stop for part in game.layout.values())
        joint, rows = (len(game.agents), features), (features,)
        shape = getattr(getattr(model, "observation_space", None), "shape", None) or rows
        if tuple(shape) not in (joint, rows):
            raise ValueError(
                f"Policy {label(model)!r} predicts from observations of shape {tuple(shape)}; "
                f"{game.env_id} has {rows} for each agent and {joint} in joint control."
            )
        self._row = tuple(shape)
        self._action = tuple(game.action_space.shape)
        self._discrete = isinstance(game.action_space, gym.spaces.Discrete)
        named = inspect.signature(model.predict).parameters
        self._options = {"deterministic": True} if "deterministic" in named else {}

    def initial(self, game: Game, seeds: np.ndarray) -> None:
        """Return no memory."""
        return None

    def act(self, observations: np.ndarray, memory: None) -> tuple[np.ndarray, None]:
        """Return the actions that the model predicts, (lanes, agents, dim) or (lanes, agents)."""
        predicted = self._model.predict(observations.reshape(-1, *self._row), **self._options)
        if isinstance(predicted, tuple):
            predicted, state = predicted
            if state is not None:
                raise ValueError(
                    f"Policy {label(self._model)!r} has a memory, which predict alone cannot "
                    f"start anew for every episode; write a policy with initial(game, seeds) and "
                    f"act(observations, memory)."
                )
        actions = np.asarray(predicted)
        size = int(np.prod((*observations.shape[:2], *self._action)))
        if actions.size != size:  # the player says which shape is expected
            return actions, None
        return actions.reshape(*observations.shape[:2], *self._action), None
