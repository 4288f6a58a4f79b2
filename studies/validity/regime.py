"""Coverage where runs dominate, as in the stored tables: tables of ``python -m studies.validity``.

The standard deviation of runs is a multiple of the error of a run's mean, the ratio. A run that
fails scores the floor, which counts as data.
"""

import argparse
import csv
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from coopbench.protocol.loading import load_protocol
from coopbench.statistics import Grid, TwoWay, half_widths, mean_weights
from studies.reference import TABLES, source

Draw = Callable[[np.random.Generator, tuple[int, ...]], np.ndarray]

EPISODES, FLOOR, TASKS = 100, 0.0, 8
RATIOS, COUNTS = (3.0, 14.0, 60.0), (3, 5, 10)
GRIDS = 96  # of one call: their covariances are as many, squared
_SD = 0.1  # of the runs of most shapes
_SIGMA = 0.8  # of lognormal runs


@dataclass(frozen=True)
class Shape:
    """How the runs of a learner are distributed, in normalized score."""

    draw: Draw  # of the runs that do not fail
    middle: float  # their mean
    deviation: float  # their standard deviation
    fails: float = 0.0  # share of the runs that fail

    @property
    def mean(self) -> float:
        """Mean of all runs."""
        return (1.0 - self.fails) * self.middle + self.fails * FLOOR

    @property
    def sd(self) -> float:
        """Standard deviation of all runs."""
        apart = self.fails * (1.0 - self.fails) * (self.middle - FLOOR) ** 2
        return float(np.sqrt((1.0 - self.fails) * self.deviation**2 + apart))

    def scores(self, rng: np.random.Generator, ratio: float, size: tuple[int, ...]) -> np.ndarray:
        """Draw scores (*size, EPISODES); the last axis of ``size`` is that of runs.

        The standard deviation of runs is ``ratio`` times the error of the mean of a run.
        """
        failed = rng.uniform(size=(*size, 1)) < self.fails
        runs = np.where(failed, FLOOR, self.draw(rng, (*size, 1)))
        noise = self.sd / ratio * np.sqrt(EPISODES)
        scores: np.ndarray = runs + rng.normal(0.0, noise, (*size, EPISODES))
        return scores


def _normal(middle: float, deviation: float, fails: float = 0.0) -> Shape:
    return Shape(lambda rng, size: rng.normal(middle, deviation, size), middle, deviation, fails)


def _lognormal(rng: np.random.Generator, size: tuple[int, ...]) -> np.ndarray:
    mean, square = np.exp(_SIGMA**2 / 2), np.expm1(_SIGMA**2)
    return 0.5 + _SD * (rng.lognormal(0.0, _SIGMA, size) - mean) / (mean * np.sqrt(square))


def _t(rng: np.random.Generator, size: tuple[int, ...]) -> np.ndarray:
    return 0.5 + _SD * rng.standard_t(3.0, size) / np.sqrt(3.0)


SHAPES = {
    "normal": _normal(0.5, _SD),
    "t(3)": Shape(_t, 0.5, _SD),
    "lognormal": Shape(_lognormal, 0.5, _SD),
    "Beta near 1": Shape(
        lambda rng, size: rng.beta(9.7, 0.3, size), 0.97, float(np.sqrt(0.97 * 0.03 / 11.0))
    ),
    "a tenth fails": _normal(0.9, _SD / 2, 0.1),
    "a fifth fails": _normal(0.9, _SD / 2, 0.2),
}


def coverage(shape: str, ratio: float, runs: int, trials: int, tasks: int = 1) -> float:
    """Return how often the 95 % interval of the mean over some tasks covers the truth.

    Other models play each of the tasks.
    """
    one, rng, hits = SHAPES[shape], np.random.default_rng([30, runs, tasks]), 0
    chunk = GRIDS // tasks
    for start in range(0, trials, chunk):
        count = min(chunk, trials - start)
        scores = one.scores(rng, ratio, (count * tasks, runs))
        two_way = TwoWay([Grid(values) for values in scores])
        forms = np.kron(np.eye(count), mean_weights(np.zeros(tasks)))
        halves = half_widths(two_way.spread(forms))
        hits += int(np.sum(np.abs(two_way.estimates(forms) - one.mean) <= halves))
    return hits / trials


def stored_ratios(folder: Path) -> list[float]:
    """Return the ratios of all learners on the tasks of a folder of stored tables.

    Those whose episodes do not vary have none.
    """
    score, found = load_protocol(source(folder.name)).report.score, []
    with (folder / "estimates.csv").open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            several = row["unit"] == "runs" and int(row["count"]) > 1
            if row["metric"] == score and several and float(row["std_episodes"] or 0.0) > 0.0:
                error = float(row["std_episodes"]) / float(row["episodes"]) ** 0.5
                found.append(float(row["std"]) / error)
    return found


def ratios(arguments: argparse.Namespace) -> Iterator[list[str]]:
    """Yield the ratios in the stored tables, protocol by protocol."""
    yield ["protocol", "learners on tasks", "lowest", "median", "highest"]
    for folder in sorted(TABLES.iterdir()):
        found = stored_ratios(folder)
        if found:
            numbers = np.quantile(found, (0.0, 0.5, 1.0))
            yield [f"`{folder.name}`", str(len(found)), *(f"{one:.1f}" for one in numbers)]


def regime(arguments: argparse.Namespace) -> Iterator[list[str]]:
    """Yield coverage by shape and ratio, and how far the lowest falls short of .95."""
    heads = [[f"{of}, {n} runs" for n in COUNTS] for of in ("task", "group")]
    yield ["runs", "run sd / error of a run", *heads[0], "shortfall", *heads[1], "shortfall"]
    for shape in SHAPES:
        for ratio in RATIOS:
            numbers = list[float]()
            for tasks in (1, TASKS):
                covered = [coverage(shape, ratio, n, arguments.trials, tasks) for n in COUNTS]
                numbers += [*covered, max(0.0, 0.95 - min(covered))]
            yield [shape, f"{ratio:g}", *(f"{one:.3f}" for one in numbers)]
