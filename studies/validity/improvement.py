"""The interval of the probability of improvement: a table of ``python -m studies.validity``."""

import argparse
import itertools
from collections.abc import Iterator

import numpy as np
from scipy.special import ndtri

from coopbench.statistics import improvement_interval

TASKS = 8
FAILING = 0.2  # share of the runs that fail, where runs fail
SHARED = 0.8  # correlation between the tasks' scores of a run that plays all of them
TRUTHS = (0.5, 0.76, 0.96, 0.99)


def improvement(arguments: argparse.Namespace) -> Iterator[list[str]]:
    """Yield coverage and width of the interval of the probability of improvement."""
    cases = ("coverage", "a fifth fails: coverage", "each run plays all tasks: coverage")
    yield ["tasks", "runs", "truth", *(name for case in cases for name in (case, "width"))]
    for tasks, runs, truth in itertools.product((1, TASKS), (3, 5, 10), TRUTHS):
        rng, numbers = np.random.default_rng([22, tasks, runs]), list[float]()
        for share, shared in ((0.0, 0.0), (FAILING, 0.0), (0.0, SHARED)):
            hits = width = 0.0
            units = ([np.arange(runs)] * tasks,) * 2 if shared else None
            # Both fail, one of them, or none; a tie counts one half, and so does it if both fail.
            actual = (1 - share) ** 2 * truth + (1 - share) * share + share**2 / 2
            for _ in range(arguments.trials):
                first, second = rng.normal(0.0, 1.0, (2, runs, tasks))
                if shared:
                    both = rng.normal(0.0, np.sqrt(shared), (2, runs, 1))
                    first, second = np.sqrt(1.0 - shared) * np.stack([first, second]) + both
                first += np.sqrt(2.0) * ndtri(truth)
                failed = rng.uniform(size=(2, runs, tasks)) < share
                x, y = np.where(failed[0], -99.0, first), np.where(failed[1], -99.0, second)
                interval = improvement_interval(x, y, units=units)
                hits += interval.low <= actual <= interval.high
                width += interval.high - interval.low
            numbers += [hits / arguments.trials, width / arguments.trials]
        yield [str(tasks), str(runs), f"{truth:g}", *(f"{value:.3f}" for value in numbers)]
