"""Measure how often percentile bootstrap intervals cover the truth, and how wide they are.

    python -m studies.coverage --trials 1000 --reps 4000

prints the table of docs/statistics.md. Every trial draws new scores (runs, tasks): task means
spread evenly over [0.2, 0.8], noise of standard deviation 0.2 that is normal or skewed (a shifted
exponential). The truth is the statistic of 200,000 runs.
"""

import argparse
import time
from collections.abc import Callable, Iterator

import numpy as np

from coopbench.statistics import bootstrap_intervals, iqm, mean, median

SIZES = [(runs, tasks) for runs in (5, 10) for tasks in (1, 6, 26)]
SPREAD = 0.2  # standard deviation of the noise, in scores
NOISES: dict[str, Callable] = {
    "normal": lambda rng, shape: rng.normal(0.0, SPREAD, shape),
    "skewed": lambda rng, shape: SPREAD * (rng.exponential(1.0, shape) - 1.0),
}
STATISTICS = {"mean": mean, "median": median, "iqm": iqm}


def task_means(tasks: int) -> np.ndarray:
    """Return the true score of every task."""
    return np.linspace(0.2, 0.8, tasks) if tasks > 1 else np.array([0.5])


def matrix(noise: Callable, shape: tuple[int, int], rng) -> np.ndarray:
    """Draw the scores of one policy."""
    return task_means(shape[1]) + noise(rng, shape)


def truths(noise: Callable, tasks: int) -> list[float]:
    """Return every statistic of very many runs."""
    ours = matrix(noise, (200_000, tasks), np.random.default_rng(0))
    return [statistic(ours) for statistic in STATISTICS.values()]


def study(noise: Callable, shape: tuple[int, int], options) -> np.ndarray:
    """Return (statistics, 2): the share of trials that cover, and the mean width."""
    targets, rng = truths(noise, shape[1]), np.random.default_rng([options.seed, *shape])
    outcomes = np.empty((options.trials, len(STATISTICS), 2))
    for trial in range(options.trials):
        ours = matrix(noise, shape, rng)
        how = {"reps": options.reps, "seed": trial}
        intervals = bootstrap_intervals(ours, tuple(STATISTICS.values()), **how)
        for k, (interval, target) in enumerate(zip(intervals, targets, strict=True)):
            covered = interval.low <= target <= interval.high
            outcomes[trial, k] = covered, interval.high - interval.low
    return outcomes.mean(axis=0)


def tables(options) -> Iterator[str]:
    """Yield the lines of the table."""
    sizes = " | ".join(f"{runs} x {tasks}" for runs, tasks in SIZES)
    yield f"\n| noise | statistic | {sizes} |"
    yield "|---|---|" + "---|" * len(SIZES)
    for name, noise in NOISES.items():
        columns = [study(noise, shape, options) for shape in SIZES]
        for k, label in enumerate(STATISTICS):
            cells = " | ".join(f"{part[k, 0]:.3f} ({part[k, 1]:.3f})" for part in columns)
            yield f"| {name} | {label} | {cells} |"


def main() -> None:
    """Print the table and the time it took."""
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
