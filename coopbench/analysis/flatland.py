"""Scores of the Flatland challenge, from the returns of trains; see docs/timed.md.

An episode has N trains and a limit of T steps. A train loses at most 1 in a step.
"""

import math
from collections.abc import Iterable, Sequence

import numpy as np


def normalised_return(returns: np.ndarray, horizon: int) -> float:
    """Return the sum of all rewards over T N, in [-1, 0]; 0 is a loss of nothing.

    ``returns`` is (trains,), each the sum of its rewards. A train that has lost more than T, which
    a late arrival on a long path can cost, counts with -T, as in flatland-rl 4.3.0. ``horizon`` is
    T of this episode: limits differ between the episodes of one task.

    Raises:
        ValueError: for a horizon below 1, no trains, returns that are not finite, or one above 0.
    """
    earned = np.asarray(returns, np.float64)
    if horizon < 1 or earned.ndim != 1 or not earned.size:
        raise ValueError(
            f"horizon was {horizon} and returns had the shape {earned.shape}; allowed: a horizon "
            f"of at least 1, and one return for each train"
        )
    if not np.isfinite(earned).all() or earned.max() > 0.0:
        raise ValueError(f"returns were {earned.tolist()}; allowed: finite numbers up to 0")
    total = math.fsum(np.maximum(earned, -float(horizon)).tolist())
    return total / (horizon * earned.size)


def round_one(tests: Iterable[Sequence[float]]) -> float:
    """Return the mean over tests of their mean normalised return, in [-1, 0].

    ``tests`` holds the normalised returns of every test; an episode that was late or never begun
    counts -1 and is among them.
    """
    means = [math.fsum(test) / len(test) for test in tests]
    return math.fsum(means) / len(means)


def round_two(episodes: Iterable[float]) -> float:
    """Return the sum over episodes of 1 + normalised return, at most their number."""
    return math.fsum(1.0 + episode for episode in episodes)
