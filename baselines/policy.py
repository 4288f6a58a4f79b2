"""What a policy is, and how its name is written.

A policy acts for every seat of every lane at once and keeps its memory outside of itself: arrays
whose axis 0 is the lane. So one object serves many games, and an episode depends on its seed alone.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np

from coopbench.baselines.game import Game

__all__ = ["Entry", "Game", "Policy", "PolicyName", "label"]


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
        the units of the action space, or (lanes, agents) integers for Discrete. In a game with the
        parameter ``action_levels`` they may be either, and ``game.low`` and ``game.high`` are the
        bounds; of numbers the nearest choices are played. A policy with a true attribute
        ``uses_state`` is called with the environment's State as a third argument: its arrays, lane
        first, which it can read and not write. A policy with a true attribute ``uses_masks`` is
        called with the legal choices as its last argument: bool (lanes, agents, choices), or None
        where actions are a Box.
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
    trained: bool = False  # whether it is read from the folder of a training run
    # Parameters of the environment that it alone plays with, whatever a task says; of policies of
    # this package.
    granted: Mapping[str, Any] = field(default_factory=dict)

    @property
    def acts_on(self) -> str:
        """What it acts on, as reports print it: ``information``, and what it alone is granted."""
        return ", ".join([self.information, *(f"with {name}" for name in self.granted)])


class PolicyName(NamedTuple):
    """The name of a policy in its two parts: ``kind:values``, or ``kind`` alone.

    Values are those of the entry's parameters, the folder of a training run, or in results the task
    that a model was trained on.
    """

    kind: str  # name of an entry in the registry
    values: str = ""  # as written behind the colon

    @classmethod
    @lru_cache(maxsize=4096)  # a report asks for the same names a thousand times
    def parse(cls, text: str) -> "PolicyName":
        """Split a name at its first colon; values may hold others."""
        kind, _, values = text.partition(":")
        return cls(kind, values)

    def __str__(self) -> str:
        return f"{self.kind}:{self.values}" if self.values else self.kind


def label(policy: Any) -> str:
    """Return the name under which a policy object appears in tables."""
    for attribute in ("name", "__name__"):
        value = getattr(policy, attribute, None)
        if isinstance(value, str) and value:
            return value
    return type(policy).__name__
