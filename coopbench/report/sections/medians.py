"""Medians over runs along the training, as Samvelyan et al. 2019 report them for SMAC.

Medians and quartiles describe the runs that were made; they are no intervals for new ones.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from coopbench.analysis.findings import Findings, Part
from coopbench.analysis.learning import Course, course_of
from coopbench.analysis.rows import ReportRow
from coopbench.analysis.score_matrix import Scale, score_scales
from coopbench.episodes.grouping import grouped
from coopbench.episodes.table import EpisodeTable
from coopbench.protocol.schema import Protocol
from coopbench.protocol.task import Task
from coopbench.report.numbers import MISSING, scale_of_rows
from coopbench.report.plots.drawing import LineChart
from coopbench.report.plots.marks import short
from coopbench.report.plots.policies import lines_of
from coopbench.report.plots.style import Picture, plain
from coopbench.report.section import ReportSection
from coopbench.report.tables.entries import policy_text, runs_text
from coopbench.report.tables.model import Column, Entry, Footnotes, Group, Table

FINAL_STEPS = 250_000  # at the end of training, of which the final medians are
LEAD = 1 / 32  # normalized score; one of 32 episodes, the least by which shares of wins can differ
_AHEAD = f"the highest by at least 1/{1 / LEAD:g} of the normalized"


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


@dataclass(frozen=True, eq=False)
class MedianPoint(ReportRow):
    """Median and quartiles over runs at one checkpoint, on one task or over several.

    Over several tasks it is the mean of their normalized medians, and of their quartiles.
    """

    group: str  # of the task; empty: over all tasks of the protocol
    task: str  # empty: over all tasks of the group
    policy: str
    step: int
    median: float  # over runs of their mean score
    low: float
    high: float
    leads: int  # tasks on which the median is ahead of every other policy's by at least ``LEAD``
    tasks: int
    runs: int  # per task, at least
    flag: str


def asked(protocol: Protocol) -> Mapping[str, str]:
    """Say which medians a protocol asks for."""
    text = (
        "and quartiles over runs, along the training and of the best checkpoint in its last "
        f"{FINAL_STEPS:,} steps; tasks on which a policy leads by 1/{1 / LEAD:g} are counted"
    )
    return {"Medians": text} if protocol.report.reproduces.has_asked("medians") else {}


def median_points(protocol: Protocol, table: EpisodeTable) -> tuple[MedianPoint, ...]:
    """Return medians and quartiles over runs at every checkpoint, where the protocol asks.

    First those of each task, then those of each group and of all tasks, for the policies that are
    trained on all of them, at the steps that all of these have.
    """
    if not protocol.report.reproduces.has_asked("medians"):
        return ()
    scales, rows = score_scales(protocol, table), list[MedianPoint]()
    names = dict.fromkeys(progress.cell.policy for progress in table.progress)
    for task in protocol.task:
        courses = {name: course_of(protocol, table, task, name) for name in names}
        some = {name: c for name, c in courses.items() if c is not None and len(c.steps)}
        rows += _on_task(task, some, scales[task.id].width)
    points = grouped(((row.task, row.policy), row) for row in rows)
    groups = {} if protocol.ad_hoc else dict(protocol.groups)
    for group, tasks in (groups | ({"": protocol.task} if len(groups) > 1 else {})).items():
        trained = [task.id for task in tasks if task.trained_on is None]
        for policy in names if trained else ():
            parts = [points[task, policy] for task in trained if (task, policy) in points]
            if len(parts) == len(trained):
                rows += _over_tasks(group, parts, scales)
    return tuple(rows)


def _on_task(task: Task, courses: Mapping[str, Course], width: float) -> Iterator[MedianPoint]:
    """Iterate over the checkpoints of every policy on a task, whose scores have a ``width``."""
    at = {
        name: dict(zip(course.steps.tolist(), quartiles.T.tolist(), strict=True))
        for name, course in courses.items()
        for quartiles in [np.quantile(course.scores, (0.25, 0.5, 0.75), axis=0)]
    }
    for name, course in courses.items():
        for step, (low, median, high) in at[name].items():
            medians = {other: ends[step][1] for other, ends in at.items() if step in ends}
            size = int(_leads(name, medians, width)), 1, len(course.scores)
            head = (task.group, task.id, name, step)
            yield MedianPoint(*head, median, low, high, *size, course.flag)


def _leads(policy: str, medians: Mapping[str, float], width: float) -> bool:
    """Return whether a policy is ahead of every other one by ``LEAD`` of normalized score."""
    others = [value for other, value in medians.items() if other != policy]
    return bool(others) and (medians[policy] - max(others)) / width >= LEAD


def _over_tasks(
    group: str, parts: list[list[MedianPoint]], scales: Mapping[str, Scale]
) -> Iterator[MedianPoint]:
    """Iterate over the means of a policy over several tasks, at the steps that all of them have."""
    at = [{row.step: row for row in part} for part in parts]
    steps = [step for step in at[0] if all(step in rows for rows in at)]
    flags = dict.fromkeys(part[0].flag for part in parts if part[0].flag)
    if any(len(part) > len(steps) for part in parts):
        flags[f"over the {len(steps)} steps that all tasks have"] = None
    for step in steps:
        rows = [one[step] for one in at]
        ends = [scales[r.task].normalise(np.array([r.median, r.low, r.high])) for r in rows]
        median, low, high = np.mean(ends, axis=0).tolist()
        size = sum(r.leads for r in rows), len(rows), min(r.runs for r in rows)
        head = (group, "", rows[0].policy, step)
        yield MedianPoint(*head, median, low, high, *size, "; ".join(flags))


def final_medians(
    protocol: Protocol, table: EpisodeTable, points: Sequence[MedianPoint]
) -> tuple[FinalMedian, ...]:
    """Return the best final medians of every policy with checkpoints, where the protocol asks.

    After Samvelyan et al. 2019: the highest of the ``points`` on a task within the last
    ``FINAL_STEPS`` of training, and who leads by ``LEAD``.
    """
    scales, last = score_scales(protocol, table), {(r.task, r.policy): r.step for r in points}
    best: dict[str, dict[str, MedianPoint]] = {}
    for row in points:
        if row.task and row.step > last[row.task, row.policy] - FINAL_STEPS:
            earlier = best.setdefault(row.task, {}).setdefault(row.policy, row)
            if row.median > earlier.median:
                best[row.task][row.policy] = row
    rows = []
    for task, members in best.items():
        medians = {name: row.median for name, row in members.items()}
        for name, row in members.items():
            tail = row.step, row.runs, _leads(name, medians, scales[task].width), row.flag
            rows.append(FinalMedian(task, name, row.median, row.low, row.high, *tail))
    return tuple(rows)


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
        f"{_AHEAD} score (Samvelyan et al. 2019, with shares of wins).",
        kind="Over",
    )


def pictures(findings: Findings) -> Iterator[Picture]:
    """Iterate over two pictures along the training: the medians of all tasks, and tasks led."""
    groups = list(findings.protocol.groups)
    whole = groups[0] if len(groups) == 1 else ""
    rows = [row for row in findings.rows(MEDIANS) if not row.task and row.group == whole]
    lines = grouped((row.policy, row) for row in rows)
    if not lines:
        return
    score = findings.protocol.report.score

    def chart(label: str, *columns: str) -> LineChart:
        drawn = lines_of(findings, lines, "step", columns)
        return LineChart(drawn, "all tasks", "steps trained", label, written=short)

    caption = (
        f"Mean over all tasks of the median over runs of the normalized {score} at every "
        "checkpoint; bands: the means of the lower and of the upper quartiles over runs."
    )
    label = f"median normalized {plain(score)}"
    yield Picture("medians", caption, partial(chart, label, "median", "low", "high"))
    caption = (
        f"Number of tasks on which the median over runs is {_AHEAD} {score}, at every checkpoint."
    )
    label = f"tasks led, of {len(findings.protocol.trained_tasks)}"
    yield Picture("tasks-led", caption, partial(chart, label, *["leads"] * 3))


MEDIANS = Part("medians", median_points, rare=True)
FINAL = Part("final_medians", final_medians, MEDIANS)
SECTION = ReportSection(
    (FINAL, MEDIANS), {"overall": medians_table}, pictures=pictures, asked=asked
)
