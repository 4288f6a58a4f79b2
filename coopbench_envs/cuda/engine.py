"""CudaEngine: an engine whose games are played on a GPU."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from coopbench_envs.batches import BatchKernels
from coopbench_envs.cuda.gpu import open_gpu, ordinal_of
from coopbench_envs.cuda.remote import Remote
from coopbench_envs.drivers import RESET, RESTORE, Control, driver
from coopbench_envs.engine import NEXT_STEP, SAME_STEP, Engine, operation
from coopbench_envs.memory import Finals

__all__ = ["CudaEngine"]


class CudaEngine(Engine):
    """An ``Engine`` on the GPU ``device``, "cuda" or "cuda:1", with the bits of the CPU's.

    The arrays in ``state`` and ``control``, ``actions`` and ``finals`` are
    ``DeviceArray``, by default the lane innermost. What returns numpy arrays or numbers waits for
    the GPU and copies; a step does neither. ``stream`` is that of a library to work on, as a
    number; 1 is the default stream. Without ``keeps_info`` SAME_STEP leaves ``final_info`` as it
    is: to write it, a step has to wait.
    """

    def __init__(
        self,
        env_id: str,
        lanes: int = 1,
        /,
        *,
        device: str = "cuda",
        stream: int = 1,
        order: str | None = None,
        keeps_info: bool = False,
        **parameters: Any,
    ) -> None:
        ordinal = ordinal_of(device)
        super().__init__(env_id, lanes, order=order or "F", **parameters)
        if isinstance(self.kernels, BatchKernels):
            raise ValueError(
                f"{self.spec.id} is written in NumPy, for the CPU; allowed: device='cpu'."
            )
        self.device, self.keeps_info = device, keeps_info
        if self._opponent is not None:
            raise ValueError(
                f"A policy plays against the agents of {self.spec.id} here, on the CPU; allowed: "
                f"device='cpu', or an opponent by rules."
            )
        drive = driver(self.kernels, self._plays_choices, self.spec.common_reward)
        self._remote = Remote(open_gpu(ordinal), self._host, drive, stream=stream)
        self._expose(self._remote.arrays)

    # -- copies ----------------------------------------------------------------------------------

    def _fetch(self, *arrays: np.ndarray) -> None:
        """Wait, and bring these arrays of the host up to date."""
        self._remote.fetch(*arrays)

    def _write(self, fields: Mapping[str, np.ndarray], lanes: np.ndarray) -> None:
        arrays = [self._field(name) for name in fields]
        self._fetch(*arrays)
        super()._write(fields, lanes)
        self._remote.send(*arrays)

    def __getstate__(self) -> dict[str, Any]:
        raise TypeError(
            f"An engine on {self.device} cannot be copied or pickled; get_state() returns what "
            f"another engine goes on from with reset(state=...)."
        )

    # -- playing ---------------------------------------------------------------------------------

    def compile(self) -> None:
        """Do nothing: programs are compiled when the engine is made."""

    def _run(self, op: int) -> None:
        control = self._host.control
        if op == RESET:
            self._remote.send(control.chosen, control.seed, control.episode)
        elif op == RESTORE:
            self._remote.send(control.chosen)
        self._remote.run(op)

    def reset(
        self,
        seeds: np.ndarray | None = None,
        *,
        chosen: np.ndarray | None = None,
        state: Mapping[str, Any] | None = None,
    ) -> None:
        """Begin an episode in every ``chosen`` lane, as ``Engine.reset`` does."""
        self._fetch(self._host.control.seed, self._host.control.episode)
        super().reset(seeds, chosen=chosen, state=state)

    def step(self, actions: Any, mode: int = NEXT_STEP) -> None:
        """Play one step in every lane whose episode runs, as ``Engine.step`` does.

        ``actions`` may lie on the GPU, as an object with ``__dlpack__`` or
        ``__cuda_array_interface__``. A lane whose actions are not finite plays no step, which
        ``check`` and ``metrics`` tell by ``ValueError``.
        """
        op = operation(mode)
        self._remote.take(actions)
        self._remote.run(op)
        if mode == SAME_STEP:
            if self.keeps_info:
                done = self._host.control.done
                self._fetch(done)
                self._keep_info(done)
            self._remote.renew()

    # -- looking ---------------------------------------------------------------------------------

    def check(self) -> None:
        """Wait; raise ``ValueError`` if the GPU has refused actions since the last check."""
        self._remote.check()

    def fetched(self, *names: str) -> tuple[Control, Finals]:
        """Copy all arrays of ``control`` and of what SAME_STEP keeps, or those that are named.

        The others then hold what they did before.
        """
        control, finals = self._host.control, self._host.finals
        self._fetch(*([getattr(control, name) for name in names] or (*control, *finals)))
        return control, finals

    def global_state(self) -> np.ndarray:
        """Wait; return the global state of every lane, float32 (lanes, size)."""
        self._fetch(*self._host.state, *self._host.control)
        return super().global_state()

    def metrics(self, lane: int = 0, *, final: bool = False) -> dict[str, float]:
        """Wait; return metrics of the episode in ``lane``, or of the one that SAME_STEP ended."""
        self.check()
        self._fetch(self._host.finals.measures if final else self._host.control.measures)
        return super().metrics(lane, final=final)

    def info(self) -> dict[str, np.ndarray]:
        """Wait; return what agents are told in addition to their observations."""
        if self.spec.info is not None:
            self._fetch(*self._host.state)
        return super().info()

    def view(self) -> Any:
        """Wait; return the state of all lanes as read-only arrays, which the next call renews."""
        self._fetch(*self._host.state)
        return super().view()

    def get_state(self) -> dict[str, np.ndarray]:
        """Wait; return a copy of everything that a game resumes from."""
        self._fetch(*map(self._field, self.fields))
        return super().get_state()

    def lane_state(self, lane: int = 0) -> dict[str, np.ndarray]:
        """Wait; return like ``get_state`` the fields of one lane, without the lane axis."""
        self._fetch(*map(self._field, self.fields))
        return super().lane_state(lane)
