"""Marks: functions for compiled code, which numba gets to see only where something is compiled."""

import dis
import functools
import types
from collections.abc import Callable, Mapping
from typing import Any

__all__ = [
    "CALLED",
    "INLINED",
    "MERGED",
    "PER_AGENT",
    "PER_LANE",
    "PER_PAIR",
    "Marked",
    "plain",
    "rebound",
]

# What becomes of a marked function in compiled code. Merged: its source takes the place of each
# call. Inlined: it is compiled once, and its code takes the place of each call. Called: it is
# compiled once and called.
MERGED, INLINED, CALLED = "merged", "inlined", "called"
# What numba calls the same.
_OPTIONS: dict[str, dict[str, Any]] = {
    MERGED: {"inline": "always"},
    INLINED: {"forceinline": True},
    CALLED: {},
}

# What a part of a step is played for.
PER_LANE, PER_AGENT, PER_PAIR = "per lane", "per agent", "per pair of agents"


class Marked:
    """A function that compiled functions call; from Python it runs as Python.

    Code that is compiled by numba itself may call it, too: numba asks a value for the attributes
    ``_numba_type_``, ``targetoptions`` and ``py_func``.
    """

    def __init__(self, function: Callable[..., Any], kind: str, *, played: str = PER_LANE) -> None:
        functools.update_wrapper(self, function)
        self.py_func: Any = plain(function)
        self.kind, self.played = kind, played
        self.targetoptions = _OPTIONS[kind]

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        """Run the function as Python."""
        return self.py_func(*arguments, **named)

    def __reduce__(self) -> str:
        return str(self.py_func.__qualname__)  # which pickle looks up in the function's module

    @functools.cached_property
    def dispatcher(self) -> Any:
        """The function as numba knows it; the first look imports numba."""
        from coopbench_envs.lowering import dispatcher_of

        return dispatcher_of(self.py_func, self.targetoptions)

    @property
    def _numba_type_(self) -> Any:
        return self.dispatcher._numba_type_


def rebound(kernels: Any, names: Mapping[str, Any]) -> Any:
    """Return marked functions, one or a NamedTuple of them, with other values of global ``names``.

    The functions that they reach read these values, too. What reads none of them stays itself.
    """
    made: dict[Marked, Marked] = {}

    def anew(value: Any) -> Any:
        if isinstance(value, tuple):
            parts = map(anew, value)
            return value._make(parts) if hasattr(value, "_make") else tuple(parts)
        if not isinstance(value, Marked):
            return value
        if value not in made:
            function = value.py_func
            loads = (i for i in dis.get_instructions(function) if i.opname == "LOAD_GLOBAL")
            read = {i.argval: function.__globals__.get(i.argval) for i in loads}
            changed = {n: names[n] if n in names else anew(old) for n, old in read.items()}
            changed = {n: new for n, new in changed.items() if new is not read[n]}
            made[value] = value
            if changed:
                copy = _copy(function, changed)
                made[value] = Marked(copy, value.kind, played=value.played)
        return made[value]

    return anew(kernels)


def _copy(function: types.FunctionType, changed: Mapping[str, Any]) -> types.FunctionType:
    """Return a function that reads some globals otherwise."""
    names = {**function.__globals__, **changed}
    copy = types.FunctionType(
        function.__code__, names, function.__name__, function.__defaults__, function.__closure__
    )
    functools.update_wrapper(copy, function)
    return copy


def plain(function: Any) -> Any:
    """Return the Python function behind a marked or compiled one."""
    return getattr(function, "py_func", function)
