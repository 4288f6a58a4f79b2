"""Marks: functions for compiled code, which numba gets to see only where something is compiled."""

import builtins
import dis
import functools
import types
from collections.abc import Callable, Iterator, Mapping
from typing import Any

__all__ = [
    "CALLED",
    "INLINED",
    "MERGED",
    "OPERATORS",
    "PER_AGENT",
    "PER_LANE",
    "PER_PAIR",
    "Marked",
    "copied",
    "plain",
    "reads",
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

OPERATORS = ("**", "@", ".dot", ".std")  # operators and methods that call a library

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
    """Return marked functions, one or a NamedTuple of them, with other values of ``names``.

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
            read = {name: old for name, old in reads(function) if name.isidentifier()}
            changed = {n: names[n] if n in names else anew(old) for n, old in read.items()}
            changed = {n: new for n, new in changed.items() if new is not read[n]}
            made[value] = value
            if changed:
                copy = copied(function, changed)
                made[value] = Marked(copy, value.kind, played=value.played)
        return made[value]

    return anew(kernels)


def copied(function: types.FunctionType, values: Mapping[str, Any]) -> types.FunctionType:
    """Return a function that reads these ``values`` under the names of some that it reads."""
    code, cells = function.__code__, function.__closure__ or ()
    closure = tuple(
        types.CellType(values[name]) if name in values else cell
        for name, cell in zip(code.co_freevars, cells, strict=True)
    )
    names = {**function.__globals__, **values}
    copy = types.FunctionType(code, names, function.__name__, function.__defaults__, closure)
    functools.update_wrapper(copy, function)
    copy.__kwdefaults__ = function.__kwdefaults__
    return copy


def plain(function: Any) -> Any:
    """Return the Python function behind a marked or compiled one."""
    return getattr(function, "py_func", function)


def reads(function: types.FunctionType) -> Iterator[tuple[str, Any]]:
    """Yield what a function and those defined in it read from outside, as names and values.

    That are globals, built-in functions, variables of enclosing functions, and what they hold as
    attributes of modules and types, under dotted names. Operators that libraries compute come as
    "**" and "@" with their second operand, or None where that is no constant; methods of arrays as
    ".dot" and ".std" with None.
    """
    cells = [cell.cell_contents for cell in function.__closure__ or ()]
    closed = dict(zip(function.__code__.co_freevars, cells, strict=True))
    yield from _reads(function.__code__, vars(builtins) | function.__globals__ | closed)


def _reads(code: types.CodeType, names: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    nothing: Any = object()
    name, value, constant = "", nothing, None  # what was read just before, and the number
    for instruction in dis.get_instructions(code):
        operation, operand = instruction.opname, instruction.argval
        if operation == "EXTENDED_ARG":
            continue
        if operation in ("LOAD_GLOBAL", "LOAD_DEREF"):
            name, value = operand, names.get(operand, nothing)
        elif operation in ("LOAD_ATTR", "LOAD_METHOD") and isinstance(
            value, types.ModuleType | type
        ):
            name, value = f"{name}.{operand}", getattr(value, operand, nothing)
        else:
            value = nothing
            operator = instruction.argrepr.removesuffix("=")
            if operation == "BINARY_OP" and operator in OPERATORS:
                yield operator, constant
            if operation in ("LOAD_ATTR", "LOAD_METHOD") and f".{operand}" in OPERATORS:
                yield f".{operand}", None
        if value is not nothing:
            yield name, value
        is_constant = operation in ("LOAD_CONST", "LOAD_SMALL_INT")
        constant = operand if is_constant else None
    for inner in code.co_consts:
        if isinstance(inner, types.CodeType):
            yield from _reads(inner, names)
