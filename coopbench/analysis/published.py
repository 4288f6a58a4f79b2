"""Returns normalised as published: by the lowest and the highest run of a report, on any task."""

import math
from dataclasses import dataclass

import numpy as np

from coopbench import statistics
from coopbench.analysis.aggregates import RESAMPLES
from coopbench.analysis.rows import ReportRow
from coopbench.episodes.table import EpisodeTable
from coopbench.protocol.schema import Protocol
from coopbench.protocol.sections import Task

__all__ = [
    "PublishedAggregate",
    "PublishedReturn",
    "published_aggregates",
    "published_returns",
]

EQUAL = "all returns of the report are equal: there is nothing to normalise by"
ONE_RUN = "one run: nothing is known of its spread between runs"


@dataclass(frozen=True, eq=False)
class PublishedReturn(ReportRow):
    """Mean return of one run on one task, normalised over all policies, runs and tasks."""

    task: str
    policy: str
    run: int | None  # training seed; None of a fixed policy
    mean: float
    normalised: float  # 0 is the lowest mean of the report, 1 the highest; nan if they are equal


@dataclass(frozen=True, eq=False)
class PublishedAggregate(ReportRow):
    """Statistics of the normalised returns of one policy over the tasks of a group."""

    group: str  # empty if the protocol has no groups: then over all tasks
    policy: str
    iqm: float  # interquartile mean of the matrix of runs and tasks
    iqm_low: float  # stratified bootstrap over runs; nan of a single run
    iqm_high: float
    optimality_gap: float  # mean shortfall from 1; less is better
    gap_low: float
    gap_high: float
    tasks: int
    runs: int  # of the task with fewest; 1 of a fixed policy
    flag: str


def published_returns(protocol: Protocol, table: EpisodeTable) -> tuple[PublishedReturn, ...]:
    """Normalise the mean returns as published: by the lowest and highest run of all tasks at once.

    Only where the protocol asks for it, because every value changes when a policy is added.
    """
    if not protocol.report.reproduces.published_return or not len(table):
        return ()
    blocks = [block for task, policy in table.pairs for block in table.runs(task, policy)]
    means = np.array([block.team_returns.mean() for block in blocks])
    low, width = means.min(), np.ptp(means)
    shares = (means - low) / width if width > 0 else np.full(len(means), np.nan)
    return tuple(
        PublishedReturn(b.cell.task, b.cell.policy, b.cell.run, float(mean), float(share))
        for b, mean, share in zip(blocks, means, shares, strict=True)
    )


def published_aggregates(protocol: Protocol, table: EpisodeTable) -> tuple[PublishedAggregate, ...]:
    """Aggregate the normalised returns of every policy over the tasks of a group that it played.

    Interquartile mean and optimality gap are over the matrix of runs and tasks, their intervals
    from the stratified bootstrap over runs (Agarwal et al. 2021), the method "percentile".
    """
    rows: dict[tuple[str, str], list[float]] = {}
    for row in published_returns(protocol, table):
        rows.setdefault((row.policy, row.task), []).append(row.normalised)
    policies = dict.fromkeys(policy for policy, _ in rows)
    return tuple(
        _aggregate(protocol, group, policy, columns)
        for group, tasks in protocol.groups.items()
        for policy in policies
        if (columns := _columns(rows, policy, tasks))
    )


def _columns(
    rows: dict[tuple[str, str], list[float]], policy: str, tasks: tuple[Task, ...]
) -> list[np.ndarray]:
    """Return the normalised returns of the runs on every task that a policy has played."""
    return [np.array(rows[policy, t.id]) for t in tasks if (policy, t.id) in rows]


def _aggregate(
    protocol: Protocol, group: str, policy: str, columns: list[np.ndarray]
) -> PublishedAggregate:
    """Return the statistics of the runs on some tasks, one array for each."""
    runs, nan = min(len(column) for column in columns), math.nan
    size = len(columns), runs
    if not all(np.isfinite(column).all() for column in columns):
        return PublishedAggregate(group, policy, nan, nan, nan, nan, nan, nan, *size, EQUAL)
    if max(len(column) for column in columns) == 1:
        iqm, gap = statistics.iqm(columns), statistics.optimality_gap(columns)
        return PublishedAggregate(group, policy, iqm, nan, nan, gap, nan, nan, *size, ONE_RUN)
    middle, gap_of = statistics.bootstrap_intervals(
        columns,
        (statistics.iqm, statistics.optimality_gap),
        reps=max(RESAMPLES, protocol.report.resamples),
        confidence=protocol.report.confidence,
    )
    return PublishedAggregate(
        group,
        policy,
        *(float(middle.estimate), float(middle.low), float(middle.high)),
        *(float(gap_of.estimate), float(gap_of.low), float(gap_of.high)),
        *size,
        "; ".join(middle.warnings),
    )
