"""Measure the bootstrap, in seconds of processor time after compilation.

    python benchmarks/resampling.py [--record]

prints the table of docs/statistics.md: five algorithms, 10 runs, 26 tasks and 50,000 resamples;
learning curves and ranks of 10 runs and 30 tasks.
"""

import itertools
import time
from collections.abc import Callable
from functools import partial

import numpy as np
import speed

from coopbench.statistics import (
    CurveBootstrap,
    bootstrap_interval,
    bootstrap_intervals,
    iqm,
    mean,
    median,
    optimality_gap,
    performance_profile,
    probability_of_improvement,
    rank_intervals,
)

RNG = np.random.default_rng(0)
SCORES = [RNG.random((10, 26)) for _ in range(5)]
CONTESTANTS = [RNG.random((10, 30)) for _ in range(10)]
CURVES, STEPS = RNG.random((10, 30, 200)), 10_000.0 * np.arange(1, 201)
PROFILE = partial(performance_profile, taus=np.linspace(0.0, 1.0, 100))


def aggregates_and_profiles() -> None:
    """Give four aggregates and a profile of 100 points to each of five algorithms."""
    for scores in SCORES:
        bootstrap_intervals(scores, (mean, median, iqm, optimality_gap, PROFILE))


def improvements() -> None:
    """Compare all ten pairs of five algorithms."""
    for pair in itertools.combinations(SCORES, 2):
        bootstrap_interval(pair, probability_of_improvement)


def learning_curves() -> None:
    """Give bands, areas and steps to a threshold to one policy: 200 points, 2000 resamples."""
    drawn = CurveBootstrap(CURVES, reps=2_000)
    for statistic in (iqm, mean):
        drawn.band(statistic, method="expanded")
        drawn.area(STEPS, statistic, method="expanded")
        drawn.threshold(STEPS, 0.5, statistic)


def ranks() -> None:
    """Rank ten contestants with 2000 resamples."""
    rank_intervals(CONTESTANTS, iqm, reps=2_000)


def seconds(job: Callable[[], None]) -> float:
    """Return the least processor time of three calls, after one that compiles."""
    job()
    times = []
    for _ in range(3):
        began = time.process_time()
        job()
        times.append(time.process_time() - began)
    return min(times)


JOBS = {
    "four aggregates and a profile of 100 points: 5 algorithms, 10 runs, 26 tasks, "
    "50,000 resamples": aggregates_and_profiles,
    "probability of improvement of all 10 pairs of these": improvements,
    "bands, areas and steps to a threshold of IQM and mean: 10 runs, 30 tasks, 200 points, "
    "2000 resamples": learning_curves,
    "ranks of 10 contestants: 10 runs, 30 tasks, 2000 resamples": ranks,
}


def main() -> None:
    """Print the seconds of every job."""
    options = speed.parser(__doc__.splitlines()[0]).parse_args()
    machine = speed.machine()
    rows = [[what, seconds(job)] for what, job in JOBS.items()]
    table = speed.Table(("What", "Seconds"), rows, machine)
    speed.finish("resampling", table, options.record)


if __name__ == "__main__":
    main()
