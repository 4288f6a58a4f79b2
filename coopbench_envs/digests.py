"""Digests: what the machine code of a function follows from, in a few bytes.

That is the byte code of all functions that it reaches, with the constants and globals that they
read. Files, lines, comments and docstrings have no part in it, so that an installation finds what
was compiled elsewhere, and an edit recompiles only what it changes.
"""

import builtins
import enum
import functools
import hashlib
import sys
import types
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from coopbench_envs.marks import OPERATORS, plain, reads

__all__ = ["digest"]

# Modules of this package that machine code follows from, too.
_COMPILER = ("lowering", "merging", "objects", "packing")
_LIBRARIES = ("builtins", "math", "numba", "numpy")
_NUMBERS = (bool, int, float, complex, str, bytes, type(None), type(...), np.generic)
_ABSENT = object()


def digest(function: Any, settings: Iterable[str] = ()) -> str:
    """Return 32 hexadecimal digits of a function and ``settings``, such as its arguments' types.

    Equal digits mean equal machine code. Raises ``TypeError`` for a function that reads a value
    which cannot be a part of compiled code, such as a list.
    """
    content = hashlib.sha256()
    for part in (_compiler(), *settings, *_parts(plain(function), {})):
        content.update(part.encode() + b"\0")
    return content.hexdigest()[:32]


@functools.cache
def _compiler() -> str:
    """Return a digest of what compiles, and the version of Python, whose byte code it is."""
    content = hashlib.sha256(str(sys.implementation.cache_tag).encode())
    for name in _COMPILER:
        content.update(Path(__file__).with_name(f"{name}.py").read_bytes())
    return content.hexdigest()


def _parts(function: types.FunctionType, numbers: dict[Any, int]) -> Iterator[str]:
    """Yield what a function and all that it reaches consist of.

    ``numbers`` tell the functions that have been reached apart: two may have one name.
    """
    is_new = function not in numbers
    yield str(numbers.setdefault(function, len(numbers)))
    if not is_new:
        return
    code, name = function.__code__, function.__name__
    yield from _instructions(code, function.__doc__)
    defaults = (*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).items())
    yield from _value(defaults, numbers, f"A default of {name}")
    for read, value in reads(function):
        if not (read in OPERATORS or _is_given(read, value)):
            yield read
            yield from _value(value, numbers, f"{read}, which {name} reads,")


def _is_given(name: str, value: Any) -> bool:
    """Tell whether the byte code says it all: of a module, and of a built-in function's name."""
    return isinstance(value, types.ModuleType) or vars(builtins).get(name, _ABSENT) is value


def _instructions(code: types.CodeType, doc: str | None) -> Iterator[str]:
    """Yield what a code object does, without its place in a file and its docstring."""
    yield code.co_code.hex()
    yield repr((code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars))
    yield repr((code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount, code.co_flags))
    for place, constant in enumerate(code.co_consts):
        if isinstance(constant, types.CodeType):
            yield from _instructions(constant, None)
        elif isinstance(constant, frozenset):
            yield repr(sorted(map(repr, constant)))
        elif place > 0 or constant != doc:
            yield repr(constant)


def _value(value: Any, numbers: dict[Any, int], what: str) -> Iterator[str]:
    """Yield what a value that code reads consists of; ``what`` names it in an error."""
    function = plain(value)
    if isinstance(function, np.ufunc):  # which have a module from numpy 2.1 on
        yield f"numpy.{function.__name__}"
    elif _is_library(function):
        yield f"{function.__module__}.{getattr(function, '__name__', function)}"
    elif isinstance(function, types.FunctionType):
        options = getattr(value, "targetoptions", {})
        yield repr(sorted((name, repr(option)) for name, option in options.items()))
        yield from _parts(function, numbers)
    elif isinstance(value, enum.Enum):
        yield f"{type(value).__name__}.{value.name} {value.value!r}"
    elif isinstance(value, _NUMBERS):
        yield f"{type(value).__name__} {value!r}"
    elif isinstance(value, tuple):
        yield f"{type(value).__name__} {getattr(value, '_fields', len(value))}"
        for part in value:
            yield from _value(part, numbers, what)
    elif isinstance(value, np.ndarray) and not value.dtype.hasobject:
        yield f"{value.dtype} {value.shape} {value.strides} {value.tobytes().hex()}"
    elif isinstance(value, type):
        yield f"{value.__module__}.{value.__qualname__} {getattr(value, '_fields', ())}"
    else:
        raise TypeError(
            f"{what} is a {type(value).__name__}; compiled code can use numbers, tuples, arrays of "
            f"numpy and functions."
        )


def _is_library(value: Any) -> bool:
    """Tell whether a value is a function or type of a library, which its name stands for."""
    module = getattr(value, "__module__", None) or ""
    return isinstance(module, str) and module.partition(".")[0] in _LIBRARIES and callable(value)
