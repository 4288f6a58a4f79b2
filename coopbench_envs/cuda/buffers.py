"""Buffers: arrays in the memory of a GPU, which other libraries can use without a copy."""

import math
from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from coopbench_envs.cuda.dlpack import CUDA, Tensor, capsule_of

__all__ = ["DeviceArray", "Memory", "Slab", "moved", "strides_of"]

_ALIGNED = 256  # bytes; the addresses of arrays are multiples of it


class Memory(Protocol):
    """What arrays need of a GPU; see ``Gpu``."""

    ordinal: int

    def allocate(self, size: int) -> int:
        """Return the address of new memory."""

    def free(self, address: int) -> None:
        """Free memory that was allocated."""

    def upload(self, address: int, array: np.ndarray, size: int, stream: int) -> None:
        """Copy an array to the GPU."""

    def download(self, array: np.ndarray, address: int, size: int, stream: int) -> None:
        """Wait for the stream and copy to an array."""

    def copy(self, target: int, source: int, size: int, stream: int) -> None:
        """Copy within the GPU's memory."""

    def follow(self, follower: int, leader: int) -> None:
        """Let one stream wait for another."""


class Slab:
    """One piece of a GPU's memory, freed when nothing refers to it any more."""

    def __init__(self, gpu: Memory, size: int) -> None:
        self.gpu, self.size = gpu, size
        self.address = gpu.allocate(max(size, 1))

    def __del__(self) -> None:
        if hasattr(self, "address"):
            self.gpu.free(self.address)


class DeviceArray:
    """An array in a GPU's memory; the next call of its engine overwrites it.

    It has both protocols by which libraries share such arrays, ``__dlpack__`` and
    ``__cuda_array_interface__``. ``numpy()`` waits for the GPU and copies.
    """

    def __init__(
        self, slab: Slab, address: int, shape: Sequence[int], dtype: Any, order: str, stream: int
    ) -> None:
        self.slab, self.address, self.stream, self.order = slab, address, stream, order
        self.shape, self.dtype = tuple(shape), np.dtype(dtype)
        self.strides = strides_of(self.shape, self.dtype.itemsize, order)
        self.size = math.prod(self.shape)

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return len(self.shape)

    @property
    def nbytes(self) -> int:
        """Bytes of all elements."""
        return int(self.size * self.dtype.itemsize)

    @property
    def device(self) -> str:
        """Name of the GPU, for instance "cuda:0"."""
        return f"cuda:{self.slab.gpu.ordinal}"

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return {
            "shape": self.shape,
            "strides": self.strides,
            "typestr": self.dtype.str,
            "data": (self.address if self.size else 0, False),
            "stream": self.stream,
            "version": 3,
        }

    def __dlpack_device__(self) -> tuple[int, int]:
        return CUDA, self.slab.gpu.ordinal

    def __dlpack__(self, *, stream: int | None = None, **options: Any) -> Any:
        """Return a capsule; work on ``stream`` then waits for what the engine has begun."""
        if options.get("copy") or options.get("dl_device") not in (None, self.__dlpack_device__()):
            raise BufferError(f"This array is shared on {self.device} without a copy.")
        follower = 1 if stream is None else stream
        if follower not in (-1, self.stream):  # -1: the consumer sees to it
            self.slab.gpu.follow(follower, self.stream)
        strides, place = self.strides, self.slab.gpu.ordinal
        tensor = Tensor(self.address, self.shape, strides, self.dtype, place)
        return capsule_of(tensor, self.slab)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        if copy is False:
            raise ValueError("An array on a GPU cannot become a numpy array without a copy.")
        array = self.numpy()
        return array if dtype is None else array.astype(dtype)

    def __len__(self) -> int:
        return int(self.shape[0])

    def __repr__(self) -> str:
        return f"<DeviceArray {self.shape} {self.dtype} on {self.device}>"

    def numpy(self) -> np.ndarray:
        """Wait for the GPU and return a copy of the elements, in the order that they lie in."""
        array = np.empty(self.shape, self.dtype, order="F" if self.order == "F" else "C")
        self.read_into(array)
        return array

    def read_into(self, array: np.ndarray) -> None:
        """Wait for the GPU and copy the elements to an array of this shape, type and order."""
        self.slab.gpu.download(array, self.address, self.nbytes, self.stream)

    def write_from(self, array: np.ndarray) -> None:
        """Copy the elements from an array of this shape and type."""
        ordered = np.asarray(array, order="F" if self.order == "F" else "C")
        self.slab.gpu.upload(self.address, ordered, self.nbytes, self.stream)

    def copy(self) -> "DeviceArray":
        """Return a copy on the GPU, which the engine leaves alone."""
        slab = Slab(self.slab.gpu, self.nbytes)
        slab.gpu.copy(slab.address, self.address, self.nbytes, self.stream)
        return DeviceArray(slab, slab.address, self.shape, self.dtype, self.order, self.stream)

    def transposed(self) -> "DeviceArray":
        """Return a view with the axes in reverse, row-major if the lane is innermost here."""
        order = {"F": "C", "C": "F"}[self.order]
        shape = self.shape[::-1]
        return DeviceArray(self.slab, self.address, shape, self.dtype, order, self.stream)

    def as_torch(self) -> Any:
        """Return a torch tensor of this memory, of the same shape and strides."""
        from torch.utils import dlpack

        return dlpack.from_dlpack(self)

    def as_jax(self) -> Any:
        """Return a jax array of this memory, with the axes in reverse: the lane is the last one.

        jax takes row-major arrays only.
        """
        import jax

        return jax.dlpack.from_dlpack(self.transposed() if self.order == "F" else self)


def strides_of(shape: tuple[int, ...], itemsize: int, order: str) -> tuple[int, ...]:
    """Return the bytes between neighbours along every axis."""
    axes = range(len(shape))
    if order == "F":
        return tuple(itemsize * math.prod(shape[:axis]) for axis in axes)
    return tuple(itemsize * math.prod(shape[axis + 1 :]) for axis in axes)


def moved(gpu: Memory, arrays: Sequence[np.ndarray], stream: int) -> dict[int, DeviceArray]:
    """Copy arrays to a GPU, by their ids: what is one array here is one array there."""
    unique = {id(array): array for array in arrays}
    offsets, total = {}, 0
    for key, array in unique.items():
        offsets[key] = total
        total += -(-array.nbytes // _ALIGNED) * _ALIGNED
    slab = Slab(gpu, total)
    placed = {}
    for key, array in unique.items():
        order = "C" if array.ndim < 2 or not array.flags.f_contiguous else "F"
        address = slab.address + offsets[key]
        placed[key] = DeviceArray(slab, address, array.shape, array.dtype, order, stream)
        if array.nbytes:
            placed[key].write_from(array)
    return placed
