"""Kernels as Python: what they write, which indices they use, and what an episode depends on.

They run on arrays that tell which elements were written, which indices lie outside, and what is
written into a copy that is lost.
"""

import inspect
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from coopbench_envs.batches import BatchDriver, BatchKernels
from coopbench_envs.check.faults import Fault, drawn, place_of
from coopbench_envs.core import EnvSpec
from coopbench_envs.drivers import NEXT_STEP, RESET, TAKES
from coopbench_envs.engine import Engine
from coopbench_envs.marks import PER_AGENT, PER_LANE, plain
from coopbench_envs.parameters import resolve
from coopbench_envs.states import allocated

__all__ = ["kernels_as_python", "signatures"]

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
_CHECKED = ("reset", "prepare", "mask", "observe", "measure", "present", "global_state")
_UNWRITTEN = -1.5e300  # what no kernel writes
_FLAG = 7  # the same in bool and int8 outputs
_LANES, _EPISODES, _MOST = 2, 3, 2000  # lanes, episodes, steps
_SECONDS = 20  # of processor time after which the pass ends
_TOLERANCE = 1e-5  # by which float32 may lie beyond a bound


class _StopError(Exception):
    """There is a fault after which nothing more can be checked."""


def signatures(environment: EnvSpec, parameters: dict[str, Any]) -> Iterator[Fault]:
    """Yield kernels that take other arguments than the driver passes."""
    constants = environment.constants(resolve(environment.params, parameters, environment.id))
    kernels = environment.kernels_of(constants)
    for name, shape in _SHAPES.items():
        kernel = getattr(kernels, name)
        if kernel is not None and plain(kernel).__code__.co_argcount != shape.count(",") + 1:
            given = ", ".join(inspect.signature(plain(kernel)).parameters)
            yield Fault(place_of(kernel), f"{name} takes ({given}); write {name}{shape}.")
    for part in kernels.parts:
        played = getattr(part, "played", PER_LANE)
        if plain(part).__code__.co_argcount != TAKES[played].count(",") + 1:
            given = ", ".join(inspect.signature(plain(part)).parameters)
            text = f"step is played {played} and takes ({given}); write {TAKES[played]}"
            yield Fault(place_of(part), f"{text}, or mark it @per_agent or @per_pair.")


class _Guarded(np.ndarray):
    """An array of compiled kernels, in which an index must not count from the end."""

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


class _LostError(Exception):
    """Something was written into a copy that nobody has."""


class _Watched(np.ndarray):
    """An array of NumPy kernels, which tells what is written into a copy that nobody keeps.

    ``x[i]`` is a copy where ``i`` is an array of lanes, so ``x[i][:, 0] = 1`` changes nothing.
    """

    is_copy = False

    def __getitem__(self, key: Any) -> Any:
        references = sys.getrefcount(self)  # before this line reads ``self`` for more
        part = super().__getitem__(key)
        if isinstance(part, _Watched):
            is_lost = self.is_copy and references <= _UNNAMED
            part.is_copy = is_lost or not np.may_share_memory(part, self)
        return part

    def __setitem__(self, key: Any, value: Any) -> None:
        references = sys.getrefcount(self)
        if self.is_copy and references <= _UNNAMED:
            raise _LostError
        super().__setitem__(key, value)


class _Counting:
    def __init__(self, counts: list[int]) -> None:
        self._counts = counts

    def __setitem__(self, key: Any, value: Any) -> None:
        self._counts.append(sys.getrefcount(self))


def _references() -> int:
    """Return how many references an array has that no variable holds, while it is written into.

    -1 where Python counts as many for one that a variable holds.
    """
    counts: list[int] = []
    _Counting(counts)[0] = 1
    named = _Counting(counts)
    named[0] = 1
    return counts[0] if counts[0] < counts[1] else -1


_UNNAMED = _references()


def kernels_as_python(engine: Engine) -> Iterator[Fault]:
    """Yield what is wrong with the layout of observations, and with the kernels of an engine."""
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
    reset = place_of(first.kernels.reset or first.kernels.parts[0])
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


def _layout(engine: Engine) -> Iterator[Fault]:
    """Yield parts of observations that are no parts of the vector, and places without a name."""
    size, where = engine.observation_spaces[0].shape[0], place_of(engine.spec.layout)
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
        batch = isinstance(self.kernels, BatchKernels)
        self._kind: Any = _Watched if batch else _Guarded
        state = allocated(self.kernels.state, constants, _LANES)
        self._state = type(state)(*(np.asarray(array).view(self._kind) for array in state))
        control = type(engine.control)(*map(_of_lanes, engine.control))
        if self.kernels.global_state is not None:  # which is off unless somebody asks for it
            size = engine.state_space.shape[0]
            control = control._replace(state=np.zeros((_LANES, size), control.state.dtype))
        self._control = control
        self._actions = _of_lanes(engine.actions)
        play: dict[str, Any] = {
            name: self._checked(name, kernel, batch)
            for name in _CHECKED
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
            came = (control.obs, control.rewards, control.measures, control.state)
            course.append([array.copy() for array in came])
        return course

    def _act(self, random: np.random.Generator) -> None:
        """Draw actions, illegal ones and such beyond their bounds, too."""
        for lane in range(_LANES):
            masks = self._control.masks[lane]
            self._actions[lane] = drawn(random, self._engine.action_spaces, masks)

    def _fault(self, function: Any, text: str, place: str = "") -> None:
        """Keep a fault, the first of its kind."""
        self._found.setdefault(text.partition(";")[0], Fault(place or place_of(function), text))

    def _run(self, function: Any, *arguments: Any) -> None:
        """Call a kernel; an error in it ends the check."""
        code = plain(function).__code__
        try:
            with np.errstate(over="ignore"):
                plain(function)(*arguments)
        except _LostError as error:
            text = (
                f"{code.co_name} writes into a copy; x[i][...] = y changes nothing where i is an "
                f"array of lanes. Write x[i, ...] = y, or keep the copy and write it back."
            )
            self._fault(function, text, _line(error, function))
            raise _StopError from None
        except Exception as error:  # of the code that is checked
            why = f"{type(error).__name__} in {code.co_name}: {error}"
            if isinstance(error, IndexError):
                why += (
                    ". Compiled code reads and writes beyond arrays without a word; a choice may be"
                    " -1, which means to do nothing. Correct the index, or the shape in allocate"
                )
            self._fault(function, f"{why}.", _line(error, function))
            raise _StopError from None

    def _lanes(self, function: Any, batch: bool, c: Any, s: Any, i: Any, *arrays: Any) -> None:
        guarded = [array.view(self._kind) for array in arrays]
        if batch:
            self._run(function, c, s, i, *guarded)
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
            blank, dtype = (
                (_UNWRITTEN, np.float64) if output.dtype.kind == "f" else (_FLAG, np.int8)
            )
            scratch = np.full(output.shape, blank, dtype)
            if name == "present":
                scratch[i] = output[i]
            self._lanes(kernel, batch, c, s, i, scratch)
            missing = np.argwhere(scratch[i] == blank)
            for place in missing[:1]:
                self._fault(kernel, self._lacking(name, place))
            scratch[scratch == blank] = 0
            output[i] = scratch[i]
            if name == "observe" and not len(missing):
                self._observed(kernel, output[i])
            if name == "global_state" and not len(missing):
                self._surveyed(kernel, output[i])
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
        if name == "global_state":
            return f"global_state does not write place {place[1]}; write out[i, {place[1]}]."
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
            for lane, where in _beyond(space, part)[:1]:
                names = [name for name, at in engine.layout.items() if at.start <= where < at.stop]
                self._fault(
                    kernel,
                    f"observation place {where} ({', '.join(names) or 'without a name'}) leaves its"
                    f" Box; {engine.agents[seat]!r} saw {part[lane, where]:g}, allowed "
                    f"{space.low[where]:g} to {space.high[where]:g}. Widen observation_space, or "
                    f"scale what observe writes.",
                )

    def _surveyed(self, kernel: Any, seen: np.ndarray) -> None:
        """Find global states outside of their space."""
        space, part = self._engine.state_space, seen.astype(np.float64)
        for lane, where in _beyond(space, part)[:1]:
            self._fault(
                kernel,
                f"place {where} of the global state leaves its Box; it was {part[lane, where]:g}, "
                f"allowed {space.low[where]:g} to {space.high[where]:g}. Widen global_state_space, "
                f"or scale what global_state writes.",
            )

    def _stepped(self, batch: bool) -> Callable[..., None]:
        """Return the parts of a step over lanes, which must write rewards and ends."""
        parts = self.kernels.parts

        def step(c: Any, s: Any, i: Any, rng: Any, actions: Any, rewards: Any, ended: Any) -> None:
            paid = np.full(rewards.shape, _UNWRITTEN)
            over = np.full(ended.shape, _FLAG, np.int8)
            before = [array.copy() for array in (*s, rng, actions)]
            self._run_parts(batch, (c, s, i), rng, actions, paid, over)
            if not np.array_equal(actions, before[-1], equal_nan=True):
                self._check_written(batch, (c, s, i), (rng, actions, paid, over), before)
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

    def _run_parts(self, batch: bool, place: Any, *arrays: np.ndarray) -> None:
        """Call the parts of a step, at ``place``: constants, state, lanes."""
        guarded, (c, s, i) = [array.view(self._kind) for array in arrays], place
        for part in self.kernels.parts:
            if batch:
                self._run(part, c, s, i, *guarded)
                continue
            for lane in i.tolist():
                for seats in self._seats(getattr(part, "played", PER_LANE)):
                    self._run(part, c, s, lane, *seats, *guarded)

    def _check_written(self, batch: bool, place: Any, came: Any, before: list[np.ndarray]) -> None:
        """Find a step that does something else with the actions that it has written.

        Results hold these, and are played again with them. Bounding actions does no harm.
        """
        _, state, _ = place
        after = [array.copy() for array in (*state, *came)]
        now = (*state, came[0])
        for array, earlier in zip(now, before, strict=False):
            array[...] = earlier
        self._run_parts(batch, place, *came)
        again = [*state, *came]
        if not all(np.allclose(a, b, equal_nan=True) for a, b in zip(again, after, strict=True)):
            self._fault(
                self.kernels.parts[-1],
                "step writes into actions, and does something else with what it has written; "
                "results are played again with these: copy what changes.",
            )
        for array, earlier in zip(again, after, strict=True):
            array[...] = earlier

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


def _beyond(space: Any, values: np.ndarray) -> np.ndarray:
    """Return which (lanes, places) of values lie outside of a Box, or are nan."""
    low, high = space.low - _TOLERANCE, space.high + _TOLERANCE
    return np.argwhere(~((values >= low) & (values <= high)))


def _equal(one: list[list[np.ndarray]], two: list[list[np.ndarray]]) -> bool:
    return all(
        np.array_equal(a, b, equal_nan=True)
        for first, second in zip(one, two, strict=True)
        for a, b in zip(first, second, strict=True)
    )


def _of_lanes(array: np.ndarray) -> np.ndarray:
    """Return zeros of the shape of an engine's array, for the lanes of a pass."""
    return np.zeros((_LANES, *array.shape[1:]), array.dtype)


def _line(error: Exception, function: Any) -> str:
    """Return FILE:LINE of the innermost line of a kernel's file that has raised an error."""
    file = plain(function).__code__.co_filename
    own = [f for f in traceback.extract_tb(error.__traceback__) if f.filename == file]
    return f"{own[-1].filename}:{own[-1].lineno}" if own else place_of(function)
