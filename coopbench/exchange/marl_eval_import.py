"""Imported: results of other packages in marl-eval JSON, read strictly, with named axes.

The JSON is that of Gorsane et al. 2022, "Towards a Standardised Performance Evaluation Protocol
for Cooperative MARL", as their public package marl-eval reads it: environment, task, algorithm,
run, then evaluations with a ``step_count``, and ``absolute_metrics``; every metric is a list of
values. docs/exchange.md says what is refused, and why.
"""

import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np

from coopbench.report.numbers import interval_text, scale_of_rows
from coopbench.report.tables.model import Column, Entry, Footnotes, Group, Table
from coopbench_envs.parameters import named, unknown

__all__ = [
    "ABSOLUTE",
    "SCALES",
    "Imported",
    "Names",
    "Run",
    "Summary",
    "bounded",
    "read_marl_eval",
    "summary_table",
]

# What ``absolute_metrics`` of a file hold. The format has no place for it, so the reader says it.
ABSOLUTE = {
    "best_checkpoint": "the best checkpoint of each run, played on fresh episodes",
    "max_episode": "the highest single value of all evaluations of each run, which is optimistic",
    "last": "the policy at the end of each run",
    "unknown": "nobody has said what was played",
}
_BESIDE = ("step_count", "elapsed_time")  # stand among the metrics of an evaluation, but are none
_EPSILON = 1e-6  # marl-eval adds it to the width of a range
_LIMIT = 1 << 29  # bytes; the largest published experiments have less


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
    """What a marl-eval file says of one environment; axes task, algorithm, run, evaluation."""

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
        found, counts = [], {}
        longest = max(len(run.steps) for run in self.runs)
        for algorithm in self.algorithms:
            own = self._by_task(algorithm)
            names = dict.fromkeys(run.name for runs in own for run in runs)
            counts[algorithm] = len(names)
            for task, runs in zip(self.tasks, own, strict=True):
                there = {run.name: run for run in runs}
                for name in names:
                    where = f"{task} / {algorithm} / {name}"
                    found += _lacking(there.get(name), where, longest)
        most = max(counts.values())
        found += [f"{a}: {n} runs, others have {most}" for a, n in counts.items() if n < most]
        return tuple(found)

    def scores(self, metric: str = "return") -> dict[str, list[np.ndarray]]:
        """Absolute metric of every run: {algorithm: one array (runs,) per task}.

        A run's score is the mean of its values. Runs without absolute metrics are not there.
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
                    f"at other steps than other runs; read each run off at common steps with "
                    f"coopbench.statistics.align_curves."
                )
        found = {}
        for algorithm in self.algorithms:
            whole = [[r for r in t if len(r.steps) == len(steps)] for t in self._by_task(algorithm)]
            found[algorithm] = [
                np.array([r.metrics[metric].mean(axis=1) for r in runs]).reshape(-1, len(steps))
                for runs in whole
            ]
        return steps, found

    def normalised(self, metric: str = "return") -> "Imported":
        """Return the same with a metric mapped to [0, 1] on every task, as marl-eval does it.

        (x - lowest) / (highest - lowest + 1e-6) over all single values of all algorithms, runs,
        evaluations and absolute metrics (Gorsane et al. 2022). Every score moves when an algorithm
        is added: compare nothing with other files. Raises ``ValueError`` where nothing varies.
        """
        from coopbench.statistics import normalise

        if metric not in self.metrics or metric in self.minmax:
            known = [name for name in self.metrics if name not in self.minmax]
            raise ValueError(unknown("metric to normalise", metric, known, self.environment))
        scales = {
            task: partial(normalise, low=ends[0], high=ends[1], epsilon=_EPSILON)
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
        from coopbench import statistics as st

        scale = "minmax" if metric in self.minmax else "given"
        labels = self.environment, algorithm, metric, scale, self.absolute
        counts = len(scores), min(map(len, scores))
        kinds = {"iqm": st.iqm, "median": st.median, "mean": st.mean}
        if scale == "minmax":  # a gap to 1 says nothing of raw values
            kinds |= {"optimality_gap": st.optimality_gap}
        empty = [task for task, runs in zip(self.tasks, scores, strict=True) if not len(runs)]
        if empty:
            flag, nan = f"no run on {', '.join(empty)}", float("nan")
            yield from (Summary(*labels, kind, nan, nan, nan, *counts, flag) for kind in kinds)
            return
        method, confidence, reps = how
        found = st.bootstrap_intervals(
            scores, list(kinds.values()), method=method, confidence=confidence, reps=reps
        )
        for kind, each in zip(kinds, found, strict=True):
            ends = float(each.estimate), float(each.low), float(each.high)
            yield Summary(*labels, kind, *ends, *counts, "; ".join(each.warnings))

    def _by_task(self, algorithm: str) -> list[list[Run]]:
        return [self._index.get((algorithm, task), []) for task in self.tasks]

    @cached_property
    def _index(self) -> dict[tuple[str, str], list[Run]]:
        found: dict[tuple[str, str], list[Run]] = {}
        for run in self.runs:
            found.setdefault((run.algorithm, run.task), []).append(run)
        return found

    def _ends(self, task: str, metric: str) -> np.ndarray:
        """Lowest and highest value of a metric on a task, (2,)."""
        own = [run for run in self.runs if run.task == task]
        found = [part[metric] for r in own for part in (r.metrics, r.absolute) if metric in part]
        if not found:
            raise ValueError(f"{self.environment} / {task} has no {metric} to normalise.")
        low, high = min(part.min() for part in found), max(part.max() for part in found)
        if low == high:
            raise ValueError(
                f"{self.environment} / {task}: every {metric} is {low}, so there is no range to "
                f"normalise by. Remove the task, or use the values as they are."
            )
        return np.array([low, high])

    def _check(self, metric: str, what: str, part: Callable[[Run], Mapping[str, Any]]) -> None:
        known = dict.fromkeys(name for run in self.runs for name in part(run))
        if metric not in known:
            raise ValueError(unknown("metric", metric, known, f"the {what} of {self.environment}"))


# Scales on which a metric can be summarised; see Summary.
SCALES: dict[str, Callable[[Imported, str], Imported]] = {
    "minmax": Imported.normalised,
    "given": lambda found, metric: found,
}


def _lacking(run: Run | None, where: str, longest: int) -> list[str]:
    if run is None:
        return [f"{where} is not in the file"]
    found = [] if run.absolute else [f"{where} has no absolute metrics"]
    if len(run.steps) < longest:
        found.append(f"{where} has {len(run.steps)} of {longest} evaluations")
    return found


def _mapped(run: Run, metric: str, scale: Callable[[np.ndarray], np.ndarray]) -> Run:
    parts = [
        {name: scale(part) if name == metric else part for name, part in each.items()}
        for each in (run.metrics, run.absolute)
    ]
    return replace(run, metrics=parts[0], absolute=parts[1])


def read_marl_eval(path: str | Path, absolute: str = "unknown") -> dict[str, Imported]:
    """Read a marl-eval JSON file: {environment: its runs}, names as they are spelled there.

    ``absolute`` says what the file's absolute metrics are, a key of ``ABSOLUTE``; it is a label of
    all that comes out. Runs that are missing or broken off are listed by ``Imported.missing``.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: the file is too large, is not JSON of this form, or contradicts itself or
            ``absolute``; the message names environment, task, algorithm, run and evaluation.
    """
    named("kind of absolute metric", absolute, ABSOLUTE)
    checks, found = _Checks(), {}
    for environment, tasks in checks.some(_json(Path(path)), "environment", str(path)).items():
        where = f"{path}: {environment}"
        runs = tuple(_runs(checks, tasks, environment, where))
        if not any(run.absolute for run in runs):
            raise ValueError(
                f"{where} holds no run with absolute_metrics; there is nothing to use."
            )
        _check_kind(runs, absolute, where)
        found[environment] = Imported(environment, absolute, runs)
    return found


class _Object(list):
    """Members of a JSON object as they stand in the file, repeated ones too."""


def _json(path: Path) -> Any:
    content = bounded(path)
    try:
        return json.loads(content, object_pairs_hook=_Object)
    except RecursionError:
        raise ValueError(f"{path} is nested too deeply; allowed: seven levels.") from None
    except ValueError as error:
        raise ValueError(f"{path} is not JSON: {error}.") from None


def bounded(path: Path) -> bytes:
    """Content of a file to import; raise ``ValueError`` if it is too large or is no file."""
    try:
        if path.stat().st_size > _LIMIT:
            raise ValueError(f"{path} is larger than {_LIMIT} bytes; allowed: up to that.")
        return path.read_bytes()
    except FileNotFoundError:
        raise FileNotFoundError(f"There is no file {path} to import.") from None
    except OSError as error:
        raise ValueError(f"{path} cannot be read as a file: {error.strerror}.") from None


class Names:
    """Names of a file, each in one spelling: marl-eval reads all of them in lower case."""

    def __init__(self, advice: str) -> None:
        self._advice = advice
        self._spelled: dict[tuple[str, str], str] = {}

    def check(self, kind: str, name: str, where: str) -> None:
        """Raise ``ValueError`` for a name that marl-eval cannot keep apart from others."""
        if not name.strip() or "," in name:
            why = "a comma, with which marl-eval joins names" if name.strip() else "no letters"
            raise ValueError(f"{where}: the {kind} {name!r} has {why}; {self._advice}.")
        other = self._spelled.setdefault((kind, name.lower()), name)
        if other != name:
            raise ValueError(
                f"{where}: the {kind} {name!r} differs from {other!r} in upper and lower case "
                f"only, and marl-eval takes them for one; {self._advice}."
            )


class _Checks:
    """What a file has said so far, so that it can be held to it."""

    def __init__(self) -> None:
        self._names = Names("rename it in the file, or spell both alike if they are one")
        self._first: dict[tuple[str, ...], tuple[str, str]] = {}

    def members(self, given: Any, kind: str, where: str) -> dict[str, Any]:
        """Members of a JSON object, none of them twice."""
        if not isinstance(given, _Object):
            raise ValueError(f"{where} is {_shown(given)}; allowed: an object with a {kind} each.")
        found: dict[str, Any] = {}
        for name, value in given:
            self._names.check(kind, name, where)
            if name in found:
                raise ValueError(f"{where} has the {kind} {name!r} twice; remove one.")
            found[name] = value
        return found

    def some(self, given: Any, kind: str, where: str) -> dict[str, Any]:
        """Members of a JSON object that must not be empty."""
        found = self.members(given, kind, where)
        if not found:
            raise ValueError(f"{where} has no {kind}; remove it from the file, or add one.")
        return found

    def same(self, key: tuple[str, ...], value: str, where: str) -> None:
        """Raise if ``value`` is not what was given for the same key before."""
        there, other = self._first.setdefault(key, (where, value))
        if other != value:
            raise ValueError(f"{where} has {value}, {there} has {other}; allowed: the same.")


def _runs(checks: _Checks, tasks: Any, environment: str, where: str) -> Iterator[Run]:
    for task, algorithms in checks.some(tasks, "task", where).items():
        there = f"{where} / {task}"
        for algorithm, runs in checks.some(algorithms, "algorithm", there).items():
            here = f"{there} / {algorithm}"
            for name, parts in checks.some(runs, "run", here).items():
                reader = _RunReader(checks, environment, task, f"{here} / {name}")
                yield Run(task, algorithm, name, *reader.read(parts))


@dataclass(frozen=True)
class _RunReader:
    """Reads a run, and holds it to the runs that were read before."""

    checks: _Checks
    environment: str
    task: str
    where: str

    def read(self, parts: Any) -> tuple[np.ndarray, dict[str, np.ndarray], dict[str, np.ndarray]]:
        """Steps, metrics and absolute metrics, as in ``Run``."""
        members = self.checks.members(parts, "evaluation", self.where)
        final = [name for name in members if "absolute" in name.lower()]
        if len(final) > 1:
            raise ValueError(
                f"{self.where} has {', '.join(final)}; allowed: one with 'absolute' in its name."
            )
        steps: list[int] = []
        rows, absolute = [], {}
        for name in members:
            entry = self.checks.members(members[name], "metric", f"{self.where} / {name}")
            if name not in final:
                steps.append(_step_count(entry, steps, f"{self.where} / {name}"))
                rows.append(self._lists(entry, name, "evaluation"))
            elif entry:
                absolute = self._lists(entry, name, "absolute")
        metrics = {name: np.array([row[name] for row in rows]) for name in (rows or [{}])[0]}
        return np.array(steps, np.int64), metrics, absolute

    def _lists(self, entry: Mapping[str, Any], name: str, part: str) -> dict[str, np.ndarray]:
        """Values of every metric; the same metrics, and as many values, as elsewhere."""
        where, checks = f"{self.where} / {name}", self.checks
        metrics = [metric for metric in entry if metric not in _BESIDE]
        if not metrics:
            raise ValueError(f"{where} has no metric; allowed: lists of numbers by name.")
        checks.same((self.environment, part), f"the metrics {', '.join(sorted(metrics))}", where)
        found = {metric: _numbers(entry[metric], f"{where} / {metric}") for metric in metrics}
        for metric, sample in found.items():
            key = self.environment, self.task, part, metric
            checks.same(key, f"{len(sample)} values of {metric}", where)
        return found


def _step_count(entry: Mapping[str, Any], before: Sequence[int], where: str) -> int:
    count = entry.get("step_count")
    if type(count) is not int or not 0 <= count < 1 << 63:
        raise ValueError(f"{where}: step_count is {_shown(count)}; allowed: a whole number >= 0.")
    if before and count <= before[-1]:
        raise ValueError(
            f"{where}: step_count is {count} after {before[-1]}; allowed: one that rises from "
            f"evaluation to evaluation."
        )
    return count


def _numbers(given: Any, where: str) -> np.ndarray:
    if isinstance(given, _Object) or not isinstance(given, list) or not given:
        raise ValueError(f"{where} is {_shown(given)}; allowed: a list with at least one number.")
    for position, value in enumerate(given):
        if type(value) not in (int, float) or not _is_finite(value):
            raise ValueError(
                f"{where} has {_shown(value)} at position {position}; allowed: finite numbers."
            )
    return np.array(given, np.float64)


def _is_finite(value: float) -> bool:
    try:
        return math.isfinite(value)
    except OverflowError:  # an integer beyond all floats
        return False


def _shown(value: Any) -> str:
    """A value of a file for an error: what it is, shortened."""
    if isinstance(value, _Object):
        return "an object"
    if isinstance(value, list):
        return "an empty list" if not value else "a list"
    if value is None:
        return "missing or null"
    text = repr(value) if not isinstance(value, int) or abs(value) < 1 << 64 else "a huge number"
    return text if len(text) <= 40 else text[:40] + "..."


def _check_kind(runs: Sequence[Run], absolute: str, where: str) -> None:
    """Raise if the absolute metrics cannot be what they are said to be."""
    tested = [run for run in runs if run.absolute and len(run.steps) > 1]
    highest = [_is_highest(run) for run in tested]
    if absolute == "max_episode" and not all(highest):
        run = tested[highest.index(False)]
        raise ValueError(
            f"{where} / {run.task} / {run.algorithm} / {run.name}: the absolute metrics are not "
            f"the highest values of the evaluations, so they are no 'max_episode'. {_KINDS}"
        )
    if absolute == "best_checkpoint" and tested and all(highest):
        raise ValueError(
            f"{where}: the absolute metrics of all runs are the highest single values of their "
            f"evaluations: that is 'max_episode', not 'best_checkpoint'. {_KINDS}"
        )


_KINDS = f"Allowed kinds: {', '.join(ABSOLUTE)}."


def _is_highest(run: Run) -> bool:
    """Whether every absolute metric is one value, the highest of all evaluations."""
    return all(
        len(sample) == 1 and name in run.metrics and sample[0] == run.metrics[name].max()
        for name, sample in run.absolute.items()
    )


def summary_table(imported: Imported, metric: str = "return") -> Table:
    """Return ``Imported.table`` as a table to print, with what a reader has to know under it."""
    rows, notes = imported.table(metric), Footnotes()
    columns = (
        Column("Algorithm", "who is evaluated", numeric=False),
        Column("Estimate", "of all runs on all tasks"),
        Column("95 % interval", "stratified bootstrap over runs, widened for few runs"),
        Column("Tasks", "tasks that are taken together"),
        Column("n", "runs in the task with the fewest"),
    )
    groups = [
        Group(title, meaning, _entries([row for row in rows if row.statistic == kind], notes))
        for kind, (title, meaning) in _STATISTICS.items()
        if kind in {row.statistic for row in rows}
    ]
    scale = _MINMAX if metric in imported.minmax else "Values as the file has them."
    kind = f"absolute metric: {imported.absolute} ({ABSOLUTE[imported.absolute]})"
    return Table(
        title=f"{metric} on {imported.environment}; {kind}",
        columns=columns,
        groups=tuple(groups),
        footnotes=notes.all(),
        unit=f"Unit of inference: runs. {scale}",
        kind="Statistic",
    )


def _entries(rows: Sequence[Summary], notes: Footnotes) -> tuple[tuple[Entry, ...], ...]:
    scale = scale_of_rows(rows, "estimate")
    return tuple(
        (
            Entry(row.algorithm, row.algorithm),
            Entry(scale(row.estimate), row.estimate),
            Entry(
                interval_text(row.low, row.high, scale), row.high - row.low, notes.mark(row.flag)
            ),
            Entry(f"{row.tasks:,}", row.tasks),
            Entry(f"{row.runs:,}", row.runs),
        )
        for row in rows
    )


_STATISTICS = {
    "iqm": ("IQM", "interquartile mean over all runs and tasks"),
    "median": ("Median", "over tasks, of the mean over runs"),
    "mean": ("Mean", "over tasks, of the mean over runs"),
    "optimality_gap": ("Optimality gap", "how far runs fall short of 1; lower is better"),
}
_MINMAX = (
    "0 and 1 are the lowest and highest value of each task in this file: they move when an "
    "algorithm is added, so compare nothing with other files."
)
