"""Interquartile means of every metric by task and group, as CAMAR publishes them."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from coopbench import statistics
from coopbench.analysis.estimates import failure_flags, run_flags, trimmed_over_tasks
from coopbench.analysis.findings import Findings, Part
from coopbench.analysis.rows import ReportRow
from coopbench.analysis.score_matrix import ScoreMatrix, defined_matrices
from coopbench.episodes.table import EpisodeTable
from coopbench.protocol.schema import Protocol
from coopbench.protocol.task import Task
from coopbench.report.numbers import (
    MISSING,
    Scale,
    interval_text,
    is_point,
    level_text,
    scale_of_rows,
)
from coopbench.report.section import ReportSection
from coopbench.report.tables.entries import SAME, number_entry
from coopbench.report.tables.model import Column, Entry, Footnotes, Group, Table


@dataclass(frozen=True, eq=False)
class InterquartileMean(ReportRow):
    """Interquartile mean of a metric of one policy, in units of the metric."""

    group: str
    task: str  # empty: over all tasks of the group
    policy: str
    metric: str
    estimate: float  # over the means of runs and tasks; of one run on one task its mean
    low: float  # two-way interval, over runs and episodes; nan where it is undefined
    high: float
    tasks: int
    count: int  # units of the task with fewest
    unit: str  # "episodes" of a fixed policy, "runs" of a learner
    flag: str


def interquartile_means(protocol: Protocol, table: EpisodeTable) -> tuple[InterquartileMean, ...]:
    """Estimate the interquartile mean of every metric for each task and group.

    Only where the protocol asks for it. A policy is in a group if it has played all of its tasks
    and the metric is defined on each.
    """
    if not protocol.report.reproduces.has_asked("interquartile"):
        return ()
    places: list[tuple[str, str, tuple[Task, ...]]] = []
    for group, tasks in protocol.groups.items():
        places += [*((group, task.id, (task,)) for task in tasks), (group, "", tasks)]
    return tuple(
        _row(
            protocol,
            (group, name, policy, metric),
            matrices,
            failure_flags(table, tasks, matrices),
        )
        for group, name, tasks in places
        for policy in table.policies
        for metric in _shared_metrics(protocol, tasks)
        if len(matrices := defined_matrices(protocol, table, tasks, policy, metric)) == len(tasks)
    )


def _shared_metrics(protocol: Protocol, tasks: Sequence[Task]) -> list[str]:
    """Return the metrics that are reported of all of some tasks."""
    others = [protocol.report.metrics_of(task) for task in tasks]
    return [name for name in others[0] if all(name in names for names in others)]


def _row(
    protocol: Protocol,
    names: tuple[str, str, str, str],
    matrices: Sequence[ScoreMatrix],
    failures: Sequence[str],
) -> InterquartileMean:
    """Return the interquartile mean of one policy over the matrices of one metric."""
    confidence = protocol.report.confidence
    if matrices[0].fixed:
        ends = trimmed_over_tasks(matrices, confidence)
    else:
        value, spread = statistics.iqm_of_runs([one.grid() for one in matrices])
        half = float(statistics.half_widths(spread, confidence)[0])
        ends = value, value - half, value + half
    flags = [*failures, *run_flags(matrices), *dict.fromkeys(one.note for one in matrices)]
    counts = [int(np.isfinite(one.units).sum()) for one in matrices]
    units = sum(len(one.units) for one in matrices)
    if sum(counts) < units:
        flags.append(f"undefined in {units - sum(counts)} of {units} {matrices[0].unit}")
    if is_point(*ends[1:]):
        flags.append(SAME)
    size = len(matrices), min(counts)
    return InterquartileMean(*names, *ends, *size, matrices[0].unit, "; ".join(filter(None, flags)))


def interquartile_table(findings: Findings) -> Table | None:
    """Return the interquartile mean of every metric by task and group; None if not asked for."""
    rows, notes = findings.rows(MEANS), Footnotes()
    metrics = dict.fromkeys(row.metric for row in rows)
    scales = {m: scale_of_rows([r for r in rows if r.metric == m], "estimate") for m in metrics}
    cells = {(row.group, row.task, row.policy, row.metric): row for row in rows}

    def entry(row: InterquartileMean | None, scale: Scale) -> Entry:
        if row is None:
            return Entry(MISSING)
        value, interval = number_entry(row.estimate, scale), interval_text(row.low, row.high, scale)
        return replace(value, marks=notes.mark(row.flag), below=interval)

    groups: dict[str, list[tuple[Entry, ...]]] = {}
    for group, task, policy in dict.fromkeys(where[:3] for where in cells):
        place = task or (f"all of {group}" if group else "all tasks")
        found = (entry(cells.get((group, task, policy, m)), scales[m]) for m in metrics)
        groups.setdefault(place, []).append((Entry(policy, policy), *found))
    unit = (
        "Over the means of runs and tasks: of one run on one task its mean. Below, the "
        f"{level_text(findings.protocol)} interval for new runs and new episodes. Only metrics "
        "that all tasks of a group have."
    )
    meaning = "interquartile mean; below it the interval"
    columns = Column("Policy", "who is evaluated", False), *(Column(m, meaning) for m in metrics)
    body = tuple(Group(place, "", tuple(lines)) for place, lines in groups.items())
    title = "Interquartile means of all metrics, by task and group"
    return Table(title, columns, body, unit, notes.all(), "Task") if rows else None


MEANS = Part("interquartile", interquartile_means, rare=True)
SECTION = ReportSection((MEANS,), {"by task": interquartile_table})
