"""DLPack: arrays on a GPU shared between libraries without a copy, as capsules in memory.

The structures are those of ``dlpack.h`` before version 1.0, which every library still takes.
"""

import ctypes
import math
from typing import Any, NamedTuple

import numpy as np

__all__ = ["CUDA", "Tensor", "capsule_of", "tensor_in"]

CUDA = 2  # kDLCUDA
_KINDS = {0: "i", 1: "u", 2: "f", 6: "b"}  # of numbers, by their codes
_NAME = b"dltensor"


class Tensor(NamedTuple):
    """An array in a GPU's memory."""

    address: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]  # bytes
    dtype: np.dtype[Any]
    ordinal: int  # of the GPU


class _Device(ctypes.Structure):
    _fields_ = (("type", ctypes.c_int32), ("ordinal", ctypes.c_int32))


class _Type(ctypes.Structure):
    _fields_ = (("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16))


class _Tensor(ctypes.Structure):
    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device", _Device),
        ("ndim", ctypes.c_int32),
        ("dtype", _Type),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    )


class _Managed(ctypes.Structure):
    _fields_ = (("tensor", _Tensor),)  # and what frees it, which is numpy's


_pointer = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(
    ("PyCapsule_GetPointer", ctypes.pythonapi)
)


class _Lent:
    """Memory of a GPU as numpy takes an array from other libraries; it keeps the owner alive."""

    def __init__(self, tensor: Tensor, owner: object) -> None:
        self.owner = owner
        self.__array_interface__ = {
            "version": 3,
            "shape": tensor.shape,
            "strides": tensor.strides,
            "typestr": tensor.dtype.str,
            "data": (tensor.address, False),
        }


def capsule_of(tensor: Tensor, owner: object) -> Any:
    """Return a capsule of ``tensor``; ``owner`` lives until its consumer has done with it.

    numpy makes the capsule, here only the device is changed. numpy frees it in C: a function of
    Python would also be called while an exception is being raised, and end the process there.
    """
    capsule = np.asarray(_Lent(tensor, owner)).__dlpack__()
    managed = _Managed.from_address(_pointer(capsule, _NAME))
    managed.tensor.device = _Device(CUDA, tensor.ordinal)
    return capsule


def tensor_in(capsule: Any) -> Tensor:
    """Return the array that a capsule holds; it is valid as long as the capsule.

    Raises ``ValueError`` for arrays that do not lie on a GPU or hold no plain numbers.
    """
    tensor = _Managed.from_address(_pointer(capsule, _NAME)).tensor
    kind = _KINDS.get(tensor.dtype.code)
    if tensor.device.type != CUDA or kind is None or tensor.dtype.lanes != 1:
        raise ValueError(
            f"A DLPack capsule must hold numbers on a GPU (device type {CUDA}); given device type "
            f"{tensor.device.type}, type of numbers {tensor.dtype.code}."
        )
    dtype = np.dtype(f"{kind}{tensor.dtype.bits // 8}")
    shape = tuple(tensor.shape[: tensor.ndim])
    if tensor.strides:
        items = tuple(tensor.strides[: tensor.ndim])
    else:  # row-major
        items = tuple(math.prod(shape[axis + 1 :]) for axis in range(tensor.ndim))
    strides = tuple(step * dtype.itemsize for step in items)
    data = (tensor.data or 0) + tensor.byte_offset
    return Tensor(data, shape, strides, dtype, tensor.device.ordinal)
