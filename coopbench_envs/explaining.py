"""Explaining: what is wrong with a kernel that numba refuses to compile, in a sentence."""

import ast
import difflib
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from coopbench_envs.errors import KernelError

__all__ = ["explained"]

_COLORS = re.compile(r"\x1b\[[0-9;]*m")
_PLACE = re.compile(r" at (\S[^\n]*?) \((\d+)\)")
_NAME = re.compile(r"(?:name |global name )'(\w+)'")
_FUNCTION = re.compile(r"No implementation of function Function\(<[\w -]*?(\w+)(?: at \w+)?>\)")
_ATTRIBUTE = re.compile(r"Unknown attribute '(\w+)' of type (\w+)")

# What numba says where memory would be allocated; of some functions only that it cannot have them.
_ALLOCATES = re.compile(r"NRT required|<built-in function (array|empty|zeros|arange|concatenate)>")


def explained(error: Exception, arguments: tuple[Any, ...]) -> KernelError:
    """Return what numba's ``error`` means; ``arguments`` are those of the compiled function.

    The text names the kernel, its file and line, what is not allowed, and what to write instead.
    """
    message = _COLORS.sub("", str(error))
    file, line = _place(error, message)
    where = f"{_function_at(file, line)} in {file}, line {line}, cannot be compiled: "
    return KernelError(where + _reason(message, file, arguments))


def _place(error: Any, message: str) -> tuple[str, int]:
    """Return the file and line of the innermost code that is not numba's own."""
    for file, line in _PLACE.findall(message):
        if "numba" not in Path(file).parts:
            return file, int(line)
    loc = getattr(error, "loc", None)
    return ("an unknown file", 0) if loc is None else (loc.filename, loc.line or 0)


def _function_at(file: str, line: int) -> str:
    """Return the name of the innermost function around a line."""
    try:
        tree = ast.parse(Path(file).read_text(encoding="utf-8"))
    except (OSError, ValueError, SyntaxError):
        return "A function"
    around = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef) and node.lineno <= line <= (node.end_lineno or 0)
    ]
    return max(around, key=lambda node: node.lineno).name if around else "A function"


def _reason(message: str, file: str, arguments: tuple[Any, ...]) -> str:
    """Return what is not allowed and what to write instead."""
    if _ALLOCATES.search(message):
        return (
            "it makes an array, a list or another object, and compiled code cannot allocate "
            "memory. Declare the array as a field of the state, and fill it here."
        )
    attribute = _ATTRIBUTE.search(message)
    if attribute is not None:
        return _unknown_attribute(attribute[1], attribute[2], arguments)
    name = _NAME.search(message)
    if name is not None:
        return _unknown_name(name[1], file)
    function = _FUNCTION.search(message)
    if function is not None:
        return (
            f"it calls `{function[1]}` with arguments for which there is no compiled code. Compute "
            f"with single numbers, and loop over the elements of arrays."
        )
    lines = [text.strip() for text in message.splitlines() if text.strip()]
    told = next(
        (text for text in lines if not text.startswith("Failed in")), "numba gives no reason"
    )
    return f"{told.rstrip('.')}. Compiled code can use numbers, arrays, named tuples and kernels."


def _unknown_attribute(name: str, kind: str, arguments: tuple[Any, ...]) -> str:
    if kind == "array":
        drawn = " Draw random numbers by `uniform(rng, i)` and `integer(rng, i, n)`."
        return (
            f"it asks an array for `{name}`, which arrays do not have in compiled code. Loop over "
            f"the elements instead.{drawn}"
        )
    for found in _tuples(arguments):
        if type(found).__name__ == kind:
            near = difflib.get_close_matches(name, found._fields, 1)
            meant = f" Did you mean `{near[0]}`?" if near else ""
            return (
                f"it reads the field `{name}`, which {kind} does not have; it has "
                f"{', '.join(found._fields)}.{meant}"
            )
    return f"it asks a value of the type {kind} for `{name}`, which it does not have."


def _tuples(arguments: tuple[Any, ...]) -> Iterator[Any]:
    """Yield the named tuples among arguments, also those within others."""
    for argument in arguments:
        if isinstance(argument, tuple):
            if hasattr(argument, "_fields"):
                yield argument
            yield from _tuples(tuple(argument))


def _unknown_name(name: str, file: str) -> str:
    for module in list(sys.modules.values()):
        if getattr(module, "__file__", None) == file and hasattr(module, name):
            value = getattr(module, name)
            if callable(value) and not hasattr(value, "py_func"):
                return (
                    f"it calls `{name}`, which is not marked. Write @kernel, @routine or "
                    f"@subroutine above `def {name}`."
                )
            return (
                f"it reads `{name}`, a {type(value).__name__}; compiled code can use numbers, "
                f"tuples, arrays of numpy and marked functions."
            )
    return f"`{name}` is not defined. Define or import it in this file."
