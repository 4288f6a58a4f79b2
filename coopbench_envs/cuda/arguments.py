"""Arguments of a launch: numbers and arrays as the parameters that a GPU's function takes.

numba-cuda's function takes an array as two pointers that are not used, its number of elements and
their size, its address, and its shape and strides; a NamedTuple as its fields, one after the other.
"""

import ctypes
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from coopbench_envs.cuda.buffers import DeviceArray

__all__ = ["Packed", "flat"]


class Packed:
    """Parameters in host memory, packed once; a launch reads them, so that they can be changed."""

    def __init__(self, arguments: Sequence[Any]) -> None:
        self.values = [value for argument in arguments for value in flat(argument)]
        pointers = [ctypes.addressof(value) for value in self.values]
        self._pointers = (ctypes.c_void_p * len(pointers))(*pointers)
        self.address = ctypes.addressof(self._pointers)  # of the void* array of a launch

    @property
    def sizes(self) -> list[int]:
        """Bytes of each parameter."""
        return [ctypes.sizeof(value) for value in self.values]


def flat(argument: Any) -> Iterator[Any]:
    """Yield the parameters of one argument as ctypes values."""
    if isinstance(argument, tuple):
        for value in argument:
            yield from flat(value)
    elif isinstance(argument, DeviceArray):
        words = (0, 0, argument.size, argument.dtype.itemsize, argument.address)
        yield from map(ctypes.c_int64, (*words, *argument.shape, *argument.strides))
    elif isinstance(argument, (bool, np.bool_)):
        yield ctypes.c_uint8(bool(argument))
    elif isinstance(argument, int):
        yield ctypes.c_int64(argument)
    elif isinstance(argument, float):
        yield ctypes.c_double(argument)
    elif isinstance(argument, np.generic):
        dtype: Any = argument.dtype
        yield np.ctypeslib.as_ctypes_type(dtype)(argument.item())
    else:
        raise TypeError(f"A GPU takes numbers and arrays; given {type(argument).__name__}.")
