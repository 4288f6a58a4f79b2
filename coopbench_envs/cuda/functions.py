"""Functions of a GPU: made from the Python functions behind the kernels of the CPU."""

import dis
import types
from collections.abc import Callable, Mapping
from typing import Any

from coopbench_envs.compiling import Compiled
from coopbench_envs.marks import Marked, plain

__all__ = ["device_function", "rebound"]

_READS = ("LOAD_ATTR", "LOAD_METHOD")  # of a module
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
    """Return the Python function behind ``function`` with functions of a GPU among its globals.

    ``names`` replace globals. Only globals that the code loads are looked at: attributes may have
    their names. A module through which functions are called is replaced by one with theirs.
    """
    python: types.FunctionType = plain(function)
    bindings = python.__globals__ | dict(names)
    loads = {i.argval for i in dis.get_instructions(python.__code__) if i.opname == "LOAD_GLOBAL"}
    read = {i.argval for i in dis.get_instructions(python.__code__) if i.opname in _READS}
    for name in sorted(loads & bindings.keys()):
        value = bindings[name]
        is_module = isinstance(value, types.ModuleType)
        bindings[name] = _with_converted(value, read) if is_module else _converted(value)
    new = types.FunctionType(
        python.__code__, bindings, python.__name__, python.__defaults__, python.__closure__
    )
    new.__module__, new.__qualname__ = python.__module__, python.__qualname__
    return new


def _with_converted(module: types.ModuleType, names: set[str]) -> types.ModuleType:
    """Return a module with the attributes ``names`` of another, if it has marked ones."""
    found = {name: getattr(module, name) for name in names if hasattr(module, name)}
    if not any(isinstance(value, Marked | Compiled) for value in found.values()):
        return module
    new = types.ModuleType(module.__name__)
    new.__dict__.update({name: _converted(value) for name, value in sorted(found.items())})
    return new


def _converted(value: Any) -> Any:
    return device_function(value) if isinstance(value, Marked | Compiled) else value
