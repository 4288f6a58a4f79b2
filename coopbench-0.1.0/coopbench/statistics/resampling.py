"""Samplers: one score matrix or pair plus a statistic, ready to be resampled and jackknifed.

Every sampler has the same members, so that the interval methods know nothing of scores:

- ``sources``: the checked score matrices, one or two;
- ``estimate``: (columns,) the statistic of the data, several columns for a profile;
- ``centre()``: the same as the resampling computes it, equal bits for equal samples;
- ``draw(level, reps, seed)``: (reps, columns) the statistic of each resample;
- ``leave_out(unit)``: (columns, units) the statistic without each unit ("cells", "runs" or
  "tasks") and the (units,) stratum of each unit, strata being numbered from 0;
- ``share``: whether the statistic is a share, in [0, 1];
- ``scalar``: whether the statistic is one number;
- ``pools``: whether it pools the cells of all tasks;
- ``steps``: n if the resampled statistic lies on the lattice 0, 1/n, ..., 1, else 0.
"""

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from coopbench.statistics import estimates
from coopbench.statistics.scores import (
    Cells,
    Scores,
    Tasks,
    as_cells,
    as_tasks,
    columns_of,
    is_matrix,
)

if TYPE_CHECKING:  # the module imports numba, which is slow
    from coopbench.statistics.kernels import Table

LEVELS = {"runs": 0, "tasks": 1, "hierarchical": 2}

Statistic = Callable[..., Any]  # of one score matrix, or of two; returns a number or an array
_COLUMNS: dict[Statistic, int] = {
    estimates.mean: 0,
    estimates.median: 1,
    estimates.iqm: 2,
    estimates.optimality_gap: 3,
}


class Sampler(Protocol):
    """What the interval methods need to know of scores and statistic; see above."""

    steps: int
    scalar: bool
    share: bool
    pools: bool
    sources: tuple[Tasks, ...]
    estimate: np.ndarray

    def draw(self, level: str, reps: int, seed: int) -> np.ndarray:
        """Return (reps, columns)."""
        ...

    def centre(self) -> np.ndarray:
        """Return (columns,)."""
        ...

    def leave_out(self, unit: str) -> tuple[np.ndarray, np.ndarray]:
        """Return (columns, units) and (units,)."""
        ...


class Aggregate(Sampler):
    """Mean, median, IQM or optimality gap of one score matrix."""

    steps, scalar, share = 0, True, False

    def __init__(self, tasks: Tasks, statistic: Statistic, salt: int = 1):
        """Order the cells once."""
        plain, options = _unwrap(statistic)
        self.column, self.salt, self.sources = _COLUMNS[plain], salt, (tasks,)
        self.pools, self.is_gap = plain is estimates.iqm, plain is estimates.optimality_gap
        self.gamma = options.get("gamma", 1.0)
        self.cells = as_cells(tasks)
        self.table = _table(self.cells, self.gamma)
        self.estimate = np.atleast_1d(statistic(tasks))

    def draw(self, level: str, reps: int, seed: int) -> np.ndarray:
        """Return (reps, 1) resampled values."""
        return self.pick(self.draw_all(level, reps, seed))

    def draw_all(self, level: str, reps: int, seed: int) -> np.ndarray:
        """Return (reps, WIDTH) all aggregates at once, which ``pick`` chooses from."""
        from coopbench.statistics import kernels

        out = np.empty((reps, kernels.WIDTH))
        key = (np.uint64(seed), self.salt)
        kernels.resample_aggregates(self.table, key, 0, LEVELS[level], out)
        return out

    def pick(self, out: np.ndarray) -> np.ndarray:
        """Return the column of this statistic, (rows, 1)."""
        values = out[:, self.column : self.column + 1]
        return self.gamma - values if self.is_gap else values

    def centre(self) -> np.ndarray:
        """Return (1,) the estimate as the compiled sweep computes it."""
        return self._jackknife(np.full(len(self.cells.values), -1), 1)[:, 0]

    def leave_out(self, unit: str) -> tuple[np.ndarray, np.ndarray]:
        """Return (1, units) values without each unit, and the stratum of each."""
        labels, strata = unit_labels(self.cells, unit)
        return self._jackknife(labels, len(strata)), strata

    def _jackknife(self, labels: np.ndarray, units: int) -> np.ndarray:
        from coopbench.statistics import kernels

        out = np.empty((units, kernels.WIDTH))
        kernels.jackknife_aggregates(self.table, labels, out)
        return self.pick(out).T


class Profile(Sampler):
    """Performance profile of one score matrix."""

    scalar, share = False, True

    def __init__(self, tasks: Tasks, statistic: Statistic):
        """Order the cells and the thresholds once."""
        _, options = _unwrap(statistic)
        self.sources, self.cells = (tasks,), as_cells(tasks)
        self.table = _table(self.cells, 1.0)
        self.estimate = statistic(tasks)
        taus = np.asarray(options["taus"], dtype=np.float64)
        order = np.argsort(taus)
        self.back = np.argsort(order)
        self.pools = by_run = options.get("kind", "run") == "run"
        positions = np.searchsorted(self.table.ordered, taus[order], side="right")
        self.thresholds = (taus[order], positions if by_run else positions[:0])
        # With unequal runs the number of cells may change from one resample to the next.
        cells = len(self.cells.values) if is_matrix(tasks) else 0
        self.steps = cells if by_run else len(self.cells.starts) - 1

    def draw(self, level: str, reps: int, seed: int) -> np.ndarray:
        """Return (reps, thresholds) resampled profiles."""
        from coopbench.statistics import kernels

        out = np.empty((reps, len(self.back)))
        key = (np.uint64(seed), 1)
        kernels.resample_profile(self.table, key, LEVELS[level], self.thresholds, out)
        return out[:, self.back] if np.any(np.diff(self.back) < 0) else out

    def leave_out(self, unit: str) -> tuple[np.ndarray, np.ndarray]:
        """Return (thresholds, units) profiles without each unit, and the stratum of each."""
        labels, strata = unit_labels(self.cells, unit)
        return self._jackknife(labels, len(strata)), strata

    def centre(self) -> np.ndarray:
        """Return (thresholds,) the profile as the compiled sweep computes it."""
        return self._jackknife(np.full(len(self.cells.values), -1), 1)[:, 0]

    def _jackknife(self, labels: np.ndarray, units: int) -> np.ndarray:
        from coopbench.statistics import kernels

        out = np.empty((units, len(self.back)))
        kernels.jackknife_profile(self.table, labels, self.thresholds, out)
        return out[:, self.back].T


class Improvement(Sampler):
    """Probability of improvement of a pair of score matrices."""

    steps, scalar, share, pools = 0, True, True, False

    def __init__(self, x: Tasks, y: Tasks):
        """Count for every run of x the runs of y that it meets below and up to its level."""
        from coopbench.statistics import kernels

        self.estimate = np.atleast_1d(estimates.probability_of_improvement(x, y))
        self.sources = (x, y)
        self.cells, self.rivals = as_cells(x), as_cells(y)
        below, level = np.empty(0, np.int64), np.empty(0, np.int64)
        for j in range(len(self.cells.starts) - 1):
            mine, others = task_values(self.cells, j), np.sort(task_values(self.rivals, j))
            below = np.append(below, np.searchsorted(others, mine, side="left"))
            level = np.append(level, np.searchsorted(others, mine, side="right"))
        self.order = np.concatenate(
            [
                start + np.argsort(task_values(self.rivals, j), kind="stable")
                for j, start in enumerate(self.rivals.starts[:-1])
            ]
        )
        self.duel = kernels.Duel(self.cells.starts, self.rivals.starts, below, level)

    def draw(self, level: str, reps: int, seed: int) -> np.ndarray:
        """Return (reps, 1) resampled probabilities; x and y are resampled independently."""
        from coopbench.statistics import kernels

        out = np.empty(reps)
        kernels.resample_wins(self.duel, np.uint64(seed), LEVELS[level], out)
        return out[:, None]

    def leave_out(self, unit: str) -> tuple[np.ndarray, np.ndarray]:
        """Return (1, units) values without each unit of x, then of y, and the strata."""
        labels, strata = unit_labels(self.cells, unit)
        others, more = unit_labels(self.rivals, unit)
        if unit == "tasks":  # a task leaves both sides at once
            return self._jackknife(labels, others, len(strata)), strata
        values = self._jackknife(labels, others + len(strata), len(strata) + len(more))
        return values, np.append(strata, more + strata.max() + 1)

    def centre(self) -> np.ndarray:
        """Return (1,) the estimate as the compiled sweep computes it."""
        nobody = np.full(len(self.cells.values), -1), np.full(len(self.order), -1)
        return self._jackknife(*nobody, 1)[:, 0]

    def _jackknife(self, labels: np.ndarray, others: np.ndarray, units: int) -> np.ndarray:
        from coopbench.statistics import kernels

        out = np.empty(units)
        kernels.jackknife_wins(self.duel, labels, others[self.order], out)
        return out[None]


class Difference(Sampler):
    """An aggregate of one matrix minus the same aggregate of another."""

    steps, scalar, share = 0, True, False

    def __init__(self, x: Tasks, y: Tasks, statistic: Statistic):
        """Prepare both sides; their runs come from streams of their own, their tasks from one."""
        self.sources = (x, y)
        self.sides = Aggregate(x, statistic, 1), Aggregate(y, statistic, 2)
        self.pools = self.sides[0].pools
        self.estimate = self.sides[0].estimate - self.sides[1].estimate

    def draw(self, level: str, reps: int, seed: int) -> np.ndarray:
        """Return (reps, 1) resampled differences."""
        x, y = (side.draw(level, reps, seed) for side in self.sides)
        result: np.ndarray = x - y
        return result

    def centre(self) -> np.ndarray:
        """Return (1,) the estimate as the compiled sweep computes it."""
        result: np.ndarray = self.sides[0].centre() - self.sides[1].centre()
        return result

    def leave_out(self, unit: str) -> tuple[np.ndarray, np.ndarray]:
        """Return (1, units) values without each unit of x, then of y, and the strata."""
        (x, strata), (y, more) = (side.leave_out(unit) for side in self.sides)
        if unit == "tasks":
            return x - y, strata
        x, y = x - self.sides[1].centre(), self.sides[0].centre() - y
        return np.append(x, y, axis=1), np.append(strata, more + strata.max() + 1)


class Custom(Sampler):
    """Any function of one score matrix or of a pair, called once per resample."""

    steps, share, pools = 0, False, False

    def __init__(self, sources: tuple[Tasks, ...], statistic: Statistic, salt: int = 1):
        """Keep the function and lay out the scores."""
        self.sources, self.statistic, self.salt = sources, statistic, salt
        self.cells = [as_cells(source) for source in sources]
        self.estimate = self._evaluate(*sources)
        self.scalar = np.ndim(statistic(*sources)) == 0

    def draw(self, level: str, reps: int, seed: int) -> np.ndarray:
        """Return (reps, columns) resampled values."""
        keys = [(np.uint64(seed), self.salt + side) for side in range(len(self.cells))]
        return np.array(
            [
                self._evaluate(
                    *(
                        _resampled(cells, key, r, LEVELS[level])
                        for cells, key in zip(self.cells, keys, strict=True)
                    )
                )
                for r in range(reps)
            ]
        )

    def centre(self) -> np.ndarray:
        """Return (columns,) the estimate."""
        return self.estimate

    def leave_out(self, unit: str) -> tuple[np.ndarray, np.ndarray]:
        """Return (columns, units) values without each unit of each source, and the strata."""
        if unit == "tasks":
            _, strata = unit_labels(self.cells[0], unit)
            kept = [[_without(c, unit, d) for c in self.cells] for d in range(len(strata))]
            return np.array([self._evaluate(*sample) for sample in kept]).T, strata
        values, strata = [], np.empty(0, np.int64)
        for which, cells in enumerate(self.cells):
            _, more = unit_labels(cells, unit)
            for d in range(len(more)):
                sample = list(self.sources)
                sample[which] = _without(cells, unit, d)
                values.append(self._evaluate(*sample))
            strata = np.append(strata, more + (strata.max() + 1 if len(strata) else 0))
        return np.array(values).T, strata

    def _evaluate(self, *sources: Tasks) -> np.ndarray:
        return np.atleast_1d(np.asarray(self.statistic(*sources), dtype=np.float64))


class Minus:
    """The difference of a statistic between two score matrices."""

    def __init__(self, statistic: Statistic):
        """Keep the statistic."""
        self.statistic = statistic

    def __call__(self, x: Scores, y: Scores) -> Any:
        """Return the statistic of ``x`` minus that of ``y``."""
        return self.statistic(x) - self.statistic(y)


def difference_of(statistic: Statistic) -> Minus:
    """Turn a statistic of one score matrix into the difference of two, first minus second."""
    return Minus(statistic)


def sampler_for(
    scores: Scores | tuple[Scores, Scores], statistic: Statistic, salt: int = 1
) -> Sampler:
    """Check the scores and choose the fastest sampler that knows the statistic.

    Samplers of different salts draw independent runs, and the same tasks, under one seed.

    Raises:
        ValueError: for scores that are not allowed, or a pair with different numbers of tasks.
        TypeError: if a pair is given to a statistic of one matrix, or the reverse.
    """
    pair = isinstance(scores, tuple)
    plain, _ = _unwrap(statistic)
    single = plain in _COLUMNS or plain is estimates.performance_profile
    double = plain is estimates.probability_of_improvement or isinstance(plain, Minus)
    if (pair and single) or (not pair and double):
        needs = "a pair (x, y)" if double else "one score matrix, not a tuple"
        raise TypeError(f"scores is a {type(scores).__name__}; this statistic allows {needs}")
    if not isinstance(scores, tuple):
        tasks = as_tasks(scores)
        if plain in _COLUMNS:
            return Aggregate(tasks, statistic, salt)
        return Profile(tasks, statistic) if single else Custom((tasks,), statistic, salt)
    return _pair_sampler(scores, statistic)


def unit_labels(cells: Cells, unit: str) -> tuple[np.ndarray, np.ndarray]:
    """Number the units: the unit of each cell, and the stratum of each unit.

    Cells are strata by task; runs (row r of every task) and tasks are a single stratum.
    """
    sizes = np.diff(cells.starts)
    task = np.repeat(np.arange(len(sizes)), sizes)
    if unit == "cells":
        return np.arange(len(task)), task
    labels = task if unit == "tasks" else np.arange(len(task)) - cells.starts[task]
    return labels, np.zeros(labels.max() + 1, dtype=np.int64)


def task_values(cells: Cells, task: int) -> np.ndarray:
    """Return the runs of one task."""
    return cells.values[cells.starts[task] : cells.starts[task + 1]]


def _pair_sampler(scores: tuple[Scores, ...], statistic: Statistic) -> Sampler:
    if len(scores) != 2:
        raise TypeError(f"scores is a tuple of {len(scores)}; allowed is a pair (x, y)")
    x, y = as_tasks(scores[0], "x"), as_tasks(scores[1], "y")
    widths = [len(columns_of(tasks)) for tasks in (x, y)]
    if widths[0] != widths[1]:
        raise ValueError(f"y has {widths[1]} tasks; allowed is the number in x, {widths[0]}")
    if statistic is estimates.probability_of_improvement:
        return Improvement(x, y)
    if isinstance(statistic, Minus) and _unwrap(statistic.statistic)[0] in _COLUMNS:
        return Difference(x, y, statistic.statistic)
    return Custom((x, y), statistic)


def _unwrap(statistic: Statistic) -> tuple[Statistic, dict[str, Any]]:
    """Look through functools.partial with keywords only; the rest is left as it is."""
    if isinstance(statistic, partial) and not statistic.args:
        return statistic.func, statistic.keywords
    return statistic, {}


def _table(cells: Cells, gamma: float) -> "Table":
    from coopbench.statistics import kernels

    order = np.argsort(cells.values, kind="stable")
    rank = np.empty_like(order)
    rank[order] = np.arange(len(order))
    capped = np.minimum(cells.values, float(gamma))
    return kernels.Table(cells.values, capped, cells.starts, rank, cells.values[order])


def _resampled(cells: Cells, key: tuple[Any, ...], replicate: int, level: int) -> Tasks:
    from coopbench.statistics import kernels

    sizes = np.diff(cells.starts)
    tasks = np.empty(len(sizes), np.int64)
    drawn = np.empty(sizes.max() * len(sizes), np.int64)
    used = kernels.draw_cells(cells.starts, key, replicate, level, tasks, drawn)
    ends = np.cumsum(sizes[tasks])
    return _stack(np.split(cells.values[drawn[:used]], ends[:-1]))


def _without(cells: Cells, unit: str, label: int) -> Tasks:
    keep = unit_labels(cells, unit)[0] != label
    columns = [
        cells.values[start:end][keep[start:end]]
        for start, end in zip(cells.starts[:-1], cells.starts[1:], strict=True)
    ]
    return _stack([column for column in columns if len(column)])


def _stack(columns: list[np.ndarray]) -> Tasks:
    same = len({len(c) for c in columns}) == 1
    return np.stack(columns, axis=1) if same else columns
