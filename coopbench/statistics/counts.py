"""Counts of runs: exact intervals of shares, and runs far below the best."""

import numpy as np

from coopbench.statistics.scores import check_confidence


def binomial_interval(hits: int, count: int, confidence: float = 0.95) -> tuple[float, float]:
    """Return the exact interval of a share of which ``hits`` of ``count`` were seen.

    Clopper and Pearson 1934, Biometrika 26: 404-413.

    Raises:
        ValueError: unless 0 <= hits <= count and count >= 1.
    """
    from scipy import special

    check_confidence(confidence)
    if not 0 <= hits <= count or count < 1:
        raise ValueError(f"hits is {hits} of {count}; allowed are 0 to count, and count >= 1")
    tail = (1.0 - confidence) / 2.0
    low = 0.0 if hits == 0 else special.betaincinv(hits, count - hits + 1, tail)
    high = 1.0 if hits == count else special.betaincinv(hits + 1, count - hits, 1.0 - tail)
    return float(low), float(high)


def runs_behind_best(scores: np.ndarray, gap: float) -> int:
    """Return how many runs of one task score more than ``gap`` below the best of them.

    Scores that are nan, undefined, take no part.
    """
    return int(np.sum(np.asarray(scores) < np.fmax.reduce(scores) - gap))
