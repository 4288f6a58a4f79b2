"""Imported: results of other packages as values with named axes, and what they summarise to.

See ``marl_eval_import``, which reads them from files.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

import numpy as np

from coopbench import statistics
from coopbench_envs.parameters import unknown

__all__ = ["ABSOLUTE", "SCALES", "Imported", "Run", "Summary"]


# What ``absolute_metrics`` of a file hold. The format has no place for it, so the reader says it.
ABSOLUTE = {
    "best_checkpoint": "the best checkpoint of each run, played on fresh episodes",
    "max_episode": "the highest single value of all evaluations of each run, which is optimistic",
    "last": "the policy at the end of each run",
    "unknown": "nobody has said what was played",
}
_EPSILON = 1e-6  # marl-eval adds it to the width of a range


@dataclass(frozen=True)
class Run:
    """One run of an algorithm on a task, as a file holds it."""

    task: str
    algorithm: str
    name: str
    steps: np.ndarray  # (evaluations,) int64, steps of the environment trained so far, rising
    metrics: dict[str, np.ndarray]  # name -> (evaluations, values) float64
    absolute: dict[str, np.ndarray]  # name -> (values,) float64; empty if the file has none


@dataclass(frozen=True)
class Summary:
    """One statistic of one algorithm over all tasks of an environment; the unit is the run."""

    environment: str
    algorithm: str
    metric: str
    scale: str  # "given", or "minmax": lowest and highest of each task are 0 and 1
    absolute: str  # kind of absolute metric, a key of ABSOLUTE
    statistic: str  # "iqm", "median", "mean" or "optimality_gap"
    estimate: float
    low: float  # stratified bootstrap interval: tasks are the strata, runs are resampled
    high: float
    tasks: int
    runs: int  # in the task with the fewest
    flag: str  # why it says less than it seems, or nothing; empty when all is well


@dataclass(frozen=True)
class Imported:
    """Results of one environment in a marl-eval file; axes task, algorithm, run, evaluation."""

    environment: str
    absolute: str  # kind of absolute metric, a key of ABSOLUTE
    runs: tuple[Run, ...]
    minmax: tuple[str, ...] = ()  # metrics that have been normalised

    @cached_property
    def tasks(self) -> tuple[str, ...]:
        """Tasks in the order of the file."""
        return tuple(dict.fromkeys(run.task for run in self.runs))

    @cached_property
    def algorithms(self) -> tuple[str, ...]:
        """Algorithms in the order of the file."""
        return tuple(dict.fromkeys(run.algorithm for run in self.runs))

    @cached_property
    def metrics(self) -> tuple[str, ...]:
        """Metrics of the evaluations and the absolute ones."""
        return tuple(dict.fromkeys(name for r in self.runs for name in (*r.absolute, *r.metrics)))

    @cached_property
    def missing(self) -> tuple[str, ...]:
        """What a complete file would hold besides; nothing of it is filled in."""
        missing, counts = [], {}
        longest = max(len(run.steps) for run in self.runs)
        for algorithm in self.algorithms:
            by_task = self._by_task(algorithm)
            names = dict.fromkeys(run.name for runs in by_task for run in runs)
            counts[algorithm] = len(names)
            for task, runs in zip(self.tasks, by_task, strict=True):
                by_name = {run.name: run for run in runs}
                for name in names:
                    where = f"{task} / {algorithm} / {name}"
                    missing += _lacking(by_name.get(name), where, longest)
        most = max(counts.values())
        missing += [f"{a}: {n} runs, others have {most}" for a, n in counts.items() if n < most]
        return tuple(missing)

    def scores(self, metric: str = "return") -> dict[str, list[np.ndarray]]:
        """Absolute metric of every run: {algorithm: one array (runs,) per task}.

        A run's score is the mean of its values. Runs without absolute metrics are left out.
        """
        self._check(metric, "absolute metrics", lambda run: run.absolute)
        return {
            algorithm: [
                np.array([np.mean(r.absolute[metric]) for r in runs if r.absolute], np.float64)
                for runs in self._by_task(algorithm)
            ]
            for algorithm in self.algorithms
        }

    def curves(self, metric: str = "return") -> tuple[np.ndarray, dict[str, list[np.ndarray]]]:
        """Course of a metric over training: the steps and {algorithm: (runs, evaluations) by task}.

        A point is the mean of an evaluation's values. Runs with fewer evaluations than the longest
        are left out; ``missing`` names them. Raises ``ValueError`` if runs were evaluated at other
        steps than each other.
        """
        self._check(metric, "evaluations", lambda run: run.metrics)
        steps = max((run.steps for run in self.runs), key=len)
        for run in self.runs:
            if len(run.steps) == len(steps) and not np.array_equal(run.steps, steps):
                raise ValueError(
                    f"{self.environment} / {run.task} / {run.algorithm} / {run.name} was evaluated "
                    f"at other steps than other runs; read each run off at common steps, for "
                    f"instance with numpy.interp."
                )
        curves = {}
        for algorithm in self.algorithms:
            whole = [[r for r in t if len(r.steps) == len(steps)] for t in self._by_task(algorithm)]
            curves[algorithm] = [
                np.array([r.metrics[metric].mean(axis=1) for r in runs]).reshape(-1, len(steps))
                for runs in whole
            ]
        return steps, curves

    def normalised(self, metric: str = "return") -> "Imported":
        """Return the same with a metric mapped to [0, 1] on every task, as marl-eval does it.

        (x - lowest) / (highest - lowest + 1e-6) over all single values of all algorithms, runs,
        evaluations and absolute metrics (Gorsane et al. 2022). Every score moves when an algorithm
        is added: compare nothing with other files. Raises ``ValueError`` where nothing varies.
        """
        if metric not in self.metrics or metric in self.minmax:
            metrics = [name for name in self.metrics if name not in self.minmax]
            raise ValueError(unknown("metric to normalise", metric, metrics, self.environment))
        scales = {
            task: partial(statistics.normalise, low=ends[0], high=ends[1], epsilon=_EPSILON)
            for task, ends in ((task, self._ends(task, metric)) for task in self.tasks)
        }
        runs = tuple(_mapped(run, metric, scales[run.task]) for run in self.runs)
        return replace(self, runs=runs, minmax=(*self.minmax, metric))

    def table(
        self,
        metric: str = "return",
        method: str = "expanded",
        confidence: float = 0.95,
        reps: int = 50_000,
    ) -> tuple[Summary, ...]:
        """Summarise the runs of each algorithm: IQM, median, mean; if normalised, optimality gap.

        ``method`` and the rest are those of ``coopbench.statistics.bootstrap_interval``. An
        algorithm without a run on some task has nan, and ``flag`` says where.
        """
        return tuple(
            row
            for algorithm, scores in self.scores(metric).items()
            for row in self._summaries(metric, algorithm, scores, (method, confidence, reps))
        )

    def _summaries(
        self, metric: str, algorithm: str, scores: list[np.ndarray], how: tuple[str, float, int]
    ) -> Iterator[Summary]:
        scale = "minmax" if metric in self.minmax else "given"
        labels = self.environment, algorithm, metric, scale, self.absolute
        counts = len(scores), min(map(len, scores))
        kinds = {"iqm": statistics.iqm, "median": statistics.median, "mean": statistics.mean}
        if scale == "minmax":  # a gap to 1 says nothing of raw values
            kinds |= {"optimality_gap": statistics.optimality_gap}
        empty = [task for task, runs in zip(self.tasks, scores, strict=True) if not len(runs)]
        if empty:
            flag, nan = f"no run on {', '.join(empty)}", float("nan")
            yield from (Summary(*labels, kind, nan, nan, nan, *counts, flag) for kind in kinds)
            return
        method, confidence, reps = how
        intervals = statistics.bootstrap_intervals(
            scores, list(kinds.values()), method=method, confidence=confidence, reps=reps
        )
        for kind, interval in zip(kinds, intervals, strict=True):
            ends = float(interval.estimate), float(interval.low), float(interval.high)
            yield Summary(*labels, kind, *ends, *counts, "; ".join(interval.warnings))

    def _by_task(self, algorithm: str) -> list[list[Run]]:
        return [self._index.get((algorithm, task), []) for task in self.tasks]

    @cached_property
    def _index(self) -> dict[tuple[str, str], list[Run]]:
        index: dict[tuple[str, str], list[Run]] = {}
        for run in self.runs:
            index.setdefault((run.algorithm, run.task), []).append(run)
        return index

    def _ends(self, task: str, metric: str) -> np.ndarray:
        """Return the lowest and the highest value of a metric on a task, (2,)."""
        runs = [run for run in self.runs if run.task == task]
        parts = [part[metric] for r in runs for part in (r.metrics, r.absolute) if metric in part]
        if not parts:
            raise ValueError(f"{self.environment} / {task} has no {metric} to normalise.")
        low, high = min(part.min() for part in parts), max(part.max() for part in parts)
        if low == high:
            raise ValueError(
                f"{self.environment} / {task}: every {metric} is {low}, so there is no range to "
                f"normalise by. Remove the task, or use the values as they are."
            )
        return np.array([low, high])

    def _check(self, metric: str, what: str, part: Callable[[Run], Mapping[str, Any]]) -> None:
        names = dict.fromkeys(name for run in self.runs for name in part(run))
        if metric not in names:
            raise ValueError(unknown("metric", metric, names, f"the {what} of {self.environment}"))


def _lacking(run: Run | None, where: str, longest: int) -> list[str]:
    """Say what a run lacks: all, its absolute metrics, or some of the longest run's evaluations."""
    if run is None:
        return [f"{where} is not in the file"]
    missing = [] if run.absolute else [f"{where} has no absolute metrics"]
    if len(run.steps) < longest:
        missing.append(f"{where} has {len(run.steps)} of {longest} evaluations")
    return missing


def _mapped(run: Run, metric: str, scale: Callable[[np.ndarray], np.ndarray]) -> Run:
    """Return a run with one metric mapped by ``scale``."""
    parts = [
        {name: scale(part) if name == metric else part for name, part in metrics.items()}
        for metrics in (run.metrics, run.absolute)
    ]
    return replace(run, metrics=parts[0], absolute=parts[1])


# Scales on which a metric can be summarised; see Summary.
SCALES: dict[str, Callable[[Imported, str], Imported]] = {
    "minmax": Imported.normalised,
    "given": lambda imported, metric: imported,
}
