"""Lowering: functions as LLVM's code, by numba, which is imported here and nowhere before."""

import functools
import re
import warnings
from collections.abc import Callable, Mapping
from importlib.metadata import version
from typing import Any

from coopbench_envs.explaining import explained
from coopbench_envs.objects import Lowered

__all__ = [
    "TESTED",
    "dispatcher_of",
    "is_tested",
    "lowered",
    "merging_absent",
    "provide_helpers",
]

TESTED = ((0, 61), (0, 69))  # versions of numba, from the first up to below the second

# One place for flags. Never fastmath (it changes bits). Kernels get tuples of some fifty arrays:
# reference counts of arrays, which only code that allocates needs, would take most of the time. So
# kernels cannot allocate: numba says "NRT required but not enabled" where one tries to.
_FLAGS = {"error_model": "numpy", "_nrt": False}


def is_tested() -> bool:
    """Tell whether this is a version of numba that the tests of this package ran with."""
    first, beyond = TESTED
    return first <= tuple(map(int, re.findall(r"\d+", version("numba"))[:2])) < beyond


@functools.cache
def _merging() -> tuple[Any, str]:
    """Return the module ``merging``, or None and what numba lacks that it needs.

    None with a warning for a numba that is not tested. No release of one that is may break a first
    step by a private name that it has no longer.
    """
    if is_tested():
        try:
            from coopbench_envs import merging
        except (ImportError, AttributeError) as error:
            return None, str(error)
        return merging, ""
    first, beyond = (".".join(map(str, number)) for number in TESTED)
    warnings.warn(
        f"coopbench is tested with numba {first} up to below {beyond}, and {version('numba')} is "
        f"installed: what has to be compiled here takes twice as long as it could.",
        stacklevel=2,
    )
    return None, ""


def merging_absent() -> str:
    """Return what a tested numba lacks, so that it merges kernels itself; empty if nothing."""
    return _merging()[1] if is_tested() else ""


def provide_helpers() -> None:
    """Let machine code call numba's own helpers, as ``reshape`` does; compiling provides them."""
    import numba

    numba.njit(**_FLAGS)(_nothing)()


def _nothing() -> None:
    return None


def dispatcher_of(function: Callable[..., Any], options: Mapping[str, Any]) -> Any:
    """Return what numba compiles a function by that compiled functions call."""
    import numba

    merging, _ = _merging()
    if merging is None or options.get("inline") == "always":
        return numba.njit(**options, **_FLAGS)(function)
    return merging.dispatcher(function, merging.MergingInner, {**options, **_FLAGS})


def lowered(function: Callable[..., Any], arguments: tuple[Any, ...]) -> Lowered:
    """Return the code of a function for arguments of these very types.

    With a tested version of numba it is not optimised. Raises ``KernelError`` for one that cannot
    be compiled.
    """
    from numba.core.errors import NumbaError

    try:
        return _lowered(function, arguments)
    except NumbaError as error:
        raise explained(error, arguments) from None


def _lowered(function: Callable[..., Any], arguments: tuple[Any, ...]) -> Lowered:
    import numba

    signature = tuple(map(numba.typeof, arguments))
    merging, _ = _merging()
    if merging is None:
        stock = numba.njit(**_FLAGS)(function)
        stock.compile(signature)
        return _chosen(stock.inspect_llvm(signature), function.__qualname__.rpartition(".")[2])
    dispatcher = merging.dispatcher(function, merging.MergingOuter, _FLAGS)
    dispatcher.compile(signature)
    return Lowered(*merging.module_of(dispatcher, signature))


def _chosen(code: str, name: str) -> Lowered:
    """Return the code with the name that numba's function for ``name`` has in it.

    Others are its wrappers for calls from Python and from C.
    """
    found = re.findall(r'^define [^@]*@"?(_ZN[^"(]*)"?\(', code, re.MULTILINE)
    own = [symbol for symbol in found if f"{len(name)}{name}" in symbol]
    (symbol,) = (symbol for symbol in own if not symbol.startswith("_ZN7cpython"))
    return Lowered(code, symbol)
