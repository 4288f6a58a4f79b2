"""Measure how often each bootstrap interval covers the truth, and how wide it is.

    python -m studies.coverage --trials 1000 --reps 4000

prints the tables of docs/statistics.md. Every trial draws new scores (runs, tasks): task means
spread evenly over [0.2, 0.8], noise of standard deviation 0.2 that is normal or skewed (a shifted
exponential). The truth is the statistic of 200,000 runs. All methods see the same resamples.
"""

import argparse
import time
from collections.abc import Callable, Iterator

import numpy as np

from coopbench.statistics import (
    bootstrap_intervals,
    iqm,
    mean,
    median,
    probability_of_improvement,
)
from coopbench.statistics.bootstrap import METHODS

SIZES = [(runs, tasks) for runs in (5, 10) for tasks in (1, 6, 26)]
SPREAD = 0.2  # standard deviation of the noise, in scores
SHIFT = 0.1  # by how much the first of a pair is better
NOISES: dict[str, Callable] = {
    "normal": lambda rng, shape: rng.normal(0.0, SPREAD, shape),
    "skewed": lambda rng, shape: SPREAD * (rng.exponential(1.0, shape) - 1.0),
}
STATISTICS = {
    "mean": mean,
    "median": median,
    "iqm": iqm,
    "probability of improvement": probability_of_improvement,
}


def task_means(tasks: int) -> np.ndarray:
    """Return the true score of every task."""
    return np.linspace(0.2, 0.8, tasks) if tasks > 1 else np.array([0.5])


def matrix(noise: Callable, shape: tuple[int, int], rng) -> np.ndarray:
    """Draw the scores of one policy."""
    return task_means(shape[1]) + noise(rng, shape)


def truths(noise: Callable, tasks: int) -> list[float]:
    """Return every statistic of very many runs."""
    rng = np.random.default_rng(0)
    ours, theirs = (matrix(noise, (200_000, tasks), rng) for _ in range(2))
    single = [statistic(ours) for statistic in (mean, median, iqm)]
    return [*single, probability_of_improvement(ours + SHIFT, theirs)]


def study(noise: Callable, shape: tuple[int, int], options) -> np.ndarray:
    """Return (statistics, methods, 2): the share of trials that cover, and the mean width."""
    targets, rng = truths(noise, shape[1]), np.random.default_rng([options.seed, *shape])
    outcomes = np.empty((options.trials, len(STATISTICS), len(METHODS), 2))
    for trial in range(options.trials):
        ours, theirs = matrix(noise, shape, rng), matrix(noise, shape, rng)
        for m, method in enumerate(METHODS):
            how = {"method": method, "reps": options.reps, "seed": trial}
            intervals = bootstrap_intervals(ours, (mean, median, iqm), **how)
            pair = ours + SHIFT, theirs
            intervals += bootstrap_intervals(pair, (probability_of_improvement,), **how)
            for k, (interval, target) in enumerate(zip(intervals, targets, strict=True)):
                covered = interval.low <= target <= interval.high
                outcomes[trial, k, m] = covered, interval.high - interval.low
    return np.stack([outcomes[..., 0].mean(axis=0), np.nanmean(outcomes[..., 1], axis=0)], axis=-1)


def tables(options) -> Iterator[str]:
    """Yield the lines of one table per kind of noise."""
    sizes = " | ".join(f"{runs} x {tasks}" for runs, tasks in SIZES)
    for name, noise in NOISES.items():
        yield f"\nNoise: {name}\n\n| statistic | method | {sizes} |"
        yield "|---|---|" + "---|" * len(SIZES)
        columns = [study(noise, shape, options) for shape in SIZES]
        for k, label in enumerate(STATISTICS):
            for m, method in enumerate(METHODS):
                cells = " | ".join(f"{part[k, m, 0]:.3f} ({part[k, m, 1]:.3f})" for part in columns)
                yield f"| {label} | {method} | {cells} |"


def main() -> None:
    """Print the tables and the time they took."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--trials", type=int, default=1000)
    parser.add_argument("--reps", type=int, default=4000)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    began = time.perf_counter()
    for line in tables(options):
        print(line, flush=True)
    error = np.sqrt(0.95 * 0.05 / options.trials)
    print(f"\n{options.trials} trials, {options.reps} resamples, standard error {error:.3f}")
    print(f"{time.perf_counter() - began:.0f} s")


if __name__ == "__main__":
    main()
