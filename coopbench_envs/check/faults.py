"""Faults: what a check finds, where, and the random actions by which it looks for it."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from gymnasium.spaces import Box

from coopbench_envs.marks import plain

__all__ = ["Fault", "drawn", "place_of"]

_FAR = 1000.0  # stands for a bound that is infinite
_ILLEGAL = 0.2  # share of choices that are drawn without regard to what is legal
_SHARES = (0.6, 0.1, 0.1, 0.1, 0.1)  # of numbers within, at either, and beyond either bound


class Fault(NamedTuple):
    """Something that is wrong with an environment."""

    place: str  # FILE:LINE, or the name of the environment
    text: str  # what is wrong, and what to do

    def __str__(self) -> str:
        return f"{self.place}: {self.text}"


def place_of(function: Any) -> str:
    """Return FILE:LINE of a kernel, or of a function that describes an environment."""
    code = plain(getattr(function, "func", function)).__code__  # of a partial, what it calls
    return f"{code.co_filename}:{code.co_firstlineno}"


def drawn(random: np.random.Generator, spaces: Sequence[Any], masks: np.ndarray) -> np.ndarray:
    """Return random actions of all agents of a lane, (agents,) or (agents, dim).

    Choices are mostly legal by ``masks`` (agents, choices), and some lie outside of the space.
    Numbers lie within, at and beyond the bounds.
    """
    actions = []
    for space, mask in zip(spaces, masks, strict=True):
        if isinstance(space, Box):
            actions.append(_numbers(random, space))
            continue
        legal = np.flatnonzero(mask)
        is_any = random.random() < _ILLEGAL or not len(legal)
        actions.append(random.integers(-1, space.n + 1) if is_any else random.choice(legal))
    return np.array(actions)


def _numbers(random: np.random.Generator, space: Box) -> np.ndarray:
    low = np.where(np.isfinite(space.low), space.low, -_FAR).astype(np.float64)
    high = np.where(np.isfinite(space.high), space.high, _FAR).astype(np.float64)
    beyond = random.uniform(0.0, 2.0, space.shape) * np.maximum(high - low, 1.0)
    where = random.choice(len(_SHARES), space.shape, p=_SHARES)
    values = [random.uniform(low, high), low, high, low - beyond, high + beyond]
    return np.choose(where, values)
