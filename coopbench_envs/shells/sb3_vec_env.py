"""Stable-Baselines3's VecEnv over the engine, for parameter sharing: every agent is a row."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import gymnasium as gym
import numpy as np

try:
    from stable_baselines3.common.vec_env import VecEnv
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        "sb3_vec_env needs Stable-Baselines3, the extra 'train' of coopbench: "
        'pip install ".[train]" in a checkout.',
        name=error.name,
    ) from error

from coopbench_envs.core import EnvSpec
from coopbench_envs.engine import SAME_STEP
from coopbench_envs.lanes import Lanes, lanes_of, of_user
from coopbench_envs.parameters import check_count, named
from coopbench_envs.shells.common import (
    RENDER_MODES,
    Closing,
    check_has_choices,
    check_options,
    check_render_mode,
    draw_seed,
    rendered,
    seed_of,
)
from coopbench_envs.shells.facts import OF_ROWS, Facts, handed_out
from coopbench_envs.shells.seats import Opposed

__all__ = ["SB3VecEnv", "sb3_vec_env"]

_KINDS_OF_ROWS = {"numpy": False, "torch": True}
_VIEWS = ("_control", "_finals")
_FLAGS = ("alive", "ended", "truncated")  # without which no step can tell whether there is news


def sb3_vec_env(
    env: str | EnvSpec | Callable[..., Any],
    num_envs: int,
    *,
    rows: str = "numpy",
    **parameters: Any,
) -> "SB3VecEnv":
    """Make ``num_envs`` games as a VecEnv of num_envs * agents rows, the agent index fastest.

    ``env`` is the id of a registered environment, or one of another package: a name, whose code is
    executed, or a function or class that makes one. With ``device="cuda"`` the games are played on
    a GPU. Other parameters are those of ``Engine``.

    ``rows`` says what observations, rewards and dones are: "numpy" arrays, which Stable-Baselines3
    takes, or, for learners of your own, "torch" tensors: copies on the device where the games are
    played. Actions may then be tensors of that device, too. Infos are the same. They are made on
    the CPU, so that every step waits for the GPU; with tensors, observations stay there until
    there is something to tell, and infos that tell nothing are the same list at every step: do
    not write into them.
    """
    return SB3VecEnv(of_user(env), num_envs, rows=rows, **parameters)


class SB3VecEnv(Opposed, Closing, VecEnv):
    """One network plays every seat: row ``lane * agents + agent`` is that agent in that lane.

    Rows of all agents share the spaces of the widest agent; what an action beyond an agent's own
    bounds does is the environment's rule. Finished lanes are reset in the same step, with
    ``terminal_observation``, ``TimeLimit.truncated`` and ``episode`` in the info of their rows.
    ``info["alive"]`` says whether the row's agent took part in the step just played; where agents
    may fall it comes with every step. What else the environment tells an agent stands in the info
    of its row: at the end of an episode the last of it, the next episode's in ``reset_infos``.
    """

    _plays = ("reset", "step_async")

    def __init__(
        self,
        env_id: str | EnvSpec,
        num_envs: int,
        *,
        rows: str = "numpy",
        render_mode: str | None = None,
        **parameters: Any,
    ) -> None:
        self._as_tensors = named("kind of rows", rows, _KINDS_OF_ROWS)
        check_count("num_envs", num_envs)
        self.engine: Lanes = _engine(env_id, num_envs, **parameters)
        self._control, self._finals = self.engine.fetched()
        self._facts = Facts(self.engine, OF_ROWS)
        self.render_mode = check_render_mode(render_mode)
        agents = len(self.engine.agents)
        number = num_envs * agents
        self.reset_infos: list[dict[str, Any]] = []
        # New infos take 0.1 us a row: little beside a learner of Stable-Baselines3, and more than
        # a step on a GPU. Tensors come with the same empty ones, where there is nothing to tell.
        self._quiet: list[dict[str, Any]] = [{} for _ in range(number)] if self._as_tensors else []
        self._steps = np.zeros(num_envs, np.int64)
        self._seeded = False
        super().__init__(number, *_widest(self.engine))
        self.metadata = {"render_modes": list(RENDER_MODES), "render_fps": 10}  # also of videos

    def __getstate__(self) -> dict[str, Any]:
        """Leave out views of the engine's arrays, which would become arrays of their own."""
        return {name: value for name, value in self.__dict__.items() if name not in _VIEWS}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._control, self._finals = self.engine.fetched()

    def reset(self) -> Any:
        """Begin an episode in every lane; a seed and options given before are used now.

        ``set_options({"state": {field: array}})`` makes the next reset start from given states,
        (lanes, ...) or the same for all. Raises ``ValueError`` for rows with different options.
        """
        seed, options, given = self._seeds[0], self._options[0], self._options
        self._reset_seeds()  # before anything is refused, so that the next reset does not repeat it
        self._reset_options()
        if not all(_are_alike(options, others) for others in given):
            raise ValueError(
                f"Options of {self.engine.spec.id} must be the same for all rows, which one reset "
                f"begins; some differ. For lanes with states of their own give arrays (lanes, "
                f"...): set_options({{'state': {{field: array}}}})."
            )
        if seed is None and not self._seeded:
            seed = draw_seed(np.random.default_rng())
        seeds = None if seed is None else seed_of(seed, self.engine.lanes)
        self.engine.reset(seeds, state=check_options(options))
        self._seeded = True
        self.reset_infos = self._infos_of(self.engine.info())
        self.engine.fetched()
        self._steps[:] = self.engine.view().time  # not 0 in a given state
        # Where that is the end of an episode, the coming step plays nothing but begins the next.
        self._steps[self._control.done] = -1
        return self._rows("obs")

    def step_async(self, actions: Any) -> None:
        """Keep the rows' actions, an array or a tensor, for ``step_wait``."""
        rows = actions if self._as_tensors else np.asanyarray(actions)  # masks are refused below
        expected = (self.num_envs, *self.action_space.shape)
        if tuple(rows.shape) != expected:
            raise ValueError(
                f"Actions of {self.engine.spec.id} must have shape {expected}, a row per agent; "
                f"given {tuple(rows.shape)}."
            )
        kept = rows.clone() if hasattr(rows, "clone") else rows.copy()
        self._actions = kept.reshape(self.engine.actions.shape)

    def step_wait(self) -> tuple[Any, Any, Any, list[dict[str, Any]]]:
        """Play one step in every lane."""
        control, engine = self._control, self.engine
        if not self._seeded:
            raise gym.error.ResetNeeded("No episode has begun: call reset() before step().")
        alive = control.alive.copy()
        engine.step(self._actions, SAME_STEP)
        engine.check()
        engine.fetched(*_FLAGS if self._as_tensors else ())
        self._steps += 1
        ended = control.ended | control.truncated
        if engine.discrete or engine.falling or engine.spec.info or ended.any():
            if self._as_tensors:
                engine.fetched()
            infos = self._infos(ended, alive)
        else:
            infos = self._quiet or [{} for _ in range(self.num_envs)]
        self._steps[ended] = 0
        rewards, dones = self._rows("rewards"), np.repeat(ended, len(engine.agents))
        return self._rows("obs"), rewards, self._tensor(dones), infos

    def _infos(self, ended: np.ndarray, alive: np.ndarray) -> list[dict[str, Any]]:
        control, agents = self._control, len(self.engine.agents)
        told = self._facts.kept(control)
        infos = self._infos_of(told | {"alive": alive} if "alive" in told else told)
        if self.engine.spec.info is not None:
            self._add_facts(infos, ended)
        for lane in np.flatnonzero(ended).tolist():
            measures = self._finals.measures[lane].tolist()
            metrics = dict(zip(self.engine.spec.metrics, measures, strict=True))
            for a in range(agents):
                terminated = bool(control.terminated[lane, a])
                infos[lane * agents + a] |= {
                    "terminal_observation": self._finals.obs[lane, a].copy(),
                    "TimeLimit.truncated": bool(control.truncated[lane]) and not terminated,
                    "episode": {
                        "r": float(self._finals.returns[lane, a]),
                        "l": int(self._steps[lane]),
                    },
                    "metrics": dict(metrics),
                    "alive": bool(alive[lane, a]),
                }
        return infos

    def _add_facts(self, infos: list[dict[str, Any]], ended: np.ndarray) -> None:
        """Add what the environment tells each row's agent; of an episode that ended, the last."""
        now, last = self._infos_of(self.engine.info()), self._infos_of(self.engine.final_info)
        over = np.repeat(ended, len(self.engine.agents)).tolist()
        for row, info in enumerate(infos):
            info |= last[row] if over[row] else now[row]
            if over[row]:
                self.reset_infos[row] = now[row]

    def _infos_of(self, arrays: dict[str, np.ndarray]) -> list[dict[str, Any]]:
        """Copies of each row's part of ``arrays``, (lanes, agents, ...)."""
        rows = self.num_envs
        told = {name: part.reshape(rows, *part.shape[2:]) for name, part in arrays.items()}
        return handed_out(told, range(rows))

    def _rows(self, name: str) -> Any:
        """Return a copy of an array of ``control``, float32 (rows, ...)."""
        if not self._as_tensors:
            per_agent = getattr(self._control, name)
            return per_agent.reshape(self.num_envs, *per_agent.shape[2:]).astype(np.float32)
        import torch

        tensor = self._tensor(getattr(self.engine.control, name))
        rows = tensor.to(torch.float32, copy=True, memory_format=torch.contiguous_format)
        return rows.reshape(self.num_envs, *tensor.shape[2:])

    def _tensor(self, array: Any) -> Any:
        """Return an array as a tensor on the engine's device, if rows are tensors."""
        if not self._as_tensors:
            return array
        import torch

        if isinstance(array, np.ndarray):
            return torch.as_tensor(array, device=self.engine.device)
        return array.as_torch()

    def get_state(self) -> dict[str, np.ndarray]:
        """Copy of everything the games go on from, lane first."""
        return self.engine.get_state()

    def action_masks(self) -> np.ndarray:
        """Legal actions of every row, bool (rows, actions); ``ValueError`` without choices."""
        check_has_choices(self.engine)
        masks = self._control.masks
        legal: np.ndarray = masks.reshape(self.num_envs, -1).astype(np.bool_)
        return legal

    def _get_indices(self, indices: Any) -> list[int]:
        """Return the rows asked for; ``ValueError`` for one that is not there."""
        rows = list(super()._get_indices(indices))
        beyond = [row for row in rows if not -self.num_envs <= row < self.num_envs]
        if beyond:
            raise ValueError(f"indices were {rows}; allowed: 0 to {self.num_envs - 1}.")
        return rows

    def get_attr(self, attr_name: str, indices: Any = None) -> list[Any]:
        """Return an attribute of this environment once per row asked for."""
        return [getattr(self, attr_name) for _ in self._get_indices(indices)]

    def set_attr(self, attr_name: str, value: Any, indices: Any = None) -> None:
        """Set an attribute; the rows share one engine, so it holds for all of them."""
        setattr(self, attr_name, value)

    def env_method(
        self, method_name: str, *args: Any, indices: Any = None, **kwargs: Any
    ) -> list[Any]:
        """Call a method; ``action_masks`` returns each row's own."""
        if method_name == "action_masks":
            masks = self.action_masks()
            return [masks[row] for row in self._get_indices(indices)]
        result = getattr(self, method_name)(*args, **kwargs)
        return [result for _ in self._get_indices(indices)]

    def env_is_wrapped(self, wrapper_class: type, indices: Any = None) -> list[bool]:
        """Tell that no row is wrapped."""
        return [False for _ in self._get_indices(indices)]

    def render(self, mode: str | None = None) -> Any:
        """Return one picture of all lanes, or with the mode "ansi" a text of each, joined."""
        if (mode or self.render_mode) != "ansi":
            return super().render(mode)
        return "\n\n".join(rendered(self.engine, "ansi", i) for i in range(self.engine.lanes))

    def get_images(self) -> Sequence[np.ndarray | None]:
        """Pictures of all lanes."""
        return [rendered(self.engine, "rgb_array", i) for i in range(self.engine.lanes)]


def _are_alike(one: Any, other: Any) -> bool:
    """Return whether two options, or parts of them, are the same; arrays are by their values."""
    if one is other:
        return True
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return one.keys() == other.keys() and all(_are_alike(one[k], other[k]) for k in one)
    return bool(np.array_equal(one, other))


def _engine(env_id: str | EnvSpec, lanes: int, /, *, device: str = "cpu", **parameters: Any) -> Any:
    if device == "cpu":
        return lanes_of(env_id, lanes, **parameters)
    if isinstance(env_id, EnvSpec):
        return lanes_of(env_id, lanes, device=device, **parameters)
    from coopbench_envs.cuda.engine import CudaEngine

    return CudaEngine(env_id, lanes, device=device, keeps_info=True, **parameters)


def _widest(engine: Lanes) -> tuple[gym.spaces.Box, gym.Space[Any]]:
    obs, act = engine.observation_spaces, engine.action_spaces
    low = np.min([s.low for s in obs], axis=0)
    observation = gym.spaces.Box(low, np.max([s.high for s in obs], axis=0), dtype=np.float32)
    if engine.discrete:
        return observation, gym.spaces.Discrete(max(s.n for s in act))
    low, high = np.min([s.low for s in act], axis=0), np.max([s.high for s in act], axis=0)
    return observation, gym.spaces.Box(low, high, dtype=np.float32)
