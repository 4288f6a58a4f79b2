"""What a policy is, how it is found by name, and how it is played on a batch of games.

A policy acts for every seat of every lane at once and keeps its memory outside of itself: arrays
whose axis 0 is the lane. So one object serves many games, and an episode depends on its seed alone.
"""

import importlib
import json
import pkgutil
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.metadata import entry_points
from types import ModuleType
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import gymnasium as gym
import numpy as np

from coopbench_envs.parameters import resolve, unknown
from coopbench_envs.registration import spec

if TYPE_CHECKING:
    from coopbench_envs.engine import Engine

__all__ = [
    "Entry",
    "Game",
    "Player",
    "Policy",
    "entries",
    "hyperparameters",
    "make_policy",
    "modules",
]

_MOST_WRITTEN = 65_536  # characters of hyperparameters, which stand in the metadata of every cell


@dataclass(frozen=True)
class Game:
    """What a policy may know of the game that it plays."""

    env_id: str
    agents: tuple[str, ...]
    parameters: Any  # the environment's Params
    constants: Any  # what its kernels read
    layout: Mapping[str, slice]  # named parts of one agent's observation
    action_space: Any  # of agent 0, Box or Discrete
    low: np.ndarray  # (agents, dim) bounds of Box actions; empty for Discrete
    high: np.ndarray
    action_layout: Mapping[str, slice]  # named parts of one agent's action; empty if it has one

    @classmethod
    def of(cls, engine: "Engine") -> "Game":
        """Describe the game of an engine."""
        return cls._described(engine.spec, engine.parameters, engine.constants)

    @classmethod
    def at(cls, env_id: str, **parameters: Any) -> "Game":
        """Describe a game by its environment, without an engine, which would be compiled first."""
        found = spec(env_id)
        values = resolve(found.params, parameters, found.id)
        return cls._described(found, values, found.constants(values))

    @classmethod
    def _described(cls, found: Any, parameters: Any, constants: Any) -> "Game":
        agents = found.agents(constants)
        spaces = [found.action_space(constants, a) for a in range(len(agents))]
        discrete = isinstance(spaces[0], gym.spaces.Discrete)
        low = np.zeros(0) if discrete else np.stack([space.low for space in spaces])
        high = np.zeros(0) if discrete else np.stack([space.high for space in spaces])
        return cls(
            found.id,
            agents,
            parameters,
            constants,
            dict(found.layout(constants)),
            spaces[0],
            low.astype(np.float64),
            high.astype(np.float64),
            {} if found.action_layout is None else dict(found.action_layout(constants)),
        )

    def require(self, policy: str, *parts: str) -> None:
        """Raise ``ValueError`` unless these observation parts exist and actions are a Box."""
        missing = [part for part in parts if part not in self.layout]
        if missing or not isinstance(self.action_space, gym.spaces.Box):
            raise ValueError(
                f"Policy {policy!r} cannot play {self.env_id}: it needs Box actions and the "
                f"observation parts {', '.join(parts)}; there are {', '.join(self.layout)}."
            )


@runtime_checkable
class Policy(Protocol):
    """Acts for all seats of a batch of games."""

    def initial(self, game: Game, seeds: np.ndarray) -> Any:
        """Return the memory for ``len(seeds)`` new episodes: an array, a tuple of arrays, or None.

        ``seeds`` is (lanes,) uint64, different for every episode and the only source of randomness.
        """

    def act(self, observations: np.ndarray, memory: Any) -> tuple[np.ndarray, Any]:
        """Return actions and the new memory.

        ``observations`` is (lanes, agents, features) float32; actions are (lanes, agents, dim) in
        the units of the action space, or (lanes, agents) integers for Discrete. A policy with a
        true attribute ``uses_state`` is called with the environment's State as a third argument:
        its arrays, lane first, which it can read and not write. One with a true ``uses_masks`` gets
        the legal choices there, bool (lanes, agents, choices), or None where actions are a Box.
        """


@dataclass(frozen=True)
class Entry:
    """A policy in the registry: ``create(game, **parameters)`` makes one."""

    name: str
    create: Callable[..., Any]  # makes a Policy; see there for one that uses the state
    summary: str  # one line: what it does
    # What it uses: "local" observations, "neighbours" (positions and velocities of what is within
    # sight), "global" state or "none".
    information: str
    params: type  # NamedTuple of Annotated fields, in the order of the name's values
    trained: bool = False  # whether it is what a learner has left in a folder


def entries() -> dict[str, Entry]:
    """Return all policies by name: one ``ENTRY`` per file here, and those of other packages.

    What a learner has trained is a policy under the learner's name.
    Other packages add theirs through the entry-point group ``coopbench.policies``; each entry point
    names an ``Entry``.
    """
    from coopbench.baselines.learners.learner import learners, trained_entry

    own = [module.ENTRY for module in modules() if hasattr(module, "ENTRY")]
    found = {entry.name: entry for entry in own}
    found |= {name: trained_entry(learner) for name, learner in learners().items()}
    for entry in _installed():
        found.setdefault(entry.name, entry)
    return dict(sorted(found.items()))


def modules() -> list[ModuleType]:
    """Return all modules of this package and its folders; they are imported."""
    package = importlib.import_module(__package__)
    names = [info.name for info in pkgutil.walk_packages(package.__path__, f"{__package__}.")]
    return [importlib.import_module(name) for name in names]


@cache
def _installed() -> tuple[Entry, ...]:
    """Entries of other packages; looking for them takes milliseconds, so once is enough."""
    return tuple(point.load() for point in entry_points(group="coopbench.policies"))


def make_policy(name: str, game: Game) -> Policy:
    """Create the policy that ``name`` describes for ``game``.

    A name is ``policy`` or ``policy:value,value`` with the values of its parameters in their order,
    or ``policy:parameter=value``. Raises ``ValueError`` for a name, a parameter or a value that is
    not allowed, and for a game that the policy cannot play.
    """
    entry, parameters = _described(name)
    return entry.create(game, parameters)


def hyperparameters(policy: Any) -> dict[str, Any] | None:
    """Return what a policy was made with, as data that JSON can hold; None if nobody has said it.

    Of a name, its parameters; of an object, its attribute ``hyperparameters``, a dictionary. Raises
    ``ValueError`` if that is anything else.
    """
    if isinstance(policy, str):
        return dict(_described(policy)[1]._asdict())
    given = getattr(policy, "hyperparameters", None)
    if given is None:
        return None
    try:
        text = json.dumps(given, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise ValueError(
            f"The hyperparameters of policy {label(policy)!r} cannot be written as JSON ({error}); "
            f"allowed: a dictionary of finite numbers, texts, lists and dictionaries."
        ) from None
    if not isinstance(given, dict) or len(text) > _MOST_WRITTEN:
        raise ValueError(
            f"The hyperparameters of policy {label(policy)!r} are a {type(given).__name__} of "
            f"{len(text):,} characters as JSON; allowed: a dictionary of up to {_MOST_WRITTEN:,}."
        )
    return dict(json.loads(text))


def _described(name: str) -> tuple[Entry, Any]:
    """Entry and parameters that the name of a policy means."""
    kind, _, written = name.partition(":")
    table = entries()
    if kind not in table:
        raise ValueError(unknown("policy", kind, table))
    entry = table[kind]
    if entry.trained and not written:
        raise ValueError(
            f"Policy {kind!r} has to be trained: name the folder of a run, {kind}:FOLDER; "
            f"'coopbench train PROTOCOL {kind}' makes some."
        )
    try:
        return entry, resolve(entry.params, _values(entry, written), f"policy {kind!r}")
    except TypeError as error:  # a missing value or an unknown parameter: bad input, not a bad call
        raise ValueError(f"Policy {name!r}: {error}") from None


def _values(entry: Entry, written: str) -> dict[str, Any]:
    fields = list(entry.params._fields)  # type: ignore[attr-defined]
    if entry.trained:  # folders may hold commas
        return {fields[0]: written} if written else {}
    values: dict[str, Any] = {}
    for position, part in enumerate(filter(None, written.split(","))):
        key, equals, text = part.partition("=")
        if not equals:
            key, text = (
                (fields[position] if position < len(fields) else f"value {position + 1}"),
                key,
            )
        values[key.strip()] = _number(text.strip())
    return values


def _number(text: str) -> Any:
    if re.fullmatch(r"[+-]?\d+", text):
        return int(text)
    try:
        return float(text)
    except ValueError:
        return text


class Player:
    """A policy at play: its memory for every lane of one batch of games."""

    def __init__(self, policy: Any, game: Game) -> None:
        self.game = game
        self.label = policy if isinstance(policy, str) else label(policy)
        self._policy = make_policy(policy, game) if isinstance(policy, str) else _adapted(policy)
        self._uses_state = bool(getattr(self._policy, "uses_state", False))
        self._uses_masks = bool(getattr(self._policy, "uses_masks", False))
        self._memory: Any = None

    def begin(
        self, seeds: np.ndarray, episodes: np.ndarray, chosen: np.ndarray, stream: int = 0
    ) -> None:
        """Forget what was in the ``chosen`` lanes and start their episodes.

        Players of one game take different numbers as ``stream``: their random numbers then differ
        although the seeds do not.
        """
        own = _policy_seeds(seeds, episodes, stream)
        fresh = self._policy.initial(self.game, own[chosen])
        everywhere = bool(chosen.all())
        self._memory = fresh if everywhere else _merged(self._memory, fresh, chosen)

    def act(
        self, observations: np.ndarray, state: Any = None, masks: np.ndarray | None = None
    ) -> np.ndarray:
        """Return checked actions for every seat; a wrong shape or value names this policy.

        ``state`` is what ``Engine.view`` returns and ``masks`` are the engine's; only a policy that
        ``uses_state`` or ``uses_masks`` needs them.
        """
        if self._uses_state and state is None:
            raise ValueError(
                f"Policy {self.label!r} plans on the state of {self.game.env_id}, which is not "
                f"available here; allowed: policies that act on observations."
            )
        known = [observations, self._memory]
        if self._uses_state:
            known.append(state)
        if self._uses_masks:
            known.append(self._legal(masks))
        actions, self._memory = self._policy.act(*known)
        return self._checked(actions, observations)

    def _legal(self, masks: np.ndarray | None) -> np.ndarray | None:
        if not isinstance(self.game.action_space, gym.spaces.Discrete):
            return None
        if masks is None:
            raise ValueError(
                f"Policy {self.label!r} chooses among the legal actions of {self.game.env_id}, "
                f"which are not told here; allowed: policies that act on observations alone."
            )
        return masks.astype(np.bool_)

    def _checked(self, actions: Any, observations: np.ndarray) -> np.ndarray:
        space = self.game.action_space
        shape = (*observations.shape[:2], *tuple(space.shape))
        try:
            array = np.asarray(actions)
        except ValueError:
            array = np.asarray(actions, dtype=object)
        kinds = "iu" if isinstance(space, gym.spaces.Discrete) else "fiu"
        if array.shape != shape or array.dtype.kind not in kinds:
            raise ValueError(
                f"Policy {self.label!r} returned actions of shape {array.shape} and type "
                f"{array.dtype} in {self.game.env_id}; expected {shape} "
                f"({'integers' if kinds == 'iu' else 'numbers'}: lanes, agents"
                f"{', dim' if space.shape else ''}) for observations {observations.shape}."
            )
        if array.dtype.kind == "f" and not np.isfinite(array).all():
            raise ValueError(f"Policy {self.label!r} returned actions that are not finite.")
        return np.array(array, np.int64 if kinds == "iu" else np.float64)


def label(policy: Any) -> str:
    """Name under which a policy object appears in tables."""
    for attribute in ("name", "__name__"):
        value = getattr(policy, attribute, None)
        if isinstance(value, str) and value:
            return value
    return type(policy).__name__


class _Plain:
    """Policy without a memory, from a function of the observations."""

    def __init__(self, function: Callable[[np.ndarray], Any]) -> None:
        self._function = function

    def initial(self, game: Game, seeds: np.ndarray) -> None:
        return None

    def act(self, observations: np.ndarray, memory: None) -> tuple[Any, None]:
        return self._function(observations), None


def _adapted(policy: Any) -> Any:
    if hasattr(policy, "act") and hasattr(policy, "initial"):
        return policy
    function = getattr(policy, "act", policy)
    if not callable(function):
        raise TypeError(
            f"A policy is a name, a callable f(observations) -> actions, or an object with "
            f"act(observations); given {type(policy).__name__}."
        )
    return _Plain(function)


def _policy_seeds(seeds: np.ndarray, episodes: np.ndarray, stream: int) -> np.ndarray:
    from coopbench_envs.core import streams

    return streams(seeds, episodes, salt=1 + stream)


def _merged(old: Any, fresh: Any, chosen: np.ndarray) -> Any:
    """Memory with the ``fresh`` lanes written over the old ones."""
    if fresh is None:
        return None
    if isinstance(fresh, np.ndarray):
        if old is None:
            old = np.zeros((len(chosen), *fresh.shape[1:]), fresh.dtype)
        merged = np.array(old)
        merged[chosen] = fresh
        return merged
    parts = [None] * len(fresh) if old is None else old
    values = [_merged(a, b, chosen) for a, b in zip(parts, fresh, strict=True)]
    return type(fresh)(*values) if hasattr(fresh, "_fields") else tuple(values)
