"""Tables of one task: its metrics, its agents, and comparisons between policies."""

import dataclasses
import math
from collections.abc import Sequence
from functools import partial

from coopbench.analysis.estimates import Estimate
from coopbench.analysis.findings import Findings
from coopbench.analysis.score_matrix import RUNS
from coopbench.episodes.metrics import known_metrics
from coopbench.protocol.task import Task
from coopbench.report.numbers import Scale, interval_text, level_text, scale_of_rows
from coopbench.report.tables.entries import (
    count_entry,
    filled_columns,
    interval_entry,
    missing_entries,
    number_entry,
    policy_entry,
    unit_names,
    unit_text,
)
from coopbench.report.tables.model import Column, Entry, Footnotes, Group, Table

TASKS = 4  # columns of a table of scores: as many as fit the width of a page of one column
Scores = dict[str, tuple[Estimate, bool]]  # of policies on a task, and whether one is the best


def task_table(findings: Findings, task: Task) -> Table:
    """Return mean, deviation, interval and count of every metric and policy on one task."""
    estimates = [row for row in findings.estimates if row.task == task.id]
    by_metric = {(row.policy, row.metric): row for row in estimates}
    notes, meanings, over = Footnotes(), known_metrics(task.spec), unit_names(estimates)
    columns = (
        Column("Policy", "who plays all agents, or the focal one", numeric=False),
        Column("Mean", "over runs and episodes"),
        Column(
            f"{level_text(findings.protocol)} interval",
            "of the mean, for new runs and new episodes; sorted by width",
        ),
        Column("n", f"{over} in which the metric is defined"),
        Column("SD runs", "standard deviation of the run means, divisor n - 1"),
        Column("SD episodes", "standard deviation of the episodes of one run, divisor n - 1"),
    )
    groups = []
    for metric in findings.protocol.report.metrics_of(task):
        rows = [by_metric.get((policy, metric)) for policy in findings.policies]
        scale = scale_of_rows([row for row in rows if row is not None], "mean")
        entries = tuple(
            (
                policy_entry(findings, policy),
                *(
                    missing_entries(columns)
                    if row is None
                    else _task_row(row, scale, notes, estimates)
                ),
            )
            for policy, row in zip(findings.policies, rows, strict=True)
        )
        meaning = meanings.get(metric, "")
        if metric == findings.protocol.report.score:
            meaning = f"{meaning} (the score)"
        groups.append(Group(metric, meaning, entries))
    unit = unit_text((row.unit, row.count) for row in estimates)
    filled, shown = filled_columns(columns, groups)
    return Table(f"Results on {task.id}", filled, shown, notes.all(), unit)


def _task_row(
    row: Estimate, scale: Scale, notes: Footnotes, rows: Sequence[Estimate]
) -> tuple[Entry, ...]:
    """Return the entries of one estimate after its name; ``rows`` are all rows of the table."""
    return (
        number_entry(row.mean, scale),
        interval_entry(row, scale, notes),
        count_entry(row, rows),
        number_entry(row.std if row.unit == RUNS else math.nan, scale),
        number_entry(row.std_episodes, scale),
    )


def estimate_row(
    row: Estimate, scale: Scale, notes: Footnotes, rows: Sequence[Estimate]
) -> tuple[Entry, ...]:
    """Return the entries of one estimate over models; ``rows`` are all rows of the table."""
    return (
        Entry(row.policy, row.policy),
        number_entry(row.mean, scale),
        number_entry(row.std, scale),
        interval_entry(row, scale, notes),
        count_entry(row, rows),
    )


def score_tables(findings: Findings) -> list[Table]:
    """Return the score of all policies on the tasks of every group, a few tasks in each table."""
    tables = []
    for group, members in findings.protocol.groups.items():
        parts = [members[k : k + TASKS] for k in range(0, len(members), TASKS)]
        for number, part in enumerate(parts, start=1):
            count = f" ({number} of {len(parts)})" if len(parts) > 1 else ""
            tables.append(_score_table(findings, f"{f' of {group}' if group else ''}{count}", part))
    return tables


def _score_table(findings: Findings, whose: str, tasks: Sequence[Task]) -> Table:
    settings, level = findings.protocol.report, level_text(findings.protocol)
    columns = [_scores(findings, task) for task in tasks]
    rows = [row for column in columns for row, _ in column.values()]
    scales = [scale_of_rows([row for row, _ in column.values()], "mean") for column in columns]
    notes = Footnotes()

    def entry(name: str, column: Scores, scale: Scale) -> Entry:
        if name not in column:
            return Entry("missing")
        row, best = column[name]
        interval = interval_text(row.low, row.high, scale)
        value = number_entry(row.mean, scale)
        marks = notes.mark(row.flag)
        return dataclasses.replace(value, marks=marks, strong=best, below=interval)

    body = tuple(
        (policy_entry(findings, name), *map(partial(entry, name), columns, scales))
        for name in findings.policies
    )
    unit = unit_text((row.unit, row.count) for row in rows)
    return Table(
        title=f"Mean {settings.score} on the tasks{whose}",
        columns=(
            Column("Policy", "who is evaluated", numeric=False),
            *(Column(task.id, "mean; below it the interval") for task in tasks),
        ),
        groups=(Group("", "", body),),
        footnotes=notes.all(),
        unit=f"{level} intervals are for new runs and new episodes. Bold: the best mean of a task, "
        "and those that are not significantly worse (Holm-adjusted p of the comparison with the "
        f"best at least {settings.alpha:g}). {unit}",
    )


def _scores(findings: Findings, task: Task) -> Scores:
    """Return the score of every policy on a task, and whether none is significantly better.

    One trained model, of which nothing can be significant, takes no part.
    """
    settings = findings.protocol.report
    rows = {row.policy: row for row in findings.estimates_of(task.id, settings.score)}
    compared = {n: row.mean for n, row in rows.items() if n not in findings.episodes.bare}
    defined = {name: mean for name, mean in compared.items() if math.isfinite(mean)}
    best = max(defined, key=defined.__getitem__, default="")
    even = {
        row.second if row.first == best else row.first
        for row in findings.comparisons
        if row.task == task.id and best in (row.first, row.second) and not row.decided
    }
    even |= {name for name, mean in defined.items() if mean == defined[best]}
    return {name: (row, name in even and name in defined) for name, row in rows.items()}
