"""A stand-in for a GPU, whose memory is the host's and whose functions run as Python.

And what it has in common with a GPU: comparing an engine with that of the CPU. It needs
NUMBA_DISABLE_JIT=1; with NUMBA_ENABLE_CUDASIM=1 functions run in the simulator of numba.cuda.
"""

import ctypes
import os
import types

import numpy as np

from coopbench_envs.cuda.buffers import DeviceArray
from coopbench_envs.cuda.gpu import BLOCK
from coopbench_envs.engine import Engine, Finals

SIMULATOR = os.environ.get("NUMBA_ENABLE_CUDASIM") == "1"


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
        if SIMULATOR:  # which puts itself into a function's globals in the place of numba.cuda
            from numba import cuda

            bindings |= {"cuda": cuda, "grid": types.FunctionType(_grid.__code__, bindings)}
            function = cuda.jit(function)
        return function, program

    def index(self, axes):
        assert axes == 1
        return self.thread

    def launch(self, function, lanes, parameters, stream):
        run, program = function
        self.calls.append(program.template.__name__)
        words = Words(parameters)
        arguments = [unpacked(argument, words) for argument in program.arguments]
        if SIMULATOR:
            from numba.cuda.simulator.cudadrv.devicearray import FakeCUDAArray

            # As arrays of a GPU they are neither copied nor have to be contiguous.
            placed = [FakeCUDAArray(a) if isinstance(a, np.ndarray) else a for a in arguments]
            run[1, lanes](*placed)
            return
        for self.thread in range(-(-lanes // BLOCK) * BLOCK):
            run(*arguments)


def _grid(axes):
    return cuda.grid(axes)  # noqa: F821


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


def engines(env_id, lanes, **parameters):
    """Return engines of one environment on the CPU and on a GPU."""
    return [
        Engine(env_id, lanes, device=device, global_state=True, **parameters)
        for device in ("cpu", "cuda")
    ]


def differences(cpu, gpu):
    """Return the arrays in which two engines differ in a bit: how many elements, and the first."""
    twin, state = gpu.fetched()[0], gpu.view()
    # Where no lane is done, the CPU leaves out what SAME_STEP does second, and two lists with it.
    seen = [name for name in twin._fields if name not in ("chosen", "moved")]
    pairs = {name: (getattr(cpu.control, name), getattr(twin, name)) for name in seen}
    pairs |= {f"state.{n}": (getattr(cpu.state, n), getattr(state, n)) for n in state._fields}
    for name in Finals._fields:
        pairs[f"final_{name}"] = tuple(
            np.asarray(getattr(game, f"final_{name}")) for game in (cpu, gpu)
        )
    return [
        f"{name}: {first_difference(left, right)}"
        for name, (left, right) in pairs.items()
        if left.tobytes() != right.tobytes()
    ]


def first_difference(left, right):
    """Say in how many elements two arrays differ in a bit, and where first, with both values."""
    if (left.shape, left.dtype) != (right.shape, right.dtype):
        return f"{left.dtype} {left.shape} on the CPU, {right.dtype} {right.shape} on the GPU"
    sides = [np.ascontiguousarray(side).reshape(-1) for side in (left, right)]
    words = [side.view(np.uint8).reshape(side.size, -1) for side in sides]
    places = np.flatnonzero((words[0] != words[1]).any(1))
    where = tuple(map(int, np.unravel_index(places[0], left.shape)))
    values = [side[places[0]].item() for side in sides]
    exact = [value.hex() if isinstance(value, float) else repr(value) for value in values]
    return f"{places.size} of {left.size}, first {where}: {exact[0]} on the CPU, {exact[1]}"


def compare(env_id, mode, *, lanes=2, steps=6, every=1, **parameters):
    """Play one environment on both; return the first step and what differs then, or None.

    The arrays are held against each other after ``every`` so many steps, and after the last.
    """
    cpu, gpu = engines(env_id, lanes, **parameters)
    rng = np.random.default_rng(5)
    for game in (cpu, gpu):
        game.reset(np.arange(lanes, dtype=np.uint64))
    for step in range(steps + 1):
        names = differences(cpu, gpu) if step % every == 0 or step == steps else []
        if names:
            return step, names
        actions = random_actions(cpu, rng)
        for game in (cpu, gpu):
            game.step(actions, mode)
    return None


def random_actions(game, rng):
    """Actions of every lane, some of them illegal."""
    if game.discrete:
        choices = max(space.n for space in game.action_spaces)
        return rng.integers(0, choices, game.actions.shape)
    low, high = game.action_bounds()
    return rng.uniform(low, high, game.actions.shape)
