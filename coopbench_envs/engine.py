"""Engine: parameters, state and buffers of many lanes of one environment, stepped by one driver."""

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property, partial
from itertools import pairwise
from typing import Any

import gymnasium as gym
import numpy as np

from coopbench_envs.compiling import entry
from coopbench_envs.drivers import (
    DISABLED,
    NEXT_STEP,
    RENEW,
    RESET,
    RESTORE,
    Control,
    driver,
)
from coopbench_envs.parameters import resolve, unknown
from coopbench_envs.registration import spec

__all__ = ["DISABLED", "NEXT_STEP", "SAME_STEP", "Engine"]

SAME_STEP = 5  # a way to step like NEXT_STEP and DISABLED, made of two calls of the driver
_MODES = (NEXT_STEP, SAME_STEP, DISABLED)

# Of so many numbers a product is not yet given to threads, which would cost more than the step.
_FEW = 8192

# What a snapshot holds besides the environment's own fields: enough to go on bit for bit.
_SNAPSHOT = ("seed", "episode", "rng", "done", "alive", "returns", "invalid")


class Engine:
    """``lanes`` independent games of one environment; lane i seeded s is a single game seeded s.

    All arrays in ``control`` belong to the engine and are overwritten by the next call: copy what
    you keep. Parameters are those of the environment, by name.
    """

    def __init__(self, env_id: str, lanes: int = 1, *, threads: int = 1, **parameters: Any) -> None:
        if lanes < 1 or threads < 1:
            raise ValueError(f"lanes and threads must be >= 1; given {lanes} and {threads}.")
        self.spec = spec(env_id)
        self.lanes, self.threads = lanes, threads
        self.parameters = resolve(self.spec.params, parameters, self.spec.id)
        self.constants = self.spec.constants(self.parameters)
        self.agents = self.spec.agents(self.constants)
        self.layout = dict(self.spec.layout(self.constants))
        named = self.spec.action_layout
        self.action_layout = {} if named is None else dict(named(self.constants))
        seats = range(len(self.agents))
        self.observation_spaces = [self.spec.observation_space(self.constants, a) for a in seats]
        self.action_spaces = [self.spec.action_space(self.constants, a) for a in seats]
        self._check_agents()
        self.discrete = isinstance(self.action_spaces[0], gym.spaces.Discrete)
        self.state_space = self._state_space()
        self.horizon = int(self.constants.horizon)
        self.state = self.spec.kernels.allocate(self.constants, lanes)
        self.control = self._allocate()
        self.actions = np.zeros(self._action_shape(), np.int64 if self.discrete else np.float64)
        self._zeros = np.zeros_like(self.actions)
        # Where SAME_STEP keeps the last observation, metrics and returns of a finished episode.
        self.final_obs = np.zeros_like(self.control.obs)
        self.final_measures = np.zeros_like(self.control.measures)
        self.final_returns = np.zeros_like(self.control.returns)

    def _check_agents(self) -> None:
        """Raise ``ValueError`` if agents share a name or see vectors of different lengths."""
        if len(set(self.agents)) < len(self.agents):
            twice = next(name for name in self.agents if self.agents.count(name) > 1)
            raise ValueError(f"{self.spec.id} names {twice!r} twice; each agent needs its own.")
        shapes = dict.fromkeys(space.shape for space in self.observation_spaces)
        if len(shapes) > 1:
            raise ValueError(
                f"All agents of {self.spec.id} must observe vectors of one length; given "
                f"{', '.join(map(str, shapes))}. Fill the shorter ones up with zeros."
            )

    def _allocate(self) -> Control:
        lanes, agents = self.lanes, len(self.agents)
        features = self.observation_spaces[0].shape
        choices = max(space.n for space in self.action_spaces) if self.discrete else 0
        obs = np.zeros((lanes, agents, *features), np.float32)
        measures = np.zeros((lanes, len(self.spec.metrics)))
        returns = np.zeros((lanes, agents))
        return Control(
            seed=np.zeros(lanes, np.uint64),
            episode=np.full(lanes, -1, np.int64),
            rng=np.zeros(lanes, np.uint64),
            done=np.ones(lanes, np.bool_),
            alive=np.zeros((lanes, agents), np.bool_),
            returns=returns,
            invalid=np.zeros((lanes, agents), np.int64),
            chosen=np.ones(lanes, np.bool_),
            moved=np.zeros(lanes, np.bool_),
            rewards=np.zeros((lanes, agents)),
            terminated=np.zeros((lanes, agents), np.bool_),
            truncated=np.zeros(lanes, np.bool_),
            ended=np.zeros(lanes, np.bool_),
            team=np.zeros(lanes),
            obs=obs,
            measures=measures,
            masks=np.ones((lanes, agents, choices), np.int8),
        )

    def _action_shape(self) -> tuple[int, ...]:
        return (self.lanes, len(self.agents), *tuple(self.action_spaces[0].shape))

    @cached_property
    def _drive(self) -> Any:
        """Compiled code, made when it is first needed: to look at a game takes none."""
        drive = driver(self.spec.kernels, "drive", self.discrete)
        return entry(drive, *self._arguments, RESET, 0, self.lanes)

    @property
    def _arguments(self) -> tuple[Any, ...]:
        return self.constants, self.state, self.control, self.actions

    def __getstate__(self) -> dict[str, Any]:
        state = self.__dict__.copy()
        state.pop("_drive", None)  # compiled code is found again from the id
        state.pop("_views", None)  # they would become copies
        state["spec"] = self.spec.id
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self.spec = spec(state["spec"])

    # -- playing ---------------------------------------------------------------------------------

    def reset(
        self,
        seeds: np.ndarray | None = None,
        *,
        chosen: np.ndarray | None = None,
        state: Mapping[str, Any] | None = None,
    ) -> None:
        """Begin an episode in every ``chosen`` lane (default: all).

        With ``seeds`` (one per lane) a lane becomes the environment of that seed at its episode 0;
        without, it goes on to its next episode. Fields in ``state`` then override the seeded state.
        """
        fields = self._checked_state(state)
        self.control.chosen[:] = True if chosen is None else chosen
        lanes = self.control.chosen
        if seeds is not None:
            self.control.seed[lanes] = np.asarray(seeds, np.uint64)[lanes]
            self.control.episode[lanes] = 0
        else:
            self.control.episode[lanes] += 1
        self._run(RESET)
        if fields:
            for name, value in fields.items():
                self._field(name)[lanes] = value[lanes]
            self._run(RESTORE)

    def step(self, actions: Any, mode: int = NEXT_STEP) -> None:
        """Play one step in every lane whose episode runs; ``mode`` says what finished lanes do.

        ``actions`` is (lanes, agents, dim) for Box and (lanes, agents) for Discrete actions. Raises
        ``ValueError`` for a wrong shape or a value that is not finite; illegal discrete actions are
        replaced by "do nothing" and counted in ``control.invalid``.
        """
        if mode not in _MODES:
            raise ValueError(
                f"mode was {mode!r}; allowed: {_MODES} (NEXT_STEP, SAME_STEP, DISABLED)."
            )
        given = np.asarray(actions)
        if given.shape != self.actions.shape:
            raise ValueError(
                f"Actions of {self.spec.id} must have shape {self.actions.shape} "
                f"(lanes, agents{'' if self.discrete else ', dim'}); given {given.shape}."
            )
        kinds = "iub" if self.discrete else "fiub"
        if given.dtype.kind not in kinds:
            raise ValueError(
                f"Actions of {self.spec.id} must be {'integers' if self.discrete else 'numbers'}; "
                f"given an array of {given.dtype}."
            )
        self.actions[...] = given
        if given.dtype.kind == "f" and not self._finite():
            where = np.argwhere(~np.isfinite(self.actions))[0]
            raise ValueError(
                f"Actions of {self.spec.id} must be finite; lane {where[0]}, agent "
                f"{self.agents[where[1]]!r} gave {given[tuple(where)]}."
            )
        self._run(DISABLED if mode == SAME_STEP else mode)
        if mode == SAME_STEP and self.control.done.any():
            self._renew()

    def _finite(self) -> bool:
        if self.actions.size <= _FEW:  # anything finite times zero is zero: the fastest for few
            return bool(np.vdot(self.actions, self._zeros) == 0.0)
        return bool(np.isfinite(self.actions).all())

    def _renew(self) -> None:
        """Keep what the finished episodes came to aside, and begin the next ones."""
        control, over = self.control, self.control.done.copy()
        self.final_obs[over] = control.obs[over]
        self.final_measures[over] = control.measures[over]
        self.final_returns[over] = control.returns[over]
        control.chosen[:] = over
        self._run(RENEW)

    def _run(self, op: int) -> None:
        if self.threads == 1:
            self._drive(*self._arguments, op, 0, self.lanes)
            return
        cuts = [self.lanes * k // self.threads for k in range(self.threads + 1)]
        with ThreadPoolExecutor(self.threads) as pool:
            jobs = [
                pool.submit(partial(self._drive, *self._arguments, op, start, stop))
                for start, stop in pairwise(cuts)
            ]
        for job in jobs:
            job.result()

    # -- looking ---------------------------------------------------------------------------------

    def global_state(self) -> np.ndarray:
        """Global state of every lane, float32 (lanes, size); by default all observations."""
        if self.spec.global_state_space is None:
            return self.control.obs.reshape(self.lanes, -1).copy()
        out = np.zeros((self.lanes, *self.state_space.shape), np.float32)
        world = driver(self.spec.kernels, "world", self.discrete)
        world(self.constants, self.state, out)
        return out

    def _state_space(self) -> gym.spaces.Box:
        if self.spec.global_state_space is not None:
            return self.spec.global_state_space(self.constants)
        low = np.concatenate([space.low for space in self.observation_spaces])
        high = np.concatenate([space.high for space in self.observation_spaces])
        return gym.spaces.Box(low, high, dtype=np.float32)

    def metrics(self, lane: int = 0, *, final: bool = False) -> dict[str, float]:
        """Metrics of the episode in ``lane`` so far; ``final``: of the one SAME_STEP just ended."""
        values = (self.final_measures if final else self.control.measures)[lane]
        return dict(zip(self.spec.metrics, values.tolist(), strict=True))

    def view(self) -> Any:
        """State of all lanes, lane first: arrays that follow the game and cannot be written to."""
        return self._views

    @cached_property
    def _views(self) -> Any:
        views = [array.view() for array in self.state]
        for array in views:
            array.flags.writeable = False
        return self.state._make(views)

    def get_state(self) -> dict[str, np.ndarray]:
        """Copy of everything a game goes on from, as {field: array}; axis 0 is the lane."""
        return {name: self._field(name).copy() for name in self.fields}

    def lane_state(self, lane: int = 0) -> dict[str, np.ndarray]:
        """Like ``get_state``, but of one lane and without the lane axis."""
        return {name: self._field(name)[lane].copy() for name in self.fields}

    def action_bounds(self) -> tuple[np.ndarray, np.ndarray]:
        """Lower and upper bounds of Box actions, float32 (agents, dim) each."""
        spaces = self.action_spaces
        return np.stack([s.low for s in spaces]), np.stack([s.high for s in spaces])

    @property
    def fields(self) -> tuple[str, ...]:
        """Names of the fields that ``get_state`` returns and ``reset(state=...)`` accepts."""
        own = [name for name in self.state._fields if name not in self.spec.scratch]
        return (*own, *_SNAPSHOT)

    def _field(self, name: str) -> np.ndarray:
        return getattr(self.control if name in _SNAPSHOT else self.state, name)

    def _checked_state(self, state: Mapping[str, Any] | None) -> dict[str, np.ndarray]:
        """Fields as arrays, lane first; every problem is found before anything is changed."""
        checked = {}
        for name, value in (state or {}).items():
            if name not in self.fields:
                raise ValueError(unknown("state field", name, self.fields, self.spec.id))
            target = self._field(name)
            given = np.asarray(value)
            if given.shape not in (target.shape, target.shape[1:]):
                raise ValueError(
                    f"State field {name!r} of {self.spec.id} must have shape {target.shape[1:]} "
                    f"for each lane; given {given.shape}."
                )
            with np.errstate(invalid="ignore"):
                exact = given.astype(target.dtype)
            if not np.array_equal(exact, given) or (
                exact.dtype.kind == "f" and not np.isfinite(exact).all()
            ):
                raise ValueError(
                    f"State field {name!r} of {self.spec.id} must hold finite {target.dtype}; "
                    f"given {given.dtype} with values that are not."
                )
            checked[name] = np.broadcast_to(exact, target.shape)
        return checked
