"""Plays a policy on a batch of games: its memory, and checks of what it returns."""

from collections.abc import Callable, Mapping
from copy import deepcopy
from typing import Any

import gymnasium as gym
import numpy as np

from coopbench.baselines.game import Game
from coopbench.baselines.own_code import CodePolicy
from coopbench.baselines.policy import label
from coopbench.baselines.predicting import Predicting, Torch, is_torch
from coopbench.baselines.registry import is_shipped, make_policy, parse_name
from coopbench_envs.core import streams
from coopbench_envs.lanes import Lanes

__all__ = ["Player", "seated"]


class Player:
    """A policy at play: its memory for every lane of one batch of games.

    With ``draws`` its random numbers follow from these and not from the seeds of the episodes.
    """

    def __init__(self, policy: Any, game: Game, draws: np.random.Generator | None = None) -> None:
        self.game = game
        self._draws = draws
        self.label = policy if isinstance(policy, str) else label(policy)
        self._policy = (
            make_policy(policy, game) if isinstance(policy, str) else _adapted(policy, game)
        )
        # How actions are scaled to the bounds of the game; empty where they are taken as they are.
        self.rescaled = self._policy.rescaled if isinstance(self._policy, Predicting) else ""
        # "N choices" once it has acted by Box actions in a game of choices, of which it plays the
        # nearest; else empty.
        self.nearest = ""
        self._uses_state = bool(getattr(self._policy, "uses_state", False))
        self._uses_masks = bool(getattr(self._policy, "uses_masks", False))
        self._uses_seats = bool(getattr(self._policy, "uses_seats", False))
        # Networks of this package act on vectors, whatever an environment from elsewhere shows.
        self._codec = game.codec if getattr(self._policy, "uses_vectors", False) else None
        # Whether it may act in some lanes alone: what it does in a lane depends on nothing else.
        self.separable = isinstance(policy, str) and not self._uses_state and game.codec is None
        # What other code is given is its own; policies of this package neither keep nor change it.
        self._shares = isinstance(policy, str) and is_shipped(parse_name(policy).kind)
        self._memory: Any = None

    def begin(
        self, seeds: np.ndarray, episodes: np.ndarray, chosen: np.ndarray, stream: int = 0
    ) -> None:
        """Forget what was in the ``chosen`` lanes and start their episodes.

        Players of one game take different numbers as ``stream``: their random numbers then differ
        although the seeds do not.
        """
        random = streams(seeds, episodes, salt=1 + stream)
        if self._draws is not None:
            random = self._draws.integers(1 << 64, size=len(random), dtype=np.uint64)
        fresh = self._policy.initial(self.game, random[chosen])
        everywhere = bool(chosen.all())
        self._memory = fresh if everywhere else _merged(self._memory, fresh, chosen)

    def save(self) -> dict[str, np.ndarray]:
        """Return copies of all arrays of the memory, by their place in it: ".0", ".1.2"."""
        return _leaves(self._memory, "")

    def load(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Replace the memory of a player that has begun by what ``save`` has returned."""
        self._memory = _replaced(self._memory, arrays, "")

    def act(
        self,
        observations: np.ndarray,
        state: Any = None,
        masks: np.ndarray | None = None,
        seated: np.ndarray | None = None,
    ) -> np.ndarray:
        """Return checked actions for every seat; a wrong shape or value names this policy.

        ``state`` is what ``Engine.view`` returns and ``masks`` are the engine's; only a policy that
        ``uses_state`` or ``uses_masks`` needs them. ``seated`` (lanes, agents) bool are the seats
        that it has until their episodes end (None: all); a policy that ``uses_seats`` need not find
        actions for others. A policy from elsewhere is given copies of all of them.
        """
        if self._uses_state and state is None:
            raise ValueError(
                f"Policy {self.label!r} plans on the state of {self.game.env_id}, which is not "
                f"available here; allowed: policies that act on observations."
            )
        seen = observations if self._codec is None else self._codec.vectors(observations)
        given: Callable[[Any], Any] = _itself if self._shares else _copied
        arguments = [given(seen), self._memory]
        if self._uses_state:
            arguments.append(state if self._shares else _still(state))
        if self._uses_masks:
            arguments.append(self._legal(masks))
        if self._uses_seats:
            arguments.append(given(seated))
        actions, self._memory = self._policy.act(*arguments)
        return self._checked(actions, observations)

    def check(self, policy: Any) -> None:
        """Raise ``ValueError`` if ``policy`` returns actions that do not fit, before it plays.

        A copy of it acts once, on zeros. What cannot be tried so is found when it plays: a policy
        that needs the state or a memory, cannot be copied, or does not act on zeros, a function
        with variables of its own, and a game whose observations are no arrays.
        """
        function = getattr(policy, "policy", policy)
        if self.game.codec is not None or getattr(function, "__closure__", None):
            return
        if self._uses_state or not isinstance(self._policy, (_Plain, Torch)):
            return
        features = max(part.stop for part in self.game.layout.values())
        seen = np.zeros((1, len(self.game.agents), features), np.float32)
        drawn = np.random.get_state()
        try:
            actions, _ = _adapted(deepcopy(policy), self.game).act(seen, None)
        except Exception:  # of code that expects what it sees in the game
            return
        finally:
            np.random.set_state(drawn)
        self._shaped(actions, seen)

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
        if np.ma.is_masked(actions):
            raise ValueError(f"Policy {self.label!r} returned actions with masked values.")
        if self.game.codec is not None:
            return self._encoded(actions, len(observations))
        array = self._shaped(actions, observations)
        if array.dtype.kind == "f" and not np.isfinite(array).all():
            row = tuple(np.argwhere(~np.isfinite(array))[0][:2])  # an episode and an agent
            seen = np.array2string(observations[row], precision=4, separator=", ", threshold=20)
            raise ValueError(
                f"Policy {self.label!r} returned actions that are not finite: "
                f"{array[row].tolist()} for the observation {seen}."
            )
        if self.game.levels is not None and array.ndim > 2:
            self.nearest = f"{self.game.levels} choices"
            return self.game.levels.nearest(array)
        return np.array(array, np.float64 if self.game.choices == 0 else np.int64)

    def _encoded(self, actions: Any, lanes: int) -> np.ndarray:
        """Return actions in an environment of another package as they are stored."""
        codec = self.game.codec
        chosen = codec.levels is None or codec.has_choices(actions)
        if self._codec is not None:
            form = codec if chosen else codec.boxes
            actions = actions.reshape(lanes, *form.action_shape)
        if not chosen:
            self.nearest = f"{codec.levels} choices"
        encoded: np.ndarray = codec.encoded(actions, lanes, self.label)
        return encoded

    def _shaped(self, actions: Any, observations: np.ndarray) -> np.ndarray:
        """Return actions as an array; ``ValueError`` for another shape or kind than the game's.

        In a game of choices that stand for Box actions these are returned, too.
        """
        space, levels = self.game.action_space, self.game.levels
        shape = (*observations.shape[:2], *tuple(space.shape))
        try:
            array = np.asarray(actions)
        except ValueError:
            array = np.asarray(actions, dtype=object)
        box = () if levels is None else (*shape, levels.idle.shape[1])
        if array.shape == box and array.dtype.kind in "fiu":
            return array
        kinds = "iu" if isinstance(space, gym.spaces.Discrete) else "fiu"
        if array.shape != shape or array.dtype.kind not in kinds:
            raise ValueError(
                f"Policy {self.label!r} returned actions of shape {array.shape} and type "
                f"{array.dtype} in {self.game.env_id}; expected {shape} "
                f"({'integers' if kinds == 'iu' else 'numbers'}: episodes, agents"
                f"{', dim' if space.shape else ''}) for observations {observations.shape}."
            )
        return array


def seated(policy: Any, engine: Lanes) -> Player:
    """Return a player of ``policy`` in the game of an engine."""
    return Player(policy, Game.of(engine))


class _Plain:
    """Policy without a memory, from a function of the observations."""

    def __init__(self, function: Callable[[np.ndarray], Any]) -> None:
        self._function = function

    def initial(self, game: Game, seeds: np.ndarray) -> None:
        return None

    def act(self, observations: np.ndarray, memory: None) -> tuple[Any, None]:
        return self._function(observations), None


def _adapted(policy: Any, game: Game) -> Any:
    if isinstance(policy, type):
        raise TypeError(
            f"A policy is an object, and {policy.__name__} is a class; make an object of it: "
            f"{policy.__name__}(...)."
        )
    if isinstance(policy, CodePolicy):
        policy = policy.policy
    if hasattr(policy, "act") and hasattr(policy, "initial"):
        return policy
    if not hasattr(policy, "act") and hasattr(policy, "predict"):
        return Predicting(policy, game)
    if not hasattr(policy, "act") and is_torch(policy):
        return Torch(policy)
    function = getattr(policy, "act", policy)
    if not callable(function):
        raise TypeError(
            f"A policy is a name, a callable f(observations) -> actions, or an object with "
            f"act(observations) or predict(observations); given {type(policy).__name__}."
        )
    return _Plain(function)


def _itself(value: Any) -> Any:
    return value


def _copied(value: Any) -> Any:
    """Return a copy of an array, or of what holds arrays, in the same layout in memory."""
    if isinstance(value, np.ndarray) and value.dtype != object:
        return value.copy(order="K")
    return deepcopy(value)


def _still(state: Any) -> Any:
    """Return the state of all lanes in read-only arrays that no longer follow the game."""
    arrays = [array.copy(order="K") for array in state]
    for array in arrays:
        array.flags.writeable = False
    return type(state)._make(arrays)


def _leaves(memory: Any, place: str) -> dict[str, np.ndarray]:
    """Return copies of the arrays of a memory by their place in it."""
    if memory is None:
        return {}
    if isinstance(memory, np.ndarray):
        return {place or ".": memory.copy()}
    leaves: dict[str, np.ndarray] = {}
    for k, part in enumerate(memory):
        leaves |= _leaves(part, f"{place}.{k}")
    return leaves


def _replaced(memory: Any, arrays: Mapping[str, np.ndarray], place: str) -> Any:
    """Return a memory like ``memory`` with the arrays that ``_leaves`` has returned."""
    if memory is None:
        return None
    if isinstance(memory, np.ndarray):
        return arrays[place or "."].copy()
    values = [_replaced(part, arrays, f"{place}.{k}") for k, part in enumerate(memory)]
    return type(memory)(*values) if hasattr(memory, "_fields") else tuple(values)


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
