"""Marks: functions for compiled code, which numba gets to see only where something is compiled."""

import functools
from collections.abc import Callable
from typing import Any

__all__ = ["CALLED", "INLINED", "MERGED", "Marked", "plain"]

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


class Marked:
    """A function that compiled functions call; from Python it runs as Python.

    Code that is compiled by numba itself may call it, too: numba asks a value for the attributes
    ``_numba_type_``, ``targetoptions`` and ``py_func``.
    """

    def __init__(self, function: Callable[..., Any], kind: str) -> None:
        functools.update_wrapper(self, function)
        self.py_func: Any = plain(function)
        self.kind = kind
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


def plain(function: Any) -> Any:
    """Return the Python function behind a marked or compiled one."""
    return getattr(function, "py_func", function)
