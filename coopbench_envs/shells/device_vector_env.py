"""Gymnasium's vector interface on a GPU: actions, observations and rewards stay there."""

from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.vector import AutoresetMode

from coopbench_envs.cuda.buffers import DeviceArray
from coopbench_envs.cuda.engine import CudaEngine
from coopbench_envs.engine import SAME_STEP
from coopbench_envs.shells.common import limited
from coopbench_envs.shells.facts import Facts
from coopbench_envs.shells.seats import joint_spaces
from coopbench_envs.shells.vector_env import Batch

__all__ = ["DeviceVectorEnv"]


class DeviceVectorEnv(Batch):
    """``num_envs`` games on a GPU under joint control, with the bits of the CPU's ``VectorEnv``.

    ``step`` returns ``DeviceArray``: buffers that the next call overwrites, or copies of them on
    the GPU with ``copy=True``. It does not wait for the GPU, and so knows of nothing that happens:
    infos are the same names at every step, for all lanes. ``rewards`` are those of every agent;
    ``action_mask`` and ``invalid_actions`` come with choices, ``alive`` where agents may fall (who
    acts in the coming step: nobody once an episode has ended for all together), and ``state`` with
    ``global_state=True``. Under "SameStep" ``final_obs``, ``final_rewards``,
    ``final_returns`` and ``final_metrics``, in the order of the environment's metrics, hold in
    every lane what its latest finished episode has ended with. Under "Disabled" finished lanes rest
    until they are reset. What the environment tells its agents in addition is not among the infos:
    ``info()`` returns it.

    A lane whose actions are not finite does not play that step; ``check()`` and ``metrics()`` raise
    ``ValueError`` for it. Like ``get_state()`` and ``state()`` they wait for the GPU.
    """

    def __init__(
        self,
        env_id: str,
        num_envs: int = 1,
        *,
        device: str = "cuda",
        stream: int = 1,
        render_mode: str | None = None,
        autoreset_mode: str | AutoresetMode = AutoresetMode.NEXT_STEP,
        max_episode_steps: int | None = None,
        copy: bool = False,
        **parameters: Any,
    ) -> None:
        if parameters.pop("control", "joint") != "joint":
            raise ValueError(
                "control='focal' needs device='cpu': the partners' policies are played there."
            )
        parameters = limited(parameters, "max_episode_steps", max_episode_steps)
        self._describe(num_envs, autoreset_mode, render_mode, copy)
        self.engine = CudaEngine(env_id, num_envs, device=device, stream=stream, **parameters)
        self._facts = Facts(self.engine)
        self._set_spaces(*joint_spaces(self.engine))

    def reset(
        self, *, seed: Any = None, options: dict[str, Any] | None = None
    ) -> tuple[DeviceArray, dict[str, Any]]:
        """Begin an episode in every lane, or in those of ``options["reset_mask"]``.

        Seeds and ``options["state"]``, numpy arrays, are those of ``VectorEnv``; so are the games.
        """
        self._begin(seed, options)
        return self._out(self._control.obs), self._infos()

    def step(
        self, actions: Any
    ) -> tuple[DeviceArray, DeviceArray, DeviceArray, DeviceArray, dict[str, Any]]:
        """Play one step in every lane; finished lanes do what the autoreset mode says.

        ``actions`` are an array on this GPU, as an object with ``__dlpack__`` or
        ``__cuda_array_interface__``, or one of the host, which is copied and waits.
        """
        if not self._seeded or self.closed:
            self._check_open()
            raise gym.error.ResetNeeded("No episode has begun: call reset() before step().")
        self.engine.step(actions, self._mode)
        control = self._control
        infos = self._infos() | {"rewards": self._out(control.rewards)}
        if self._mode == SAME_STEP:
            infos |= {
                "final_obs": self._out(self.engine.finals.obs),
                "final_rewards": infos["rewards"],
                "final_returns": self._out(self.engine.finals.returns),
                "final_metrics": self._out(self.engine.finals.measures),
            }
        outcome = (control.team, control.ended, control.truncated)
        reward, ended, truncated = map(self._out, outcome)
        return self._out(control.obs), reward, ended, truncated, infos

    @property
    def _control(self) -> Any:
        return self.engine.control

    def _infos(self) -> dict[str, Any]:
        told = self._facts.kept(self._control)
        return {name: self._out(values) for name, values in told.items()}

    def _out(self, array: Any) -> Any:
        return array.copy() if self.copy else array

    def check(self) -> None:
        """Wait for the GPU; raise ``ValueError`` if it has refused actions since the last check."""
        self.engine.check()

    def metrics(self) -> dict[str, np.ndarray]:
        """Wait; return the metrics of the episode in every lane so far, (num_envs,) by name."""
        self.engine.check()
        values = self._control.measures.numpy()
        return {name: values[:, k].copy() for k, name in enumerate(self.engine.spec.metrics)}

    def info(self) -> dict[str, np.ndarray]:
        """Wait; return what the environment tells its agents in addition to observations."""
        return {name: values.copy() for name, values in self.engine.info().items()}
