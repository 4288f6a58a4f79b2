"""Gymnasium's vector interface, native: many games advanced by one call."""

from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.vector import AutoresetMode
from gymnasium.vector.utils import batch_space

from coopbench_envs.core import EnvSpec
from coopbench_envs.engine import DISABLED, NEXT_STEP, SAME_STEP
from coopbench_envs.lanes import Lanes, lanes_of
from coopbench_envs.parameters import check_count, check_switch, named
from coopbench_envs.shells.common import (
    RENDER_MODES,
    check_options,
    check_render_mode,
    closed,
    draw_seed,
    limited,
    rendered,
    seed_of,
)
from coopbench_envs.shells.facts import Facts
from coopbench_envs.shells.seats import Seated, Seats

__all__ = ["Batch", "VectorEnv"]

MODES = {
    AutoresetMode.NEXT_STEP: NEXT_STEP,
    AutoresetMode.SAME_STEP: SAME_STEP,
    AutoresetMode.DISABLED: DISABLED,
}


def autoreset(mode: str | AutoresetMode) -> AutoresetMode:
    """Return the mode of a name; raise ``ValueError`` with the closest name for an unknown one."""
    modes = {option.value: option for option in AutoresetMode}
    return mode if isinstance(mode, AutoresetMode) else named("autoreset_mode", mode, modes)


class Batch(gym.vector.VectorEnv):
    """What vector environments on the CPU and on a GPU share: options, seeds and rendering."""

    metadata: dict[str, Any] = {"render_modes": list(RENDER_MODES), "render_fps": 10}
    engine: Any

    def _describe(
        self, num_envs: int, mode: str | AutoresetMode, render_mode: str | None, copy: bool
    ) -> None:
        """Keep the options; ``ValueError`` for one that is not allowed."""
        check_count("num_envs", num_envs)
        check_switch("copy", copy)
        chosen = autoreset(mode)
        self.metadata = type(self).metadata | {"autoreset_mode": chosen}
        self.num_envs, self.copy, self._mode = num_envs, copy, MODES[chosen]
        self.render_mode = check_render_mode(render_mode)
        self._seeded = False

    def _set_spaces(self, observation: gym.Space[Any], action: gym.Space[Any]) -> None:
        """Take the spaces of one lane, and derive those of all."""
        self.single_observation_space, self.single_action_space = observation, action
        self.observation_space = batch_space(observation, self.num_envs)
        self.action_space = batch_space(action, self.num_envs)

    def _begin(self, seed: Any, options: dict[str, Any] | None) -> np.ndarray:
        """Begin episodes as ``VectorEnv.reset`` says; return in which lanes, bool (num_envs,)."""
        self._check_open()
        state = check_options(options)
        mask = reset_mask(self.num_envs, options)
        if not (self._seeded or mask.all()):
            raise ValueError(
                f"options['reset_mask'] names {int(mask.sum())} of {self.num_envs} lanes, and no "
                f"episode has begun: the first reset() must begin one in every lane."
            )
        seeds = None if seed is None else seed_of(seed, self.num_envs)
        super().reset(seed=None if seeds is None else int(seeds[0]))
        if seeds is None and not self._seeded:
            seeds = seed_of(draw_seed(self.np_random), self.num_envs)
        self.engine.reset(seeds, chosen=mask, state=state)
        self._seeded = True
        return mask

    def _check_open(self) -> None:
        """Raise ``ClosedEnvironmentError`` after ``close``."""
        if self.closed:
            raise closed(self.engine)

    def get_state(self) -> dict[str, np.ndarray]:
        """Copy of everything the games go on from, lane first, as numpy arrays."""
        state: dict[str, np.ndarray] = self.engine.get_state()
        return state

    def state(self) -> np.ndarray:
        """Global state of every lane, float32 (num_envs, size), as a numpy array."""
        vectors: np.ndarray = self.engine.global_state()
        return vectors

    def close_extras(self, **kwargs: Any) -> None:
        """End the threads of the engine, and close environments of other packages."""
        self.engine.close()

    def render(self) -> tuple[Any, ...]:
        """Pictures or texts of all lanes."""
        return tuple(rendered(self.engine, self.render_mode, i) for i in range(self.num_envs))


class VectorEnv(Seated, Batch):
    """``num_envs`` games; lane i seeded s is, bit for bit, the single environment seeded s + i.

    ``autoreset_mode`` is "NextStep" (default), "SameStep" or "Disabled". Arrays are fresh copies
    unless ``copy=False``: then observations and ``infos["rewards"]`` are the engine's own buffers,
    valid until the next call. ``threads`` share the lanes; the result does not depend on them.
    Infos are those of the Gymnasium environment; under "SameStep" ``final_info`` has all of them
    for the episodes that have ended.
    """

    def __init__(
        self,
        env_id: str | EnvSpec,
        num_envs: int = 1,
        *,
        render_mode: str | None = None,
        autoreset_mode: str | AutoresetMode = AutoresetMode.NEXT_STEP,
        max_episode_steps: int | None = None,
        copy: bool = True,
        threads: int = 1,
        control: str = "joint",
        ego: int = 0,
        partner: Any = "random",
        **parameters: Any,
    ) -> None:
        parameters = limited(parameters, "max_episode_steps", max_episode_steps)
        self._describe(num_envs, autoreset_mode, render_mode, copy)
        self.engine: Lanes = lanes_of(env_id, num_envs, threads=threads, **parameters)
        self.seats = Seats(self.engine, control, ego, partner)
        self._set_spaces(*self.seats.spaces())
        self._everywhere = np.ones(num_envs, np.bool_)
        self._facts = Facts(self.engine, ego=self.seats.ego)
        self._bare = not self._facts  # infos have nothing but rewards and metrics

    def reset(
        self, *, seed: Any = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        """Begin an episode in every lane, or, after the first reset, in a ``reset_mask`` of them.

        ``seed`` is one number (lane i gets seed + i) or a list with one per lane. ``options`` may
        have ``"reset_mask"``, bool (num_envs,), and ``"state"``, {field: array}, with arrays
        (num_envs, ...) or the same for all.
        """
        self.seats.restart(self._begin(seed, options))
        return self._obs(), self._infos()

    def step(
        self, actions: Any
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
        """Play one step in every lane; finished lanes do what the autoreset mode says."""
        if not self._seeded or self.closed:
            self._check_open()
            raise gym.error.ResetNeeded("No episode has begun: call reset() before step().")
        control, mode, joint = self.engine.control, self._mode, self.seats.ego is None
        if mode == DISABLED:
            self._check_running()
        plays = ~control.done if mode == NEXT_STEP else self._everywhere.copy()
        self.engine.step(actions if joint else self.seats.complete(actions), mode)
        infos = {} if self._bare else self._infos()
        infos["rewards"], infos["_rewards"] = self._out(control.rewards), plays
        if mode == SAME_STEP:
            self._add_finals(infos, control.truncated | control.ended)
        elif np.count_nonzero(control.done):  # in a quarter of the time of ``any``
            infos |= self._metrics(control.truncated | control.ended, control.measures)
        reward = control.team.copy() if joint else self.seats.reward()
        return self._obs(), reward, control.ended.copy(), control.truncated.copy(), infos

    def _check_running(self) -> None:
        """Raise ``ResetNeeded`` if an episode is over."""
        over = self.engine.control.done
        if np.count_nonzero(over):
            raise gym.error.ResetNeeded(
                f"Lanes {np.flatnonzero(over).tolist()} are over and autoreset is disabled: reset "
                "them with options={'reset_mask': mask} before the next step()."
            )

    def _add_finals(self, infos: dict[str, Any], ended: np.ndarray) -> None:
        """Add the finished episodes' last observation and info, as Gymnasium lays them out."""
        if not np.count_nonzero(ended):
            return
        control = self.engine.control
        final_obs = np.full(self.num_envs, None, dtype=object)
        view = self.seats.view(self.engine.finals.obs)
        for lane in np.flatnonzero(ended):
            final_obs[lane] = view[lane]
        final = {"rewards": control.rewards.copy(), "_rewards": ended.copy()}
        final |= self._metrics(ended, self.engine.finals.measures)
        final |= self._told(ended, final=True)
        infos |= {"final_obs": final_obs, "_final_obs": ended.copy()}
        infos |= {"final_info": final, "_final_info": ended.copy()}

    def _metrics(self, where: np.ndarray, measures: np.ndarray) -> dict[str, Any]:
        table: dict[str, Any] = {}
        for name, values in zip(self.engine.spec.metrics, measures.T, strict=True):
            table[name] = np.where(where, values, 0.0)
            table[f"_{name}"] = where.copy()
        return {"metrics": table, "_metrics": where.copy()}

    def _infos(self) -> dict[str, Any]:
        return self._told(self._everywhere)

    def _told(self, where: np.ndarray, *, final: bool = False) -> dict[str, Any]:
        """Copies of what the outside is told in the lanes ``where``, now or at an episode's end."""
        told = self._facts.lanes(final=final)
        copies = {name: values.copy() for name, values in told.items()}
        return copies | {f"_{name}": where.copy() for name in copies}

    def _obs(self) -> np.ndarray:
        if self.copy or self.seats.ego is not None:
            return self.seats.view(self.engine.control.obs)
        return self.engine.control.obs

    def _out(self, array: np.ndarray) -> np.ndarray:
        return array.copy("K") if self.copy else array  # another order takes much longer


def reset_mask(num_envs: int, options: dict[str, Any] | None) -> np.ndarray:
    """Return which lanes a reset is about; raise ``ValueError`` for an invalid mask."""
    mask = (options or {}).get("reset_mask")
    if mask is None:
        return np.ones(num_envs, np.bool_)
    if not isinstance(mask, np.ndarray) or mask.dtype != np.bool_:
        raise ValueError("options['reset_mask'] must be a numpy array of bool.")
    if mask.shape != (num_envs,) or not mask.any():
        raise ValueError(
            f"options['reset_mask'] must have shape ({num_envs},) with at least one True; "
            f"given shape {mask.shape} with {int(mask.sum())} True."
        )
    return mask
