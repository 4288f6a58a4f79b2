"""Intervals in closed form of shares over tasks: probability of improvement, profiles.

Both are means over tasks, and a share whose scores do not vary is not certain: variances are those
at a limit, or of a few more scores on either side. Tasks that the same units have played, runs or
episodes, are not independent: their variances contain the correlation over these units.
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
from coopbench.statistics.shared_units import Units, align, connected

SINGLE = "a task has a single value: no interval exists"


def improvement_interval(
    x: Scores,
    y: Scores,
    confidence: float = 0.95,
    units: tuple[Units, Units] | None = None,
    matched: bool = False,
) -> Interval:
    """Put an interval around ``probability_of_improvement``, never one of width zero.

    Both limits solve: the estimate is as far away as its standard error would be at the limit,
    times the quantile of Student's t for m + n - 2 degrees of freedom. This is method 5 of
    Newcombe 2006 (Statistics in Medicine 25: 559-573), with the variance of Hanley and McNeil 1982
    (Radiology 143: 29-36) and N* = (m + n) / 2 - 1. Of several tasks, variances and degrees of
    freedom add, and each variance is taken at the mean over tasks: it is concave, so that the sum
    is not too small.

    ``units``, of x and of y, are an array (values,) for every task: values of two tasks with equal
    entries come from the same run or episode. The variance of the sum then contains the correlation
    between the tasks' placements, which otherwise is taken as 0; degrees of freedom are those of
    the different units, and where all units have the same placement on a task, the correlation,
    which is not known, is taken as 1. With ``matched``, value i of both samples on every task comes
    from one and the same episode: degrees of freedom add over tasks, and a correlation that is not
    known is taken as 0, since episodes are many. Where tasks go opposite ways, the variance of
    their mean is at least 1 / tasks of what it is for independent tasks.

    Raises:
        ValueError: if the numbers of tasks differ, scores are missing, units are not one for each
            value, or with ``matched`` those of x and y differ.
    """
    check_confidence(confidence)
    estimate = probability_of_improvement(x, y)
    pairs = list(zip(columns_of(as_tasks(x, "x")), columns_of(as_tasks(y, "y")), strict=True))
    if units is not None:
        for side, names in enumerate(units):
            _check_units([pair[side] for pair in pairs], names)
    if matched and (units is None or not all(map(np.array_equal, *units))):
        raise ValueError("matched samples need the units of both, and these must be the same")
    if min(len(column) for pair in pairs for column in pair) < 2:
        return Interval(estimate, np.nan, np.nan, (SINGLE,))
    sizes = np.array([[len(one), len(two)] for one, two in pairs])
    sharing, freedom = 1.0, float(np.sum(sizes - 1))
    if units is not None and matched:
        added = [_placements(one, two) - _placements(two, one) for one, two in pairs]
        sharing = float(_correlation(added, units[0], 0.0).mean()) * len(pairs)
    elif units is not None:
        sharing, freedom = _of_shared_units(pairs, units)
    sharing = max(sharing, 1.0 / len(pairs))  # 0 up to rounding on both sides of a zero-sum game
    low = _lowest(estimate, sizes, sharing, freedom, confidence)
    high = 1.0 - _lowest(1.0 - estimate, sizes, sharing, freedom, confidence)  # of the complement
    return Interval(estimate, low, high)


def _of_shared_units(
    pairs: Sequence[tuple[np.ndarray, np.ndarray]], units: tuple[Units, Units]
) -> tuple[float, float]:
    """Return the ``sharing`` of tasks whose units are given, and the degrees of freedom."""
    samples = (
        [_placements(one, two) for one, two in pairs],
        [_placements(two, one) for one, two in pairs],
    )
    freedom = 0
    for side, names in zip(samples, units, strict=True):
        freedom += sum(min(len(side[k]) for k in members) - 1 for members in connected(names))
    parts = [_correlation(*side, 1.0).mean() for side in zip(samples, units, strict=True)]
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


def _correlation(added: Sequence[np.ndarray], units: Units, unknown: float) -> np.ndarray:
    """Return the correlation between tasks of what a unit adds to the estimate, (tasks, tasks).

    It is 0 between tasks that share no unit, and ``unknown`` where a task does not vary.
    """
    result = np.eye(len(added))
    for members in connected(units):
        centred = [added[k] - added[k].mean() for k in members]
        rows = np.stack(align(centred, [units[k] for k in members]))
        norms = np.sqrt((rows**2).sum(axis=1))
        varies = norms > 0.0
        scaled = rows / np.where(varies, norms, 1.0)[:, None]
        both = varies[:, None] & varies[None, :]
        result[np.ix_(members, members)] = np.where(both, scaled @ scaled.T, unknown)
    np.fill_diagonal(result, 1.0)
    return result


def profile_interval(
    scores: Scores, taus: Scores, confidence: float = 0.95, units: Units | None = None
) -> Interval:
    """Put a pointwise interval around ``performance_profile``, never one of width zero.

    All its fields are arrays (thresholds,). The profile is a weighted sum of the tasks' shares.
    Price and Bonett 2004 (Computational Statistics & Data Analysis 45: 449-456) compute such a sum
    and its variance with 2 / m more scores above the threshold, and as many below, on each of m
    tasks; for one task this is the interval of Agresti and Coull 1998 (The American Statistician
    52: 119-126). The 2 is of 95 % and more; below, it is z^2 / 2 for the normal quantile z, as
    their text has it. Ends are cut at 0 and 1, and moved to contain the estimate.

    ``units`` are an array (values,) for every task: values of two tasks with equal entries come
    from the same run or episode. The variance contains the correlation between the tasks over
    these units, which is taken as 1 where all units of a task are on one side. Because tasks that
    share units may vary as one, they count as one of the m in the variance, which is at least
    1 / tasks of that of independent tasks.

    Raises:
        ValueError: for missing scores, an empty or missing threshold, or units that are not one for
            each value.
    """
    from scipy import special

    check_confidence(confidence)
    tasks, levels = columns_of(as_tasks(scores)), as_vector(taus, "taus")
    estimate = performance_profile(scores, levels)
    sizes = np.array([len(task) for task in tasks])
    if units is None:
        units = np.split(np.arange(sizes.sum()), np.cumsum(sizes)[:-1])
    _check_units(tasks, units)
    if sizes.min() < 2:
        unknown = np.full(len(levels), np.nan)
        return Interval(estimate, unknown, unknown, (SINGLE,))
    above = [(task > levels[:, None]).astype(np.float64) for task in tasks]
    blocks, weights = connected(units), sizes / sizes.sum()
    z = special.ndtri(0.5 + confidence / 2.0)
    more = 2.0 if confidence >= 0.95 else z**2 / 2.0
    shares, counts = _with_more(above, more / len(blocks))
    errors = weights[:, None] * np.sqrt(shares * (1.0 - shares) / counts)  # of each task's part
    variance = sum(
        _variance(errors[members], [above[k] for k in members], [units[k] for k in members])
        for members in blocks
    )
    centre = weights @ _with_more(above, more / len(tasks))[0]
    half = z * np.sqrt(variance)
    low, high = np.minimum(estimate, centre - half), np.maximum(estimate, centre + half)
    return Interval(estimate, np.clip(low, 0.0, 1.0), np.clip(high, 0.0, 1.0))


def _with_more(above: Sequence[np.ndarray], more: float) -> tuple[np.ndarray, np.ndarray]:
    """Return shares of rows (columns, values) of ones, and numbers of values, for every task.

    Both count ``more`` ones and as many zeros in addition.
    """
    counts = np.array([[row.shape[1] + 2.0 * more] for row in above])
    return (np.stack([row.sum(axis=1) for row in above]) + more) / counts, counts


def _check_units(tasks: Sequence[np.ndarray], units: Units) -> None:
    """Raise ``ValueError`` unless every value of every task has its unit."""
    sizes, given = [len(task) for task in tasks], [np.shape(names) for names in units]
    if given != [(size,) for size in sizes]:
        raise ValueError(
            f"units have the shapes {given}, and tasks {sizes} values; allowed is one array for "
            "each task, with one entry for each value"
        )


def _placements(one: np.ndarray, two: np.ndarray) -> np.ndarray:
    """Return the share of ``two`` below every value of ``one``; ties count one half."""
    return np.asarray(twice_below(one, two) / (2.0 * len(two)))


def _variance(errors: np.ndarray, rows: Sequence[np.ndarray], units: Units) -> np.ndarray:
    """Return the variance of a sum over tasks with standard errors (tasks, columns), (columns,).

    ``rows`` (columns, values) of each task have the correlations.
    """
    centred = np.stack(align([row - row.mean(axis=1, keepdims=True) for row in rows], units))
    norms = np.sqrt((centred**2).sum(axis=2))
    varies = norms > 0.0
    scales = np.where(varies, errors, 0.0) / np.where(varies, norms, 1.0)
    varying = np.sum(np.sum(scales[:, :, None] * centred, axis=0) ** 2, axis=1)
    constant = np.where(varies, 0.0, errors).sum(axis=0)
    together = 2.0 * np.where(varies, errors, 0.0).sum(axis=0) + constant
    least = (errors**2).sum(axis=0) / len(rows)
    return np.asarray(np.maximum(varying + constant * together, least))
