"""Worlds: one environment of another package behind one interface, whatever its own is."""

from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol

import gymnasium as gym
import numpy as np
import pettingzoo
from pettingzoo.utils.conversions import aec_to_parallel

__all__ = ["Turn", "World", "world_of"]

# Attributes in which environments state the steps of their longest episode.
_LIMITS = ("max_episode_steps", "max_cycles", "max_steps", "episode_limit", "max_iter", "horizon")
_MASKED = {"observation", "action_mask"}  # keys of observations that carry the legal choices


class Turn(NamedTuple):
    """What an environment says after a reset or a step, by the name of the agent."""

    observations: Mapping[str, Any]
    rewards: Mapping[str, float]
    terminated: Mapping[str, bool]
    truncated: Mapping[str, bool]
    infos: Mapping[str, Mapping[str, Any]]
    masks: Mapping[str, Any]  # legal choices; only of agents that were told
    active: frozenset[str]  # agents that take part in the next step


class World(Protocol):
    """One environment with one episode at a time."""

    agents: tuple[str, ...]  # all that can take part
    observation_spaces: tuple[Any, ...]
    action_spaces: tuple[Any, ...]
    limit: int | None  # steps of the longest episode; None if the environment does not say

    def reset(self, seed: int) -> Turn:
        """Begin the episode of a seed."""

    def step(self, actions: Mapping[str, Any]) -> Turn:
        """Make a step with the actions of all agents that take part."""

    def close(self) -> None:
        """Release what the environment holds."""


def world_of(env: Any, name: str) -> World:
    """Return the world of an environment object; ``ValueError`` for one of another kind.

    What has the methods of a ``ParallelEnv`` need not be derived from it.
    """
    if isinstance(env, pettingzoo.AECEnv):
        return _Parallel(_parallel(env, name), name)
    methods = ("reset", "step", "observation_space", "action_space")
    if hasattr(env, "possible_agents") and all(callable(getattr(env, m, None)) for m in methods):
        return _Parallel(env, name)
    if isinstance(env, gym.Env):
        return _Single(env)
    raise ValueError(
        f"{name} makes a {type(env).__name__}; allowed: a pettingzoo.ParallelEnv, an AECEnv that "
        f"can be made parallel, or a gymnasium.Env."
    )


def _parallel(env: Any, name: str) -> Any:
    """Return an environment in which agents take turns as one in which all act at once."""
    if not env.metadata.get("is_parallelizable", False):
        raise ValueError(
            f"{name} is an AEC environment whose agents take turns, and PettingZoo cannot make it "
            f"parallel (metadata['is_parallelizable'] is not set). Allowed: environments in which "
            f"all agents act in every step."
        )
    return aec_to_parallel(env)


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


class _Parallel:
    """An environment of PettingZoo in which all agents act at once."""

    def __init__(self, env: Any, name: str) -> None:
        self._env = env
        ids = list(getattr(env, "possible_agents", ()))
        if not ids:
            env.reset(seed=0)
            ids = list(env.agents)
        self._ids = {str(agent): agent for agent in ids}
        self.agents = tuple(self._ids)
        if not ids or len(self.agents) < len(ids):
            raise ValueError(f"{name} must name its agents, all differently; given {ids!r}.")
        self.observation_spaces = tuple(_plain(env.observation_space(agent)) for agent in ids)
        self.action_spaces = tuple(env.action_space(agent) for agent in ids)
        self.limit = _limit(env)

    def reset(self, seed: int) -> Turn:
        observations, infos = self._env.reset(seed=seed)
        return self._turn(observations, {}, {}, {}, infos)

    def step(self, actions: Mapping[str, Any]) -> Turn:
        return self._turn(*self._env.step({self._ids[n]: a for n, a in actions.items()}))

    def close(self) -> None:
        if hasattr(self._env, "close"):
            self._env.close()

    def _turn(self, observations: Any, *others: Any) -> Turn:
        rewards, terminated, truncated, infos = (_by_name(part) for part in others)
        shown = _by_name(observations)
        masks = {name: mask for name in shown if (mask := _mask(shown[name], infos, name))}
        return Turn(
            {name: _unmasked(observation) for name, observation in shown.items()},
            rewards,
            terminated,
            truncated,
            infos,
            {name: mask[0] for name, mask in masks.items()},
            frozenset(str(agent) for agent in self._env.agents),
        )


class _Single:
    """An environment of Gymnasium: a world with one agent."""

    def __init__(self, env: Any) -> None:
        self._env = env
        self.agents: tuple[str, ...] = ("agent_0",)
        self.observation_spaces = (_plain(env.observation_space),)
        self.action_spaces = (env.action_space,)
        self.limit = _limit(env)

    def reset(self, seed: int) -> Turn:
        observation, info = self._env.reset(seed=seed)
        return self._turn(observation, 0.0, False, False, info)

    def step(self, actions: Mapping[str, Any]) -> Turn:
        return self._turn(*self._env.step(actions["agent_0"]))

    def close(self) -> None:
        self._env.close()

    def _turn(self, observation: Any, *others: Any) -> Turn:
        reward, terminated, truncated, info = others
        (agent,) = self.agents
        mask = _mask(observation, {agent: info}, agent)
        over = bool(terminated or truncated)
        return Turn(
            {agent: _unmasked(observation)},
            {agent: reward},
            {agent: bool(terminated)},
            {agent: bool(truncated)},
            {agent: info},
            {agent: mask[0]} if mask else {},
            frozenset() if over else frozenset(self.agents),
        )


def _by_name(part: Any) -> dict[str, Any]:
    return {str(agent): value for agent, value in (part or {}).items()}


def _is_masked(observation: Any) -> bool:
    """Whether an observation, or its space, is one with the legal choices beside it."""
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
    return (info["action_mask"],) if isinstance(info, Mapping) and "action_mask" in info else ()
