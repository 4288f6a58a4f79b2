"""Check: faults of an environment of one's own or of another package, with place and remedy.

Compiled code checks no index and misses no output. Here an environment's kernels run as Python on
arrays that tell which elements were written, and which indices lie outside.
"""

import inspect
import time
import traceback
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

import coopbench_envs
from coopbench_envs.batches import BatchDriver, BatchKernels
from coopbench_envs.choices import LEVELS, as_played, without_levels
from coopbench_envs.core import EnvSpec, Kernels, streams
from coopbench_envs.drivers import NEXT_STEP, RESET
from coopbench_envs.engine import DISABLED, Engine
from coopbench_envs.errors import KernelError
from coopbench_envs.foreign.codec import CHOICES
from coopbench_envs.foreign.engine import ForeignEngine
from coopbench_envs.foreign.environment import foreign_spec
from coopbench_envs.foreign.loading import make_world
from coopbench_envs.foreign.seeds import reset_seed
from coopbench_envs.foreign.worlds import digest_of
from coopbench_envs.foreign_names import is_foreign, permit
from coopbench_envs.marks import PER_AGENT, PER_LANE, PER_PAIR, plain
from coopbench_envs.parameters import resolve
from coopbench_envs.states import allocated

__all__ = ["Fault", "check_environment"]

_SHAPES = {
    "reset": "(c, s, i, rng)",
    "observe": "(c, s, i, obs)",
    "measure": "(c, s, i, measures)",
    "prepare": "(c, s, i)",
    "mask": "(c, s, i, masks)",
    "global_state": "(c, s, i, out)",
    "present": "(c, s, i, alive)",
    "late": "(c, s, i)",
}
# By what a part of a step is played for, as it is marked.
_STEPS = {
    PER_LANE: "(c, s, i, rng, actions, rewards, terminated)",
    PER_AGENT: "(c, s, i, a, rng, actions, rewards, terminated)",
    PER_PAIR: "(c, s, i, a, b, rng, actions, rewards, terminated)",
}
_UNWRITTEN = -1.5e300  # what no kernel writes
_FLAG = 7  # the same in bool and int8 outputs
_LANES, _EPISODES, _MOST = 2, 3, 2000  # of the pass in Python: lanes, episodes, steps
_SECONDS = 20  # of processor time after which the pass ends
_TOLERANCE = 1e-5  # by which float32 may lie beyond a bound


class Fault(NamedTuple):
    """Something that is wrong with an environment."""

    place: str  # FILE:LINE, or the name of the environment
    text: str  # what is wrong, and what to do

    def __str__(self) -> str:
        return f"{self.place}: {self.text}"


class _StopError(Exception):
    """There is a fault after which nothing more can be checked."""


def check_environment(name: str, **parameters: Any) -> list[Fault]:
    """Return the faults of an environment, in the order in which they were found.

    ``name`` is an id, ``FILE.py:SPEC``, or the name of an environment of another package; its code
    is executed. Raises ``ValueError`` for a name or parameters that mean none.
    """
    if is_foreign(name):
        permit(name)
        return list(_foreign(name, parameters))
    environment = coopbench_envs.spec(name)
    if LEVELS in parameters:  # whose choices the kernels never see
        as_played(environment, parameters)
        parameters = without_levels(parameters)
    found = list(_signatures(environment, parameters))
    return found or list(_own(environment, parameters))


def _place(function: Any) -> str:
    """Return FILE:LINE of a kernel, or of a function that describes an environment."""
    code = plain(getattr(function, "func", function)).__code__  # of a partial, what it calls
    return f"{code.co_filename}:{code.co_firstlineno}"


# --- environments of one's own --------------------------------------------------------------------


def _kernels(environment: EnvSpec, parameters: dict[str, Any]) -> tuple[Any, Kernels]:
    constants = environment.constants(resolve(environment.params, parameters, environment.id))
    return constants, environment.kernels_of(constants)


def _parts(kernels: Kernels) -> tuple[Any, ...]:
    return kernels.step if isinstance(kernels.step, tuple) else (kernels.step,)


def _signatures(environment: EnvSpec, parameters: dict[str, Any]) -> Iterator[Fault]:
    """Yield kernels that take other arguments than the driver passes."""
    _, kernels = _kernels(environment, parameters)
    for name, shape in _SHAPES.items():
        kernel = getattr(kernels, name)
        if kernel is not None and plain(kernel).__code__.co_argcount != shape.count(",") + 1:
            given = ", ".join(inspect.signature(plain(kernel)).parameters)
            yield Fault(_place(kernel), f"{name} takes ({given}); write {name}{shape}.")
    for part in _parts(kernels):
        played = getattr(part, "played", PER_LANE)
        if plain(part).__code__.co_argcount != _STEPS[played].count(",") + 1:
            given = ", ".join(inspect.signature(plain(part)).parameters)
            text = f"step is played {played} and takes ({given}); write {_STEPS[played]}"
            yield Fault(_place(part), f"{text}, or mark it @per_agent or @per_pair.")


class _Guarded(np.ndarray):
    """An array in which an index must not count from the end."""

    def __getitem__(self, key: Any) -> Any:
        self._check(key)
        return super().__getitem__(key)

    def __setitem__(self, key: Any, value: Any) -> None:
        self._check(key)
        super().__setitem__(key, value)

    def _check(self, key: Any) -> None:
        for index in key if isinstance(key, tuple) else (key,):
            if isinstance(index, int | np.integer) and index < 0:
                raise IndexError(f"index {index} is out of bounds: it counts from the end")


def _own(environment: EnvSpec, parameters: dict[str, Any]) -> Iterator[Fault]:
    """Play the kernels as Python, and then compiled."""
    try:
        engine = Engine(environment.id, _LANES, order="C", **parameters)
    except (ValueError, TypeError) as error:
        if isinstance(error, KernelError):
            yield Fault(environment.id, str(error))
            return
        raise
    yield from _layout(engine)
    found: dict[str, Fault] = {}
    first = _Pass(engine, found)
    try:
        course = first.play(1)
        used = first.play(1, len(course))
        again = _Pass(engine, found).play(1, len(course))
    except _StopError:
        yield from found.values()
        return
    yield from found.values()
    reset = _place(first.kernels.reset or _parts(first.kernels)[0])
    if not _equal(course, again):
        yield Fault(
            reset,
            "the same seed and actions give another episode; draw random numbers with uniform(rng, "
            "i) and integer(rng, i, n) of coopbench_envs.core alone.",
        )
    elif not _equal(course, used):
        yield Fault(
            reset,
            "an episode differs after another one was played in its lane; reset or prepare must "
            "write every array of the state that has no start.",
        )
    try:
        engine.reset(np.arange(_LANES, dtype=np.uint64))
    except KernelError as error:
        yield Fault(environment.id, str(error))


def _layout(engine: Engine) -> Iterator[Fault]:
    """Yield parts of observations that are no parts of the vector, and places without a name."""
    size, where = engine.observation_spaces[0].shape[0], _place(engine.spec.layout)
    names: list[list[str]] = [[] for _ in range(size)]
    for name, part in engine.layout.items():
        if part.stop > size:
            yield Fault(
                where,
                f"layout part {name!r} ends at {part.stop}, and observations have {size} numbers. "
                f"Shorten the part, or make observation_space as long as the layout.",
            )
        for place in range(part.start, min(part.stop, size)):
            names[place].append(name)
    for place, named in enumerate(names):
        if engine.layout and len(named) != 1:
            text = f"no part of layout has place {place} of observations; add one that does"
            if named:
                both = " and ".join(map(repr, named))
                text = f"layout parts {both} both have place {place} of observations; move one"
            yield Fault(where, f"{text}, or correct observation_space.")
            return


class _Pass:
    """Episodes of an environment's kernels as Python."""

    def __init__(self, engine: Engine, found: dict[str, Fault]) -> None:
        self._engine, self._found = engine, found
        self.kernels = engine.kernels
        constants = engine.constants
        state = allocated(self.kernels.state, constants, _LANES)
        self._state = type(state)(*(np.asarray(array).view(_Guarded) for array in state))
        self._control = type(engine.control)(*(np.zeros_like(array) for array in engine.control))
        self._actions = np.zeros_like(engine.actions)
        batch = isinstance(self.kernels, BatchKernels)
        play: dict[str, Any] = {
            name: self._checked(name, kernel, batch)
            for name in ("reset", "prepare", "mask", "observe", "measure", "present")
            if (kernel := getattr(self.kernels, name)) is not None
        }
        play["step"] = self._stepped(batch)
        if self.kernels.late is not None and not batch:
            play["late"] = self._late
        driver = BatchDriver(
            BatchKernels(**(self.kernels._asdict() | play)),
            engine.discrete,
            engine.spec.common_reward,
        )
        arrays = (constants, self._state, self._control, self._actions)
        self._drive = driver.with_arrays(arrays, 3, engine.spec.id)

    def play(self, seed: int, moments: int | None = None) -> list[list[np.ndarray]]:
        """Play some episodes with random actions; return what came of the reset and every step.

        ``moments`` is how many of these there are; by default the episodes end after ``_SECONDS``.
        """
        control, random = self._control, np.random.default_rng(seed)
        control.seed[:] = np.arange(_LANES) + seed
        control.episode[:], control.chosen[:] = 0, True
        self._drive(RESET, 0, _LANES)
        course = [[control.obs.copy()]]
        begin = time.process_time()
        longest = moments or min(_EPISODES * (self._engine.horizon + 1), _MOST)
        while len(course) < longest:
            if moments is None and time.process_time() - begin > _SECONDS:
                break
            self._act(random)
            self._drive(NEXT_STEP, 0, _LANES)
            came = (control.obs, control.rewards, control.measures)
            course.append([array.copy() for array in came])
        return course

    def _act(self, random: np.random.Generator) -> None:
        """Draw actions: of choices, illegal ones too, which kernels get as -1."""
        for seat, space in enumerate(self._engine.action_spaces):
            for lane in range(_LANES):
                if self._engine.discrete:
                    self._actions[lane, seat] = random.integers(-1, space.n)
                else:
                    self._actions[lane, seat] = random.uniform(space.low, space.high)

    def _fault(self, function: Any, text: str, place: str = "") -> None:
        """Keep a fault, the first of its kind."""
        self._found.setdefault(text.partition(";")[0], Fault(place or _place(function), text))

    def _run(self, function: Any, *arguments: Any) -> None:
        """Call a kernel; an error in it ends the check."""
        code = plain(function).__code__
        try:
            with np.errstate(over="ignore"):
                plain(function)(*arguments)
        except Exception as error:  # of the code that is checked
            frames = traceback.extract_tb(error.__traceback__)
            own = [f for f in frames if f.filename == code.co_filename]
            place = f"{own[-1].filename}:{own[-1].lineno}" if own else _place(function)
            why = f"{type(error).__name__} in {code.co_name}: {error}"
            if isinstance(error, IndexError):
                why += (
                    ". Compiled code reads and writes beyond arrays without a word; a choice may be"
                    " -1, which means to do nothing. Correct the index, or the shape in allocate"
                )
            self._fault(function, f"{why}.", place)
            raise _StopError from None

    def _lanes(self, function: Any, batch: bool, c: Any, s: Any, i: Any, *arrays: Any) -> None:
        guarded = [array.view(_Guarded) for array in arrays]
        if batch:
            self._run(function, c, s, i, *arrays)
        else:
            for lane in i.tolist():
                self._run(function, c, s, lane, *guarded)

    def _checked(self, name: str, kernel: Any, batch: bool) -> Callable[..., None]:
        """Return a kernel over lanes that finds what is not written, and what is out of bounds."""

        def play(c: Any, s: Any, i: np.ndarray, *arrays: np.ndarray) -> None:
            if name in ("reset", "prepare"):
                self._lanes(kernel, batch, c, s, i, *arrays)
                return
            (output,) = arrays
            scratch = np.full(output.shape, _UNWRITTEN if output.dtype.kind == "f" else _FLAG)
            scratch = scratch.astype(np.float64 if output.dtype.kind == "f" else np.int8)
            if name == "present":
                scratch[i] = output[i]
            self._lanes(kernel, batch, c, s, i, scratch)
            blank = _UNWRITTEN if output.dtype.kind == "f" else _FLAG
            missing = np.argwhere(scratch[i] == blank)
            for place in missing[:1]:
                self._fault(kernel, self._lacking(name, place))
            scratch[scratch == blank] = 0
            output[i] = scratch[i]
            if name == "observe" and not len(missing):
                self._observed(kernel, output[i])
            empty = ~(output[i] != 0).any(axis=-1)
            if name == "mask" and empty.any():
                seat = int(np.argwhere(empty)[0][1])
                who = self._engine.agents[seat]
                self._fault(kernel, f"mask leaves {who!r} no legal choice; leave at least one.")

        return play

    def _lacking(self, name: str, place: np.ndarray) -> str:
        """Say which element of an output a kernel has not written."""
        engine = self._engine
        if name == "measure":
            metric = list(engine.spec.metrics)[int(place[1])]
            return f"metric {metric!r} is never written; write measures[i, {place[1]}]."
        who, where = engine.agents[int(place[1])], int(place[2])
        if name == "mask":
            return f"mask does not write choice {where} of {who!r}; write masks[i, a, {where}]."
        parts = [part for part, at in engine.layout.items() if at.start <= where < at.stop]
        named = f" ({parts[0]!r})" if parts else ""
        return f"observe does not write place {where}{named} of {who!r}; write obs[i, a, {where}]."

    def _observed(self, kernel: Any, seen: np.ndarray) -> None:
        """Find observations outside of their space."""
        engine = self._engine
        for seat, space in enumerate(engine.observation_spaces):
            part = seen[:, seat].astype(np.float64)
            low, high = space.low - _TOLERANCE, space.high + _TOLERANCE
            for lane, where in np.argwhere(~((part >= low) & (part <= high)))[:1]:
                names = [name for name, at in engine.layout.items() if at.start <= where < at.stop]
                self._fault(
                    kernel,
                    f"observation place {where} ({', '.join(names) or 'without a name'}) leaves its"
                    f" Box; {engine.agents[seat]!r} saw {part[lane, where]:g}, allowed "
                    f"{space.low[where]:g} to {space.high[where]:g}. Widen observation_space, or "
                    f"scale what observe writes.",
                )

    def _stepped(self, batch: bool) -> Callable[..., None]:
        """Return the parts of a step over lanes, which must write rewards and ends."""
        parts = _parts(self.kernels)

        def step(c: Any, s: Any, i: Any, rng: Any, actions: Any, rewards: Any, ended: Any) -> None:
            paid = np.full(rewards.shape, _UNWRITTEN)
            over = np.full(ended.shape, _FLAG, np.int8)
            for part in parts:
                if batch:
                    self._run(part, c, s, i, rng, actions, paid, over)
                    continue
                arrays = [array.view(_Guarded) for array in (rng, actions, paid, over)]
                for lane in i.tolist():
                    for seats in self._seats(getattr(part, "played", PER_LANE)):
                        self._run(part, c, s, lane, *seats, *arrays)
            due = paid[:, :1] if self._engine.spec.common_reward else paid
            for what, left in (("rewards", due[i] == _UNWRITTEN), ("terminated", over[i] == _FLAG)):
                for _, seat in np.argwhere(left)[:1]:
                    who = self._engine.agents[int(seat)]
                    text = f"step does not write {what} of {who!r}; write {what}[i, a] every step."
                    self._fault(parts[-1], text)
            if not np.isfinite(due[i]).all():
                self._fault(parts[-1], "a reward is not finite; rewards must be numbers.")
            rewards[i], ended[i] = np.where(paid[i] == _UNWRITTEN, 0.0, paid[i]), over[i] == 1

        return step

    def _seats(self, played: str) -> list[tuple[int, ...]]:
        """Return the agents or pairs that a part of a step is played for."""
        agents = range(len(self._engine.agents))
        if played == PER_LANE:
            return [()]
        if played == PER_AGENT:
            return [(a,) for a in agents]
        return [(a, b) for a in agents for b in agents]

    def _late(self, c: Any, s: Any, i: np.ndarray) -> np.ndarray:
        return np.array([plain(self.kernels.late)(c, s, lane) for lane in i.tolist()])


def _equal(one: list[list[np.ndarray]], two: list[list[np.ndarray]]) -> bool:
    return all(
        np.array_equal(a, b, equal_nan=True)
        for first, second in zip(one, two, strict=True)
        for a, b in zip(first, second, strict=True)
    )


# --- environments of other packages ---------------------------------------------------------------


def _foreign(name: str, parameters: dict[str, Any]) -> Iterator[Fault]:
    """Play three episodes with random actions, the first seed twice."""
    try:
        engine = ForeignEngine(foreign_spec(name), 1, **parameters)
        codec = engine.codec
        engine.reset(np.zeros(1, np.uint64))
        states = streams(np.zeros((1, 1), np.uint64), np.arange(len(engine.agents))[None, :])
        yield from _in_spaces(engine, name)
        while not engine.control.done.all():
            masks: np.ndarray = engine.control.masks.astype(np.bool_)
            legal = np.asarray(masks.any(axis=2))
            if codec.form == CHOICES and (engine.control.alive & ~legal).any():
                yield Fault(name, "an action_mask leaves no legal choice; leave at least one.")
                return
            actions = codec.sampled(states, masks)
            engine.step(codec.encoded(actions, 1, "random"), DISABLED)
            if found := list(_in_spaces(engine, name)):
                yield from found
                break
    except ValueError as error:
        yield Fault(name, str(error))
        return
    if not engine.constants.stated and engine.state.time[0] >= engine.horizon:
        yield Fault(
            name,
            f"an episode has no end within {engine.horizon} steps, and the environment does not say"
            f" how long it may be; set max_episode_steps or max_cycles, or 'steps' of a task.",
        )
    if not engine.repeats():
        yield Fault(
            name,
            "a seed does not determine an episode; draw all random numbers from a generator that "
            "reset(seed=...) makes, for instance self.np_random of Gymnasium.",
        )
        return
    world = make_world(name, without_levels(parameters))
    digests = [digest_of(world.reset(reset_seed(seed, 0))) for seed in (0, 1, 0)]
    if digests[0] != digests[2]:
        yield Fault(name, "reset(seed=0) after another episode begins otherwise; reset all state.")
    world.close()
    engine.close()


def _in_spaces(engine: ForeignEngine, name: str) -> Iterator[Fault]:
    """Yield observations that are not in the space of their agent."""
    for seat, agent in enumerate(engine.agents):
        space = engine.codec.observation_spaces[seat]
        if engine.codec.stacked:
            seen = engine.control.obs[0, seat] if engine.control.alive[0, seat] else None
        else:
            seen = engine.control.obs[0].get(agent)
        if seen is not None and not space.contains(seen):
            yield Fault(
                name,
                f"{agent!r} observes {seen!r} in step {engine.state.time[0]}, which is not in "
                f"{space}; correct the space, or the value and its type.",
            )
            return
