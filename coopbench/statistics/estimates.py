"""Point estimates of a score matrix: what one number or one curve says about all runs.

Scores are ``(runs, tasks)``, one row per independent training run, or a list with one 1-D array
per task where run counts differ. Missing and infinite entries raise and are named by position.
Definitions follow Agarwal et al. 2021, "Deep Reinforcement Learning at the Edge of the
Statistical Precipice" (NeurIPS), as their public code computes them.
"""

import numpy as np

from coopbench.statistics.scores import Scores, Tasks, as_tasks, as_vector, columns_of


def mean(scores: Scores) -> float:
    """Average the task means, so that tasks with few and with many runs weigh the same."""
    return float(np.mean(_task_means(as_tasks(scores))))


def median(scores: Scores) -> float:
    """Take the median over tasks of the task means (not of all cells)."""
    return float(np.median(_task_means(as_tasks(scores))))


def iqm(scores: Scores) -> float:
    """Average the middle half of all cells, pooled over runs and tasks.

    ``int(0.25 * cells)`` cells are dropped at each end and the rest is averaged plainly, exactly
    as ``scipy.stats.trim_mean`` does it. Pooling needs scores on one scale: normalize first. With
    unequal run counts a task with more runs weighs more. Source: Agarwal et al. 2021, section 4.3.
    """
    cells = _pool(as_tasks(scores))
    cut = int(0.25 * cells.size)
    middle = np.partition(cells, (cut, cells.size - cut - 1))[cut : cells.size - cut]
    return float(np.mean(middle))


def optimality_gap(scores: Scores, gamma: float = 1.0) -> float:
    """Measure how far the runs fall short of the score ``gamma`` on average; lower is better.

    Scores above ``gamma`` count as ``gamma``; scores below zero are not clipped, so the gap can
    exceed ``gamma``. Every task weighs the same. Source: Agarwal et al. 2021, section 4.3.
    """
    capped = [np.mean(np.minimum(column, gamma)) for column in columns_of(as_tasks(scores))]
    return float(gamma - np.mean(capped))


def probability_of_improvement(x: Scores, y: Scores) -> float:
    """Estimate how likely a run of ``x`` beats a run of ``y`` on a task drawn at random.

    Per task it is the share of run pairs that ``x`` wins, ties counting one half (Mann and
    Whitney 1947; Vargha and Delaney 2000), then the average over tasks; in [0, 1], and 0.5 means
    no difference. The two may have different numbers of runs, not of tasks.

    Raises:
        ValueError: if the numbers of tasks differ.
    """
    left, right = columns_of(as_tasks(x, "x")), columns_of(as_tasks(y, "y"))
    if len(left) != len(right):
        raise ValueError(f"y has {len(right)} tasks; allowed is the number in x, {len(left)}")
    return float(np.mean([_win_share(a, b) for a, b in zip(left, right, strict=True)]))


def performance_profile(scores: Scores, taus: Scores) -> np.ndarray:
    """Give the share of cells strictly above each threshold, one value per entry of ``taus``.

    The result is in [0, 1] and does not increase with the threshold. Source: Agarwal et al. 2021,
    section 4.2; Dolan and More 2002.

    Raises:
        ValueError: for an empty or missing threshold.
    """
    tasks, levels = as_tasks(scores), as_vector(taus, "taus")
    results = np.sort(_pool(tasks))
    return (results.size - np.searchsorted(results, levels, side="right")) / results.size


def _win_share(a: np.ndarray, b: np.ndarray) -> float:
    """Return the share of pairs in which an entry of ``a`` exceeds one of ``b``; ties are 1/2."""
    return float(twice_below(a, b).sum() / (2 * a.size * b.size))


def twice_below(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Return twice the number of entries of ``b`` below each of ``a``, (a,); ties are 1/2."""
    order, ordered = np.argsort(a), np.sort(b)
    rising, twice = a[order], np.empty(a.size, np.int64)  # what rises is found in a third of time
    left, right = (np.searchsorted(ordered, rising, side=side) for side in ("left", "right"))
    twice[order] = left + right
    return twice


def _task_means(tasks: Tasks) -> np.ndarray:
    if isinstance(tasks, np.ndarray):
        result: np.ndarray = tasks.mean(axis=0)
        return result
    return np.array([task.mean() for task in tasks])


def _pool(tasks: Tasks) -> np.ndarray:
    # Row-major, as numpy flattens: the order of the cells decides the last bit of their mean.
    return tasks.ravel() if isinstance(tasks, np.ndarray) else np.concatenate(tasks)
