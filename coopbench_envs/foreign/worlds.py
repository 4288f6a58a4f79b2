"""Worlds: one environment of another package behind one interface, whatever its own is."""

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from numbers import Real
from typing import Any, NamedTuple, Protocol

import gymnasium as gym
import numpy as np
import pettingzoo
from pettingzoo.utils.conversions import aec_to_parallel

__all__ = ["PARTS", "Single", "Turn", "World", "digest_of", "number_in", "world_of"]

_RESETS = ("observation", "info")
_STEPS = ("observation", "reward", "terminated", "truncated", "info")

# Attributes in which environments state the steps of their longest episode.
_LIMITS = ("max_episode_steps", "max_cycles", "max_steps", "episode_limit", "max_iter", "horizon")
_ALONE = "agent_0"  # the name of the agent of an environment with one
_UNTOLD: Mapping[int, Any] = {}  # legal choices that nobody was told
PARTS = ("observations", "rewards", "terminated", "truncated", "infos")
_MASKED = {"observation", "action_mask"}  # keys of observations that carry the legal choices


class Turn(NamedTuple):
    """What an environment says after a reset or a step; lists are in the order of its agents."""

    observations: Sequence[Any]  # None of an agent that is shown nothing
    rewards: Sequence[Any]  # 0.0 of one that is paid nothing
    terminated: Sequence[bool]
    truncated: Sequence[bool]
    active: Sequence[bool]  # who takes part in the next step
    quiet: bool  # all take part in the next step, and no end is told
    infos: Mapping[str, Mapping[str, Any]]  # by the name of the agent
    masks: Mapping[int, Any]  # legal choices by seat; only of agents that were told
    said: tuple[Mapping[str, Any], ...] = ()  # by name, what the first four lists are; () for one


class World(Protocol):
    """One environment with one episode at a time."""

    agents: tuple[str, ...]  # all that can take part
    observation_spaces: tuple[Any, ...]
    action_spaces: tuple[Any, ...]
    limit: int | None  # steps of the longest episode; None if the environment does not say
    state_space: Any  # Box of one axis, of the global state; None if there is no such state

    def state(self) -> Any:
        """Return the global state, if there is one."""

    def reset(self, seed: int) -> Turn:
        """Begin the episode of a seed."""

    def step(self, actions: Mapping[str, Any]) -> Turn:
        """Make a step with the actions of all agents that take part."""

    def close(self) -> None:
        """Release what the environment holds."""


def world_of(env: Any, name: str) -> World:
    """Return the world of an environment object; ``ValueError`` for one of another kind.

    What has the methods of a ``ParallelEnv`` need not be derived from it. In an AEC environment
    that PettingZoo cannot make parallel, agents take turns, see ``_Turns``.
    """
    if isinstance(env, pettingzoo.AECEnv):
        if env.metadata.get("is_parallelizable", False):
            return _Parallel(aec_to_parallel(env), name)
        return _Turns(env, name)
    methods = ("reset", "step", "observation_space", "action_space")
    if hasattr(env, "possible_agents") and all(callable(getattr(env, m, None)) for m in methods):
        return _Parallel(env, name)
    if isinstance(env, gym.Env):
        return Single(env, name)
    raise ValueError(
        f"{name} makes a {type(env).__name__}; allowed: a pettingzoo.ParallelEnv, a "
        f"pettingzoo.AECEnv, or a gymnasium.Env."
    )


def _called(
    call: Callable[..., Any], parts: tuple[str, ...], what: str, *given: Any, **named: Any
) -> tuple[Any, ...]:
    """Call ``reset`` or ``step``; ``ValueError`` unless it returns a tuple of these parts."""
    try:
        returned = call(*given, **named)
    except ValueError as error:
        if "values to unpack" not in str(error):  # by a wrapper around what returns too few
            raise
        raise ValueError(_misfit(str(error), parts, what)) from error
    if isinstance(returned, tuple) and len(returned) == len(parts):
        return returned
    kind = f"a {type(returned).__name__}"
    if isinstance(returned, tuple | list):
        kind += f" of {len(returned)} parts"
    raise ValueError(_misfit(f"given {kind}", parts, what))


@contextmanager
def _seeded(what: str) -> Iterator[None]:
    """Call ``reset`` with a seed; ``ValueError`` for one that takes none."""
    try:
        yield
    except TypeError as error:
        if "unexpected keyword argument 'seed'" not in str(error):
            raise
        raise ValueError(
            f"{what} cannot be called: {error}. Give reset the keywords seed and options, as "
            f"Gymnasium and PettingZoo define it."
        ) from error


def _misfit(given: str, parts: tuple[str, ...], what: str) -> str:
    return (
        f"{what} must return the tuple ({', '.join(parts)}), as Gymnasium and PettingZoo define "
        f"it; {given}. Environments for gym before 0.26 return less: convert them, for instance "
        f"with shimmy."
    )


def _limit(env: Any) -> int | None:
    """Return the steps of the longest episode, if the environment states them."""
    spec = getattr(env, "spec", None)
    base = getattr(env, "unwrapped", env)
    places = [spec, env, base, getattr(base, "grid_config", None)]
    for place in (place for place in places if place is not None):
        for attribute in _LIMITS:
            value = getattr(place, attribute, None)
            if isinstance(value, int | np.integer) and value > 0:
                return int(value)
    return None


def _global_space(env: Any) -> Any:
    """Return the space of the global state of a PettingZoo environment; None if it has none."""
    try:
        space = env.state_space
    except (AttributeError, NotImplementedError):
        return None
    return space if isinstance(space, gym.spaces.Box) and len(space.shape) == 1 else None


class _Named:
    """What environments of PettingZoo have in common: agents by name, spaces, a global state."""

    def __init__(self, env: Any, name: str) -> None:
        self._env, self._name = env, name
        ids = list(getattr(env, "possible_agents", ()))
        if not ids:
            with _seeded(f"reset(seed=...) of {name}"):
                env.reset(seed=0)
            ids = list(env.agents)
        self._ids = {str(agent): agent for agent in ids}
        self.agents = tuple(self._ids)
        if not ids or len(self.agents) < len(ids):
            raise ValueError(f"{name} must name its agents, all differently; given {ids!r}.")
        self.observation_spaces = tuple(_plain(env.observation_space(agent)) for agent in ids)
        self.action_spaces = tuple(env.action_space(agent) for agent in ids)
        self.limit = _limit(env)
        self.state_space = _global_space(env)

    def state(self) -> Any:
        return self._env.state()

    def _seated(
        self,
        said: tuple[Mapping[str, Any], ...],
        infos: Mapping[str, Any],
        masks: Mapping[str, Any],
    ) -> Turn:
        """Return what was said of ``Turn.said``, by name, in the order of the agents."""
        shown, rewards, terminated, truncated = said
        names, left = self.agents, {str(agent) for agent in self._env.agents}
        ended = [bool(terminated.get(name, False)) for name in names]
        cut = [bool(truncated.get(name, False)) for name in names]
        active = [name in left for name in names]
        return Turn(
            [shown.get(name) for name in names],
            [rewards.get(name, 0.0) for name in names],
            ended,
            cut,
            active,
            all(active) and not any(ended) and not any(cut),
            infos,
            {seat: masks[name] for seat, name in enumerate(names) if name in masks},
            said,
        )

    def close(self) -> None:
        if hasattr(self._env, "close"):
            self._env.close()


class _Parallel(_Named):
    """An environment of PettingZoo in which all agents act at once."""

    def reset(self, seed: int) -> Turn:
        what = f"reset(seed=...) of {self._name}"
        with _seeded(what):
            observations, infos = _called(self._env.reset, _RESETS, what, seed=seed)
        return self._turn(observations, {}, {}, {}, infos)

    def step(self, actions: Mapping[str, Any]) -> Turn:
        given = {self._ids[n]: a for n, a in actions.items()}
        what = f"step(actions) of {self._name}"
        return self._turn(*_called(self._env.step, _STEPS, what, given))

    def _turn(self, *parts: Any) -> Turn:
        shown, rewards, terminated, truncated, infos = (
            _by_name(part, kind, self._name) for part, kind in zip(parts, PARTS, strict=True)
        )
        masks = {name: mask[0] for name in shown if (mask := _mask(shown[name], infos, name))}
        plain = {name: _unmasked(observation) for name, observation in shown.items()}
        return self._seated((plain, rewards, terminated, truncated), infos, masks)


class _Turns(_Named):
    """An environment of PettingZoo in which agents take turns: one of them acts in every step.

    All others see what they see then, and have their first choice alone, which has no effect.
    """

    def __init__(self, env: Any, name: str) -> None:
        super().__init__(env, name)
        if self.limit is not None:  # stated in rounds
            self.limit *= len(self.agents)

    def reset(self, seed: int) -> Turn:
        with _seeded(f"reset(seed=...) of {self._name}"):
            self._env.reset(seed=seed)
        return self._turn(self._seen(), {}, {}, {})

    def step(self, actions: Mapping[str, Any]) -> Turn:
        env = self._env
        env.step(actions[str(env.agent_selection)])
        seen, rewards = self._seen(), {str(agent): pay for agent, pay in env.rewards.items()}
        terminated, truncated = self._ends()
        while env.agents and self._has_ended(env.agent_selection):
            env.step(None)  # which removes the agent
            ends = self._ends()
            terminated, truncated = terminated | ends[0], truncated | ends[1]
        return self._turn(seen | self._seen(), rewards, terminated, truncated)

    def _has_ended(self, agent: Any) -> bool:
        return bool(self._env.terminations[agent] or self._env.truncations[agent])

    def _ends(self) -> tuple[dict[str, bool], dict[str, bool]]:
        env = self._env
        return (
            {str(agent): bool(over) for agent, over in env.terminations.items()},
            {str(agent): bool(over) for agent, over in env.truncations.items()},
        )

    def _seen(self) -> dict[str, Any]:
        """Return what all agents that are left see."""
        return {str(agent): self._env.observe(agent) for agent in self._env.agents}

    def _turn(self, shown: dict[str, Any], rewards: Any, terminated: Any, truncated: Any) -> Turn:
        env = self._env
        infos = {str(agent): info for agent, info in env.infos.items()}
        masks: dict[str, Any] = {}
        for agent in env.agents:
            name = str(agent)
            if agent != env.agent_selection:
                masks[name] = np.arange(getattr(env.action_space(agent), "n", 1)) == 0
            elif mask := _mask(shown[name], infos, name):
                masks[name] = mask[0]
        plain = {name: _unmasked(observation) for name, observation in shown.items()}
        return self._seated((plain, rewards, terminated, truncated), infos, masks)


class Single:
    """An environment of Gymnasium: a world with one agent."""

    def __init__(self, env: Any, name: str) -> None:
        self._env, self._name = env, name
        # Makes a step; returns the tuple that the environment does, which ``turn`` takes.
        self.told = partial(_called, env.step, _STEPS, f"step(action) of {name}")
        self.agents: tuple[str, ...] = (_ALONE,)
        self.observation_spaces = (_plain(env.observation_space),)
        self.action_spaces = (env.action_space,)
        self.limit = _limit(env)
        self.state_space = None

    def state(self) -> None:
        """Return None: there is no global state."""

    def reset(self, seed: int) -> Turn:
        """Begin the episode of a seed."""
        what = f"reset(seed=...) of {self._name}"
        with _seeded(what):
            observation, info = _called(self._env.reset, _RESETS, what, seed=seed)
        return self.turn(observation, 0.0, False, False, info)

    def step(self, actions: Mapping[str, Any]) -> Turn:
        """Make a step with the action of the agent."""
        return self.turn(*self.told(actions[_ALONE]))

    def close(self) -> None:
        """Release what the environment holds."""
        self._env.close()

    @staticmethod
    def turn(observation: Any, reward: Any, terminated: Any, truncated: Any, info: Any) -> Turn:
        """Return what an environment has told as a ``Turn``."""
        infos, masks, goes_on = {_ALONE: info}, _UNTOLD, not (terminated or truncated)
        if info or type(observation) is not np.ndarray:
            mask = _mask(observation, infos, _ALONE)
            masks = {0: mask[0]} if mask else _UNTOLD
            observation = _unmasked(observation)
        over = [bool(terminated)], [bool(truncated)]
        return Turn([observation], [reward], *over, [goes_on], goes_on, infos, masks)


def _by_name(part: Any, kind: str, name: str) -> dict[str, Any]:
    """Return a part of what an environment says by the agents' names; ``ValueError`` if it lacks.

    Infos may be missing.
    """
    if part is None and kind == "infos":
        return {}
    if not isinstance(part, Mapping):
        raise ValueError(
            f"{name} returns {kind} as {type(part).__name__}; allowed: a dictionary {{agent: "
            f"value}}, as PettingZoo's ParallelEnv returns."
        )
    return {str(agent): value for agent, value in part.items()}


def _is_masked(observation: Any) -> bool:
    """Whether an observation, or its space, is one with the legal choices beside it."""
    if isinstance(observation, np.ndarray):  # most are, and a test for Mapping takes longer
        return False
    return isinstance(observation, Mapping | gym.spaces.Dict) and set(observation) == _MASKED


def _plain(space: Any) -> Any:
    """Return the space of an observation without the legal choices."""
    return space["observation"] if _is_masked(space) else space


def _unmasked(observation: Any) -> Any:
    return observation["observation"] if _is_masked(observation) else observation


def _mask(observation: Any, infos: Mapping[str, Any], agent: str) -> tuple[Any, ...]:
    """Return the legal choices of an agent as a tuple of one; empty if it was not told any."""
    if _is_masked(observation):
        return (observation["action_mask"],)
    info = infos.get(agent)
    if not info or not isinstance(info, Mapping) or "action_mask" not in info:
        return ()
    return (info["action_mask"],)


def number_in(info: Any, name: str) -> float | None:
    """Return the number that ``info`` holds under a name, or under a path ``name.name``.

    Raises ``ValueError`` for one that no float64 can be.
    """
    if not isinstance(info, Mapping):
        return None
    if name in info:
        value = info[name]
        if isinstance(value, np.generic | np.ndarray) and np.ndim(value) == 0:
            value = value.item()
        try:
            return float(value) if isinstance(value, Real) else None
        except OverflowError:
            raise ValueError(
                f"The info {name!r} is a number beyond the largest float; leave it out of the "
                f"metrics."
            ) from None
    first, _, rest = name.partition(".")
    return number_in(info.get(first), rest) if rest else None


def digest_of(turn: Turn) -> bytes:
    """Return a digest of all that an environment has said, except for infos."""
    sha = hashlib.sha256()
    for part in turn.said or [{_ALONE: value} for (value,) in turn[:4]]:
        _feed(sha, part)
    return sha.digest()


def _feed(sha: Any, value: Any) -> None:
    """Feed a nested value of dictionaries, sequences, arrays and numbers into a hash."""
    if isinstance(value, Mapping):
        for key in sorted(value, key=str):
            sha.update(str(key).encode() + b"\0")
            _feed(sha, value[key])
    elif isinstance(value, str) or value is None:
        sha.update(repr(value).encode())
    elif isinstance(value, tuple | list) and not all(isinstance(v, Real) for v in value):
        for part in value:
            _feed(sha, part)
    else:
        array = np.asarray(value)
        content = array.tobytes() if array.dtype.kind in "biufc" else repr(value).encode()
        sha.update(str(array.shape).encode() + content)
