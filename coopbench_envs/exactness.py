"""Exactness: what kernels take from mathematical libraries, which round as they please.

Operations that IEEE 754 defines to the bit give the same results on every processor and GPU. An
environment whose kernels have no others promises the same bits everywhere.
"""

import dis
import types
from collections.abc import Iterator
from typing import Any

from coopbench_envs.marks import plain

__all__ = ["library_calls"]

# Square roots, whole numbers, signs and scaling by powers of two are exact or correctly rounded.
# Of numpy's functions, engines on a GPU know these two.
_EXACT = {*(f"math.{name}" for name in ("sqrt", "floor", "ceil", "ldexp", "copysign"))}
_EXACT |= {"numpy.sqrt", "numpy.floor"}


def library_calls(function: Any) -> set[str]:
    """Return what a function and all that it calls compute with but IEEE 754 does not define.

    For instance "math.exp", or "**" for powers other than squares. Functions that are compiled are
    looked at as Python; so are those that are called through a module.
    """
    return {*_used(function, set())} - _EXACT


def _used(function: Any, reached: set[Any]) -> Iterator[str]:
    """Yield what a function and the functions that it calls take from math and numpy."""
    python = plain(function)
    if not isinstance(python, types.FunctionType) or python in reached:
        return
    reached.add(python)
    value, constant = None, None  # the global that was loaded last; the number just before
    for code in dis.get_instructions(python.__code__):
        if code.opname == "LOAD_GLOBAL":
            value = python.__globals__.get(code.argval)
            yield from _used(value, reached)
        elif code.opname in ("LOAD_ATTR", "LOAD_METHOD") and isinstance(value, types.ModuleType):
            name = f"{value.__name__}.{code.argval}"
            value = getattr(value, code.argval)
            if value.__class__.__name__ in ("ufunc", "builtin_function_or_method"):
                yield name
            yield from _used(value, reached)
        elif code.opname == "BINARY_OP" and code.argrepr in ("**", "**=") and constant != 2:
            yield "**"
        constant = code.argval if code.opname in ("LOAD_CONST", "LOAD_SMALL_INT") else None
