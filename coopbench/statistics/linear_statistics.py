"""Statistics over task means as linear forms, and the interquartile mean of pooled runs.

A statistic of T task means is a weighted sum of them in the neighbourhood of the data (the delta
method): the weights say which tasks count, and the variance of the sum is that of the statistic.
Weights of many samples of task means, (..., tasks), are found at once.
"""

from collections.abc import Sequence

import numpy as np

from coopbench.statistics.estimates import iqm
from coopbench.statistics.shared_units import align
from coopbench.statistics.two_way import Grid, Spread, TwoWay, names_of, sharing

CUT = 0.25  # share of values that the interquartile mean drops at each end


def mean_weights(means: np.ndarray) -> np.ndarray:
    """Return the weights of the mean of task means, (tasks,)."""
    return np.full(np.shape(means), 1.0 / np.shape(means)[-1])


def trimmed_weights(means: np.ndarray) -> np.ndarray:
    """Return the weights of the interquartile mean of task means, (tasks,).

    ``int(0.25 * tasks)`` tasks are dropped at each end; the others have equal weights.
    """
    return _middle(means, int(CUT * means.shape[-1]))


def median_weights(means: np.ndarray) -> np.ndarray:
    """Return the weights of the median of task means, (tasks,)."""
    return _middle(means, (means.shape[-1] - 1) // 2)


def gap_weights(means: np.ndarray) -> np.ndarray:
    """Return the weights of the optimality gap, (tasks,): tasks above 1 count nothing.

    The gap is the mean over tasks of 1 - min(mean, 1); the form is without its constant.
    """
    return np.where(means < 1.0, -1.0 / means.shape[-1], 0.0)


def _middle(means: np.ndarray, cut: int) -> np.ndarray:
    tasks = means.shape[-1]
    middle = np.argsort(means, axis=-1, kind="stable")[..., cut : tasks - cut]
    weights = np.zeros(means.shape)
    np.put_along_axis(weights, middle, 1.0 / (tasks - 2 * cut), axis=-1)
    return weights


def iqm_of_runs(grids: Sequence[Grid]) -> tuple[float, Spread]:
    """Return the interquartile mean of all run means, pooled over tasks, and its spread.

    It answers for the typical run, not for the expectation, and only learners have it. Over runs
    its variance is that of the winsorised run means (Tukey and McLaughlin 1963, Sankhya A 25:
    331-352), summed over the tasks that the same runs have played; other tasks are independent.
    Episodes move all runs of a task at once, by the share of its runs in the middle half.

    Raises:
        ValueError: if a grid is of a fixed policy, or not allowed in ``TwoWay``.
    """
    if any(grid.fixed for grid in grids):
        raise ValueError("a grid is of a fixed policy; allowed are learners: it pools runs")
    two_way = TwoWay(grids)
    means = [grid.matrix.mean(axis=1) for grid in grids]
    pooled = np.sort(np.concatenate(means))
    cut, size = int(CUT * len(pooled)), len(pooled)
    low, high = pooled[cut], pooled[size - cut - 1]
    middle, blocks = size - 2 * cut, sharing(range(len(grids)), grids, "runs")
    runs, freedom = np.zeros(len(blocks)), np.ones(len(blocks))
    for k, members in enumerate(blocks):
        clipped = [np.clip(means[member], low, high) for member in members]
        names = names_of(members, grids, "runs")
        count = min(map(len, clipped))
        if count > 1:  # with a single run the interval is nan in any case
            if len({own.tobytes() for own in names}) > 1:
                rows = [row - row.mean() for row in clipped]
                scaled = [row * np.sqrt(len(row) / (len(row) - 1.0)) for row in rows]
                runs[k] = np.sum(np.sum(align(scaled, names), axis=0) ** 2) / middle**2
            else:
                runs[k] = np.var(np.sum(clipped, axis=0), ddof=1) * count / middle**2
            freedom[k] = count - 1.0
    weights = [np.mean((values >= low) & (values <= high)) for values in means]
    shares = np.array(weights) * [len(values) for values in means]
    spread = two_way.spread(shares / shares.sum())
    total = runs.sum()
    with np.errstate(invalid="ignore", divide="ignore"):
        df = total**2 / np.sum(runs**2 / freedom)
    part = np.array([total]) + 0.0 * spread.runs  # nan where a learner has too few runs
    return float(iqm(means)), spread._replace(runs=part, runs_df=np.array([df]))
