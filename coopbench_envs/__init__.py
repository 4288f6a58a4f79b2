"""Environments of coopbench; the import registers them with Gymnasium and PettingZoo.

``gymnasium.make("coopbench/TrustDilemma-v0")`` works after ``import coopbench_envs``;
``gymnasium.make("coopbench_envs:coopbench/TrustDilemma-v0")`` needs no import.
"""

import os
from typing import TYPE_CHECKING, Any

if not hasattr(os, "getuid"):  # Windows: the first environment would fail for want of it
    raise ImportError(
        "coopbench runs on Linux and macOS, and on Windows inside WSL: where files do not tell "
        "whose they are (os.getuid), compiled code cannot be kept apart from that of other users."
    )

from coopbench_envs.registration import ids, register, register_all, register_file, spec

# Without sb3_vec_env, which cannot be imported with a star where Stable-Baselines3 is missing.
__all__ = ["Engine", "ids", "make_vec", "pymarl", "register", "register_file", "spec"]

register_all()


if TYPE_CHECKING:  # the same names for type checkers and editors
    from coopbench_envs.engine import Engine as Engine
    from coopbench_envs.shells.pymarl_env import pymarl as pymarl
    from coopbench_envs.shells.sb3_vec_env import sb3_vec_env as sb3_vec_env
    from coopbench_envs.shells.vectors import make_vec as make_vec
else:  # type checkers would accept any name

    def __getattr__(name: str) -> Any:  # numba and stable-baselines3 are imported only when used
        if name == "Engine":
            from coopbench_envs.engine import Engine

            return Engine
        if name == "make_vec":
            from coopbench_envs.shells.vectors import make_vec

            return make_vec
        if name == "pymarl":
            from coopbench_envs.shells.pymarl_env import pymarl

            return pymarl
        if name == "sb3_vec_env":
            from coopbench_envs.shells.sb3_vec_env import sb3_vec_env

            return sb3_vec_env
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
