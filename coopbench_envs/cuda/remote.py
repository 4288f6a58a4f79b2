"""Remote: the arrays of an engine on a GPU, the programs that work on them, and their launches."""

from collections import deque
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from coopbench_envs.choices import choose, translate, turn_of
from coopbench_envs.cuda.arguments import Packed
from coopbench_envs.cuda.buffers import DeviceArray, moved, strides_of
from coopbench_envs.cuda.dlpack import CUDA, Tensor, tensor_in
from coopbench_envs.cuda.gpu import Gpu, stream_of
from coopbench_envs.cuda.programs import Program, keep, play, select, take_boxes, take_choices
from coopbench_envs.digests import digest
from coopbench_envs.drivers import RENEW, RESET
from coopbench_envs.memory import Host

__all__ = ["Remote"]


class Remote:
    """An engine's game on a GPU: one thread for each lane, everything in order on one stream.

    Nothing waits for the GPU but ``fetch``, ``send`` and ``check``.
    """

    def __init__(self, gpu: Gpu, host: Host, drive: Any, *, stream: int = 1) -> None:
        self._gpu, self._drive, self._stream = gpu, drive, stream_of(stream)
        self.lanes = host.control.done.shape[0]
        self._refused = np.zeros(self.lanes, np.int64)
        arrays = _arrays((*host, self._refused))
        self._placed = moved(gpu, arrays, self._stream)
        self._arrays = arrays  # whose ids are not given to others as long as they live
        placed: Any = Host(*(self._remote(part) for part in host))
        self.arrays = placed  # as ``Host``, of ``DeviceArray``
        self.actions: DeviceArray = placed.actions if placed.chosen is None else placed.chosen
        self._operation, self._play = self._player(placed)
        self._keep = self._keeper(placed)
        self._select = None if placed.chosen is None else self._selector(placed)
        self._host, self._given = host, host.actions if host.chosen is None else host.chosen
        self._kinds = "iub" if self._given.dtype.kind == "i" else "fiub"
        self._takers: dict[np.dtype[Any], Callable[[Tensor], None]] = {}
        # What the memory of actions belongs to, with the event behind the launch that reads it.
        self._owners: deque[tuple[Any, Any]] = deque()

    def _remote(self, value: Any) -> Any:
        """Return ``value`` with the GPU's arrays in the places of the host's."""
        if isinstance(value, tuple):
            parts = [self._remote(part) for part in value]
            return type(value)(*parts) if hasattr(value, "_fields") else tuple(parts)
        return self._placed[id(value)] if isinstance(value, np.ndarray) else value

    # -- programs --------------------------------------------------------------------------------

    def _player(self, placed: Any) -> tuple[Any, Callable[[], None]]:
        """Return the number that a launch of the driver takes as its operation, and the launch."""
        refused = self._placed[id(self._refused)]
        arrays = (placed.constants, placed.state, placed.control, placed.actions, refused)
        unique = digest(self._drive)
        launch, packed = self._launch(
            play, {"drive": self._drive}, (*arrays, 0, self.lanes), unique
        )
        return packed.values[-2], launch

    def _keeper(self, placed: Any) -> Callable[[], None]:
        return self._launch(keep, {}, (placed.control, placed.finals, self.lanes))[0]

    def _selector(self, placed: Any) -> Callable[[], None]:
        """Return the launch that translates choices."""
        turn = turn_of(placed.control)
        arguments = (placed.values, turn, placed.chosen, placed.actions, self.lanes)
        return self._launch(select, {"choose": choose}, arguments, digest(translate))[0]

    def _launch(
        self,
        template: Callable[..., None],
        names: Mapping[str, Any],
        arguments: tuple[Any, ...],
        unique: str = "",
    ) -> tuple[Callable[[], None], Packed]:
        """Return a launch of a template in every lane, and the parameters that it reads."""
        program = Program(template, names, arguments, unique or digest(template))
        packed = Packed(arguments)
        # The launch must not refer to self: a cycle would keep the GPU's memory.
        gpu, lanes, stream = self._gpu, self.lanes, self._stream
        function = gpu.load(program)

        def launch() -> None:
            gpu.launch(function, lanes, packed.address, stream)

        return launch, packed

    # -- playing ---------------------------------------------------------------------------------

    def run(self, op: int) -> None:
        """Do in the lanes what a driver does for ``op``."""
        if self._select is not None and op < RESET:
            self._select()
        self._operation.value = op
        self._play()

    def renew(self) -> None:
        """Keep what the lanes that are done have shown, and begin their next episodes."""
        self._keep()
        self.run(RENEW)

    def take(self, actions: Any) -> None:
        """Copy the actions of the coming step, from an array of a GPU or of the host."""
        tensor, owner = self._shared(actions)
        array = np.asarray(actions) if tensor is None else tensor
        if array.shape != self.actions.shape or array.dtype.kind not in self._kinds:
            raise ValueError(
                f"Actions must be {'integers' if self._kinds == 'iub' else 'numbers'} of shape "
                f"{self.actions.shape}, lanes and agents first; given {array.dtype} of shape "
                f"{array.shape}."
            )
        if tensor is None:
            self._given[...] = array
            self.send(self._given)
            return
        if tensor.dtype not in self._takers:
            self._takers[tensor.dtype] = self._taker(tensor.dtype)
        self._takers[tensor.dtype](tensor)
        if isinstance(actions, DeviceArray):  # ``Gpu.free`` waits for the launch
            return
        while self._owners and self._gpu.passed(self._owners[0][0]):
            self._owners.popleft()
        self._owners.append((self._gpu.mark(self._stream), owner))

    def _shared(self, actions: Any) -> tuple[Tensor | None, Any]:
        """Return where an array lies on this GPU, and what its memory belongs to.

        None for an array of the host.
        """
        if isinstance(actions, np.ndarray):
            return None, None
        if hasattr(actions, "__dlpack__"):
            kind, ordinal = map(int, actions.__dlpack_device__())
            if kind == CUDA:
                self._check_place(ordinal)
                owner = actions.__dlpack__(stream=self._stream)
                return tensor_in(owner), owner
        elif hasattr(actions, "__cuda_array_interface__"):
            return self._interfaced(actions.__cuda_array_interface__), actions
        return None, None

    def _interfaced(self, interface: Mapping[str, Any]) -> Tensor:
        if interface.get("mask") is not None:
            raise ValueError("Actions must be an array without a mask.")
        leader = interface.get("stream")
        if leader is not None and leader != self._stream:
            self._gpu.follow(self._stream, leader)
        dtype, shape = np.dtype(interface["typestr"]), tuple(interface["shape"])
        strides = interface.get("strides") or strides_of(shape, dtype.itemsize, "C")
        address = interface["data"][0]
        ordinal = self._gpu.place_of(address)
        self._check_place(ordinal)
        return Tensor(address, shape, tuple(strides), dtype, ordinal)

    def _check_place(self, ordinal: int) -> None:
        if ordinal != self._gpu.ordinal:
            raise ValueError(
                f"Actions must lie on cuda:{self._gpu.ordinal}, where the game is; given an array "
                f"on cuda:{ordinal}."
            )

    def _taker(self, dtype: np.dtype[Any]) -> Callable[[Tensor], None]:
        """Return what copies arrays of this type and any strides to the actions."""
        shape = self.actions.shape
        template = take_choices if len(shape) == 2 else take_boxes
        foreign = DeviceArray(self.actions.slab, 0, shape, dtype, "A", self._stream)
        launch, packed = self._launch(template, {}, (self.actions, foreign, self.lanes))
        *_, address = packed.values[: -2 * len(shape) - 1]
        strides = packed.values[-len(shape) - 1 : -1]

        def take(tensor: Tensor) -> None:
            address.value = tensor.address
            for word, value in zip(strides, tensor.strides, strict=True):
                word.value = value
            launch()

        return take

    # -- looking ---------------------------------------------------------------------------------

    def fetch(self, *arrays: np.ndarray) -> None:
        """Wait, and copy the GPU's content of these arrays of the host to them."""
        for array in arrays:
            if array.nbytes:
                self._placed[id(array)].read_into(array)

    def send(self, *arrays: np.ndarray) -> None:
        """Copy these arrays of the host to the GPU."""
        for array in arrays:
            if array.nbytes:
                self._placed[id(array)].write_from(array)

    def check(self) -> None:
        """Wait; raise ``ValueError`` if lanes have refused a step since the last check."""
        self.fetch(self._refused)
        lanes = np.flatnonzero(self._refused)
        if lanes.size:
            number = int(self._refused.sum())
            self._refused[:] = 0
            self.send(self._refused)
            raise ValueError(
                f"Actions must be finite; {number} step(s) were not played since the last check, "
                f"in {lanes.size} lane(s), the first of them lane {lanes[0]}."
            )


def _arrays(value: Any) -> list[np.ndarray]:
    """Return all arrays in nested tuples."""
    if isinstance(value, tuple):
        return [array for part in value for array in _arrays(part)]
    return [value] if isinstance(value, np.ndarray) else []
