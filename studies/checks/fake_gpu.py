"""A stand-in for a GPU, whose memory is the host's and whose functions run as Python.

It needs NUMBA_DISABLE_JIT=1.
"""

import ctypes
import types

import numpy as np

from coopbench_envs.cuda.buffers import DeviceArray
from coopbench_envs.cuda.gpu import BLOCK


class FakeGpu:
    """What an engine asks of ``Gpu``; ``calls`` are the names of the calls in order."""

    def __init__(self, ordinal=0):
        self.ordinal, self.arch, self.name = ordinal, (9, 0), "fake"
        self.memory, self.calls, self.followed = {}, [], []
        self.elsewhere = set()  # addresses that belong to another GPU
        self.thread = 0

    def allocate(self, size):
        buffer = ctypes.create_string_buffer(size + 256)
        address = -(-ctypes.addressof(buffer) // 256) * 256
        self.memory[address] = buffer
        return address

    def free(self, address):
        del self.memory[address]

    def upload(self, address, array, size, stream):
        assert array.flags.f_contiguous or array.flags.c_contiguous
        ctypes.memmove(address, array.ctypes.data, size)
        self.calls.append("upload")

    def download(self, array, address, size, stream):
        ctypes.memmove(array.ctypes.data, address, size)
        self.calls.append("download")

    def copy(self, target, source, size, stream):
        ctypes.memmove(target, source, size)
        self.calls.append("copy")

    def wait(self, stream):
        self.calls.append("wait")

    def place_of(self, address):
        return self.ordinal + (address in self.elsewhere)

    def follow(self, follower, leader):
        self.followed.append((follower, leader))

    def mark(self, stream):
        return len(self.calls)

    def passed(self, event):
        return event < len(self.calls)

    def load(self, program):
        names = {key: getattr(value, "py_func", value) for key, value in program.names.items()}
        bindings = program.template.__globals__ | {"grid": self.index} | names
        function = types.FunctionType(program.template.__code__, bindings)
        return function, program

    def index(self, axes):
        assert axes == 1
        return self.thread

    def launch(self, function, lanes, parameters, stream):
        run, program = function
        self.calls.append(program.template.__name__)
        words = Words(parameters)
        arguments = [unpacked(argument, words) for argument in program.arguments]
        for self.thread in range(-(-lanes // BLOCK) * BLOCK):
            run(*arguments)


class Words:
    """Parameters of a launch, read one after the other from the addresses that it is given."""

    def __init__(self, address):
        self.pointers, self.next = ctypes.cast(address, ctypes.POINTER(ctypes.c_void_p)), 0

    def read(self, kind):
        pointer = self.pointers[self.next]
        self.next += 1
        return kind.from_address(pointer).value


def unpacked(argument, words):
    """Read an argument as the function of a GPU does, by its type alone."""
    if isinstance(argument, tuple):
        return type(argument)(*(unpacked(part, words) for part in argument))
    if isinstance(argument, DeviceArray):
        numbers = [words.read(ctypes.c_int64) for _ in range(5 + 2 * argument.ndim)]
        _, _, size, itemsize, address, *rest = numbers
        shape, strides = rest[: argument.ndim], rest[argument.ndim :]
        assert size == np.prod(shape)
        assert itemsize == argument.dtype.itemsize
        content = (ctypes.c_char * 1).from_address(address)
        # An array of one byte tells the place; shape and strides tell the rest.
        return np.lib.stride_tricks.as_strided(
            np.frombuffer(content, np.uint8)[:0].view(argument.dtype), shape, strides
        )
    if isinstance(argument, (bool, np.bool_)):
        return bool(words.read(ctypes.c_uint8))
    if isinstance(argument, np.generic):
        return argument.dtype.type(
            words.read(np.ctypeslib.as_ctypes_type(argument.dtype)),
        )
    return words.read(ctypes.c_int64 if isinstance(argument, int) else ctypes.c_double)
