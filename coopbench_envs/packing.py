"""Packing: arguments of compiled code as words of 64 bits, and what their types are.

An array is seven words and more: two that are not used, its number of elements, their size, its
address, its shape and its strides. A tuple is its parts, one after the other, and a number is one
word. In this order numba's functions take them.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

__all__ = ["Packer", "packed", "types_of", "words_of"]

_WORD = 2**64


def packed(words: Sequence[int]) -> np.ndarray:
    """Return words in memory, whose address compiled code takes."""
    return np.array(words, np.uint64)


def words_of(argument: Any) -> list[int]:
    """Return the words of an argument; ``TypeError`` for one that has none.

    Its arrays have to live as long as the words are used.
    """
    words: list[int] = []
    _add(argument, words)
    return words


def _add(argument: Any, words: list[int]) -> None:
    """Append the words of an argument, each in [0, 2**64)."""
    if isinstance(argument, np.ndarray):
        address = argument.__array_interface__["data"][0]
        words += (0, 0, argument.size, argument.itemsize, address, *argument.shape)
        words += [stride % _WORD for stride in argument.strides]
    elif isinstance(argument, tuple):
        for part in argument:
            _add(part, words)
    elif isinstance(argument, float):  # and numpy's own, which is a subclass
        words.append(int(np.float64(argument).view(np.uint64)))
    elif isinstance(argument, np.float32):
        words.append(int(argument.view(np.uint32)))
    elif isinstance(argument, int | np.bool_ | np.integer):
        words.append(int(argument) % _WORD)
    else:
        raise TypeError(_misfit(argument))


def types_of(argument: Any) -> str:
    """Return a text that tells arguments apart for which code differs; ``TypeError`` as above."""
    if isinstance(argument, np.ndarray):
        flags = argument.flags
        order = "C" if flags.c_contiguous else "F" if flags.f_contiguous else "A"
        access = "" if flags.writeable else " read-only"
        return f"{argument.dtype.str}[{argument.ndim}{order}{access}]"
    if isinstance(argument, tuple):
        fields = getattr(argument, "_fields", ("",) * len(argument))
        parts = (f"{name}:{types_of(part)}" for name, part in zip(fields, argument, strict=True))
        return f"{type(argument).__name__}({' '.join(parts)})"
    if isinstance(argument, bool | float | np.bool_ | np.integer | np.float32):
        return type(argument).__name__
    if isinstance(argument, int):
        return "int" if argument < _WORD // 2 else "uint"
    raise TypeError(_misfit(argument))


def _misfit(argument: Any) -> str:
    return (
        f"Compiled code takes numbers, arrays of numpy and tuples of them; given "
        f"{type(argument).__name__}."
    )


class Packer:
    """Types and words of the arguments of calls, one after the other.

    Tuples are looked at when they are first passed: from call to call they are mostly the same.
    """

    def __init__(self) -> None:
        self._seen: dict[int, tuple[Any, str, list[int]]] = {}  # place -> tuple, types, words

    def pack(self, arguments: tuple[Any, ...]) -> tuple[tuple[str, ...], list[int]]:
        """Return the types of the arguments and the words of all of them."""
        types, words = [], []
        for place, argument in enumerate(arguments):
            seen = self._seen.get(place)
            if seen is None or seen[0] is not argument:
                seen = (argument, types_of(argument), words_of(argument))
                if isinstance(argument, tuple):  # which keeps its arrays where they are
                    self._seen[place] = seen
            types.append(seen[1])
            words += seen[2]
        return tuple(types), words
