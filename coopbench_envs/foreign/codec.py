"""Codecs: what policies see of an environment of another package, and what they return to it."""

import math
from collections.abc import Iterable, Mapping, Sequence
from copy import deepcopy
from typing import Any, Literal

import gymnasium as gym
import numpy as np

from coopbench_envs.choices import Choices
from coopbench_envs.core import draw

__all__ = ["BY_AGENT", "CHOICES", "VECTORS", "Codec"]

_UNBOUNDED = 1e6  # bounds beyond it are those of a data type, and say nothing of values
Form = Literal["choices", "vectors", "by agent"]
CHOICES: Form = "choices"  # integers (lanes, agents): the n-th element of a Discrete space
VECTORS: Form = "vectors"  # float64 (lanes, agents, *shape) of equal Box spaces
BY_AGENT: Form = "by agent"  # for every lane a dictionary {agent: element of its space}
_STACKED = (gym.spaces.Box, gym.spaces.Discrete, gym.spaces.MultiBinary, gym.spaces.MultiDiscrete)


class Codec:
    """Translates between policies, arrays that are stored, and the spaces of an environment.

    ``form`` says what policies return. Stored actions are arrays (lanes, *shape) in every form:
    choices, or for each agent a row of numbers. Of actions by agent these are what
    ``gymnasium.spaces.flatten`` makes of them, filled up with zeros. ``stacked`` says whether
    observations are one array (lanes, agents, *shape), which takes equal spaces of arrays or
    numbers; else each lane has a dictionary {agent: observation}.

    With ``levels`` the agents choose, and the environment gets the Box actions that this means.
    """

    def __init__(
        self,
        agents: Sequence[str],
        observation_spaces: Sequence[Any],
        action_spaces: Sequence[Any],
        levels: Choices | None = None,
    ) -> None:
        self.agents, self.levels = tuple(agents), levels
        self.observation_spaces = tuple(observation_spaces)
        self.action_spaces = tuple(action_spaces if levels is None else levels.spaces())
        # What the environment itself gets, where that is something else.
        self.boxes = None if levels is None else Codec(agents, observation_spaces, action_spaces)
        first = self.observation_spaces[0]
        self.stacked = isinstance(first, _STACKED) and all(
            space == first for space in self.observation_spaces
        )
        self.form, self.shape = self._form()
        self.width = _width(self.observation_spaces)
        self._starts = np.array([getattr(space, "start", 0) for space in self.action_spaces])
        self._samplers = [deepcopy(space) for space in self.action_spaces]

    def _form(self) -> tuple[Form, tuple[int, ...]]:
        """Return the form of actions, and the shape of those of all agents in one lane."""
        spaces, agents = self.action_spaces, len(self.agents)
        if all(isinstance(space, gym.spaces.Discrete) for space in spaces):
            return CHOICES, (agents,)
        boxes = all(isinstance(space, gym.spaces.Box) for space in spaces)
        if boxes and len({space.shape for space in spaces}) == 1:
            return VECTORS, (agents, math.prod(spaces[0].shape))
        return BY_AGENT, (agents, max(gym.spaces.flatdim(space) for space in spaces))

    @property
    def action_shape(self) -> tuple[int, ...]:
        """The shape of what a policy returns for one lane, of choices or vectors."""
        return (len(self.agents), *self.action_spaces[0].shape)

    @property
    def choices(self) -> int:
        """The largest number of choices of an agent; 0 where actions are no choices."""
        return max(space.n for space in self.action_spaces) if self.form == CHOICES else 0

    def masks(self) -> np.ndarray:
        """Return the choices that every agent has, bool (agents, choices)."""
        counts = [space.n if self.form == CHOICES else 0 for space in self.action_spaces]
        return np.arange(self.choices)[None, :] < np.array(counts)[:, None]

    # -- observations ----------------------------------------------------------------------------

    def observations(self, lanes: int) -> np.ndarray:
        """Return room for the observations of all lanes."""
        if not self.stacked:
            return np.array([{} for _ in range(lanes)], object)
        space = self.observation_spaces[0]
        return np.zeros((lanes, len(self.agents), *space.shape), space.dtype)

    def vectors(self, observations: np.ndarray) -> np.ndarray:
        """Return observations as vectors, float32 (lanes, agents, width).

        They are what ``gymnasium.spaces.flatten`` makes of each agent's observation, filled up with
        zeros to the length of the longest; zeros for agents that have left. Vectors are returned as
        they are.
        """
        lanes, agents = len(observations), len(self.agents)
        if observations.dtype != object and isinstance(self.observation_spaces[0], gym.spaces.Box):
            return observations.reshape(lanes, agents, self.width).astype(np.float32, copy=False)
        if observations.shape[2:] == (self.width,) and observations.dtype == np.float32:
            return observations
        result = np.zeros((lanes, agents, self.width), np.float32)
        for lane, row in enumerate(observations):
            for seat, name in enumerate(self.agents):
                if observations.dtype != object:
                    result[lane, seat] = self.vector(seat, row[seat])
                elif name in row:
                    result[lane, seat] = self.vector(seat, row[name])
        return result

    def vector(self, seat: int, observation: Any) -> np.ndarray:
        """Return the observation of one agent as a vector, float32 (width,)."""
        vector = np.zeros(self.width, np.float32)
        space = self.observation_spaces[seat]
        if isinstance(space, gym.spaces.Discrete):
            observation = int(observation)
        flat: Any = gym.spaces.flatten(space, observation)
        vector[: len(flat)] = flat
        return vector

    def vector_spaces(self, name: str) -> tuple[list[gym.spaces.Box], list[Any]]:
        """Return the spaces of vectors, and of actions that are a choice or a vector, by agent.

        Raises ``ValueError``, which names the environment, for spaces that are neither.
        """
        if not self.width or self.form == BY_AGENT:
            kind, spaces = "observations", self.observation_spaces
            if self.width:
                kind, spaces = "actions", self.action_spaces
            raise ValueError(
                f"The {kind} of {name} are no vectors of a fixed length: "
                f"{', '.join(dict.fromkeys(map(str, spaces)))}. Allowed here: observations of Box, "
                f"Discrete, MultiBinary, MultiDiscrete, or Dict and Tuple of them; actions of "
                f"Discrete, or of Box with one shape for all agents."
            )
        seen = [self._vector_space(space) for space in self.observation_spaces]
        if self.form == CHOICES:
            return seen, [gym.spaces.Discrete(int(space.n)) for space in self.action_spaces]
        boxes = [
            gym.spaces.Box(space.low.ravel(), space.high.ravel(), dtype=np.float32)
            for space in self.action_spaces
        ]
        if not all(np.isfinite([box.low, box.high]).all() for box in boxes):
            raise ValueError(
                f"The actions of {name} have no bounds ({self.action_spaces[0]}), which learners "
                f"need; wrap the environment, for instance in gymnasium's RescaleAction or "
                f"TransformAction."
            )
        return seen, boxes

    def _vector_space(self, space: Any) -> gym.spaces.Box:
        low, high = np.zeros(self.width), np.zeros(self.width)
        flat: Any = gym.spaces.flatten_space(space)
        low[: flat.shape[0]], high[: flat.shape[0]] = flat.low, flat.high
        low[low < -_UNBOUNDED], high[high > _UNBOUNDED] = -np.inf, np.inf
        return gym.spaces.Box(low.astype(np.float32), high.astype(np.float32), dtype=np.float32)

    # -- actions ---------------------------------------------------------------------------------

    def encoded(self, actions: Any, lanes: int, who: str) -> np.ndarray:
        """Return what a policy has returned as a stored array.

        With ``levels`` Box actions may be returned, too, of which the nearest choices are stored.
        Raises ``ValueError``, which names the policy ``who``, for actions of another form, and for
        some that are not in the space of their agent.
        """
        if self.form == BY_AGENT:
            return self._flattened(actions, lanes, who)
        if self.levels is not None and self.boxes is not None and not self.has_choices(actions):
            vectors = self.boxes.encoded(actions, lanes, who).reshape(lanes, len(self.agents), -1)
            return np.where(np.isnan(vectors).any(axis=2), -1, self.levels.nearest(vectors))
        array = np.asarray(actions)
        kinds, dtype = ("iu", np.int64) if self.form == CHOICES else ("fiu", np.float64)
        expected = (lanes, *self.action_shape)
        if array.shape != expected or array.dtype.kind not in kinds:
            raise ValueError(
                f"Policy {who!r} returned actions of shape {array.shape} and type {array.dtype}; "
                f"expected {expected} ({'integers' if kinds == 'iu' else 'numbers'}: "
                f"episodes, agents{', dim' if len(expected) > 2 else ''})."
            )
        if dtype is np.float64 and not np.isfinite(array).all():
            raise ValueError(f"Policy {who!r} returned actions that are not finite.")
        result = np.array(array, dtype).reshape(lanes, *self.shape)
        if self.form == CHOICES:
            self._check_choices(result, who)
        return result

    def has_choices(self, actions: Any) -> bool:
        """Whether a policy has returned choices, and not what they stand for."""
        if isinstance(actions, list | tuple) and any(isinstance(row, Mapping) for row in actions):
            return False
        array = np.asarray(actions)
        return array.ndim == 2 and array.dtype.kind in "iu"

    def _check_choices(self, actions: np.ndarray, who: str) -> None:
        counts = np.array([space.n for space in self.action_spaces])
        if ((actions < 0) | (actions >= counts)).any():
            lane, seat = np.argwhere((actions < 0) | (actions >= counts))[0]
            raise ValueError(
                f"Policy {who!r} chose {actions[lane, seat]} for {self.agents[seat]!r}; allowed: 0 "
                f"to {counts[seat] - 1}."
            )

    def _flattened(self, actions: Any, lanes: int, who: str) -> np.ndarray:
        rows = list(actions)
        if len(rows) != lanes or not all(isinstance(row, Mapping) for row in rows):
            raise ValueError(
                f"Policy {who!r} returned {type(actions).__name__} of {len(rows)}; expected a list "
                f"of {lanes} dictionaries {{agent: action}}, one per episode."
            )
        result = np.full((lanes, *self.shape), np.nan)  # which the engine refuses where one is due
        for lane, row in enumerate(rows):
            for name in row:
                if name not in self.agents:
                    raise ValueError(
                        f"Policy {who!r} returned an action for {name!r}; there are "
                        f"{', '.join(self.agents)}."
                    )
            for seat, (name, space) in enumerate(zip(self.agents, self.action_spaces, strict=True)):
                if name in row:
                    result[lane, seat] = self._flat(space, row[name], name, who)
        return result

    def _flat(self, space: Any, action: Any, agent: str, who: str) -> np.ndarray:
        """Return one action as a row of numbers, filled up with zeros."""
        if isinstance(space, gym.spaces.Box):
            action = np.asarray(action, space.dtype)
        elif isinstance(space, gym.spaces.Discrete) and isinstance(action, np.ndarray):
            action = action.item() if action.size == 1 else action
        if not space.contains(action):
            raise ValueError(
                f"Policy {who!r} returned {action!r} for {agent!r}, which is not in {space}."
            )
        row = np.zeros(self.shape[1:])
        flat = np.asarray(gym.spaces.flatten(space, action), np.float64)
        row[: len(flat)] = flat
        return row

    def decoded(self, actions: np.ndarray, alive: np.ndarray) -> list[dict[str, Any]]:
        """Return the actions of the agents that are ``alive``, (lanes, agents), by lane and name.

        ``actions`` (lanes, *shape) are stored ones; each is returned as its space has it, in arrays
        of its own. Numbers beyond the bounds of a Box are replaced by the bounds.
        """
        if self.levels is not None and self.boxes is not None:
            return self.boxes.decoded(self.levels.actions(actions), alive)
        if self.form == BY_AGENT:
            spaces = self.action_spaces
            seated = list(enumerate(zip(self.agents, spaces, strict=True)))
            actions = actions.copy()  # of which some spaces return views
            return [
                {
                    name: gym.spaces.unflatten(space, row[seat, : gym.spaces.flatdim(space)])
                    for seat, (name, space) in seated
                    if there[seat]
                }
                for row, there in zip(actions, alive, strict=True)
            ]
        named = [dict(zip(self.agents, row, strict=True)) for row in self.rows(actions)]
        if np.count_nonzero(alive) < alive.size:
            for lane, seat in np.argwhere(~alive):
                del named[lane][self.agents[seat]]
        return named

    def rows(self, actions: np.ndarray) -> Iterable[Sequence[Any]]:
        """Return choices or vectors by lane and seat; see ``decoded``."""
        if self.levels is not None and self.boxes is not None:
            return self.boxes.rows(self.levels.actions(actions))
        if self.form == CHOICES:
            rows: list[list[int]] = (actions + self._starts).tolist()
            return rows
        vectors = []
        for seat, space in enumerate(self.action_spaces):
            vector = actions[:, seat].reshape(-1, *space.shape)
            vectors.append(np.clip(vector, space.low, space.high).astype(space.dtype))
        return zip(*vectors, strict=True)

    def sampled(self, states: np.ndarray, masks: np.ndarray | None) -> Any:
        """Return random actions of all lanes as a policy does; ``states`` (lanes, agents) advance.

        Choices are drawn among the legal ones; all others as the ``sample`` of their space.
        """
        if self.form == CHOICES:
            legal = np.broadcast_to(self.masks(), (len(states), *self.masks().shape))
            if masks is not None:
                legal = np.where((legal & masks).any(axis=2, keepdims=True), legal & masks, legal)
            number = (draw(states) * legal.sum(axis=2)).astype(np.int64)
            return (legal.cumsum(axis=2) > number[..., None]).argmax(axis=2)
        seeds = (draw(states) * (1 << 31)).astype(np.int64)
        rows = [[self._drawn(seat, int(s)) for seat, s in enumerate(row)] for row in seeds]
        if self.form == VECTORS:
            return np.array(rows, np.float64)
        return [dict(zip(self.agents, row, strict=True)) for row in rows]

    def _drawn(self, seat: int, seed: int) -> Any:
        self._samplers[seat].seed(seed)
        return self._samplers[seat].sample()


def _width(spaces: Sequence[Any]) -> int:
    """Return the length of the longest flat observation; 0 where one has no fixed length."""
    try:
        return max(gym.spaces.flatdim(space) for space in spaces)
    except (NotImplementedError, ValueError):
        return 0
