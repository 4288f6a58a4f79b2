"""Measure how often each bootstrap interval covers the truth, and how wide it is.

    python benchmarks/coverage.py --trials 1000 --reps 4000

prints the tables of docs/statistics.md. Every trial draws new scores (runs, tasks): task means
spread evenly over [0.2, 0.8], noise of standard deviation 0.2 that is normal or skewed (a shifted
exponential). The truth is the statistic of 200,000 runs. All methods see the same resamples. Ranks
are evaluated for equal contestants, where every claim is false.
"""

import argparse
import itertools
import time
from collections.abc import Callable, Iterator

import numpy as np

if __name__ == "coverage":
    # Scripts of this folder see this file first when numba looks for the package of that name.
    raise ImportError("benchmarks/coverage.py is a script, not the package coverage")

from coopbench.statistics import (
    difference_of,
    iqm,
    mean,
    median,
    probability_of_improvement,
    rank_intervals,
)
from coopbench.statistics.intervals import METHODS, interval_ends
from coopbench.statistics.resampling import sampler_for

SIZES = [(runs, tasks) for runs in (5, 10) for tasks in (1, 6, 26)]
SPREAD = 0.2  # standard deviation of the noise, in scores
CONTESTANTS = 4  # that are ranked
SHIFT = 0.1  # by how much the first of a pair is better
NOISES: dict[str, Callable] = {
    "normal": lambda rng, shape: rng.normal(0.0, SPREAD, shape),
    "skewed": lambda rng, shape: SPREAD * (rng.exponential(1.0, shape) - 1.0),
}
STATISTICS = {
    "mean": mean,
    "median": median,
    "iqm": iqm,
    "difference of iqm": difference_of(iqm),
    "probability of improvement": probability_of_improvement,
}


def task_means(tasks: int) -> np.ndarray:
    """Return the true score of every task."""
    return np.linspace(0.2, 0.8, tasks) if tasks > 1 else np.array([0.5])


def scores_like(statistic, noise: Callable, shape: tuple[int, int], rng) -> np.ndarray | tuple:
    """Draw what the statistic needs: one score matrix, or a pair with the first one better."""
    centres = task_means(shape[1])
    first = centres + noise(rng, shape)
    if statistic in (mean, median, iqm):
        return first
    return first + SHIFT, centres + noise(rng, shape)


def truth(statistic, noise: Callable, tasks: int) -> float:
    """Return the statistic of very many runs."""
    scores = scores_like(statistic, noise, (200_000, tasks), np.random.default_rng(0))
    return statistic(*scores) if isinstance(scores, tuple) else statistic(scores)


def study(statistic, noise: Callable, shape: tuple[int, int], options) -> np.ndarray:
    """Return (methods, 2): the share of trials that cover, and the mean width."""
    target = truth(statistic, noise, shape[1])
    rng = np.random.default_rng([options.seed, *shape])
    outcomes = np.empty((options.trials, len(METHODS), 2))
    for trial in range(options.trials):
        sampler = sampler_for(scores_like(statistic, noise, shape, rng), statistic)
        values = sampler.draw("runs", options.reps, trial)
        for k, method in enumerate(METHODS):
            low, high, _ = interval_ends(sampler, values, method, "runs", 0.95)
            outcomes[trial, k] = low[0] <= target <= high[0], high[0] - low[0]
    return np.array([outcomes[:, :, 0].mean(axis=0), np.nanmean(outcomes[:, :, 1], axis=0)]).T


def rank_study(noise: Callable, shape: tuple[int, int], options) -> float:
    """Return the share of trials in which no rank is claimed among equal contestants."""
    rng, held = np.random.default_rng([options.seed, *shape]), 0
    for trial in range(options.trials):
        scores = [task_means(shape[1]) + noise(rng, shape) for _ in range(CONTESTANTS)]
        ranks = rank_intervals(scores, iqm, reps=options.reps, seed=trial).interval
        held += np.all(ranks.low == 1) and np.all(ranks.high == CONTESTANTS)
    return held / options.trials


def rank_table(options) -> Iterator[str]:
    """Yield the lines of the table of ranks."""
    sizes = " | ".join(f"{runs} x {tasks}" for runs, tasks in SIZES)
    yield f"\nRanks of {CONTESTANTS} equal contestants by IQM\n\n| noise | {sizes} |"
    yield "|---|" + "---|" * len(SIZES)
    for name, noise in NOISES.items():
        cells = " | ".join(f"{rank_study(noise, shape, options):.3f}" for shape in SIZES)
        yield f"| {name} | {cells} |"


def tables(options) -> Iterator[str]:
    """Yield the lines of one table per kind of noise."""
    sizes = " | ".join(f"{runs} x {tasks}" for runs, tasks in SIZES)
    for name, noise in NOISES.items():
        yield f"\nNoise: {name}\n\n| statistic | method | {sizes} |"
        yield "|---|---|" + "---|" * len(SIZES)
        for label, statistic in STATISTICS.items():
            columns = [study(statistic, noise, shape, options) for shape in SIZES]
            for k, method in enumerate(METHODS):
                cells = " | ".join(f"{part[k, 0]:.3f} ({part[k, 1]:.3f})" for part in columns)
                yield f"| {label} | {method} | {cells} |"


def main() -> None:
    """Print the tables and the time they took."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--trials", type=int, default=1000)
    parser.add_argument("--reps", type=int, default=4000)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    began = time.perf_counter()
    for line in itertools.chain(tables(options), rank_table(options)):
        print(line, flush=True)
    error = np.sqrt(0.95 * 0.05 / options.trials)
    print(f"\n{options.trials} trials, {options.reps} resamples, standard error {error:.3f}")
    print(f"{time.perf_counter() - began:.0f} s")


if __name__ == "__main__":
    main()
