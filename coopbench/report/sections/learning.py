"""Sample efficiency: how early learners learn, as a table and as curves over groups."""

import math
from collections.abc import Iterator
from functools import partial

from coopbench.analysis.findings import Findings
from coopbench.analysis.learning import THRESHOLD, Efficiency
from coopbench.protocol.task import Task
from coopbench.report.numbers import MISSING, Scale, level_text, scale_of
from coopbench.report.plots.learning import efficiency, learning_curves
from coopbench.report.plots.style import Picture
from coopbench.report.section import ReportSection
from coopbench.report.tables.entries import (
    ends_entry,
    groups_of,
    number_entry,
    policy_entry,
    runs_text,
)
from coopbench.report.tables.model import Column, Entry, Footnotes, Table

READING = """
{% if findings.learning %}
Learning curves: Scores of the checkpoints of training runs on the selection episodes, at the true
numbers of steps. Bands are intervals of single points, over runs and episodes, not of the whole
curve; over a group, of the trimmed mean over tasks. Where runs have different checkpoints, only
those that all runs have are shown. Dotted lines are fixed policies in the evaluation episodes:
selection episodes are others, and fewer, so that they can be easier or harder; whether a learner
beats a fixed policy is told by the comparisons.
{% endif %}

{% if findings.efficiency %}
{% set threshold = findings.efficiency[0].threshold %}
Area, steps to {{ threshold }}: Area: the mean height of the curve of a group, which rewards early
learning. Steps: to the first checkpoint at which the curve has reached {{ threshold }}; nothing
is interpolated between checkpoints. Its interval goes from where the upper end of the band
reaches it to where the lower end does.
{% endif %}
"""
NEVER = "not reached"


def efficiency_table(findings: Findings) -> Table | None:
    """Return area and steps to the threshold of every policy with checkpoints; None if none has."""
    rows, notes = findings.efficiency, Footnotes()
    if not rows:
        return None
    level = level_text(findings.protocol)
    columns = (
        Column("Policy", "who is trained", numeric=False),
        Column("Area", "mean height of the curve of trimmed means over tasks"),
        Column(f"{level} interval", "of the area, over runs and episodes; sorted by width"),
        Column(f"Steps to {THRESHOLD:g}", "to the first checkpoint that is as good, or better"),
        Column(
            f"{level} interval of steps",
            "where the band of the curve reaches it; sorted by its start",
        ),
        Column("Checkpoints", "steps of the first and the last", numeric=False),
        Column("n", "runs per task"),
    )
    scale = scale_of([r.area for r in rows], [(r.area_high - r.area_low) / 2 for r in rows])
    groups = groups_of(rows, "group", lambda row: _efficiency_row(findings, row, scale, notes))
    return Table(
        title=f"Sample efficiency: normalized {findings.protocol.report.score} along the training",
        columns=columns,
        groups=groups,
        footnotes=notes.all(),
        unit=f"{runs_text(rows)}. Steps of the environment, all agents "
        f"together; '{NEVER}' is a result: not within the checkpoints.",
        kind="Group",
    )


def _efficiency_row(
    findings: Findings, row: Efficiency, scale: Scale, notes: Footnotes
) -> tuple[Entry, ...]:
    reached = math.isfinite(row.steps_low)
    return (
        policy_entry(findings, row.policy),
        number_entry(row.area, scale),
        ends_entry(row.area_low, row.area_high, scale, notes.mark(row.flag)),
        Entry(_steps(row.steps), row.steps if math.isfinite(row.steps) else None),
        Entry(_span(row.steps_low, row.steps_high), row.steps_low if reached else None),
        Entry(f"{row.first:,} to {row.last:,}", row.last),
        Entry(f"{row.runs:,}", row.runs),
    )


def _span(low: float, high: float) -> str:
    if math.isnan(low):
        return MISSING
    return NEVER if math.isinf(low) else f"{_steps(low)} to {_steps(high)}"


def _steps(value: float) -> str:
    return f"{value:,.0f}" if math.isfinite(value) else NEVER


def pictures(findings: Findings) -> Iterator[Picture]:
    """Iterate over the sample efficiency of every group."""
    score, level = findings.protocol.report.score, level_text(findings.protocol)
    for group in dict.fromkeys(row.group for row in findings.learning if not row.task):
        caption = (
            f"Sample efficiency: trimmed mean over tasks of the mean normalized {score} "
            f"at every checkpoint, with the {level} interval of each point, over runs and "
            "episodes. Dotted: the evaluation of the best fixed policy, and of the best that "
            "ignores its observations."
        )
        name = f"efficiency-{group}" if group else "efficiency"
        yield Picture(name, caption, partial(efficiency, findings, group))


def task_pictures(findings: Findings, task: Task) -> Iterator[Picture]:
    """Iterate over the learning curves of a task."""
    score, level = findings.protocol.report.score, level_text(findings.protocol)
    if any(curve.task == task.id for curve in findings.learning):
        caption = (
            f"Learning curves: mean over runs of the mean {score} at every checkpoint, with the "
            f"{level} interval of each point, over runs and episodes. Dotted: the evaluation of "
            "the best fixed policy, and of the best that ignores its observations, with the "
            f"{level} interval; its episodes are not those of the curves."
        )
        draw = partial(learning_curves, findings, task.id)
        yield Picture(f"learning-{task.id}", caption, draw)


SECTION = ReportSection(
    shows={"overall": efficiency_table},
    pictures=pictures,
    task_pictures=task_pictures,
    reading=READING,
)
