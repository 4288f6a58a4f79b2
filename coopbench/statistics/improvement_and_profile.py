"""Intervals in closed form of shares over tasks: probability of improvement, profiles.

Both are means over tasks. A profile takes Student's t: variances add over tasks, degrees of freedom
follow Satterthwaite 1946.
"""

from collections.abc import Sequence

import numpy as np

from coopbench.statistics.estimates import (
    performance_profile,
    probability_of_improvement,
    twice_below,
)
from coopbench.statistics.intervals import Interval
from coopbench.statistics.scores import Scores, as_tasks, as_vector, check_confidence, columns_of

NO_VARIATION = "no variation at all: a width of zero is not certainty"
SINGLE = "a task has a single value: no interval exists"


def improvement_interval(
    x: Scores, y: Scores, confidence: float = 0.95, matched: bool = False
) -> Interval:
    """Put an interval around ``probability_of_improvement``, never one of width zero.

    Both limits solve: the estimate is as far away as its standard error would be at the limit,
    times the quantile of Student's t for m + n - 2 degrees of freedom. This is method 5 of
    Newcombe 2006 (Statistics in Medicine 25: 559-573), with the variance of Hanley and McNeil 1982
    (Radiology 143: 29-36) and N* = (m + n) / 2 - 1. Of several tasks, variances and degrees of
    freedom add, and each variance is taken at the mean over tasks: it is concave, so that the sum
    is not too small.

    With ``matched``, value i of both samples on every task comes from one and the same episode: the
    variance of the sum contains the correlation between the tasks' placements, which without it is
    taken as 0. Where tasks go opposite ways, the variance of their mean is at least 1 / tasks of
    what it is for independent tasks.

    Raises:
        ValueError: if the numbers of tasks differ, or scores are missing; with ``matched`` also if
            the numbers of values differ.
    """
    check_confidence(confidence)
    estimate = probability_of_improvement(x, y)
    pairs = list(zip(columns_of(as_tasks(x, "x")), columns_of(as_tasks(y, "y")), strict=True))
    if matched and len({len(column) for pair in pairs for column in pair}) > 1:
        raise ValueError("matched samples need one value per episode; their numbers differ")
    if min(len(column) for pair in pairs for column in pair) < 2:
        return Interval(estimate, np.nan, np.nan, (SINGLE,))
    sizes = np.array([[len(one), len(two)] for one, two in pairs])
    sharing = float(_correlation(pairs).mean()) * len(pairs) if matched else 1.0
    sharing = max(sharing, 1.0 / len(pairs))  # 0 up to rounding on both sides of a zero-sum game
    low = _lowest(estimate, sizes, sharing, confidence)
    high = 1.0 - _lowest(1.0 - estimate, sizes, sharing, confidence)  # of the complement
    return Interval(estimate, low, high)


def _lowest(estimate: float, sizes: np.ndarray, sharing: float, confidence: float) -> float:
    """Return the lower limit of a mean share over tasks with ``sizes`` (tasks, 2) of samples.

    ``sharing`` is by how much the variance of the mean exceeds that of independent tasks.
    """
    from scipy import special

    pairs, totals = sizes.prod(axis=1), sizes.sum(axis=1)
    quantile = special.stdtrit(float(np.sum(totals - 2)), 0.5 + confidence / 2.0)
    low, high = 0.0, estimate
    for _ in range(60):  # halves the distance to less than the spacing of floats
        p = (low + high) / 2.0
        skew = (1.0 - p) / (2.0 - p) + p / (1.0 + p)
        variances = p * (1.0 - p) * (1.0 + (totals / 2.0 - 1.0) * skew) / pairs
        half = quantile * np.sqrt(sharing * variances.sum()) / len(sizes)
        low, high = (p, high) if estimate - p > half else (low, p)
    return high


def _correlation(pairs: Sequence[tuple[np.ndarray, np.ndarray]]) -> np.ndarray:
    """Return the correlation between tasks of what an episode adds to the estimate, (tasks, tasks).

    A task on which placements do not vary is uncorrelated.
    """
    added = np.array([_placements(one, two) - _placements(two, one) for one, two in pairs])
    centred = added - added.mean(axis=1, keepdims=True)
    norms = np.sqrt((centred**2).sum(axis=1))
    scaled = centred / np.where(norms > 0.0, norms, 1.0)[:, None]
    result: np.ndarray = scaled @ scaled.T
    np.fill_diagonal(result, 1.0)
    return result


def profile_interval(scores: Scores, taus: Scores, confidence: float = 0.95) -> Interval:
    """Put a pointwise interval around ``performance_profile``, arrays (thresholds,).

    Ends are cut at 0 and 1.

    Raises:
        ValueError: for missing scores, or an empty or missing threshold.
    """
    check_confidence(confidence)
    tasks, levels = columns_of(as_tasks(scores)), as_vector(taus, "taus")
    estimate = performance_profile(scores, levels)
    total = sum(len(task) for task in tasks)
    above = [(task[:, None] > levels).astype(np.float64) for task in tasks]
    parts = np.array([_variance(part) * len(part) / total**2 for part in above])
    freedom = np.array([len(part) - 1 for part in above])
    low, high = _ends(estimate, parts, freedom, confidence)
    return Interval(estimate, low, high, _notes(parts, int(freedom.min())))


def _placements(one: np.ndarray, two: np.ndarray) -> np.ndarray:
    """Return the share of ``two`` below every value of ``one``; ties count one half."""
    return np.asarray(twice_below(one, two) / (2.0 * len(two)))


def _variance(columns: np.ndarray) -> np.ndarray:
    """Return the variance of every column, ddof 1; nan for a single row."""
    if len(columns) < 2:
        return np.full(columns.shape[1], np.nan)
    return np.asarray(columns.var(axis=0, ddof=1))


def _ends(
    estimate: np.ndarray, parts: np.ndarray, freedom: np.ndarray, confidence: float
) -> tuple[np.ndarray, np.ndarray]:
    """Return both ends, given the (parts, columns) variances and their degrees of freedom."""
    from scipy import special

    total = parts.sum(axis=0)
    with np.errstate(invalid="ignore", divide="ignore"):
        df = total**2 / np.sum(parts**2 / np.maximum(freedom, 1)[:, None], axis=0)
    quantile = special.stdtrit(np.where(total > 0.0, df, 1.0), 0.5 + confidence / 2.0)
    half = quantile * np.sqrt(total)
    return np.clip(estimate - half, 0.0, 1.0), np.clip(estimate + half, 0.0, 1.0)


def _notes(parts: np.ndarray, freedom: int) -> tuple[str, ...]:
    if freedom < 1:
        return (SINGLE,)
    return (NO_VARIATION,) if not parts.any() else ()
