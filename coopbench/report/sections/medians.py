"""Medians over runs late in the training, as Samvelyan et al. 2019 report them for SMAC.

Medians and quartiles describe the runs that were made; they are no intervals for new ones.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np

from coopbench.analysis.findings import Findings, Part
from coopbench.analysis.learning import Course, course_of
from coopbench.analysis.rows import ReportRow
from coopbench.analysis.score_matrix import score_scales
from coopbench.episodes.table import EpisodeTable
from coopbench.protocol.schema import Protocol
from coopbench.report.numbers import MISSING, scale_of_rows
from coopbench.report.section import ReportSection
from coopbench.report.tables.entries import policy_text, runs_text
from coopbench.report.tables.model import Column, Entry, Footnotes, Group, Table

FINAL_STEPS = 250_000  # at the end of training, of which the final medians are
LEAD = 1 / 32  # normalized score; one of 32 episodes, the least by which shares of wins can differ


@dataclass(frozen=True, eq=False)
class FinalMedian(ReportRow):
    """Best median over runs within the last ``FINAL_STEPS`` of training, on one task."""

    task: str
    policy: str
    median: float  # over runs of their mean score at the checkpoint where it is highest
    low: float  # quartiles over runs at this checkpoint
    high: float
    step: int  # of the checkpoint, the earliest of several
    runs: int
    leads: bool  # by at least ``LEAD`` of normalized score before every other policy of the table
    flag: str


def asked(protocol: Protocol) -> Mapping[str, str]:
    """Say which medians a protocol asks for."""
    text = (
        f"and quartiles over runs of the best checkpoint in the last {FINAL_STEPS:,} steps of "
        f"training; tasks on which a policy leads by 1/{1 / LEAD:g} are counted"
    )
    return {"Medians": text} if protocol.report.reproduces.has_asked("medians") else {}


def final_medians(protocol: Protocol, table: EpisodeTable) -> tuple[FinalMedian, ...]:
    """Return the best final medians of every policy with checkpoints, where the protocol asks.

    After Samvelyan et al. 2019: the highest median on a task within the last ``FINAL_STEPS`` of
    training, and who leads by ``LEAD``.
    """
    if not protocol.report.reproduces.has_asked("medians"):
        return ()
    scales, rows = score_scales(protocol, table), list[FinalMedian]()
    for task in protocol.task:
        found = dict[str, FinalMedian]()
        for name in dict.fromkeys(progress.cell.policy for progress in table.progress):
            course = course_of(protocol, table, task, name)
            if course is not None and len(course.steps):
                found[name] = _best(task.id, name, course)
        for name, row in found.items():
            others = [other.median for policy, other in found.items() if policy != name]
            lead = (row.median - max(others)) / scales[task.id].width if others else 0.0
            rows.append(replace(row, leads=lead >= LEAD))
    return tuple(rows)


def _best(task: str, policy: str, course: Course) -> FinalMedian:
    """Return the highest median within the last steps of a course, the earliest of several."""
    late = np.flatnonzero(course.steps > course.steps[-1] - FINAL_STEPS)
    low, median, high = np.quantile(course.scores[:, late], (0.25, 0.5, 0.75), axis=0)
    k = int(np.argmax(median))
    ends = float(median[k]), float(low[k]), float(high[k])
    size = int(course.steps[late[k]]), len(course.scores)
    return FinalMedian(task, policy, *ends, *size, False, course.flag)


def medians_table(findings: Findings) -> Table | None:
    """Return the final medians of every policy and task, and who leads; None if not asked for."""
    rows, notes, score = findings.rows(FINAL), Footnotes(), findings.protocol.report.score
    if not rows:
        return None
    names = tuple(dict.fromkeys(row.policy for row in rows))
    tasks = {row.task: [r for r in rows if r.task == row.task] for row in rows}
    led = [sum(row.leads for row in rows if row.policy == name) for name in names]
    counts = (Entry("tasks led", "tasks led"), *(Entry(str(count), count) for count in led))

    def entries(task: str, rows: list[FinalMedian]) -> Iterator[Entry]:
        scale, by_policy = scale_of_rows(rows, "median"), {row.policy: row for row in rows}
        yield Entry(task, task)
        for row in map(by_policy.get, names):
            if row is None:
                yield Entry(MISSING)
            else:
                text = f"{scale(row.median)} ({scale(row.low)} to {scale(row.high)})"
                yield Entry(text, row.median, notes.mark(row.flag), row.leads)

    body = tuple(tuple(entries(*item)) for item in tasks.items())
    quartiles = "median (quartiles); bold: leads"
    return Table(
        title=f"Final {score}: median and quartiles over runs",
        columns=(
            Column("Task", "what is played", numeric=False),
            *(Column(policy_text(findings, name), quartiles) for name in names),
        ),
        groups=(Group("", "", body), Group("all tasks", "", (counts,))),
        footnotes=notes.all(),
        unit=f"{runs_text(rows)}; quartiles describe these runs and bound nothing. The highest "
        f"median over runs of their mean {score} among the checkpoints of the last "
        f"{FINAL_STEPS:,} steps, and the quartiles there. A policy leads where its median is "
        f"the highest by at least 1/{1 / LEAD:g} of the normalized score (Samvelyan et al. 2019, "
        "with shares of wins).",
        kind="Over",
    )


FINAL = Part("final_medians", final_medians)
SECTION = ReportSection((FINAL,), {"overall": medians_table}, asked=asked)
