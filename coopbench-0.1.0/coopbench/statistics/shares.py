"""Intervals in closed form of shares over tasks: probability of improvement, profiles.

Both are means over tasks of means of shares, so that Student's t serves: variances add over tasks,
degrees of freedom follow Satterthwaite 1946.
"""

import numpy as np

from coopbench.statistics.estimates import performance_profile, probability_of_improvement
from coopbench.statistics.results import Interval
from coopbench.statistics.scores import Scores, as_tasks, as_vector, check_confidence, columns_of

METHOD = "t"
NO_VARIATION = "no variation at all: a width of zero is not certainty"
SINGLE = "a task has a single value: no interval exists"


def improvement_interval(x: Scores, y: Scores, confidence: float = 0.95) -> Interval:
    """Put an interval around ``probability_of_improvement``, from placements.

    The placement of a value is the share of the other sample below it; on each task the variance
    is that of the mean placements of both samples (DeLong, DeLong and Clarke-Pearson 1988,
    Biometrics 44: 837-845). Ends are cut at 0 and 1.

    Raises:
        ValueError: if the numbers of tasks differ, or scores are missing.
    """
    check_confidence(confidence)
    estimate = probability_of_improvement(x, y)
    left, right = columns_of(as_tasks(x, "x")), columns_of(as_tasks(y, "y"))
    parts, freedom = [], []
    for a, b in zip(left, right, strict=True):
        for one, two in ((a, b), (b, a)):
            placements = _placements(one, two)
            parts.append(_variance(placements[:, None]) / (len(one) * len(left) ** 2))
            freedom.append(len(one) - 1)
    ends = _ends(np.array([estimate]), np.array(parts), np.array(freedom), confidence)
    notes = _notes(np.array(parts), min(freedom))
    return Interval(estimate, float(ends[0][0]), float(ends[1][0]), METHOD, 0, notes)


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
    return Interval(estimate, low, high, METHOD, 0, _notes(parts, int(freedom.min())))


def _placements(one: np.ndarray, two: np.ndarray) -> np.ndarray:
    """Return the share of ``two`` below every value of ``one``; ties count one half."""
    ordered = np.sort(two)
    below = np.searchsorted(ordered, one, side="left") + np.searchsorted(ordered, one, side="right")
    result: np.ndarray = below / (2.0 * len(two))
    return result


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
