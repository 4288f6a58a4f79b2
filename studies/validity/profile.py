"""The band of a performance profile: a table of ``python -m studies.validity``."""

import argparse
import itertools
from collections.abc import Iterator

import numpy as np
from scipy.special import ndtr, ndtri

from coopbench.statistics import profile_interval

TASKS = 8
UNEQUAL = 2.0  # standard deviations by which means of the easiest and hardest task are moved
SHARED = 0.8  # correlation between the tasks' scores of a run that plays all of them
SHARES = (0.5, 0.8, 0.9, 0.97)  # of the runs above the threshold, on a task of middle difficulty
CASES = {  # tasks, by how much their means differ, correlation
    "one task": (1, 0.0, 0.0),
    f"{TASKS} tasks": (TASKS, 0.0, 0.0),
    "unequal tasks": (TASKS, UNEQUAL, 0.0),
    "each run plays all tasks": (TASKS, 0.0, SHARED),
    "the same, unequal": (TASKS, UNEQUAL, SHARED),
}


def profile(arguments: argparse.Namespace) -> Iterator[list[str]]:
    """Yield coverage and width of the band of a profile of normal runs at one threshold."""
    yield ["runs", "share", *(name for case in CASES for name in (case, "width"))]
    for runs, share in itertools.product((3, 5, 10), SHARES):
        numbers = list[float]()
        for tasks, unequal, shared in CASES.values():
            rng = np.random.default_rng([23, runs, tasks])
            means = ndtri(share) + np.linspace(-unequal, unequal, tasks)
            hits = width = 0.0
            for _ in range(arguments.trials):
                own, both = rng.normal(size=(runs, tasks)), rng.normal(size=(runs, 1))
                scores = means + np.sqrt(1.0 - shared) * own + np.sqrt(shared) * both
                units = [np.arange(runs)] * tasks if shared else None
                interval = profile_interval(scores, [0.0], units=units)
                hits += interval.low[0] <= ndtr(means).mean() <= interval.high[0]
                width += interval.high[0] - interval.low[0]
            numbers += [hits / arguments.trials, width / arguments.trials]
        yield [str(runs), f"{share:g}", *(f"{value:.3f}" for value in numbers)]
