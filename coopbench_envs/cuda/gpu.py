"""The GPU: memory, programs and launches, through the driver that NVIDIA installs.

Streams are numbers, as in DLPack: 1 is the default stream, others are addresses of streams.
"""

import ctypes
import gc
import operator
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from coopbench_envs.cuda.assembling import machine_code
from coopbench_envs.cuda.programs import Program
from coopbench_envs.cuda.ptx import entry_name, parameter_bytes, ptx_of

__all__ = ["BLOCK", "Gpu", "open_gpu", "ordinal_of", "stream_of"]

BLOCK = 64  # threads of a block
_EXTRA = "the extra 'cuda' of coopbench (pip install \".[cuda]\" in a checkout)"
_SMALL_PARAMETERS, _LARGE_PARAMETERS = 4096, 32764  # bytes; the second from CUDA 12.1 on
_LARGE_SINCE = 12010  # version of the driver's interface; driver 530
_CUDA_13 = 13000
_NO_MEMORY = "OUT_OF_MEMORY"
_DEVICE = re.compile(r"cuda(?::(\d+))?")
_DEFAULT, _PER_THREAD = 1, 2  # streams with numbers of their own
_GPUS: dict[tuple[int, int], "Gpu"] = {}  # by process and ordinal: engines share loaded programs


def ordinal_of(device: str) -> int:
    """Return the number of the GPU that "cuda" or "cuda:1" names.

    Raises ``ValueError`` for any other name.
    """
    match = _DEVICE.fullmatch(str(device))
    if match is None:
        raise ValueError(
            f"device was {device!r}, which names no GPU; allowed: 'cuda', 'cuda:1' and so on. "
            f"Engine, and vector environments with device='cpu', play on the CPU."
        )
    return int(match[1] or 0)


def stream_of(stream: Any) -> int:
    """Return the number of a stream; 0, which torch calls its default stream, is 1 here.

    Raises ``TypeError`` for what is no integer, ``ValueError`` for numbers that are no stream and
    for the default stream per thread, which torch does not take.
    """
    number = operator.index(stream)
    if number < 0 or number == _PER_THREAD:
        raise ValueError(
            f"stream was {number}; allowed: 1 or 0, the default stream, or the address of a stream."
        )
    return number or _DEFAULT


def open_gpu(ordinal: int) -> "Gpu":
    """Return the GPU of this number, counted from 0 as by the driver.

    Raises ``ModuleNotFoundError`` without numba-cuda, and ``RuntimeError`` without such a GPU.
    """
    try:
        import numba_cuda
        from cuda.bindings import driver
    except ImportError as error:
        raise ModuleNotFoundError(
            f"device='cuda' needs numba-cuda and cuda-bindings, {_EXTRA}. What is missing here: "
            f"{error}.",
            name=error.name,
        ) from error
    key = (os.getpid(), ordinal)
    try:
        if key not in _GPUS:
            _GPUS[key] = Gpu(driver, ordinal)
        return _GPUS[key]
    except RuntimeError as error:
        raise RuntimeError(
            f"device='cuda:{ordinal}' cannot be used: {error} numba-cuda {numba_cuda.__version__} "
            f"is installed, of {_EXTRA}; a GPU of NVIDIA and its driver are needed, too. "
            f"device='cpu' gives the same results."
        ) from error


class Gpu:
    """One GPU, with the context that torch and jax use, too."""

    def __init__(self, driver: Any, ordinal: int) -> None:
        self._driver, self.ordinal = driver, ordinal
        self._functions: dict[tuple[str, ...], Any] = {}
        self._do("cuInit", 0)
        number = self._do("cuDeviceGetCount")
        if ordinal >= number:
            raise RuntimeError(f"the driver sees {number} GPU(s), counted from 0.")
        self.version = int(self._do("cuDriverGetVersion"))
        device = self._do("cuDeviceGet", ordinal)
        self.name = bytes(self._do("cuDeviceGetName", 128, device)).split(b"\0")[0].decode()
        attributes = driver.CUdevice_attribute
        major = attributes.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR
        minor = attributes.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR
        of_device = "cuDeviceGetAttribute"
        self.arch = (
            int(self._do(of_device, major, device)),
            int(self._do(of_device, minor, device)),
        )
        self._context = self._do("cuDevicePrimaryCtxRetain", device)

    def _do(self, name: str, *arguments: Any) -> Any:
        """Call a function of the driver; raise ``RuntimeError`` for the error that it returns."""
        try:
            error, *results = getattr(self._driver, name)(*arguments)
        except RuntimeError as reason:  # libcuda.so.1 is not installed
            raise RuntimeError(f"{name}: {str(reason).rstrip('.')}.") from None
        except ValueError as reason:  # a newer driver reports what the bindings have no name for
            raise RuntimeError(f"{name} of the driver fails: {reason}.") from None
        if int(error):
            described = getattr(error, "name", error)
            raise RuntimeError(f"{name} of the driver reports {described}.")
        return results[0] if len(results) == 1 else results

    @contextmanager
    def _current(self) -> Iterator[None]:
        """Make the GPU's context the calling thread's, and restore the former one."""
        self._do("cuCtxPushCurrent", self._context)
        try:
            yield
        finally:
            self._do("cuCtxPopCurrent")

    def allocate(self, size: int) -> int:
        """Return the address of new memory."""
        with self._current():
            try:
                return int(self._do("cuMemAlloc", size))
            except RuntimeError as error:
                if _NO_MEMORY not in str(error):
                    raise
                gc.collect()  # what refers to memory may be part of a cycle
            try:
                return int(self._do("cuMemAlloc", size))
            except RuntimeError as error:
                if _NO_MEMORY not in str(error):
                    raise
                raise MemoryError(
                    f"{self.name} has no {size / 2**20:,.0f} MiB left for these lanes: take fewer. "
                    f"{error}"
                ) from None

    def place_of(self, address: int) -> int:
        """Return the number of the GPU in whose memory an address lies."""
        ordinal = self._driver.CUpointer_attribute.CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL
        with self._current():
            return int(self._do("cuPointerGetAttribute", ordinal, address))

    def free(self, address: int) -> None:
        """Free memory that was allocated; the driver waits for what is under way on the GPU."""
        try:
            with self._current():
                self._do("cuMemFree", address)
        except (RuntimeError, TypeError):  # the process ends, and the driver before us
            return

    def upload(self, address: int, array: np.ndarray, size: int, stream: int) -> None:
        """Copy an array to the GPU, in order on the stream; the array is free afterwards."""
        with self._current():
            self._do("cuMemcpyHtoDAsync", address, array.ctypes.data, size, stream)
            self._do("cuStreamSynchronize", stream)

    def download(self, array: np.ndarray, address: int, size: int, stream: int) -> None:
        """Wait for the stream and copy from the GPU to an array."""
        if size:
            with self._current():
                self._do("cuMemcpyDtoHAsync", array.ctypes.data, address, size, stream)
                self._do("cuStreamSynchronize", stream)

    def copy(self, target: int, source: int, size: int, stream: int) -> None:
        """Copy within the GPU's memory, on the stream."""
        if size:
            with self._current():
                self._do("cuMemcpyDtoDAsync", target, source, size, stream)

    def wait(self, stream: int) -> None:
        """Wait until everything on the stream is done."""
        with self._current():
            self._do("cuStreamSynchronize", stream)

    def follow(self, follower: int, leader: int) -> None:
        """Let the stream ``follower`` wait for what is under way on the stream ``leader``."""
        event = self.mark(leader)
        with self._current():
            self._do("cuStreamWaitEvent", follower, event, 0)
            self._do("cuEventDestroy", event)

    def mark(self, stream: int) -> Any:
        """Return an event behind what is under way on the stream; see ``passed``."""
        flags = self._driver.CUevent_flags.CU_EVENT_DISABLE_TIMING
        with self._current():
            event = self._do("cuEventCreate", int(flags))
            self._do("cuEventRecord", event, stream)
        return event

    def passed(self, event: Any) -> bool:
        """Return, without waiting, whether everything before an event is done; then forget it."""
        with self._current():
            (error,) = self._driver.cuEventQuery(event)
            if error == self._driver.CUresult.CUDA_ERROR_NOT_READY:
                return False
            if int(error):
                raise RuntimeError(f"cuEventQuery of the driver reports {error.name}.")
            self._do("cuEventDestroy", event)
        return True

    def load(self, program: Program, *, registers: int | None = None) -> Any:
        """Return a program as a function that can be launched.

        ``registers``: of a thread, at most.
        """
        text = ptx_of(program, self.arch)
        key = (text, str(registers))
        if key not in self._functions:
            size, most = parameter_bytes(text), _LARGE_PARAMETERS
            if self.version < _LARGE_SINCE:
                most = _SMALL_PARAMETERS
            if size > most:
                raise RuntimeError(
                    f"This environment has {size:,} bytes of parameters; the driver of {self.name} "
                    f"takes {most:,}. Drivers from 530 on (CUDA 12.1) take {_LARGE_PARAMETERS:,}."
                )
            code = machine_code(text, self.arch, registers)
            self._functions[key] = self._loaded(text, code)
        return self._functions[key]

    def _loaded(self, text: str, code: bytes | None) -> Any:
        """Load machine code, or without it the PTX that the driver then translates."""
        image = ctypes.create_string_buffer(text.encode("ascii") if code is None else code)
        with self._current():
            try:
                module = self._do("cuModuleLoadData", ctypes.addressof(image))
            except RuntimeError as error:
                if self.version >= _CUDA_13:
                    raise
                raise RuntimeError(
                    f"{error} The driver of {self.name} may be too old for code of CUDA 13, which "
                    f"needs driver 580; the extra 'cuda12' makes code for older ones."
                ) from None
            return self._do("cuModuleGetFunction", module, entry_name(text).encode())

    def launch(self, function: Any, lanes: int, parameters: int, stream: int) -> None:
        """Run a function in one thread for each lane; ``parameters``: address of their pointers."""
        blocks = -(-lanes // BLOCK)
        with self._current():
            self._do(
                "cuLaunchKernel",
                *(function, blocks, 1, 1, BLOCK, 1, 1, 0, stream, parameters, 0),
            )
