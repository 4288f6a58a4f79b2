"""States: the arrays of a game over lanes, each declared once.

A declaration says what an array means, its shape and type, what it holds at the beginning of an
episode, and which values a state from outside may have. Allocation, clearing and checks follow.
"""

import functools
import operator
from collections import namedtuple
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from coopbench_envs.marks import MERGED, Marked
from coopbench_envs.parameters import unknown

__all__ = [
    "LARGEST",
    "Array",
    "allocated",
    "array",
    "bounds_of",
    "clearing",
    "declared",
    "given",
    "lane_of",
    "part_of",
    "state",
    "stored",
]

# Number in a state from outside; its square fits into the float32 of observations.
LARGEST = 1e18

# Length of an axis, or a value: a number, the name of a constant ("num_agents", "army.choices"), or
# a function of the constants.
Length = int | str | Callable[[Any], int]
Start = float | np.integer[Any] | str | None


@dataclass(frozen=True, slots=True)
class Array:
    """One array of a state; see ``array``."""

    meaning: str
    shape: tuple[Length, ...]
    dtype: Any
    start: Start
    scratch: bool
    bounds: Callable[[Any], tuple[Any, Any]] | None
    same: str


def array(
    meaning: str,
    *shape: Length,
    dtype: Any = np.float64,
    start: Start = None,
    scratch: bool = False,
    bounds: Callable[[Any], tuple[Any, Any]] | None = None,
    same: str = "",
) -> Array:
    """Declare an array of a state.

    Args:
        meaning: One line for readers: what it holds, its unit and its range.
        shape: Axes behind the lane: numbers, names of constants such as ``"num_agents"`` or
            ``"rules.num_agents"``, or functions from constants to a number; none: one value a lane.
        dtype: NumPy type, or a function from constants to one.
        start: What it holds when an episode begins, before ``reset``: a number, or the name of a
            constant that is one. None: ``reset`` writes it. It is allocated with this value, or 0.
        scratch: Whether ``prepare`` and each step write it anew, so that no state that is kept or
            restored contains it. ``start`` is then what it is allocated with, and no more.
        bounds: From constants to the lowest and the highest value, both inclusive, that a state
            from outside may have: numbers, or arrays that broadcast to the field of one lane. Of
            every array that indexes another one, divides or bounds a loop: compiled code does not
            check. None: any.
        same: Another array of the state that this one is; its own shape and type do not count.
    """
    return Array(meaning, shape, dtype, start, scratch, bounds, same)


_TIME = array(
    "steps played; written by the driver",
    dtype=np.int64,
    start=0,
    bounds=lambda c: (0, c.horizon),
)


def state(module: str, base: Any = None, /, **arrays: Array) -> Any:
    """Return a NamedTuple of arrays: those of the state ``base``, and ``arrays`` by name.

    The first one is ``time``, which every state has. An array of ``base`` that is declared again
    is replaced. The type is called ``State`` and must be bound to that name in ``module``, where
    pickle looks for it.
    """
    whole = ({"time": _TIME} if base is None else dict(declared(base))) | arrays
    kind: Any = namedtuple("State", whole, module=module)  # type: ignore[misc]
    kind.__doc__ = "Arrays over lanes; axis 0 is always the lane ``i``."
    for name, what in whole.items():
        getattr(kind, name).__doc__ = what.meaning
    kind._arrays = whole  # type: ignore[attr-defined]
    return kind


def declared(kind: Any) -> Mapping[str, Array]:
    """Return the arrays of a state by name, as they were declared."""
    arrays: Mapping[str, Array] = kind._arrays
    return arrays


def stored(kind: Any) -> tuple[str, ...]:
    """Return the names of the arrays from which all others follow: all but scratch."""
    return tuple(name for name, what in declared(kind).items() if not what.scratch)


def bounds_of(kind: Any, constants: Any) -> dict[str, tuple[Any, Any]]:
    """Return the lowest and the highest value of the stored arrays that have bounds, by name."""
    arrays = declared(kind)
    limits = {name: arrays[name].bounds for name in stored(kind)}
    return {name: bounds(constants) for name, bounds in limits.items() if bounds is not None}


def given(
    field: str,
    value: Any,
    target: np.ndarray,
    bounds: tuple[Any, Any] | None,
    largest: float = LARGEST,
) -> np.ndarray:
    """Return a ``value`` from outside as an array like ``target``, lane first.

    ``field`` is what messages call it. Raises ``ValueError`` for another shape, for what the type
    of ``target`` does not hold exactly, for floats above ``largest`` in size, and for what lies
    beyond the ``bounds``.
    """
    array = np.asarray(value)
    if array.shape not in (target.shape, target.shape[1:]):
        raise ValueError(
            f"{field} must have shape {target.shape[1:]} for each lane; given {array.shape}."
        )
    held = f"{field} must hold {_held(target.dtype, largest)}; given {array.dtype}"
    try:
        with np.errstate(invalid="ignore", over="ignore"):
            exact = array.astype(target.dtype)
    except (TypeError, ValueError, OverflowError):
        raise ValueError(f"{held} that is not.") from None
    is_too_large = exact.dtype.kind == "f" and not (np.abs(exact) <= largest).all()
    if is_too_large or not np.array_equal(exact, array):
        raise ValueError(f"{held} with values that are not.")
    if bounds is not None:
        values, least, most = np.broadcast_arrays(exact, *bounds)
        for place in map(tuple, np.argwhere((values < least) | (values > most))):
            raise ValueError(
                f"{field} must lie from {least[place]} to {most[place]}; given {values[place]} at "
                f"{list(map(int, place))}."
            )
    return np.broadcast_to(exact, target.shape)


def _held(kind: np.dtype[Any], largest: float) -> str:
    """Say what an array of this type may hold."""
    if kind.kind == "b":
        return "True or False"
    if kind.kind == "f":
        return f"finite numbers of up to {largest:g} in size"
    ends = np.iinfo(kind)
    return f"whole numbers from {ends.min} to {ends.max}"


def allocated(kind: Any, constants: Any, lanes: int) -> Any:
    """Return a new state for ``lanes`` games.

    Raises ``ValueError`` for an array whose length or start is the name of no constant.
    """
    arrays: dict[str, np.ndarray] = {}
    for name, what in declared(kind).items():
        if what.same:
            arrays[name] = arrays[what.same]
            continue
        shape = (lanes, *(_value(name, length, constants) for length in what.shape))
        is_type = isinstance(what.dtype, type | np.dtype)
        dtype = what.dtype if is_type else what.dtype(constants)
        start = 0 if what.start is None else _value(name, what.start, constants)
        # Pages of zeros take up no memory before they are written.
        arrays[name] = np.zeros(shape, dtype) if start == 0 else np.full(shape, start, dtype)
    return kind(**arrays)


def _value(name: str, value: Any, constants: Any) -> Any:
    """Return a length or start of array ``name``; it may be the name or a function of constants."""
    if isinstance(value, str):
        try:
            return operator.attrgetter(value)(constants)
        except AttributeError:
            known = getattr(constants, "_fields", ())
            where = f"the array {name!r} of the state"
            raise ValueError(unknown("constant", value, known, where)) from None
    return value(constants) if callable(value) else value


@functools.cache
def clearing(kind: Any) -> Any:
    """Return a kernel (c, s, i) that gives every stored array with a ``start`` this value."""
    arrays = declared(kind)
    starts = {n: arrays[n] for n in stored(kind) if arrays[n].start is not None}
    lines = [line for name, what in starts.items() for line in _assignment(name, what)]
    return _kernel(kind, "clear(c, s, i)", lines, {f"start_{n}": starts[n].start for n in starts})


def _assignment(name: str, what: Array) -> Iterator[str]:
    """Yield the lines that write ``start`` into an array, one loop for each of its axes."""
    indices = ["i"]
    for axis in range(1, len(what.shape) + 1):
        yield "    " * (axis - 1) + f"for k{axis} in range(s.{name}.shape[{axis}]):"
        indices.append(f"k{axis}")
    value = f"c.{what.start}" if isinstance(what.start, str) else f"start_{name}"
    yield "    " * len(what.shape) + f"s.{name}[{', '.join(indices)}] = {value}"


def lane_of(kind: Any) -> Any:
    """Return a kernel (s, i) -> NamedTuple of lane ``i`` of all arrays that have further axes.

    Functions that take it read no other lane, and index faster.
    """
    names = [name for name, what in declared(kind).items() if what.shape]
    return _selecting(kind, "lane(s, i)", {name: f"s.{name}[i]" for name in names})


def part_of(kind: Any, *names: str) -> Any:
    """Return a kernel (s) -> NamedTuple of these arrays: the fewer, the cheaper to hand over."""
    return _selecting(kind, "part(s)", {name: f"s.{name}" for name in names})


def _selecting(kind: Any, head: str, values: Mapping[str, str]) -> Any:
    """Return a kernel with this head that returns a NamedTuple of these expressions by name."""
    selection = namedtuple("Selection", values, module=kind.__module__)  # type: ignore[misc]
    line = f"return Selection({', '.join(values.values())})"
    return _kernel(kind, head, [line], {"Selection": selection})


def _kernel(kind: Any, head: str, lines: Iterable[str], names: Mapping[str, Any]) -> Any:
    """Return a kernel with this head and these lines, which read ``names``."""
    scope = {"__name__": kind.__module__, **names}
    exec("\n    ".join([f"def {head}:", *(list(lines) or ["pass"])]), scope)
    return Marked(scope[head.partition("(")[0]], MERGED)
