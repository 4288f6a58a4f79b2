"""Choices in place of Box actions: evenly spaced values, for policies and learners that choose.

The parameter ``action_levels`` of every environment with Box actions says how many values each
dimension has, from its lowest to its highest bound. The choices of an agent are all combinations of
them, the last dimension varying fastest. The environment itself plays the same as ever: choices are
translated before it sees them.
"""

import functools
import math
from collections import namedtuple
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Annotated, Any, NamedTuple, get_type_hints

import gymnasium as gym
import numpy as np

from coopbench_envs.compiling import compiled
from coopbench_envs.core import EnvSpec, kernel
from coopbench_envs.foreign_names import Keywords, is_foreign
from coopbench_envs.parameters import between, is_whole, resolve

__all__ = [
    "LEVELS",
    "MOST_CHOICES",
    "Choices",
    "Values",
    "as_played",
    "choices_of",
    "choose",
    "extended",
    "offered",
    "resolved",
    "translate",
    "turn_of",
    "with_choices",
    "without_levels",
]

LEVELS = "action_levels"
MOST_CHOICES = 256  # of one agent
_MEANING = (
    "evenly spaced values of each dimension of an action, first to last bound, between which agents"
    f" choose; up to {MOST_CHOICES} choices; None: actions are numbers"
)
_LEVELS = Annotated[int | tuple[int, ...] | None, between(2, MOST_CHOICES, _MEANING)]


class Choices(NamedTuple):
    """The Box actions that the choices of every agent stand for.

    Agents with fewer choices or dimensions than others have rows that are filled up with zeros.
    """

    levels: int | tuple[int, ...]  # as the parameter has them
    counts: np.ndarray  # (agents,) int64, choices of every agent
    values: np.ndarray  # (agents, choices, dim) float64
    # (agents, dim) float64, what an illegal choice does: the values nearest to zero.
    idle: np.ndarray
    limits: np.ndarray  # (agents, dim, levels - 1) float64 between neighbouring values, then inf
    strides: np.ndarray  # (agents, dim) int64: by how much a choice grows with a level

    @property
    def low(self) -> np.ndarray:
        """The lowest Box actions, (agents, dim)."""
        return self.values[:, 0]

    @property
    def high(self) -> np.ndarray:
        """The highest Box actions, (agents, dim)."""
        highest: np.ndarray = self.values[np.arange(len(self.counts)), self.counts - 1]
        return highest

    @property
    def most(self) -> int:
        """The number of choices of the agent that has most."""
        return int(self.counts.max())

    def spaces(self) -> list[gym.spaces.Discrete]:
        """Return the space of every agent's choices."""
        return [gym.spaces.Discrete(int(count)) for count in self.counts]

    def actions(self, choices: np.ndarray) -> np.ndarray:
        """Return what choices (lanes, agents) stand for, float64 (lanes, agents, dim).

        A choice below 0 stands for ``idle``.
        """
        seats = np.arange(len(self.counts))
        chosen: np.ndarray = self.values[seats, np.maximum(choices, 0)]
        idle = choices < 0
        if idle.any():
            chosen[idle] = np.broadcast_to(self.idle, chosen.shape)[idle]
        return chosen

    def nearest(self, actions: np.ndarray) -> np.ndarray:
        """Return the choices nearest to Box actions, int64 (lanes, agents).

        ``actions`` are (lanes, agents, dim); of two equally near levels the lower is taken. A
        number that is not finite counts as the highest level.
        """
        steps = (actions[..., None] > self.limits).sum(axis=-1)
        choices: np.ndarray = (steps * self.strides).sum(axis=-1)
        return choices

    def __str__(self) -> str:
        """Say how many choices there are, as reports print it."""
        numbers = sorted(set(self.counts.tolist()))
        return " or ".join(str(number) for number in numbers)


def choices_of(name: str, levels: Any, spaces: Sequence[Any]) -> Choices:
    """Return the choices of agents with these Box spaces; ``name`` is that of their environment.

    Raises ``ValueError`` for levels that are no whole numbers from 2 or do not fit the dimensions,
    for dimensions without bounds, for more than ``MOST_CHOICES`` choices, and for other spaces.
    """
    given = _whole(name, levels)
    grids = [_grid(name, given, space) for space in spaces]
    agents, dim = len(grids), max(len(grid) for grid in grids)
    counts = np.array([math.prod(len(line) for line in grid) for grid in grids])
    values = np.zeros((agents, counts.max(), dim))
    limits = np.full((agents, dim, max(len(line) for grid in grids for line in grid)), np.inf)
    strides, idle = np.zeros((agents, dim), np.int64), np.zeros((agents, dim))
    for a, grid in enumerate(grids):
        mesh = np.meshgrid(*grid, indexing="ij")
        values[a, : counts[a], : len(grid)] = np.stack([axis.ravel() for axis in mesh], axis=-1)
        for d, line in enumerate(grid):
            limits[a, d, : len(line) - 1] = (line[1:] + line[:-1]) / 2.0
            strides[a, d] = math.prod(len(later) for later in grid[d + 1 :])
            idle[a, d] = line[np.abs(line).argmin()]
    return Choices(given, counts, values, idle, limits, strides)


def _whole(name: str, levels: Any) -> int | tuple[int, ...]:
    """Return levels as a whole number or several; ``ValueError`` for anything else."""
    numbers = tuple(levels) if isinstance(levels, list | tuple | np.ndarray) else (levels,)
    numbers = tuple(int(n) if isinstance(n, float) and n.is_integer() else n for n in numbers)
    if not (numbers and all(is_whole(n) and 2 <= n <= MOST_CHOICES for n in numbers)):
        raise ValueError(
            f"Parameter {LEVELS!r} of {name} was {levels!r}; allowed: a whole number from 2 to "
            f"{MOST_CHOICES}, or a list of them, one for each dimension of an action."
        )
    if isinstance(levels, list | tuple | np.ndarray):
        return tuple(int(n) for n in numbers)
    return int(numbers[0])


def _grid(name: str, levels: int | tuple[int, ...], space: Any) -> list[np.ndarray]:
    """Return the values of each dimension of a space, lowest first."""
    if not isinstance(space, gym.spaces.Box):
        raise ValueError(
            f"Parameter {LEVELS!r} was {levels!r}, and the actions of {name} are {space}; allowed "
            f"with Box actions, leave it out here."
        )
    low, high = (end.ravel().astype(np.float64) for end in (space.low, space.high))
    numbers = (levels,) * len(low) if isinstance(levels, int) else levels
    if len(numbers) != len(low):
        raise ValueError(
            f"Parameter {LEVELS!r} of {name} was {list(numbers)}; allowed: one number, or one for "
            f"each of the {len(low)} dimensions of {space}."
        )
    bounded = space.bounded_below.ravel() & space.bounded_above.ravel()
    if not bounded.all():
        raise ValueError(
            f"Parameter {LEVELS!r} of {name} was {levels!r}; dimension {int(bounded.argmin())} of "
            f"its actions has no bounds ({space}), between which values could lie. Wrap the "
            f"environment, for instance in gymnasium's RescaleAction, or leave it out."
        )
    count = math.prod(numbers)
    if count > MOST_CHOICES:
        raise ValueError(
            f"Parameter {LEVELS!r} of {name} was {levels!r}, which makes {count:,} choices from "
            f"{len(low)} dimensions; allowed: up to {MOST_CHOICES}. Use fewer levels, or a list "
            f"with one number for each dimension."
        )
    lines = [np.linspace(*ends) for ends in zip(low, high, numbers, strict=True)]
    whole = space.dtype is not None and np.issubdtype(space.dtype, np.integer)
    return [np.rint(line) if whole else line for line in lines]


# --- steps ----------------------------------------------------------------------------------------


class Values(NamedTuple):
    """What choices stand for, as compiled code reads it; see ``Choices``."""

    counts: np.ndarray
    values: np.ndarray
    idle: np.ndarray


class Turn(NamedTuple):
    """Who chooses in a step; see ``drivers.Control``."""

    alive: np.ndarray
    done: np.ndarray
    invalid: np.ndarray


def turn_of(control: Any) -> Turn:
    """Return the arrays of an engine's ``control`` that say who chooses."""
    return Turn(control.alive, control.done, control.invalid)


@kernel
def choose(values: Values, turn: Turn, chosen: np.ndarray, actions: np.ndarray, i: int) -> None:
    """Write the Box actions (lanes, agents, dim) that are ``chosen`` (lanes, agents) in lane ``i``.

    What is illegal, and what a dead agent chooses, becomes -1, which stands for ``idle``; the
    former is counted while the episode runs.
    """
    for a in range(chosen.shape[1]):
        k = chosen[i, a]
        legal = 0 <= k < values.counts[a]
        if not (legal or turn.done[i]) and turn.alive[i, a]:
            turn.invalid[i, a] += 1
        plays = legal and turn.alive[i, a]
        if not plays:
            chosen[i, a] = -1
        for d in range(actions.shape[2]):
            actions[i, a, d] = values.values[a, k, d] if plays else values.idle[a, d]


def _translate(
    values: Values, turn: Turn, chosen: np.ndarray, actions: np.ndarray, start: int, stop: int
) -> None:
    """Translate the choices in the lanes from ``start`` to ``stop``."""
    for i in range(start, stop):
        choose(values, turn, chosen, actions, i)


translate: Any = compiled(_translate)


# --- environments ---------------------------------------------------------------------------------


def resolved(environment: EnvSpec, parameters: Mapping[str, Any]) -> Any:
    """Return the parameters of a task as the environment's ``Params``, those not named by default.

    With ``action_levels`` they have that field in addition. Raises what ``parameters.resolve``
    raises; levels are checked by ``as_played``.
    """
    given = without_levels(parameters, only_none=True)
    if LEVELS in given:
        given[LEVELS] = _whole(environment.id, given[LEVELS])
    if is_foreign(environment.id):
        return Keywords(environment.id, given)
    params: Any = environment.params
    if LEVELS in params._fields:
        raise ValueError(
            f"Params of {environment.id} has a field {LEVELS!r}, the name of a parameter of all "
            f"environments with Box actions. Give the field another name."
        )
    if LEVELS in given:
        params = extended(params)
    elif not set(given) <= set(params._fields):
        params = offered(environment)  # whose names the message lists
    return resolve(params, given, environment.id)


def as_played(environment: EnvSpec, parameters: Mapping[str, Any]) -> tuple[EnvSpec, Any, Any]:
    """Return an environment, the parameters and the constants of a task.

    With ``action_levels`` among the parameters, the environment is one whose agents choose. Raises
    ``TypeError`` and ``ValueError`` for parameters that are not allowed.
    """
    values = resolved(environment, parameters)
    if is_foreign(environment.id) or not hasattr(values, LEVELS):
        return environment, values, environment.constants(values)
    constants = environment.constants(_plain(values))
    agents = environment.agents(constants)
    boxes = [environment.action_space(constants, seat) for seat in range(len(agents))]
    choices = choices_of(environment.id, getattr(values, LEVELS), boxes)
    return with_choices(environment, choices), values, constants


def with_choices(environment: EnvSpec, choices: Choices | None) -> EnvSpec:
    """Return an environment whose agents have these choices; itself for None."""
    if choices is None:
        return environment
    return replace(
        environment,
        params=extended(environment.params),
        constants=functools.partial(_constants, environment),
        action_space=functools.partial(_space, tuple(choices.spaces())),
        choices=choices,
    )


def _constants(environment: EnvSpec, values: Any) -> Any:
    return environment.constants(_plain(values))


def _space(spaces: tuple[Any, ...], constants: Any, seat: int) -> Any:
    return spaces[seat]


def without_levels(parameters: Mapping[str, Any], *, only_none: bool = False) -> dict[str, Any]:
    """Return parameters without ``action_levels``, or only without its default, None."""
    keep = only_none and parameters.get(LEVELS) is not None
    return {name: value for name, value in parameters.items() if keep or name != LEVELS}


@functools.cache
def extended(params: type) -> Any:
    """Return a ``Params`` class with the field ``action_levels`` behind its own fields."""
    hints = get_type_hints(params, include_extras=True)
    defaults = getattr(params, "_field_defaults", {})
    made: Any = namedtuple(  # type: ignore[misc]
        "Params", (*hints, LEVELS), defaults=(*defaults.values(), None), module=params.__module__
    )
    kind: Any = made  # which type checkers take for a class that they know
    kind.__annotations__ = {**hints, LEVELS: _LEVELS}
    kind.__doc__ = params.__doc__
    kind.plain = params
    kind.__reduce__ = _reduced
    return kind


def _plain(values: Any) -> Any:
    """Return parameters without ``action_levels``, as the environment itself knows them."""
    return values.plain(*values[:-1])


def _reduced(values: Any) -> tuple[Any, ...]:
    """Say how pickle makes parameters again: their class has no name in a module."""
    return _remade, (values.plain, tuple(values))


def _remade(params: type, values: tuple[Any, ...]) -> Any:
    return extended(params)(*values)


def offered(environment: EnvSpec) -> Any:
    """Return the ``Params`` of an environment, with ``action_levels`` if its actions are a Box.

    Without it for an environment that cannot be made by its defaults alone.
    """
    params: Any = environment.params
    try:
        constants = environment.constants(params())
        boxes = isinstance(environment.action_space(constants, 0), gym.spaces.Box)
    except (TypeError, ValueError):
        return params
    return extended(params) if boxes else params
