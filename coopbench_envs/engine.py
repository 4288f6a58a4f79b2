"""Engine: parameters, state and buffers of many lanes of one environment, stepped by one driver."""

import sys
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np

from coopbench_envs.batches import BatchDriver, BatchKernels
from coopbench_envs.choices import Choices, Values, as_played, translate, turn_of, with_choices
from coopbench_envs.compiling import Compiled
from coopbench_envs.core import Kernels, Opponent
from coopbench_envs.direct import SAMPLED, Play, Single, never, player, single_of
from coopbench_envs.drivers import (
    DISABLED,
    FEW_AGENTS,
    LOOK,
    MANY_LANES,
    NEXT_STEP,
    RENEW,
    RESET,
    RESTORE,
    Control,
    driver,
)
from coopbench_envs.foreign_names import is_foreign
from coopbench_envs.memory import ORDERS, Finals, Host, arranged, control_of, laid_out, shortened
from coopbench_envs.parameters import check_count, check_switch, unknown
from coopbench_envs.registration import ByName, spec
from coopbench_envs.states import LARGEST, allocated, bounds_of, given, stored
from coopbench_envs.threads import LanePool, checked

__all__ = [
    "DISABLED",
    "NEXT_STEP",
    "SAME_STEP",
    "Engine",
    "check_finite",
    "checked_actions",
    "operation",
]

SAME_STEP = 6  # a way to step like NEXT_STEP and DISABLED, made of two calls of the driver
_NUMBERS = 3  # arguments of a driver behind its arrays: op, start, stop
_MODES = frozenset((NEXT_STEP, SAME_STEP, DISABLED))

# What a snapshot holds in addition to the environment's own fields: enough to go on bit for bit.
_SNAPSHOT = ("seed", "episode", "rng", "done", "alive", "returns", "invalid")

# Names of infos that the interfaces, or the frameworks behind them, give a meaning.
_TAKEN = frozenset(
    (
        *("action_mask", "alive", "episode", "final_info", "final_obs", "invalid_actions"),
        *("metrics", "rewards", "state", "terminal_observation", "TimeLimit.truncated"),
    )
)

# Attributes that a copy or a pickle leaves out and makes anew: compiled code, and views, which
# would become arrays of their own.
_DERIVED = (
    *("_launch", "_look", "_translator", "_views", "first", "_host", "state", "control", "actions"),
    *("_direct", "single", "finals", "spec"),
)


def operation(mode: int) -> int:
    """Return what a driver does first in a step of this ``mode``; ``ValueError`` for no mode."""
    if mode not in _MODES:
        raise ValueError(
            f"mode was {mode!r}; allowed: NEXT_STEP ({NEXT_STEP}), SAME_STEP ({SAME_STEP}), "
            f"DISABLED ({DISABLED})."
        )
    return DISABLED if mode == SAME_STEP else mode


def checked_actions(
    engine: Any, actions: Any, shape: tuple[int, ...], agent: str = ""
) -> np.ndarray:
    """Return the actions of all agents, or of one, as an array of this shape.

    Raises ``ValueError`` for another shape, for masked values, and for what is not an integer, or,
    where actions are vectors, not a number.
    """
    array: np.ndarray = actions if type(actions) is np.ndarray else np.asanyarray(actions)
    usual = array.shape == shape and array.dtype is SAMPLED[engine.discrete]
    if usual and type(array) is np.ndarray:
        return array  # in less time
    fits = array.shape == shape and array.dtype.kind in ("iub" if engine.discrete else "fiub")
    if fits and (type(array) is np.ndarray or not np.ma.is_masked(array)):
        return array
    whose = f"{agent!r} in {engine.spec.id}" if agent else engine.spec.id
    if array.shape != shape:
        axes = "" if agent else f" (lanes, agents{'' if engine.discrete else ', dim'})"
        raise ValueError(f"Actions of {whose} must have shape {shape}{axes}; given {array.shape}.")
    if fits:
        raise ValueError(f"Actions of {whose} must be given for all; some are masked.")
    kind = "integers" if engine.discrete else "numbers"
    given = f"an array of {array.dtype}" if array.ndim else repr(actions)
    raise ValueError(f"Actions of {whose} must be {kind}; given {given}.")


def check_finite(env_id: str, agents: Sequence[str], actions: np.ndarray) -> None:
    """Raise ``ValueError`` if actions (lanes, agents, dim) are not finite."""
    for lane, agent, entry in np.argwhere(~np.isfinite(actions)):
        raise ValueError(
            f"Actions of {env_id} must be finite; lane {lane}, agent {agents[agent]!r} gave "
            f"{actions[lane, agent, entry]}."
        )


class Engine:
    """``lanes`` independent games of one environment; lane i seeded s is a single game seeded s.

    All arrays in ``control`` belong to the engine and are overwritten by the next call: copy what
    you keep. Parameters are those of the environment, by name. ``threads`` share the lanes of calls
    that are long enough, without an effect on the result. ``order`` is the layout of all arrays in
    memory: "C" (the last axis innermost), "F" (the lane innermost), or None, the fastest:
    observations, masks and global states in "C", the rest as ``EnvSpec.vectorized`` says. With
    ``global_state`` every call also writes ``control.state``.
    """

    device = "cpu"

    def __init__(
        self,
        env_id: str,
        lanes: int = 1,
        /,
        *,
        threads: int = 1,
        order: str | None = None,
        global_state: bool = False,
        **parameters: Any,
    ) -> None:
        check_count("lanes", lanes)
        check_count("threads", threads)
        check_switch("global_state", global_state)
        if order not in (None, *ORDERS):
            raise ValueError(f"order was {order!r}; allowed: 'C' (lanes outermost), 'F'.")
        self._registered = spec(env_id)
        if is_foreign(env_id):
            raise ValueError(
                f"{env_id} is an environment of another package, which is not compiled; allowed: "
                f"evaluate, train, coopbench_envs.make_vec, coopbench_envs.sb3_vec_env."
            )
        self.lanes, self.threads = lanes, threads
        self.spec, self.parameters, self.constants = as_played(self._registered, parameters)
        self.choices: Choices | None = self.spec.choices
        self.horizon = self._horizon()
        self.agents = self.spec.agents(self.constants)
        self.layout = dict(self.spec.layout(self.constants))
        named = self.spec.action_layout
        self.action_layout = {} if named is None else dict(named(self.constants))
        seats = range(len(self.agents))
        self.observation_spaces = [self.spec.observation_space(self.constants, a) for a in seats]
        self.action_spaces = [self.spec.action_space(self.constants, a) for a in seats]
        self._check_agents()
        fits = len(self.agents) <= FEW_AGENTS and lanes >= MANY_LANES
        self._in_blocks = self.spec.vectorized and fits and order != "C"
        self.order = order or ("F" if self._in_blocks else "C")
        self._row_order = order or "C"  # what learners read lies in rows, one for each agent
        self.discrete = isinstance(self.action_spaces[0], gym.spaces.Discrete)
        self.state_space = self._state_space()
        self._opponent  # noqa: B018  # one that cannot play is refused here
        # Whether agents may be absent from an episode that goes on, as EnvSpec's ``present`` says.
        self.falling = self.kernels.present is not None
        # Lanes innermost: a power of two between the rows would have them share a few cache lines.
        self._padding = 8 if self.order != self._row_order and lanes > 8 else 0
        self._whole = self._allocated(global_state)
        self._host = self._visible()
        self._lane_pool = LanePool(threads, lanes, sum(a.size for a in self._host.control))
        self._expose(self._host)
        told = self._checked_info(Engine.info(self))  # that of a GPU copies, and has no arrays yet
        self.final_info = {name: values.copy() for name, values in told.items()}
        self._last_present = np.zeros((lanes, len(self.agents)), np.bool_)

    @property
    def kernels(self) -> Kernels:
        """The dynamics of this task."""
        return self.spec.kernels_of(self.constants)

    def _allocated(self, global_state: bool) -> Host:
        """Make every array that the driver reads or writes."""
        lanes = self.lanes + self._padding
        control = control_of(
            lanes,
            len(self.agents),
            features=self.observation_spaces[0].shape[0],
            choices=max(space.n for space in self.action_spaces) if self.discrete else 0,
            metrics=len(self.spec.metrics),
            state=self.state_space.shape[0] if global_state else 0,
        )
        self._shape = (self.lanes, len(self.agents), *self.action_spaces[0].shape)
        shape, kind = self._shape[1:], np.int64 if self.discrete else np.float64
        if self.choices is not None:  # which are translated before the driver reads them
            shape, kind = self.choices.idle.shape, np.float64
        finals = Finals(*(np.zeros_like(getattr(control, name)) for name in Finals._fields))
        return Host(
            constants=self.constants,
            state=arranged(
                allocated(self.kernels.state, self.constants, lanes), self.order, self.order
            ),
            control=arranged(control, self.order, self._row_order),
            actions=laid_out(np.zeros((lanes, *shape), kind), self.order),
            finals=arranged(finals, self.order, self._row_order),
            **self._room_for_choices(lanes),
        )

    def _room_for_choices(self, lanes: int) -> dict[str, Any]:
        """Return the arrays of ``Host`` that translate choices, by name; none without them."""
        if self.choices is None:
            return {}
        chosen = laid_out(np.zeros((lanes, *self._shape[1:]), np.int64), self.order)
        choices = self.choices
        return {"chosen": chosen, "values": Values(choices.counts, choices.values, choices.idle)}

    def _visible(self) -> Host:
        """Return views of the arrays without the padding."""
        whole, lanes = self._whole, self.lanes
        if self._padding == 0:
            return whole
        return Host(
            constants=self.constants,
            state=shortened(whole.state, lanes),
            control=shortened(whole.control, lanes),
            actions=whole.actions[:lanes],
            finals=shortened(whole.finals, lanes),
            chosen=None if whole.chosen is None else whole.chosen[:lanes],
            values=whole.values,
        )

    def _expose(self, arrays: Host) -> None:
        """Give these arrays the names by which users know them."""
        self.state = arrays.state
        self.actions = arrays.actions if arrays.chosen is None else arrays.chosen
        self.control, self.finals = arrays.control, arrays.finals

    def _run(self, op: int) -> None:
        """Let the driver do ``op`` in all lanes."""
        self._lane_pool.run(self._launch, op)

    def _horizon(self) -> int:
        """Return the steps of an episode at most; ``ValueError`` for constants without a number."""
        steps = getattr(self.constants, "horizon", None)
        if not isinstance(steps, int | np.integer):
            raise ValueError(
                f"Constants of {self.spec.id} must have a whole number 'horizon', the steps of an "
                f"episode; given {steps!r}. Give Params a field horizon, and pass it on."
            )
        return int(steps)

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

    @cached_property
    def _launch(self) -> Callable[[int, int, int], int]:
        """Compiled code with its arrays, made when it is first needed: to look takes none."""
        whole = self._whole
        return self._bound(whole.state, whole.control)

    @cached_property
    def _direct(self) -> Play:
        """The short way of ``step``, for usual actions of all lanes."""
        return self._player(self.actions)

    @cached_property
    def single(self) -> Single:
        """The short ways into and out of a game; its ``play`` never plays several lanes."""
        play = self._player(self.actions[0]) if self.lanes == 1 else never
        return single_of(self.first, play)

    def _player(self, into: np.ndarray) -> Play:
        """Return a function that plays usual actions, of the shape of this view of ``actions``."""
        needs_more = self.choices is not None or self._opponent is not None
        if needs_more or self._lane_pool.threads > 1:
            return never
        return player(self._launch, into, self.lanes, self.discrete)

    @cached_property
    def _translator(self) -> Callable[[int, int], int]:
        """Compiled code that writes the Box actions which are chosen in the lanes (start, stop)."""
        whole = self._whole
        arrays = (whole.values, turn_of(whole.control), whole.chosen, whole.actions)
        launch: Callable[[int, int], int] = translate.with_arrays(arrays, 2, "action_levels")
        return launch

    def _bound(self, state: Any, control: Control) -> Callable[[int, int, int], int]:
        """Return compiled code with these arrays: (op, start, stop) -> 1, or 0 where it refuses."""
        arrays = (self.constants, state, control, self._whole.actions)
        launch: Callable[[int, int, int], int] = self._drive.with_arrays(
            arrays, _NUMBERS, self.spec.id
        )
        return launch

    @property
    def _drive(self) -> Compiled | BatchDriver:
        if isinstance(self.kernels, BatchKernels):
            return BatchDriver(self.kernels, self._plays_choices, self.spec.common_reward)
        agents = len(self.agents) if self._in_blocks else 0
        return driver(self.kernels, self._plays_choices, self.spec.common_reward, agents)

    @property
    def _plays_choices(self) -> bool:
        """Whether the kernels know choices, and not only those who play."""
        return self.discrete and self.choices is None

    def origin(self) -> Path | None:
        """Return the folder that compiled code is taken from; None where it will be compiled."""
        return self._drive.origin((self.constants, *self._whole[1:4]), _NUMBERS)

    @cached_property
    def _look(self) -> tuple[np.ndarray, Callable[[int, int, int], int]]:
        """An array for the global state, and compiled code that writes it and nothing else."""
        whole = self._whole
        size = (len(whole.actions), *self.state_space.shape)
        out = laid_out(np.zeros(size, np.float32), self._row_order)
        nothing = np.zeros_like(whole.control.chosen)
        view = whole.control._replace(state=out, chosen=nothing, moved=nothing.copy())
        return out, self._bound(whole.state, view)

    @cached_property
    def _opponent(self) -> Opponent | None:
        """The policy that plays against the agents; None if there is none."""
        return None if self.spec.opponent is None else self.spec.opponent(self)

    def compile(self) -> None:
        """Load the compiled code, or compile it; otherwise the first reset does this."""
        self._launch  # noqa: B018
        if self.choices is not None:
            self._translator  # noqa: B018

    def set_opponent(self, policy: Any) -> None:
        """Let a policy (a name, a callable or an object) play against the agents from now on.

        Raises ``ValueError`` for an environment that was not made with a policy as opponent.
        """
        if self._opponent is None:
            raise ValueError(
                f"{self.spec.id} was made without a policy that plays against the agents; make it "
                f"with opponent='policy:NAME' where it has that parameter."
            )
        self._opponent.seat(policy)

    def __getstate__(self) -> dict[str, Any]:
        state = {name: value for name, value in self.__dict__.items() if name not in _DERIVED}
        state["_registered"] = ByName(self._registered)
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._registered = state["_registered"].env_spec
        self.spec = with_choices(self._registered, self.choices)
        self._host = self._visible()
        self._expose(self._host)

    def close(self) -> None:
        """End the threads that share the lanes, if there are any."""
        self._lane_pool.close()

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
        without, it starts its next episode. Fields in ``state`` then override the seeded state.
        """
        control = self._host.control
        fields = self._checked_state(state)
        control.chosen[:] = True if chosen is None else chosen
        lanes = control.chosen
        if seeds is not None:
            control.seed[lanes] = np.asarray(seeds, np.uint64)[lanes]
            control.episode[lanes] = 0
        else:
            control.episode[lanes] += 1
        self._run(RESET)
        if fields:
            self._restore(fields, lanes)

    def restore(self, state: Mapping[str, Any]) -> None:
        """Write fields into the state of all lanes, and recompute what agents see; no reset."""
        self._restore(self._checked_state(state), np.ones(self.lanes, np.bool_))

    def _restore(self, fields: Mapping[str, np.ndarray], lanes: np.ndarray) -> None:
        """Write checked ``fields`` into the state of ``lanes`` and recompute what follows."""
        self._write(fields, lanes)
        if self._opponent is not None:
            self._opponent.restart(lanes)
        self._host.control.chosen[:] = lanes
        self._run(RESTORE)

    def _write(self, fields: Mapping[str, np.ndarray], lanes: np.ndarray) -> None:
        for name, value in fields.items():
            self._field(name)[lanes] = value[lanes]

    def step(self, actions: Any, mode: int = NEXT_STEP) -> None:
        """Play one step in every lane whose episode runs; ``mode`` defines what finished lanes do.

        ``actions`` is (lanes, agents, dim) for Box and (lanes, agents) for Discrete actions. Raises
        ``ValueError`` for a wrong shape or a value that is not finite or masked; illegal discrete
        actions are replaced by "do nothing" and counted in ``control.invalid``.
        """
        op = operation(mode)
        if not self._direct(actions, op):
            self.actions[...] = checked_actions(self, actions, self._shape)
            if self.choices is not None:
                checked(self._translator(0, self.lanes))
            if self._opponent is not None:
                check_finite(self.spec.id, self.agents, self.actions)  # or it would act for nothing
                self._opponent.act()
            self._advance(op)
        if mode == SAME_STEP and np.count_nonzero(self.control.done):
            self._renew()

    def _advance(self, op: int) -> None:
        """Step all lanes, or raise for an action that is not finite before anything changes."""
        if self._lane_pool.threads == 1:  # the driver looks through the actions before it steps
            if checked(self._launch(op, 0, self.lanes)):
                return
        elif self.discrete or np.isfinite(self.actions).all():
            self._lane_pool.run(self._launch, op)
            return
        check_finite(self.spec.id, self.agents, self.actions)

    def _renew(self) -> None:
        """Keep what the finished episodes came to aside, and begin the next ones."""
        control, over = self.control, self.control.done.copy()
        for name, values in self._host.finals._asdict().items():
            values[over] = getattr(control, name)[over]
        self._last_present[over] = self.present()[over]
        self._keep_info(over)
        control.chosen[:] = over
        self._lane_pool.run(self._launch, RENEW)

    def _keep_info(self, over: np.ndarray) -> None:
        """Keep what the episodes that are ``over`` tell their agents last."""
        for name, values in self.info().items():
            self.final_info[name][over] = values[over]

    # -- looking ---------------------------------------------------------------------------------

    def present(self, *, final: bool = False) -> np.ndarray:
        """Return who takes part in the state that is shown, bool (lanes, agents).

        Where an episode has ended for all together, these are the agents that were left; nobody is
        in ``control.alive`` then. ``final``: in the last state of the episode that SAME_STEP ended.
        """
        if final:
            return self._last_present
        control = self._host.control
        lanes = np.flatnonzero(control.done & control.ended) if self.falling else ()
        if not len(lanes):
            return control.alive
        there, kernels = control.alive.copy(), self.kernels
        for lane in lanes if kernels.compiled else [lanes]:  # NumPy kernels take all at once
            kernels.present(self.constants, self._host.state, lane, there)
        return there

    def check(self) -> None:
        """Do nothing: ``step`` itself raises for actions that it refuses.

        Engines whose steps do not wait for the outcome raise ``ValueError`` here.
        """

    def fetched(self, *names: str) -> tuple[Control, Finals]:
        """Return ``control`` and what SAME_STEP keeps of finished episodes, as numpy arrays.

        The next call overwrites them. An engine whose arrays lie elsewhere copies all of them, or
        of ``control`` those that are named.
        """
        return self._host.control, self._host.finals

    def global_state(self) -> np.ndarray:
        """Global state of every lane, float32 (lanes, size); by default all observations."""
        control = self._host.control
        if control.state.shape[1]:
            return control.state.copy(order="C")
        if self.kernels.global_state is None:
            return control.obs.reshape(self.lanes, -1).copy()
        out, launch = self._look
        launch(LOOK, 0, self.lanes)
        return out[: self.lanes].copy(order="C")

    def _state_space(self) -> gym.spaces.Box:
        if self.spec.global_state_space is not None:
            return self.spec.global_state_space(self.constants)
        low = np.concatenate([space.low for space in self.observation_spaces])
        high = np.concatenate([space.high for space in self.observation_spaces])
        return gym.spaces.Box(low, high, dtype=np.float32)

    def metrics(self, lane: int = 0, *, final: bool = False) -> dict[str, float]:
        """Metrics of the episode in ``lane`` so far; ``final``: of the one SAME_STEP just ended."""
        values = self._host.finals.measures if final else self._host.control.measures
        return dict(zip(self.spec.metrics, values[lane].tolist(), strict=True))

    def info(self) -> dict[str, np.ndarray]:
        """Return what agents are told in addition to observations, by name, (lanes, agents, ...).

        The arrays may follow the game: copy what you keep. Empty for most environments.
        """
        tell = self.spec.info
        if tell is None:
            return {}
        arrays = tell(self.constants, self._host.state)
        return {name: np.asarray(values) for name, values in arrays.items()}

    def _checked_info(self, arrays: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Return ``info``; raise ``ValueError`` for a name or a shape that cannot be shown."""
        shape = (self.lanes, len(self.agents))
        for name, values in arrays.items():
            if name in _TAKEN or name.startswith("_"):
                raise ValueError(
                    f"{self.spec.id} calls a part of its info {name!r}; another meaning has that "
                    f"name, as have {', '.join(sorted(_TAKEN))} and names that begin with '_'."
                )
            if values.shape[:2] != shape:
                raise ValueError(
                    f"Info {name!r} of {self.spec.id} must have shape {shape}, lanes and agents, "
                    f"and further axes; given {values.shape}."
                )
        return arrays

    def view(self) -> Any:
        """State of all lanes, lane first: read-only arrays that follow the game."""
        return self._views

    @cached_property
    def first(self) -> Control:
        """The arrays of ``control`` without the lane axis: those of lane 0, which follow it."""
        return Control(*(array[0, ...] for array in self._host.control))

    @cached_property
    def _views(self) -> Any:
        views = [array.view() for array in self._host.state]
        for array in views:
            array.flags.writeable = False
        return self._host.state._make(views)

    def get_state(self) -> dict[str, np.ndarray]:
        """Copy of everything that a game resumes from, as {field: array}; axis 0 is the lane."""
        return {name: self._field(name).copy() for name in self.fields}

    def lane_state(self, lane: int = 0) -> dict[str, np.ndarray]:
        """Like ``get_state``, but of one lane and without the lane axis."""
        return {name: self._field(name)[lane].copy() for name in self.fields}

    def action_bounds(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the lower and the upper bounds of Box actions, both float32 (agents, dim)."""
        spaces = self.action_spaces
        return np.stack([s.low for s in spaces]), np.stack([s.high for s in spaces])

    @property
    def fields(self) -> tuple[str, ...]:
        """Names of the fields that ``get_state`` returns and ``reset(state=...)`` accepts."""
        return (*stored(self.kernels.state), *_SNAPSHOT)

    def _field(self, name: str) -> np.ndarray:
        host = self._host
        array: np.ndarray = getattr(host.control if name in _SNAPSHOT else host.state, name)
        return array

    def _checked_state(self, state: Mapping[str, Any] | None) -> dict[str, np.ndarray]:
        """Fields as arrays, lane first; every problem is found before anything is changed."""
        checked, bounds = {}, bounds_of(self.kernels.state, self.constants) if state else {}
        for name, value in (state or {}).items():
            if name not in self.fields:
                raise ValueError(unknown("state field", name, self.fields, self.spec.id))
            field = f"State field {name!r} of {self.spec.id}"
            largest = sys.float_info.max if name == "returns" else LARGEST  # no agent observes it
            target = self._field(name)
            checked[name] = given(field, value, target, bounds.get(name), largest)
        return checked
