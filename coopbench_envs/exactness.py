"""Exactness: what kernels take from mathematical libraries, which round as they please.

Operations that IEEE 754 defines to the bit give the same results on every processor and GPU. An
environment whose kernels have no others promises the same bits everywhere.
"""

import types
from typing import Any

import numpy as np

from coopbench_envs.marks import OPERATORS, plain, reads

__all__ = ["EXACT", "library_calls", "promised_bits"]

EXACT = "the same bits"

# Square roots, whole numbers, signs and scaling by powers of two are exact or correctly rounded.
# Of numpy's functions, engines on a GPU know these two.
_EXACT = {*(f"math.{name}" for name in ("sqrt", "floor", "ceil", "ldexp", "copysign"))}
_EXACT |= {"numpy.sqrt", "numpy.floor"}
_INEXACT = (pow, round)  # of the built-in functions; ``round`` to places behind the point
_MAGNITUDE = "abs of complex numbers"  # which C's library computes; that of others is exact
_LIBRARIES = ("numpy", "random", "scipy", "statistics")  # some functions of which are Python


def promised_bits(kernels: Any) -> str:
    """Return what an environment promises of its results on other processors and GPUs."""
    if not kernels.compiled:
        return "as NumPy computes, which may differ between processors"
    calls = ", ".join(f"`{name}`" for name in sorted(library_calls(kernels)))
    return f"equal to 1e-9 per step; kernels call {calls}" if calls else EXACT


def library_calls(function: Any) -> set[str]:
    """Return what a function and all that it calls compute with but IEEE 754 does not define.

    For instance "math.exp", or "**" for powers other than squares. Functions that are compiled are
    looked at as Python. It does not matter by which name a function is read, or where it is
    defined. The types of values are not known: ``abs`` is named where there are complex numbers.
    """
    found, reached = set(), set()
    takes_abs = is_complex = False
    waiting = [("", function)]
    while waiting:
        name, value = waiting.pop()
        value = plain(value)
        takes_abs, is_complex = takes_abs or value is abs, is_complex or _is_complex(value)
        if name in OPERATORS:
            if (name, value) != ("**", 2):
                found.add(name)
        elif isinstance(value, tuple):
            waiting += [(name, part) for part in value]
        elif isinstance(value, types.FunctionType) and _origin(value) not in _LIBRARIES:
            if value not in reached:
                reached.add(value)
                constants = (*value.__code__.co_consts, *(value.__defaults__ or ()))
                waiting += [*reads(value), *((name, part) for part in constants)]
        elif isinstance(value, types.CodeType):
            waiting += [(name, part) for part in value.co_consts]
        elif _is_library(value):
            found.add(_library_name(value, name))
    if takes_abs and is_complex:
        found.add(_MAGNITUDE)
    return found - _EXACT


def _is_complex(value: Any) -> bool:
    """Tell whether a value is complex, or a type that is, such as a state with complex arrays."""
    if isinstance(value, type):
        arrays = getattr(value, "_arrays", {}).values()  # of a state
        own = issubclass(value, complex | np.complexfloating)
        return own or any(_is_complex(array.dtype) for array in arrays)
    dtype = value if isinstance(value, np.dtype) else getattr(value, "dtype", None)
    return isinstance(value, complex) or (isinstance(dtype, np.dtype) and dtype.kind == "c")


def _origin(value: Any) -> str:
    """Return the name of the package that a function belongs to; empty if it says none."""
    return str(getattr(value, "__module__", None) or "").partition(".")[0]


def _is_library(value: Any) -> bool:
    """Tell whether a value is a function that is not Python, and may round as it pleases."""
    if isinstance(value, type) or not callable(value):
        return False
    return value in _INEXACT or _origin(value) != "builtins"


def _library_name(value: Any, read: str) -> str:
    """Return what a function of a library is called there, or else where it is read."""
    name = getattr(value, "__name__", read)
    module = "numpy" if type(value).__name__ == "ufunc" else getattr(value, "__module__", "")
    return name if module in ("", None, "builtins") else f"{module}.{name}"
