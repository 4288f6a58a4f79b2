"""Returns normalized as CAMAR publishes them: by the lowest and the highest run of all tasks."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from coopbench import statistics
from coopbench.analysis.aggregates import RESAMPLES
from coopbench.analysis.findings import Findings, Part
from coopbench.analysis.rows import ReportRow
from coopbench.episodes.grouping import grouped
from coopbench.episodes.table import EpisodeTable
from coopbench.protocol.schema import Protocol
from coopbench.report.answers import counted
from coopbench.report.numbers import Scale, level_text
from coopbench.report.section import ReportSection
from coopbench.report.tables.entries import Field, table_of
from coopbench.report.tables.model import Table

_EQUAL = "all returns of the report are equal: there is nothing to normalize by"
_UNKNOWN = "the returns of some runs are not stored"
_ONE_RUN = "one run: nothing is known of its spread between runs"


@dataclass(frozen=True, eq=False)
class PublishedReturn(ReportRow):
    """Mean return of one run on one task, normalized over all policies, runs and tasks."""

    task: str
    policy: str
    run: int | None  # training seed; None of a fixed policy
    mean: float
    normalised: float  # 0 is the lowest mean of the report, 1 the highest; nan if they are equal


@dataclass(frozen=True, eq=False)
class PublishedAggregate(ReportRow):
    """Statistics of the normalized returns of one policy over the tasks of a group."""

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
    """Normalize the mean returns as published: by the lowest and highest run of all tasks at once.

    Only where the protocol asks for it, because every value changes when a policy is added.
    """
    if not protocol.report.reproduces.has_asked("published_return") or not len(table):
        return ()
    blocks = [block for task, policy in table.pairs for block in table.runs(task, policy)]
    means = np.array([block.team_returns.mean() for block in blocks])
    known = means[np.isfinite(means)]
    low, width = (known.min(), np.ptp(known)) if len(known) else (math.nan, math.nan)
    shares = (means - low) / width if width > 0 else np.full(len(means), np.nan)
    return tuple(
        PublishedReturn(b.cell.task, b.cell.policy, b.cell.run, float(mean), float(share))
        for b, mean, share in zip(blocks, means, shares, strict=True)
    )


def published_aggregates(
    protocol: Protocol, table: EpisodeTable, published: Sequence[PublishedReturn]
) -> tuple[PublishedAggregate, ...]:
    """Aggregate the normalized returns of every policy over the tasks of a group that it played.

    ``published`` are these returns, by run. Interquartile mean and optimality gap are over the
    matrix of runs and tasks, their intervals from the stratified bootstrap over runs (Agarwal et
    al. 2021), the method "percentile".
    """
    runs = grouped(((row.policy, row.task), row) for row in published)
    rows = []
    for group, tasks in protocol.groups.items():
        for policy in dict.fromkeys(policy for policy, _ in runs):
            played = [runs[policy, task.id] for task in tasks if (policy, task.id) in runs]
            failed = sum(len(table.failed(task.id, policy)) for task in tasks)
            if played:
                rows.append(_aggregate(protocol, group, policy, played, failed))
    return tuple(rows)


def _aggregate(
    protocol: Protocol,
    group: str,
    policy: str,
    played: Sequence[Sequence[PublishedReturn]],
    failed: int,
) -> PublishedAggregate:
    """Return the statistics of the runs on some tasks, a sequence for each; some have failed."""
    settings, both = protocol.report, (statistics.iqm, statistics.optimality_gap)
    columns = [np.array([row.normalised for row in rows]) for rows in played]
    sizes = [len(column) for column in columns]
    if not np.isfinite(np.concatenate(columns)).all():
        unknown = any(math.isnan(row.mean) for rows in played for row in rows)
        ends, flag = [(math.nan,) * 3] * 2, _UNKNOWN if unknown else _EQUAL
    elif max(sizes) == 1:
        ends, flag = [(statistic(columns), math.nan, math.nan) for statistic in both], _ONE_RUN
    else:
        reps = max(RESAMPLES, settings.resamples)
        drawn = statistics.bootstrap_intervals(
            columns, both, reps=reps, confidence=settings.confidence
        )
        ends = [(float(one.estimate), float(one.low), float(one.high)) for one in drawn]
        flag = "; ".join(drawn[0].warnings)
    if failed:
        flag = "; ".join(filter(None, (f"without {counted(failed, 'run')} that failed", flag)))
    return PublishedAggregate(group, policy, *ends[0], *ends[1], len(columns), min(sizes), flag)


def published_table(findings: Findings) -> Table | None:
    """Return the returns normalized as published; None where the protocol does not ask for them."""
    level, three, spread = level_text(findings.protocol), Scale(3), "stratified bootstrap over runs"
    fields = {
        "policy": Field("Policy", "who is evaluated"),
        "iqm": Field("IQM", "interquartile mean of the matrix of runs and tasks", three),
        "iqm_low": Field(f"{level} interval", f"of the IQM; {spread}", three, "iqm_high", True),
        "optimality_gap": Field("Optimality gap", "mean shortfall from 1; less is better", three),
        "gap_low": Field(f"Its {level} interval", spread, three, "gap_high"),
        "runs": Field("Runs", "of each task; 1 of a fixed policy", Scale(0)),
        "tasks": Field("Tasks", "that the policy has played", Scale(0)),
    }
    unit = (
        "(G - min) / (max - min), where G is the mean return of a run on a task and min and max "
        "are over all policies, runs and tasks of this report: adding a policy moves every value. "
        "For comparisons use the score."
    )
    return table_of(
        findings.rows(AGGREGATES), fields, "Normalized return as published", unit, by="group"
    )


RETURNS = Part("published", published_returns)
AGGREGATES = Part("published_aggregates", published_aggregates, RETURNS, rare=True)
SECTION = ReportSection((RETURNS, AGGREGATES), {"overall": published_table})
