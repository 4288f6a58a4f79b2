"""Tables of training: sample efficiency, and the final medians of Samvelyan et al. 2019."""

import math
from collections.abc import Sequence

from coopbench.analysis.findings import Findings
from coopbench.analysis.learning import THRESHOLD, Efficiency
from coopbench.analysis.reproduction import FINAL_STEPS, LEAD, FinalMedian
from coopbench.report.numbers import (
    MISSING,
    Scale,
    level_text,
    scale_of,
    scale_of_rows,
)
from coopbench.report.tables.entries import (
    ends_entry,
    groups_of,
    number_entry,
    policy_entry,
    policy_text,
)
from coopbench.report.tables.model import Column, Entry, Footnotes, Group, Table

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
        unit=f"{_unit(rows)}. Steps of the environment, all agents "
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


def final_medians_table(findings: Findings) -> Table | None:
    """Return the final medians of every policy and task, and who leads; None if not asked for."""
    rows, notes, score = findings.final_medians, Footnotes(), findings.protocol.report.score
    if not rows:
        return None
    names = tuple(dict.fromkeys(row.policy for row in rows))
    by_policy = {(row.task, row.policy): row for row in rows}
    body = tuple(
        (
            Entry(task, task),
            *_medians_row([by_policy.get((task, name)) for name in names], notes),
        )
        for task in dict.fromkeys(row.task for row in rows)
    )
    led = [sum(row.leads for row in rows if row.policy == name) for name in names]
    counts = (Entry("tasks led", "tasks led"), *(Entry(str(count), count) for count in led))
    return Table(
        title=f"Final {score}: median and quartiles over runs",
        columns=(
            Column("Task", "what is played", numeric=False),
            *(
                Column(policy_text(findings, name), "median (quartiles); bold: leads")
                for name in names
            ),
        ),
        groups=(Group("", "", body), Group("all tasks", "", (counts,))),
        footnotes=notes.all(),
        unit=f"{_unit(rows)}; quartiles describe these runs and bound nothing. The highest median "
        f"over runs of their mean {score} among the checkpoints of the last {FINAL_STEPS:,} steps, "
        f"and the quartiles there. A policy leads where its median is the highest by at least 1/"
        f"{1 / LEAD:g} of the normalized score (Samvelyan et al. 2019, with shares of wins).",
        kind="Over",
    )


def _medians_row(rows: Sequence[FinalMedian | None], notes: Footnotes) -> list[Entry]:
    scale = scale_of_rows([row for row in rows if row is not None], "median")
    return [
        Entry(MISSING)
        if row is None
        else Entry(
            f"{scale(row.median)} ({scale(row.low)} to {scale(row.high)})",
            row.median,
            notes.mark(row.flag),
            row.leads,
        )
        for row in rows
    ]


def _unit(rows: Sequence[Efficiency | FinalMedian]) -> str:
    counts = sorted({row.runs for row in rows})
    number = f"{counts[0]:,}" if len(counts) == 1 else f"{counts[0]:,} to {counts[-1]:,}"
    return f"Unit of inference: training runs, n = {number} per task"
