"""Coverage where runs dominate, as in the stored tables: a table of ``python -m studies.validity``.

The standard deviation of runs is a multiple of the error of a run's mean. A run that fails scores
the floor, which counts as data.
"""

import argparse
from collections.abc import Callable, Iterator

import numpy as np

from coopbench.statistics import Grid, TwoWay, half_widths

EPISODES, RUN_SD, FLOOR, CHUNK = 100, 0.1, 0.0, 100
RATIOS, COUNTS = (3.0, 14.0, 60.0), (3, 5, 10)
_SIGMA = 0.8  # of lognormal runs


def _lognormal(rng: np.random.Generator, size: tuple[int, ...]) -> np.ndarray:
    mean, square = np.exp(_SIGMA**2 / 2), np.expm1(_SIGMA**2)
    return 0.5 + RUN_SD * (rng.lognormal(0.0, _SIGMA, size) - mean) / (mean * np.sqrt(square))


# Name -> draw of the runs that do not fail, their mean, and the share of runs that fail.
SHAPES: dict[
    str, tuple[Callable[[np.random.Generator, tuple[int, ...]], np.ndarray], float, float]
] = {
    "normal": (lambda rng, size: rng.normal(0.5, RUN_SD, size), 0.5, 0.0),
    "t(3)": (
        lambda rng, size: 0.5 + RUN_SD * rng.standard_t(3.0, size) / np.sqrt(3.0),
        0.5,
        0.0,
    ),
    "lognormal": (_lognormal, 0.5, 0.0),
    "Beta near 1": (lambda rng, size: rng.beta(9.7, 0.3, size), 0.97, 0.0),
    "a tenth fails": (lambda rng, size: rng.normal(0.9, RUN_SD / 2, size), 0.9, 0.1),
    "a fifth fails": (lambda rng, size: rng.normal(0.9, RUN_SD / 2, size), 0.9, 0.2),
}


def task_coverage(shape: str, ratio: float, runs: int, trials: int) -> float:
    """Return how often the 95 % interval of the mean of one task covers the truth."""
    draw, mean, fails = SHAPES[shape]
    rng, hits = np.random.default_rng([30, runs]), 0
    noise = RUN_SD / ratio * np.sqrt(EPISODES)  # of an episode
    for start in range(0, trials, CHUNK):
        size = (min(CHUNK, trials - start), runs, 1)
        failed = rng.uniform(size=size) < fails
        scores = np.where(failed, FLOOR, draw(rng, size))
        scores = scores + rng.normal(0.0, noise, (*size[:2], EPISODES))
        two_way = TwoWay([Grid(one) for one in scores])
        halves = half_widths(two_way.spread(np.eye(size[0])))
        truth = (1.0 - fails) * mean + fails * FLOOR
        hits += int(np.sum(np.abs(two_way.means - truth) <= halves))
    return hits / trials


def regime(arguments: argparse.Namespace) -> Iterator[list[str]]:
    """Yield coverage by shape and ratio, and how far the lowest falls short of .95."""
    yield ["runs", "run sd / error of a run", *(f"{n} runs" for n in COUNTS), "shortfall"]
    for shape in SHAPES:
        for ratio in RATIOS:
            covered = [task_coverage(shape, ratio, n, arguments.trials) for n in COUNTS]
            short = max(0.0, 0.95 - min(covered))
            yield [shape, f"{ratio:g}", *(f"{one:.3f}" for one in covered), f"{short:.3f}"]
