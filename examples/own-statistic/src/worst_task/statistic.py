"""The worst task: the lowest of the mean normalized scores of the tasks."""

import numpy as np

from coopbench.analysis.aggregates import Statistic


def weights(means: np.ndarray) -> np.ndarray:
    """Return the weights of the lowest of the task means, (tasks,)."""
    shares = np.zeros(len(means))
    shares[np.argmin(means)] = 1.0
    return shares


STATISTIC = Statistic(
    weights=weights,
    label="Worst task",
    name="worst task",
    meaning="lowest of the mean normalized scores of the tasks",
    reading="The mean normalized score on the task where it is lowest.",
    axis="worst task, mean of",
)
