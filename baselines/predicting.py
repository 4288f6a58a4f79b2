"""Predicting: torch modules and models with ``predict``, as Stable-Baselines3 has, as policies."""

import inspect
import itertools
from collections.abc import Callable
from typing import Any

import gymnasium as gym
import numpy as np

from coopbench.baselines.game import Game
from coopbench.baselines.policy import label

__all__ = ["Predicting", "Torch", "device_of", "is_torch"]

_OF_MODULES = ("forward", "parameters", "buffers", "state_dict", "training")


class Predicting:
    """A model with ``predict(observations)`` as a policy for all seats, without exploration.

    A model of the game in joint control, with observations (agents, features), gets one row per
    lane; any other one gets a row of features for every agent of every lane, as in ``sb3_vec_env``.
    ``predict`` returns actions, or like Stable-Baselines3 a pair of actions and memory. In games of
    choices a ``predict`` that takes ``action_masks``, as that of sb3-contrib's MaskablePPO, gets
    the legal choices of every row, bool. A model with Box actions between other bounds than the
    game's, as of a model that was trained through ``RescaleAction``, has its actions scaled from
    its bounds to those of the game; ``rescaled`` says so. Observations are normalized by the
    statistics of the ``VecNormalize`` that the model was trained in, where it still holds it.

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
        _check_actions(model, game)
        self._row = tuple(shape)
        self._action = tuple(game.action_space.shape)
        space = getattr(model, "action_space", None)
        if isinstance(space, gym.spaces.Box) and game.levels is not None:
            self._action = game.low.shape[1:]
        self._scaling = _scaling(space, game)
        self.rescaled = "" if self._scaling is None else _bounds_text(model.action_space, game)
        self._normalize = _normalization(model)
        named = inspect.signature(model.predict).parameters
        self._options = {"deterministic": True} if "deterministic" in named else {}
        self.uses_masks = "action_masks" in named and bool(game.choices)

    def initial(self, game: Game, seeds: np.ndarray) -> None:
        """Return no memory."""
        return None

    def act(
        self, observations: np.ndarray, memory: None, legal: np.ndarray | None = None
    ) -> tuple[np.ndarray, None]:
        """Return the actions that the model predicts, (lanes, agents, dim) or (lanes, agents).

        ``legal`` (lanes, agents, choices) bool are the legal choices if it ``uses_masks``.
        """
        rows = observations.reshape(-1, *self._row)
        options: dict[str, Any] = dict(self._options)
        if legal is not None:
            options["action_masks"] = legal.reshape(len(rows), -1)
        predicted = self._model.predict(self._normalize(rows), **options)
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
        actions = actions.reshape(*observations.shape[:2], *self._action)
        if self._scaling is not None:
            offset, factor = self._scaling
            actions = offset + factor * actions
        return actions, None


def _normalization(model: Any) -> Callable[[np.ndarray], np.ndarray]:
    """Return the normalization of observations by which a model of Stable-Baselines3 was trained.

    A model that was loaded without its environment has none.
    """
    environment = getattr(model, "get_vec_normalize_env", lambda: None)()
    if environment is None or not environment.norm_obs:
        return np.asarray
    normalize: Callable[[np.ndarray], np.ndarray] = environment.normalize_obs
    return normalize


def _scaling(space: Any, game: Game) -> tuple[np.ndarray, np.ndarray] | None:
    """Return offset and factor, each (agents, dim), from the actions of a model to those of a game.

    None where a model does not name other bounds for as many numbers, or one side is unbounded.
    """
    if not isinstance(space, gym.spaces.Box) or not game.low.size:
        return None
    if space.low.size == game.low.size:  # of joint control
        low, high = (np.asarray(end, np.float64).reshape(game.low.shape) for end in _ends(space))
    elif space.low.size == game.low[0].size:
        low, high = (
            np.broadcast_to(np.asarray(end, np.float64).reshape(game.low[0].shape), game.low.shape)
            for end in _ends(space)
        )
    else:
        return None
    finite = all(np.isfinite(end).all() for end in (low, high, game.low, game.high))
    if not finite or (np.allclose(low, game.low) and np.allclose(high, game.high)):
        return None
    factor = (game.high - game.low) / np.where(high > low, high - low, 1.0)
    return game.low - factor * low, factor


def _check_actions(model: Any, game: Game) -> None:
    """Raise ``ValueError`` for a model that says that it has other actions than the game."""
    space = getattr(model, "action_space", None)
    if not isinstance(space, gym.spaces.Space) or game.codec is not None:
        return
    if game.choices and (game.levels is None or not isinstance(space, gym.spaces.Box)):
        counts = np.atleast_1d(getattr(space, "nvec", getattr(space, "n", 0)))
        fits = counts.size in (1, len(game.agents)) and 0 < counts.min() <= counts.max()
        fits &= counts.max() <= game.choices
        allowed = f"{game.choices} choices for each agent"
    else:
        fits = isinstance(space, gym.spaces.Box)
        fits = fits and int(np.prod(space.shape or ())) in (game.low.size, game.low[0].size)
        allowed = f"{game.low[0].size} numbers for each agent, or {game.low.size} in joint control"
    if not fits:
        raise ValueError(
            f"Policy {label(model)!r} predicts actions in {space}; {game.env_id} has {allowed}."
        )


def _ends(space: gym.spaces.Box) -> tuple[np.ndarray, np.ndarray]:
    return space.low, space.high


def _bounds_text(space: gym.spaces.Box, game: Game) -> str:
    """Write the bounds of the actions of a model, and those of a game that they are scaled to."""
    texts = []
    for low, high in (_ends(space), (game.low, game.high)):
        texts.append(f"[{float(low.min()):.6g}, {float(high.max()):.6g}]")
    return f"from {texts[0]} to {texts[1]}"


class Torch:
    """A ``torch.nn.Module`` from observations to actions, (lanes, agents, ...), as a policy.

    It is called with a tensor on the device and of the type of its weights, in evaluation mode,
    without gradients.
    """

    def __init__(self, module: Any) -> None:
        self._module = module

    def initial(self, game: Game, seeds: np.ndarray) -> None:
        """Return no memory."""
        return None

    def act(self, observations: np.ndarray, memory: None) -> tuple[np.ndarray, None]:
        """Return the actions that the module computes."""
        import torch

        module, training = self._module, self._module.training
        seen = torch.tensor(observations, device=device_of(module))
        weight = next((one for one in module.parameters() if one.is_floating_point()), seen)
        module.eval()
        try:
            with torch.no_grad():
                actions = module(seen.to(weight.dtype) if seen.is_floating_point() else seen)
        finally:
            module.train(training)
        if isinstance(actions, torch.Tensor):  # of a parameter itself, it still asks for gradients
            actions = actions.detach().cpu()
            narrow = actions.dtype is torch.bfloat16  # which numpy does not have
            actions = (actions.float() if narrow else actions).numpy()
        return actions, None


def is_torch(policy: Any) -> bool:
    """Whether a policy is a ``torch.nn.Module``, or has another name and is one otherwise."""
    return all(hasattr(policy, name) for name in _OF_MODULES)


def device_of(policy: Any) -> str | None:
    """Return the device of a torch module's weights, as "cuda:0"; None for any other policy."""
    if not is_torch(policy):
        return None
    weight = next(itertools.chain(policy.parameters(), policy.buffers()), None)
    return "cpu" if weight is None else str(weight.device)
