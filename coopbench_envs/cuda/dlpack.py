"""DLPack: arrays on a GPU shared between libraries without a copy, as capsules in memory.

The structures are those of ``dlpack.h`` before version 1.0, which every library still takes.
"""

import ctypes
import math
import sys
from typing import Any, NamedTuple

import numpy as np

__all__ = ["CUDA", "Tensor", "capsule_of", "tensor_in"]

CUDA = 2  # kDLCUDA
_CODES = {"i": 0, "u": 1, "f": 2, "b": 6}
_KINDS = {code: kind for kind, code in _CODES.items()}
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
    pass


_DELETER = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
_Managed._fields_ = (("tensor", _Tensor), ("context", ctypes.c_void_p), ("deleter", _DELETER))

_lent: dict[int, tuple[Any, ...]] = {}  # address of a structure -> it and what it points to


_is_valid = ctypes.pythonapi.PyCapsule_IsValid
_is_valid.argtypes, _is_valid.restype = (ctypes.c_void_p, ctypes.c_char_p), ctypes.c_int
# As an address: the object is being destroyed where it is asked for its pointer.
_pointer = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_char_p)(
    ("PyCapsule_GetPointer", ctypes.pythonapi)
)


def _free(address: int, lent: dict[int, tuple[Any, ...]] = _lent) -> None:
    lent.pop(address, None)


def _free_unused(capsule: int) -> None:
    """Free what a capsule holds that nobody has taken; a consumer renames the capsule it takes."""
    if not sys.is_finalizing() and _is_valid(capsule, _NAME):
        _free(_pointer(capsule, _NAME))


_returned = _DELETER(_free)
_dropped = _DELETER(_free_unused)
# Capsules and tensors that live until the process ends call these after this module is gone.
for _callback in (_returned, _dropped):
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(_callback))


def capsule_of(tensor: Tensor, owner: object) -> Any:
    """Return a capsule of ``tensor``; ``owner`` lives until its consumer has done with it."""
    axes = len(tensor.shape)
    lengths = (ctypes.c_int64 * axes)(*tensor.shape)
    items = [stride // tensor.dtype.itemsize for stride in tensor.strides]
    steps = (ctypes.c_int64 * axes)(*items)
    managed = _Managed()
    managed.tensor = _Tensor(
        tensor.address,
        _Device(CUDA, tensor.ordinal),
        axes,
        _Type(_CODES[tensor.dtype.kind], 8 * tensor.dtype.itemsize, 1),
        ctypes.cast(lengths, ctypes.POINTER(ctypes.c_int64)),
        ctypes.cast(steps, ctypes.POINTER(ctypes.c_int64)),
        0,
    )
    managed.deleter = _returned
    address = ctypes.addressof(managed)
    _lent[address] = (managed, lengths, steps, owner)
    new = ctypes.pythonapi.PyCapsule_New
    new.restype = ctypes.py_object
    new.argtypes = (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
    return new(address, _NAME, ctypes.cast(_dropped, ctypes.c_void_p))


def tensor_in(capsule: Any) -> Tensor:
    """Return the array that a capsule holds; it is valid as long as the capsule.

    Raises ``ValueError`` for arrays that do not lie on a GPU or hold no plain numbers.
    """
    get = ctypes.pythonapi.PyCapsule_GetPointer
    get.restype = ctypes.c_void_p
    address = get(ctypes.py_object(capsule), _NAME)
    tensor = _Managed.from_address(address).tensor
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
