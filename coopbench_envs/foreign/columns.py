"""Columns: what environments say in a step, taken apart for all lanes at once."""

from collections.abc import Sequence
from math import isfinite
from typing import Any, NamedTuple

import numpy as np

from coopbench_envs.foreign.worlds import Turn

__all__ = ["Columns", "columns_of", "combined", "flags_of", "index_of"]


class Columns(NamedTuple):
    """A step of environments with one agent each, in which there is nothing unusual."""

    observations: np.ndarray  # (lanes, *shape of the space)
    rewards: np.ndarray  # float64 (lanes, 1)
    flags: np.ndarray | None  # who is terminated, truncated, and goes on, bool (3, lanes, 1)


def columns_of(told: Sequence[tuple[Any, ...]], space: Any) -> Columns | None:
    """Return what environments with one agent ``told``: tuples as ``step`` returns them.

    None where an info is not empty, for observations that do not fit into ``space``, a Box, and for
    rewards that are no finite numbers: a ``Turn`` says what is to be done about them.
    """
    observations, rewards, terminated, truncated, infos = zip(*told, strict=True)
    if {*map(type, infos)} != {dict} or any(infos):
        return None
    try:
        seen, paid = np.array(observations, space.dtype), np.array(rewards)
    except (ValueError, TypeError):
        return None
    if seen.shape != (len(told), *space.shape) or paid.ndim != 1 or paid.dtype.kind not in "biuf":
        return None
    if not isfinite(sum(paid.tolist())):
        return None
    flags = None
    if any(terminated) or any(truncated):
        goes_on = [not (t or u) for t, u in zip(terminated, truncated, strict=True)]
        flags = np.array([terminated, truncated, goes_on], np.bool_)[..., None]
    return Columns(seen, paid.astype(np.float64, copy=False)[:, None], flags)


def flags_of(turns: Sequence[Turn]) -> np.ndarray | None:
    """Return who is terminated, truncated, and takes part next, bool (3, lanes, agents).

    None if all take part, and no end is told, as after most steps.
    """
    if all(turn.quiet for turn in turns):
        return None
    said = [[turn.terminated for turn in turns], [turn.truncated for turn in turns]]
    flags = np.array([*said, [turn.active for turn in turns]], np.bool_)
    flags[2] &= ~(flags[0] | flags[1])
    return flags


def index_of(lanes: list[int]) -> Any:
    """Return an index of ascending lanes: a slice where it is one, which takes a tenth of the time.

    It selects views, while an array of numbers selects copies.
    """
    first, last = lanes[0], lanes[-1]
    return slice(first, last + 1) if last - first + 1 == len(lanes) else np.array(lanes)


def combined(how: str, before: float, value: float, seen: float) -> float:
    """Return a metric after ``value``, of which ``seen`` values made it what it was ``before``."""
    if how == "last" or not seen:
        return value
    if how == "sum":
        return before + value
    if how == "mean":
        return before + (value - before) / (seen + 1)
    return max(before, value) if how == "max" else min(before, value)
