"""Figures of certificates: means with standard errors."""

from dataclasses import dataclass

import numpy as np

__all__ = ["Figure", "combined", "figure", "relative"]


@dataclass(frozen=True)
class Figure:
    """A measured value, its standard error and the number of episodes behind it."""

    value: float
    error: float
    episodes: int


def figure(returns: np.ndarray) -> Figure:
    """Return the mean of returns (line-ups, episodes); every line-up weighs the same."""
    lineups, episodes = returns.shape
    variance = returns.var(axis=1, ddof=1).sum() / episodes / lineups**2
    return Figure(float(returns.mean()), float(np.sqrt(variance)), returns.size)


def combined(parts: list[tuple[float, Figure]]) -> Figure:
    """Return the weighted sum of independent figures."""
    return Figure(
        sum(weight * part.value for weight, part in parts),
        float(np.sqrt(sum((weight * part.error) ** 2 for weight, part in parts))),
        sum(part.episodes for _, part in parts),
    )


def relative(returns: np.ndarray, base: np.ndarray) -> Figure:
    """Return the mean gain of ``returns`` over ``base``, as a fraction of the mean of ``base``.

    Both are (line-ups, episodes) of the same episodes.
    """
    gain, mean = figure(returns - base), float(base.mean())
    return Figure(gain.value / mean, gain.error / mean, gain.episodes)
