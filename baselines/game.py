"""The game that a policy plays, as far as a policy may look at it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import gymnasium as gym
import numpy as np

from coopbench_envs.choices import Choices, as_played
from coopbench_envs.layouts import Part, unpack
from coopbench_envs.registration import spec

if TYPE_CHECKING:  # these import numba, and to name a game takes none
    from coopbench_envs.core import EnvSpec
    from coopbench_envs.lanes import Lanes

__all__ = ["Game"]


@dataclass(frozen=True)
class Game:
    """One game with its parameters, seen from the seats: what a policy may read before it plays."""

    env_id: str
    agents: tuple[str, ...]
    parameters: Any  # the environment's Params
    constants: Any  # what its kernels read
    layout: Mapping[str, Part]  # named parts of one agent's observation
    action_space: Any  # of agent 0, Box or Discrete
    choices: int  # the largest number of choices of an agent; 0 unless all have Discrete actions
    # (agents, dim) bounds of Box actions, also of those that choices stand for; else empty
    low: np.ndarray
    high: np.ndarray
    action_layout: Mapping[str, Part]  # named parts of one agent's action; empty if it has one
    # Of an environment of another package: how observations and actions look. None for all others.
    codec: Any = None
    # With the parameter ``action_levels``: the Box actions that choices stand for. A policy may
    # return either, and of Box actions the nearest choices are played.
    levels: Choices | None = None

    @classmethod
    def of(cls, engine: "Lanes") -> "Game":
        """Return the game of an engine."""
        return cls._made(engine.spec, engine.parameters, engine.constants)

    @classmethod
    def at(cls, env_id: str, **parameters: Any) -> "Game":
        """Return the game of an environment, without an engine, which would be compiled first."""
        return cls.described(spec(env_id), **parameters)

    @classmethod
    def described(cls, environment: "EnvSpec", **parameters: Any) -> "Game":
        """Return the game of an environment that is at hand as data, with these parameters."""
        return cls._made(*as_played(environment, parameters))

    @classmethod
    def _made(cls, environment: "EnvSpec", parameters: Any, constants: Any) -> "Game":
        agents = environment.agents(constants)
        spaces = [environment.action_space(constants, a) for a in range(len(agents))]
        discrete = all(isinstance(space, gym.spaces.Discrete) for space in spaces)
        codec: Any = getattr(constants, "codec", None)
        levels: Choices | None = environment.choices if codec is None else codec.levels
        if codec is None and levels is not None:
            low, high = levels.low, levels.high
        else:
            low, high = _bounds(spaces if levels is None else codec.boxes.action_spaces)
        action_layout = environment.action_layout
        return cls(
            environment.id,
            agents,
            parameters,
            constants,
            dict(environment.layout(constants)),
            spaces[0],
            max(int(getattr(space, "n", 0)) for space in spaces) if discrete else 0,
            low.astype(np.float64),
            high.astype(np.float64),
            {} if action_layout is None else dict(action_layout(constants)),
            codec,
            levels,
        )

    def unpack(self, observations: np.ndarray) -> dict[str, np.ndarray]:
        """Return the named parts of ``observations``, (..., features), as views of (..., *shape).

        The shapes are those of ``layout``; nothing is copied.
        """
        return unpack(self.layout, observations)

    def require(self, policy: str, *parts: str) -> None:
        """Raise ``ValueError`` unless these observation parts exist and actions are a Box."""
        missing = [part for part in parts if part not in self.layout]
        if missing or not self.low.size:
            raise ValueError(
                f"Policy {policy!r} cannot play {self.env_id}: it needs Box actions and the "
                f"observation parts {', '.join(parts)}; there are {', '.join(self.layout)}."
            )


def _bounds(spaces: Sequence[Any]) -> tuple[np.ndarray, np.ndarray]:
    """Return the bounds of Box spaces of one shape, (agents, *shape); empty for any others."""
    boxes = all(isinstance(space, gym.spaces.Box) for space in spaces)
    if not boxes or len({space.shape for space in spaces}) > 1:
        return np.zeros(0), np.zeros(0)
    return np.stack([space.low for space in spaces]), np.stack([space.high for space in spaces])
