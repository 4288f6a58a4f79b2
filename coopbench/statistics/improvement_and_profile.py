"""Intervals in closed form of shares over tasks: probability of improvement, profiles.

Both are means over tasks. A profile takes Student's t: variances add over tasks, degrees of freedom
follow Satterthwaite 1946. Tasks that the same units have played, runs or episodes, are not
independent: such units are summed over these tasks first.
"""

from collections.abc import Hashable, Sequence

import numpy as np

from coopbench.statistics.estimates import (
    performance_profile,
    probability_of_improvement,
    twice_below,
)
from coopbench.statistics.intervals import Interval
from coopbench.statistics.scores import Scores, as_tasks, as_vector, check_confidence, columns_of
from coopbench.statistics.two_way import alike

NO_VARIATION = "no variation at all: a width of zero is not certainty"
SINGLE = "a task has a single value: no interval exists"
Labels = Sequence[Hashable]  # one for every task; None: no other task has these units


def improvement_interval(
    x: Scores,
    y: Scores,
    confidence: float = 0.95,
    matched: bool = False,
    labels: tuple[Labels, Labels] | None = None,
) -> Interval:
    """Put an interval around ``probability_of_improvement``, never one of width zero.

    Both limits solve: the estimate is as far away as its standard error would be at the limit,
    times the quantile of Student's t for m + n - 2 degrees of freedom. This is method 5 of
    Newcombe 2006 (Statistics in Medicine 25: 559-573), with the variance of Hanley and McNeil 1982
    (Radiology 143: 29-36) and N* = (m + n) / 2 - 1. Of several tasks, variances and degrees of
    freedom add, and each variance is taken at the mean over tasks: it is concave, so that the sum
    is not too small.

    With ``matched``, value i of both samples on every task comes from one and the same episode.
    ``labels``, of the tasks of x and of those of y, say which tasks have the same units: value i of
    two tasks with equal labels (not None) comes from the same run. In both cases the variance of
    the sum contains the correlation between the tasks' placements, which otherwise is taken as 0.
    With ``labels`` degrees of freedom are those of the different runs, and where all runs have the
    same placement on a task, the correlation, which is not known, is taken as 1. Where tasks go
    opposite ways, the variance of their mean is at least 1 / tasks of what it is for independent
    tasks.

    Raises:
        ValueError: if the numbers of tasks differ, or scores are missing; with ``matched`` or equal
            labels also if the numbers of values differ.
    """
    check_confidence(confidence)
    estimate = probability_of_improvement(x, y)
    pairs = list(zip(columns_of(as_tasks(x, "x")), columns_of(as_tasks(y, "y")), strict=True))
    if matched and len({len(column) for pair in pairs for column in pair}) > 1:
        raise ValueError("matched samples need one value per episode; their numbers differ")
    if min(len(column) for pair in pairs for column in pair) < 2:
        return Interval(estimate, np.nan, np.nan, (SINGLE,))
    sizes = np.array([[len(one), len(two)] for one, two in pairs])
    sharing, freedom = 1.0, float(np.sum(sizes - 1))
    if matched:
        added = [_placements(one, two) - _placements(two, one) for one, two in pairs]
        sharing = float(_correlation(added, [0] * len(added), 0.0).mean()) * len(pairs)
    elif labels is not None:
        sharing, freedom = _of_shared_runs(pairs, labels)
    sharing = max(sharing, 1.0 / len(pairs))  # 0 up to rounding on both sides of a zero-sum game
    low = _lowest(estimate, sizes, sharing, freedom, confidence)
    high = 1.0 - _lowest(1.0 - estimate, sizes, sharing, freedom, confidence)  # of the complement
    return Interval(estimate, low, high)


def _of_shared_runs(
    pairs: Sequence[tuple[np.ndarray, np.ndarray]], labels: tuple[Labels, Labels]
) -> tuple[float, float]:
    """Return the ``sharing`` of tasks with labels, and the degrees of freedom."""
    samples = (
        [_placements(one, two) for one, two in pairs],
        [_placements(two, one) for one, two in pairs],
    )
    freedom = 0
    for side, names in zip(samples, labels, strict=True):
        freedom += sum(len(side[members[0]]) - 1 for members in _blocks(side, names))
    parts = [_correlation(*side, 1.0).mean() for side in zip(samples, labels, strict=True)]
    return float(np.mean(parts)) * len(pairs), float(freedom)


def _lowest(
    estimate: float, sizes: np.ndarray, sharing: float, freedom: float, confidence: float
) -> float:
    """Return the lower limit of a mean share over tasks with ``sizes`` (tasks, 2) of samples.

    ``sharing`` is by how much the variance of the mean exceeds that of independent tasks.
    """
    from scipy import special

    pairs, totals = sizes.prod(axis=1), sizes.sum(axis=1)
    quantile = special.stdtrit(freedom, 0.5 + confidence / 2.0)
    low, high = 0.0, estimate
    for _ in range(60):  # halves the distance to less than the spacing of floats
        p = (low + high) / 2.0
        skew = (1.0 - p) / (2.0 - p) + p / (1.0 + p)
        variances = p * (1.0 - p) * (1.0 + (totals / 2.0 - 1.0) * skew) / pairs
        half = quantile * np.sqrt(sharing * variances.sum()) / len(sizes)
        low, high = (p, high) if estimate - p > half else (low, p)
    return high


def _correlation(added: Sequence[np.ndarray], labels: Labels, unknown: float) -> np.ndarray:
    """Return the correlation between tasks of what a unit adds to the estimate, (tasks, tasks).

    It is 0 between tasks of different labels, and ``unknown`` where a task does not vary.
    """
    result = np.eye(len(added))
    for members in _blocks(added, labels):
        rows = np.array([added[k] for k in members])
        centred = rows - rows.mean(axis=1, keepdims=True)
        norms = np.sqrt((centred**2).sum(axis=1))
        varies = norms > 0.0
        scaled = centred / np.where(varies, norms, 1.0)[:, None]
        both = varies[:, None] & varies[None, :]
        result[np.ix_(members, members)] = np.where(both, scaled @ scaled.T, unknown)
    np.fill_diagonal(result, 1.0)
    return result


def profile_interval(
    scores: Scores, taus: Scores, confidence: float = 0.95, labels: Labels | None = None
) -> Interval:
    """Put a pointwise interval around ``performance_profile``, arrays (thresholds,).

    Ends are cut at 0 and 1. ``labels`` say which tasks have the same units: value i of two tasks
    with equal labels (not None) comes from the same run or episode.

    Raises:
        ValueError: for missing scores, an empty or missing threshold, or different numbers of
            values of tasks with equal labels.
    """
    check_confidence(confidence)
    tasks, levels = columns_of(as_tasks(scores)), as_vector(taus, "taus")
    estimate = performance_profile(scores, levels)
    total = sum(len(task) for task in tasks)
    blocks = _blocks(tasks, [None] * len(tasks) if labels is None else labels)
    above = [
        np.sum([(tasks[k][:, None] > levels).astype(np.float64) for k in members], axis=0)
        for members in blocks
    ]
    parts = np.array([_variance(part) * len(part) / total**2 for part in above])
    freedom = np.array([len(part) - 1 for part in above])
    low, high = _ends(estimate, parts, freedom, confidence)
    return Interval(estimate, low, high, _notes(parts, int(freedom.min())))


def _blocks(tasks: Sequence[np.ndarray], labels: Labels) -> list[list[int]]:
    """Group tasks by label; raise ``ValueError`` if those of one have different numbers of units.

    A task without a label is alone.
    """
    if len(labels) != len(tasks):
        raise ValueError(f"{len(labels)} labels for {len(tasks)} tasks; allowed is one for each")
    blocks = alike(range(len(tasks)), labels)
    for members in blocks:
        sizes = sorted({len(tasks[k]) for k in members})
        if len(sizes) > 1:
            raise ValueError(
                f"tasks with the label {labels[members[0]]!r} have {sizes[0]} and {sizes[1]} "
                "values; allowed are equal numbers, of the same units"
            )
    return blocks


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
