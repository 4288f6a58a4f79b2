"""Functions of a GPU: made from the Python functions behind the kernels of the CPU."""

import types
from collections.abc import Callable, Mapping
from typing import Any

from coopbench_envs.compiling import Compiled
from coopbench_envs.marks import Marked, copied, plain, reads

__all__ = ["device_function", "rebound"]

_made: dict[int, tuple[Any, Any]] = {}  # id of a CPU function -> itself, and that of a GPU


def device_function(function: Any) -> Any:
    """Return the function of a GPU that does what a function compiled for the CPU does.

    Functions that it calls are converted with it. What is merged into its callers there is merged
    here, too.
    """
    if id(function) not in _made:
        from numba import cuda

        options = getattr(function, "targetoptions", {})
        merged = options.get("inline", "never")
        forced = options.get("forceinline", False)
        python = rebound(function, {})
        _made[id(function)] = (
            function,  # which keeps its id from being given to another
            cuda.jit(device=True, inline=merged, forceinline=forced)(python),
        )
    return _made[id(function)][1]


def rebound(function: Any, names: Mapping[str, Any]) -> Callable[..., Any]:
    """Return the Python function behind ``function``, which reads functions of a GPU.

    ``names`` replace what it reads. A module through which functions are called is replaced by one
    with theirs.
    """
    python: types.FunctionType = plain(function)
    values = dict(reads(python)) | dict(names)
    changed = dict(names)
    for name in sorted(filter(str.isidentifier, values)):
        value = values[name]
        if isinstance(value, types.ModuleType):
            value = _with_converted(value, {n for n in values if n.startswith(f"{name}.")})
        else:
            value = _converted(value)
        if value is not values[name]:
            changed[name] = value
    return copied(python, changed)


def _with_converted(module: types.ModuleType, names: set[str]) -> types.ModuleType:
    """Return a module with the attributes ``names`` of another, if it has marked ones."""
    read = {name.split(".")[1] for name in names}
    found = {name: getattr(module, name) for name in sorted(read) if hasattr(module, name)}
    if not any(isinstance(value, Marked | Compiled) for value in found.values()):
        return module
    new = types.ModuleType(module.__name__)
    new.__dict__.update({name: _converted(value) for name, value in found.items()})
    return new


def _converted(value: Any) -> Any:
    return device_function(value) if isinstance(value, Marked | Compiled) else value
