"""What ``gymnasium.make_vec`` calls: many games on the CPU or on a GPU."""

from typing import Any

import gymnasium as gym

from coopbench_envs.shells.vector_env import VectorEnv

__all__ = ["vector_env"]


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
