"""Learning curves: bands, areas and steps to a threshold, with intervals.

Curves are (runs, tasks, points), one score per evaluation; (runs, points) is a single task, and a
list with one (runs, points) array per task allows unequal run counts. A run is resampled whole,
with all its points: the points of one run depend on each other, so drawing them separately (as
is done where points are treated as tasks) gives areas and thresholds intervals that are far too
narrow. The horizontal axis is the true number of steps at each evaluation.
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from coopbench.statistics.bootstrap import TOO_NARROW, check_options, interval_of, sample_notes
from coopbench.statistics.estimates import iqm
from coopbench.statistics.resampling import LEVELS, Aggregate, Sampler, Statistic, unit_labels
from coopbench.statistics.results import Interval
from coopbench.statistics.scores import Tasks, as_cells, as_tasks, as_vector, check_confidence

if TYPE_CHECKING:  # the module imports numba, which is slow
    from coopbench.statistics.kernels import Table

Curves = np.ndarray | Sequence[np.ndarray]


def area_under_curve(curves: np.ndarray, steps: np.ndarray) -> np.ndarray:
    """Average each curve over the steps it spans (trapezoids over the true steps).

    ``curves`` is (..., points) and ``steps`` (points,) or of the shape of ``curves``. Returns
    (...,) in the units of the scores: the area divided by the last step minus the first.

    Raises:
        ValueError: for missing values, fewer than two points, or steps that do not increase.
    """
    values, x = _with_steps(curves, steps)
    if values.shape[-1] < 2:
        raise ValueError(f"curves has {values.shape[-1]} point; allowed are at least 2")
    heights = (values[..., 1:] + values[..., :-1]) / 2.0
    result: np.ndarray = np.sum(heights * np.diff(x, axis=-1), axis=-1) / (x[..., -1] - x[..., 0])
    return result


def steps_to_threshold(curves: np.ndarray, steps: np.ndarray, threshold: float) -> np.ndarray:
    """Give the steps of the first evaluation at or above the threshold; inf where there is none.

    ``curves`` is (..., points) and ``steps`` (points,) or of the shape of ``curves``; returns
    (...,). Nothing is interpolated between evaluations: what was not observed is not claimed.

    Raises:
        ValueError: for missing values or steps that do not increase.
    """
    values, x = _with_steps(curves, steps)
    reached = values >= threshold
    first = np.take_along_axis(
        np.broadcast_to(x, values.shape), reached.argmax(axis=-1)[..., None], axis=-1
    )[..., 0]
    return np.where(reached.any(axis=-1), first, np.inf)


def align_curves(curves: np.ndarray, steps: np.ndarray, grid: np.ndarray) -> np.ndarray:
    """Read every run off at common steps, by straight lines between its own evaluations.

    ``curves`` and ``steps`` are (..., points); ``grid`` is (new points,). Returns
    (..., new points).

    Raises:
        ValueError: if the grid leaves the steps of a run: curves are not extrapolated.
    """
    values, x = _with_steps(curves, steps)
    at = as_vector(grid, "grid")
    x = np.broadcast_to(x, values.shape)
    if at.min() < x[..., 0].max() or at.max() > x[..., -1].min():
        spanned = f"{x[..., 0].max()} to {x[..., -1].min()}"
        raise ValueError(f"grid spans {at.min()} to {at.max()}; allowed is {spanned}, all runs")
    flat = [
        np.interp(at, a, b)
        for a, b in zip(x.reshape(-1, x.shape[-1]), values.reshape(-1, x.shape[-1]), strict=True)
    ]
    return np.array(flat).reshape(*values.shape[:-1], at.size)


class CurveBootstrap:
    """Learning curves with their resamples, drawn once for every question asked about them.

    ``curves`` as in the module; ``resample`` and ``seed`` as in ``bootstrap_interval``. The
    statistic of a question is ``mean``, ``median``, ``iqm`` or ``optimality_gap``, over runs and
    tasks at every evaluation; all four come from the same draw, which is made when first needed.

    Raises:
        ValueError: for missing or infinite scores (with point, run and task), shapes that do not
            fit, or an option not allowed.
    """

    def __init__(self, curves: Curves, *, resample: str = "runs", reps: int = 5_000, seed: int = 0):
        """Check the curves."""
        check_options("percentile", resample, reps, 0.5, seed)
        self._layers = _Layers(curves)
        self._draw = resample, reps, seed

    def band(
        self, statistic: Statistic = iqm, *, method: str = "percentile", confidence: float = 0.95
    ) -> Interval:
        """Put an interval around the statistic at every evaluation; arrays (points,).

        The band covers each point with the stated confidence, not the whole curve at once.
        """
        sampler = _CurveSampler(self._layers, statistic, lambda values: values)
        return self._interval(sampler, method, confidence)

    def area(
        self,
        steps: np.ndarray,
        statistic: Statistic = iqm,
        *,
        method: str = "percentile",
        confidence: float = 0.95,
    ) -> Interval:
        """Put an interval around the area under the curve of the statistic.

        ``steps`` is (points,), common to all runs (see ``align_curves``). The area is in the units
        of the scores (see ``area_under_curve``); for ``mean`` it equals the mean of the runs' own.
        """
        x = as_vector(steps, "steps", minimum=2)
        sampler = _CurveSampler(
            self._layers, statistic, lambda v: area_under_curve(v, x)[..., None]
        )
        sampler.scalar = True
        return self._interval(sampler, method, confidence)

    def threshold(
        self,
        steps: np.ndarray,
        threshold: float,
        statistic: Statistic = iqm,
        *,
        confidence: float = 0.95,
    ) -> Interval:
        """Put a percentile interval around the steps that the curve needs to a threshold.

        An end is inf when the resampled curves there never reach the threshold: it says "not
        within the budget". The ends are steps at which evaluations took place, since nothing can
        be interpolated towards inf.
        """
        check_confidence(confidence)
        x = as_vector(steps, "steps")
        sampler = _CurveSampler(
            self._layers, statistic, lambda v: steps_to_threshold(v, x, threshold)[..., None]
        )
        ordered = np.sort(sampler.draw(*self._draw)[:, 0])
        cut = int(np.floor((1.0 - confidence) / 2.0 * (len(ordered) - 1)))
        ends = float(ordered[cut]), float(ordered[len(ordered) - 1 - cut])
        notes = tuple(sample_notes(sampler, TOO_NARROW, self._draw[0]))
        return Interval(float(sampler.estimate[0]), *ends, "percentile", len(ordered), notes)

    def _interval(self, sampler: "_CurveSampler", method: str, confidence: float) -> Interval:
        resample, reps, seed = self._draw
        check_options(method, resample, reps, confidence, seed)
        return interval_of(sampler, sampler.draw(*self._draw), method, resample, confidence)


def curve_interval(
    curves: Curves,
    statistic: Statistic = iqm,
    *,
    method: str = "percentile",
    resample: str = "runs",
    reps: int = 5_000,
    confidence: float = 0.95,
    seed: int = 0,
) -> Interval:
    """Put an interval around an aggregate at every evaluation; see ``CurveBootstrap.band``."""
    drawn = CurveBootstrap(curves, resample=resample, reps=reps, seed=seed)
    return drawn.band(statistic, method=method, confidence=confidence)


def area_interval(
    curves: Curves,
    steps: np.ndarray,
    statistic: Statistic = iqm,
    *,
    method: str = "percentile",
    reps: int = 5_000,
    confidence: float = 0.95,
    seed: int = 0,
) -> Interval:
    """Put an interval around the area under the aggregate curve; see ``CurveBootstrap.area``."""
    drawn = CurveBootstrap(curves, reps=reps, seed=seed)
    return drawn.area(steps, statistic, method=method, confidence=confidence)


def threshold_interval(
    curves: Curves,
    steps: np.ndarray,
    threshold: float,
    statistic: Statistic = iqm,
    *,
    reps: int = 5_000,
    confidence: float = 0.95,
    seed: int = 0,
) -> Interval:
    """Put an interval around the steps to a threshold; see ``CurveBootstrap.threshold``."""
    drawn = CurveBootstrap(curves, reps=reps, seed=seed)
    return drawn.threshold(steps, threshold, statistic, confidence=confidence)


class _Layers:
    """The checked scores of every point, their order, and what has been drawn from them."""

    def __init__(self, curves: Curves):
        """Order the cells of every point once."""
        self.points = _as_layers(curves)
        self.mean = _mean_layer(self.points)
        self.values = np.stack([as_cells(layer).values for layer in self.points])
        self.starts = as_cells(self.mean).starts
        order = np.argsort(self.values, axis=1, kind="stable")
        self.ordered = np.take_along_axis(self.values, order, axis=1)
        self.rank = np.argsort(order, axis=1, kind="stable")
        self.drawn: dict[tuple[float, str, int, int], np.ndarray] = {}

    def draw(self, gamma: float, level: str, reps: int, seed: int) -> np.ndarray:
        """Return (reps, points, WIDTH) aggregates of resampled runs, the same array every time."""
        from coopbench.statistics import kernels

        question = gamma, level, reps, seed
        if question not in self.drawn:
            out = np.empty((reps, len(self.points), kernels.WIDTH))
            key = np.uint64(seed), 1
            kernels.resample_curves(self._table(gamma), key, LEVELS[level], out)
            self.drawn[question] = out
        return self.drawn[question]

    def leave_out(self, gamma: float, labels: np.ndarray, units: int) -> np.ndarray:
        """Return (units, points, WIDTH) aggregates without the cells of each label."""
        from coopbench.statistics import kernels

        out = np.empty((units, len(self.points), kernels.WIDTH))
        kernels.jackknife_curves(self._table(gamma), labels, out)
        return out

    def _table(self, gamma: float) -> "Table":
        from coopbench.statistics import kernels

        capped = np.minimum(self.values, float(gamma))
        return kernels.Table(self.values, capped, self.starts, self.rank, self.ordered)


class _CurveSampler(Sampler):
    """A summary of the curve of one aggregate, resampled by whole runs (see resampling.py)."""

    steps, scalar, share = 0, False, False

    def __init__(
        self, layers: _Layers, statistic: Statistic, summary: Callable[[np.ndarray], np.ndarray]
    ):
        """Summarise the curve of the statistic."""
        try:
            self.first = Aggregate(layers.points[0], statistic)
        except KeyError:
            allowed = "mean, median, iqm or optimality_gap"
            raise TypeError(f"statistic is {statistic!r}; allowed is {allowed}") from None
        self.layers, self.summary = layers, summary
        self.pools, self.sources = self.first.pools, (layers.mean,)
        self.estimate = summary(np.array([statistic(layer) for layer in layers.points]))

    def draw(self, level: str, reps: int, seed: int) -> np.ndarray:
        """Return (reps, columns) resampled summaries."""
        return self._summarised(self.layers.draw(self.first.gamma, level, reps, seed))

    def centre(self) -> np.ndarray:
        """Return (columns,) the estimate as the compiled sweep computes it."""
        nobody = np.full(len(self.first.cells.values), -1)
        result: np.ndarray = self._summarised(self.layers.leave_out(self.first.gamma, nobody, 1))[0]
        return result

    def leave_out(self, unit: str) -> tuple[np.ndarray, np.ndarray]:
        """Return (columns, units) summaries without each unit, and the stratum of each."""
        labels, strata = unit_labels(self.first.cells, unit)
        if len(strata) == 1:  # without the only unit there is no curve to summarise
            return np.full((len(self.estimate), 1), np.nan), strata
        values = self.layers.leave_out(self.first.gamma, labels, len(strata))
        return self._summarised(values).T, strata

    def _summarised(self, aggregates: np.ndarray) -> np.ndarray:
        values = aggregates[..., self.first.column]
        return self.summary(self.first.gamma - values if self.first.is_gap else values)


def _with_steps(curves: np.ndarray, steps: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    values, x = np.asarray(curves, dtype=np.float64), np.asarray(steps, dtype=np.float64)
    if values.ndim == 0 or x.shape not in (values.shape, values.shape[-1:]):
        wanted = f"{values.shape[-1:]} or {values.shape}"
        raise ValueError(f"steps has shape {x.shape}; allowed is {wanted}, as the curves")
    bad = np.argwhere(~np.isfinite(values))
    if len(bad):
        where = tuple(int(i) for i in bad[0])
        raise ValueError(f"curves has {values[where]} at {where}; allowed are finite numbers")
    if not np.all(np.isfinite(x)) or np.any(np.diff(x, axis=-1) <= 0.0):
        raise ValueError(f"steps is {x}; allowed are finite numbers that increase along a curve")
    return values, x


def _as_layers(curves: Curves) -> list[Tasks]:
    """Return the checked scores of every point, each as a matrix or list of arrays."""
    if isinstance(curves, np.ndarray) and curves.ndim in (2, 3):
        cube = curves[:, None] if curves.ndim == 2 else curves
        layers: list[Tasks] = [cube[:, :, p] for p in range(cube.shape[2])]
    else:
        tasks = [np.asarray(task, dtype=np.float64) for task in curves]
        if {task.ndim for task in tasks} != {2} or len({task.shape[1] for task in tasks}) != 1:
            shapes = [task.shape for task in tasks]
            raise ValueError(
                f"curves has shapes {shapes}; allowed is (runs, tasks, points) or one "
                "(runs, points) array per task"
            )
        layers = [[task[:, p] for task in tasks] for p in range(tasks[0].shape[1])]
    if not layers:
        raise ValueError("curves has no points; allowed is at least 1")
    return [as_tasks(layer, f"curves, point {p},") for p, layer in enumerate(layers)]


def _mean_layer(layers: list[Tasks]) -> Tasks:
    if isinstance(layers[0], np.ndarray):
        result: Tasks = np.mean(layers, axis=0)
        return result
    return [np.mean(runs, axis=0) for runs in zip(*layers, strict=True)]
