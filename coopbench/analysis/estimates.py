"""Estimates: the mean of every metric of every policy on every task, with its interval.

The interval is for new training runs and new episodes; a fixed policy has no runs, and its interval
is for new episodes.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from coopbench import statistics
from coopbench.analysis.constants import constant_interval
from coopbench.analysis.rows import ReportRow
from coopbench.analysis.score_matrix import (
    EPISODES,
    ScoreMatrix,
    count_runs,
    score_ends,
    score_matrices,
)
from coopbench.episodes.table import Episodes, EpisodeTable
from coopbench.protocol.schema import Protocol
from coopbench.protocol.task import Task
from coopbench.statistics import TwoWay
from coopbench.statistics.intervals import Moments
from coopbench.statistics.two_way import FEWEST

FEW = 10  # runs below which an interval is marked
EQUAL = "all values are equal: a width of zero is not certainty"
CERTAIN = "exact: all starts are played, and nothing is drawn"
NOT_STORED = "not stored with the shipped scores"
BOUNDED = "all values are equal: the interval is a bound on others that were not seen"


@dataclass(frozen=True, eq=False)
class Estimate(ReportRow):
    """Mean of one metric of one policy on one task, over its runs and episodes."""

    task: str
    policy: str
    metric: str
    count: int  # distinct units in which the metric is defined
    mean: float
    std: float  # over units, ddof 1; nan for one
    low: float  # two-way interval of the mean, over runs and episodes; nan where it is undefined
    high: float
    flag: str  # why the interval says less than it seems; empty when all is well
    unit: str = EPISODES  # "episodes" of a fixed policy, "runs" of a learner, "models"
    episodes: int = 0  # distinct ones in which the metric is defined in at least one run
    std_episodes: float = math.nan  # of the episodes of one run, mean variance over runs
    failed: int = 0  # of the score: runs that failed, which count with the floor of the task


def estimates(protocol: Protocol, table: EpisodeTable) -> tuple[Estimate, ...]:
    """Estimate every metric of the protocol for every policy on every task that it played.

    Runs that failed count in the score alone; a policy all of whose runs failed on a task has no
    other metric there.
    """
    rows, confidence = list[Estimate](), protocol.report.confidence
    by_id = {task.id: task for task in protocol.task}
    lost = [(task, name) for task in by_id for name in table.contestants(task)]
    for name, policy in dict.fromkeys((*table.pairs, *lost)):
        metrics, blocks = protocol.report.metrics_of(by_id[name]), table.runs(name, policy)
        if not blocks:
            metrics = (protocol.report.score,)
        matrices = list(score_matrices(protocol, table, by_id[name], policy, metrics))
        failed = len(table.failed(name, policy))
        means = two_way_estimates(name, metrics, matrices, confidence)
        for metric, row, values in zip(metrics, means, matrices, strict=True):
            if metric == protocol.report.score:
                row = _bounded(protocol, by_id[name], row, values)
                alike = _repeated(blocks, values)
                row = replace(row, flag="; ".join(filter(None, (row.flag, alike))))
            elif not row.count and any(block.scores_alone for block in blocks):
                row = replace(row, flag=NOT_STORED)
            flag = "; ".join(filter(None, (*flags_of_failed(failed, [values]), row.flag)))
            row = replace(row, failed=values.failed, flag=flag)
            rows.append(row)
    return tuple(rows)


def _repeated(blocks: Sequence[Episodes], values: ScoreMatrix) -> str:
    """Say how many of the episodes are distinct if chance alone lets some be alike."""
    traces = [block.trace for block in blocks if block.trace is not None]
    if values.distinct or not traces or len(traces) < len(blocks):
        return ""
    count = max(len(trace.digests) for trace in traces)
    different = max(len(set(trace.checksums)) for trace in traces)
    return f"{different} of {count} episodes are distinct" if different < count else ""


def _bounded(protocol: Protocol, task: Task, row: Estimate, values: ScoreMatrix) -> Estimate:
    """Return the estimate of a score that does not vary with an interval that has a width."""
    enough = row.count > 1 if values.fixed else len(values.runs) >= FEWEST and row.count > 0
    if row.low < row.high or (values.distinct and values.fixed) or not enough:
        return row
    ends, confidence = score_ends(protocol, [task]), protocol.report.confidence
    low, high = constant_interval((values,), ends, row.mean, confidence)
    return replace(row, low=low, high=high, flag=row.flag.replace(EQUAL, BOUNDED))


def two_way_estimates(
    task: str, metrics: Sequence[str], matrices: Sequence[ScoreMatrix], confidence: float
) -> list[Estimate]:
    """Estimate the means of the score matrices of some metrics, with their two-way intervals."""
    two_way = {
        metric: values.grid()
        for metric, values in zip(metrics, matrices, strict=True)
        if not (values.fixed and values.strata is None) and np.isfinite(values.values).any()
    }
    widths = statistics.half_widths_apart(list(two_way.values()), confidence).tolist()
    halves = dict(zip(two_way, widths, strict=True))
    defined = [values.units[np.isfinite(values.units)] for values in matrices]
    found = statistics.moments(defined, confidence)
    return [
        _estimate(task, metric, values, one, halves.get(metric))
        for metric, values, one in zip(metrics, matrices, found, strict=True)
    ]


def _estimate(
    task: str, metric: str, values: ScoreMatrix, found: Moments, half: float | None
) -> Estimate:
    """Estimate the mean of a score matrix; without ``half`` the interval is over its units.

    ``found`` are the moments of the units in which the metric is defined.
    """
    finite = np.isfinite(np.atleast_2d(values.values))
    row = _of_units(task, values.policy, metric, values.units, found, values.unit)
    count, std, low, high = row.count, row.std, row.low, row.high
    flags, episodes = [row.flag, values.note], values.own_count or int(finite.any(axis=0).sum())
    std_episodes = std if values.fixed else _within(values.values)
    if not values.fixed:
        flags[:1] = _weaknesses(row, std_episodes, finite)
    if values.fixed and values.distinct and finite.all():  # as often as it was played
        flags[0], count, low, high = CERTAIN, values.distinct, row.mean, row.mean
        episodes = count
        if count == 1:
            std = std_episodes = math.nan
    elif values.distinct:
        episodes = min(episodes, values.distinct)
    return replace(
        row,
        count=count,
        std=std,
        low=low if half is None else row.mean - half,
        high=high if half is None else row.mean + half,
        flag="; ".join(filter(None, flags)),
        episodes=episodes,
        std_episodes=std_episodes,
    )


def _weaknesses(row: Estimate, std_episodes: float, finite: np.ndarray) -> Iterator[str]:
    """Say what weakens the interval of a learner, or excludes it."""
    if row.count < len(finite):
        yield f"undefined in {len(finite) - row.count} of {len(finite)} runs"
    elif not finite.all():
        yield f"undefined in {int((~finite).sum())} of {finite.size} episodes of the runs"
    if 0 < row.count < FEWEST:
        yield f"no interval: it needs {FEWEST} runs"
    elif 0 < row.count < FEW:
        yield few_runs(f"{row.count} runs")
    if row.std == 0.0 and std_episodes == 0.0:
        yield EQUAL


def few_runs(what: str) -> str:
    """Return the mark of an interval over few runs; ``what`` says how many."""
    return (
        f"{what}, fewer than {FEW}: the interval may be too narrow if the scores "
        "of runs are skewed or if runs fail"
    )


def run_flags(matrices: Sequence[ScoreMatrix]) -> list[str]:
    """Say what few runs weaken in an interval over several tasks; empty of fixed policies."""
    fewest, total = min(len(one.runs) for one in matrices), count_runs(matrices)
    if total and fewest < FEWEST:
        return [f"no interval: it needs {FEWEST} runs"]
    return [few_runs(f"{fewest} runs per task")] if total and fewest < FEW else []


def failure_flags(
    table: EpisodeTable, tasks: Sequence[Task], matrices: Sequence[ScoreMatrix]
) -> list[str]:
    """Say how many runs of a policy failed on some tasks, and whether they count."""
    failed = sum(len(table.failed(task.id, matrices[0].policy)) for task in tasks)
    return flags_of_failed(failed, matrices)


def flags_of_failed(failed: int, matrices: Sequence[ScoreMatrix]) -> list[str]:
    """Say that so many runs failed, and whether they count in the matrices."""
    if not failed:
        return []
    counted = sum(one.failed for one in matrices)
    runs = sum(len(one.runs) for one in matrices) + failed - counted
    how = "count with the floor of the task" if counted else "are left out"
    return [f"{failed} of {runs} runs failed and {how}"]


def trimmed_over_tasks(
    matrices: Sequence[ScoreMatrix], confidence: float
) -> tuple[float, float, float]:
    """Return the trimmed mean over task means, and both ends of its two-way interval."""
    two_way = TwoWay([one.grid() for one in matrices])
    weights = statistics.trimmed_weights(two_way.means)
    value = float(weights @ two_way.means)
    half = float(statistics.half_widths(two_way.spread(weights), confidence)[0])
    return value, value - half, value + half


def _within(matrix: np.ndarray) -> float:
    """Return the standard deviation of episodes within a run, pooled over runs."""
    whole = np.isfinite(matrix).all()  # then the runs are one part, in the order of their sums
    parts = (
        [np.ascontiguousarray(matrix)] if whole else [row[None, np.isfinite(row)] for row in matrix]
    )
    variances = [
        np.where(np.ptp(part, axis=1) == 0.0, 0.0, np.var(part, axis=1, ddof=1))
        for part in parts
        if part.size > len(part)  # two episodes or more
    ]
    return math.sqrt(float(np.mean(np.concatenate(variances)))) if variances else math.nan


def estimate(
    task: str, policy: str, metric: str, sample: np.ndarray, confidence: float, unit: str = EPISODES
) -> Estimate:
    """Estimate the mean of independent values, one per unit, without those that are not finite.

    ``sample`` is (units,); ``flag`` of the estimate says how many were left out.
    """
    (found,) = statistics.moments([sample[np.isfinite(sample)]], confidence)
    return _of_units(task, policy, metric, sample, found, unit)


def _of_units(
    task: str, policy: str, metric: str, sample: np.ndarray, found: Moments, unit: str
) -> Estimate:
    """Return the estimate that follows from the moments of the defined values of a sample."""
    count = int(np.isfinite(sample).sum())
    missing = len(sample) - count
    flags = [f"undefined in {missing} of {len(sample)} {unit}"] if missing else []
    flags += found.warnings if count else () if missing else [f"no {unit}"]
    ends = found.mean - found.half, found.mean + found.half
    values = count, found.mean, found.std, *ends
    return Estimate(task, policy, metric, *values, "; ".join(flags), unit)
