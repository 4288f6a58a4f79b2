"""Many games by one call: what ``gymnasium.make_vec`` and ``coopbench_envs.make_vec`` make."""

from collections.abc import Callable
from typing import Any

import gymnasium as gym

from coopbench_envs.core import EnvSpec
from coopbench_envs.lanes import of_user
from coopbench_envs.shells.vector_env import VectorEnv

__all__ = ["make_vec", "vector_env"]


def vector_env(
    env_id: str, num_envs: int = 1, *, device: str = "cpu", **options: Any
) -> gym.vector.VectorEnv[Any, Any, Any]:
    """Make ``num_envs`` games that are advanced by one call.

    ``device`` is "cpu", "cuda" or "cuda:1". See ``VectorEnv`` and ``DeviceVectorEnv`` for the
    options.
    """
    if device == "cpu":
        return VectorEnv(env_id, num_envs, **options)
    from coopbench_envs.shells.device_vector_env import DeviceVectorEnv

    return DeviceVectorEnv(env_id, num_envs, device=device, **options)


def make_vec(
    env: str | EnvSpec | Callable[..., Any],
    num_envs: int = 1,
    *,
    max_episode_steps: int | None = None,
    **options: Any,
) -> gym.vector.VectorEnv:
    """Make ``num_envs`` environments of any kind as one Gymnasium ``VectorEnv``.

    ``env`` is the id of a registered environment, the name of one of another package
    ("gymnasium:CartPole-v1", "pettingzoo:mpe2.simple_spread_v3", "pettingzoo:FILE.py:NAME"), whose
    code is executed, or a function or class that makes one. All agents act at once, and infos have
    their rewards; observations of several agents are (num_envs, agents, features). ``options`` are
    those of ``VectorEnv`` and the parameters of the environment.
    """
    named = of_user(env, max_episode_steps)
    if isinstance(named, EnvSpec):
        return VectorEnv(named, num_envs, **options)
    return vector_env(named, num_envs, max_episode_steps=max_episode_steps, **options)
