"""Registration: finds every environment of the families and tells Gymnasium and PettingZoo its id.

Nothing is listed by hand. The ids are read from the sources with one expression, so that importing
the package costs neither numba nor a kernel; a test holds them against the imported SPECs.
"""

import importlib
import re
from pathlib import Path
from typing import TYPE_CHECKING

import gymnasium
import pettingzoo

from coopbench_envs.parameters import unknown

if TYPE_CHECKING:
    from coopbench_envs.core import EnvSpec

__all__ = ["ids", "register", "register_all", "spec"]

_ROOT = Path(__file__).parent
_ID = re.compile(r'^\s+id="([\w-]+/[\w.-]+-v\d+)"', re.MULTILINE)
_SHELLS = "coopbench_envs.shells"
_modules: dict[str, str] = {}  # id -> module that defines it
_specs: dict[str, "EnvSpec"] = {}  # id -> its SPEC, once needed


def ids() -> tuple[str, ...]:
    """Return the ids of all registered environments, sorted."""
    return tuple(sorted(_modules))


def spec(env_id: str) -> "EnvSpec":
    """Return the SPEC of ``env_id``; the namespace ``coopbench/`` may be left out.

    ``module:id`` imports ``module`` first, as ``gymnasium.make`` does. Raises ``ValueError`` with
    the nearest id if there is none of that name.
    """
    if ":" in env_id:
        module, env_id = env_id.split(":", 1)
        importlib.import_module(module)
    name = env_id if "/" in env_id else f"coopbench/{env_id}"
    if name not in _modules:
        raise ValueError(unknown("environment", name, _modules))
    if name not in _specs:
        for env_spec in specs_of(importlib.import_module(_modules[name])):
            _specs[env_spec.id] = env_spec
    return _specs[name]


def specs_of(module: object) -> "list[EnvSpec]":
    """Return the SPECs that ``module`` defines: the values of its names that begin with SPEC."""
    return [value for key, value in vars(module).items() if key.startswith("SPEC")]


def register(env_spec: "EnvSpec") -> None:
    """Register your own environment under its id; a second call has no effect."""
    _specs[env_spec.id] = env_spec
    _register(env_spec.id, env_spec.module)


def register_all() -> None:
    """Register every environment of the families of this package."""
    for file in sorted(_ROOT.glob("*/**/*.py")):
        for env_id in _ID.findall(file.read_text(encoding="utf-8")):
            module = ".".join(file.relative_to(_ROOT.parent).with_suffix("").parts)
            _register(env_id, module)


def _register(env_id: str, module: str) -> None:
    if env_id in _modules:
        return
    _modules[env_id] = module
    kwargs = {"env_id": env_id}
    gymnasium.register(
        env_id,
        entry_point=f"{_SHELLS}.gymnasium_env:GymnasiumEnv",
        vector_entry_point=f"{_SHELLS}.vector_env:VectorEnv",
        kwargs=dict(kwargs),
    )
    pettingzoo.register(
        "parallel", env_id, f"{_SHELLS}.parallel_env:ParallelEnv", kwargs=dict(kwargs)
    )
    pettingzoo.register("aec", env_id, f"{_SHELLS}.aec_env:AECEnv", kwargs=dict(kwargs))
