"""Estimates: every metric on every task, beside its pictures, and the overview of all tasks."""

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from coopbench.analysis.estimates import Estimate
from coopbench.analysis.findings import Findings
from coopbench.analysis.score_matrix import RUNS, score_scales
from coopbench.analysis.score_matrix import Scale as ScoreScale
from coopbench.episodes.metrics import known_metrics
from coopbench.protocol.task import Task
from coopbench.report.blocks import Pictures, Row
from coopbench.report.numbers import (
    MISSING,
    Scale,
    defined,
    interval_text,
    is_point,
    level_text,
    longer_side,
    scale_of_rows,
)
from coopbench.report.plots.drawing import IntervalChart, Line, LineChart
from coopbench.report.plots.policies import looks_of, open_markers, rows_of
from coopbench.report.plots.style import Picture, plain
from coopbench.report.section import ReportSection
from coopbench.report.sections import pictures
from coopbench.report.tables.entries import (
    LONG,
    bounds_text,
    count_entry,
    filled_columns,
    group_meanings,
    interval_entry,
    is_long,
    missing_entries,
    number_entry,
    played_tasks,
    policy_entry,
    policy_text,
    unit_names,
    unit_text,
)
from coopbench.report.tables.model import Column, Entry, Footnotes, Group, Table

TASKS = 4  # columns of a table of scores: as many as fit the width of a page of one column
Scores = dict[str, tuple[Estimate, bool]]  # of policies on a task, and whether one is the best
READING = """
Unit of inference:
{% if "episodes" in units or not units %}
Fixed policies are evaluated as given: their intervals show how much a number would change with
other episodes. They say nothing about how well a training method would do in another run.
{% endif %}
{% if "runs" in units %}
For learned policies, intervals show how much a number would change with other training runs and
other episodes.
{% endif %}
{% if units | length > 1 %}
Means, aggregates and differences of both kinds can be compared directly.
{% endif %}

Mean, {{ level }} interval: Means are over runs and episodes; the interval is for new training
runs and new episodes. {% if findings.episodes.own_episodes %}Every run has played episodes of its
own: the interval is Student's t over the means of runs.{% else %}All runs play the same episodes:
the interval adds the variance between runs and the variance between episodes, and subtracts the
part that is counted twice (Searle, Casella and McCulloch 1992, Variance Components).{% endif %}
A fixed policy has no runs; its interval is
Student's t over episodes. A score that does not vary is exact if nothing is drawn and every start
is played: such an episode counts once, however often it was played. Otherwise its interval is a
bound: 1 - (alpha / 2)^(1 / n) of all episodes, about 3 / n, could have any other score (Clopper
and Pearson 1934, Biometrika 26: 404-413).

SD: Standard deviation of run means, and of the episodes of one run; divisor n - 1.

{% if partners %}
Focal seat: With partners, the policy takes one seat in each episode: seat k mod n in episode k of
n agents. The partners take the other seats and shift by one whenever the policy has taken every
seat. The metric own_return counts only the policy's seat. Seats and partners rotate in a fixed
order and have equal shares, so intervals treat them as strata: they exclude the variation between
seats and partners.

{% endif %}
{% if certified_partners %}
Scores with partners: A score of 0 is that of the best rule found that ignores its partners; 1 is
that of the best response to each partner, when the partner is known in advance. A negative score
is worse than that rule, not worse than chance: random play scores about -3 in the games of this
package.

{% endif %}
{% if settings.normalisation == "minmax" %}
Normalized score: The score, rescaled so that the lowest and the highest episode of this report on
a task become 0 and 1. It changes whenever a policy is added, and cannot be compared with the
scores of other reports.
{% else %}
Normalized score: The score, rescaled so that the bounds that the protocol fixes for each task
become 0 and 1. It does not depend on which other policies were evaluated.
{% endif %}
"""


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
    return Table(f"Results on {task.id}", filled, shown, unit, notes.all())


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
        return replace(value, marks=marks, strong=best, below=interval)

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


def overview_table(findings: Findings) -> Table:
    """Return the mean normalized score of every policy that has any, on every played task."""
    score, played = findings.protocol.report.score, played_tasks(findings)
    scales = score_scales(findings.protocol, findings.episodes)
    rows = {(row.task, row.policy): row for row in findings.estimates if row.metric == score}
    names = [name for name in findings.policies if any(policy == name for _, policy in rows)]
    groups = []
    for group, meaning in group_meanings(findings.protocol).items():
        body = [
            (
                Entry(task.id, task.id),
                *(_share(scales.get(task.id), rows.get((task.id, name))) for name in names),
            )
            for task in findings.protocol.groups[group]
            if task in played
        ]
        if body:
            whole = len(body) == len(findings.protocol.groups[group])
            size = meaning if whole else f"{len(body)} of {meaning or len(findings.protocol.task)}"
            groups.append(Group(group if meaning else "", size, tuple(body)))
    level = level_text(findings.protocol)
    means = f"mean over {unit_names(rows.values())} ± half of the {level} interval; "
    means += bounds_text(findings)
    return Table(
        title=f"Mean normalized {score} on every task",
        columns=(
            Column("Task", "what is played", numeric=False),
            *(Column(policy_text(findings, name), means) for name in names),
        ),
        groups=tuple(groups),
        unit=unit_text(((row.unit, row.count) for row in rows.values()), " per task and policy"),
        kind="Group",
        matrix=True,
    )


def _share(scale: ScoreScale | None, row: Estimate | None) -> Entry:
    """Return a mean as normalized score, with half of its interval if there is one and it varies.

    A dash where the policy has not played the task.
    """
    if row is None or scale is None:
        return Entry(MISSING)
    entry = number_entry((row.mean - scale.low) / scale.width, Scale(3))
    half = longer_side(row.mean, row.low, row.high)
    if not math.isfinite(half) or is_point(row.low, row.high):
        return entry
    return replace(entry, text=f"{entry.text} ± {Scale(3)(half / scale.width)}")


def scores(findings: Findings, task: str) -> IntervalChart:
    """Draw mean and interval of the score of every policy on ``task``."""
    score = findings.protocol.report.score
    rows = {row.policy: (row.mean, row.low, row.high) for row in findings.estimates_of(task, score)}
    return IntervalChart(rows_of(findings, rows), task, plain(score))


def curves(findings: Findings, task: str) -> LineChart:
    """Draw the course of the protocol's curve metric over an episode.

    x is the step, y the metric so far, mean over episodes and, of a learned policy, over its runs.
    A curve ends with its last episode.
    """
    metric = findings.protocol.report.curve_of(findings.protocol.task_of(task))
    played = findings.episodes.policies_on(task)
    looks = looks_of(findings)
    courses = {
        policy: _mean_course([b.curves.get(metric) for b in findings.episodes.runs(task, policy)])
        for policy in played
    }
    lines = tuple(
        Line(plain(policy), looks[policy], range(1, len(values)), values[1:])
        for policy, values in courses.items()
        if len(values) >= 2
    )
    return LineChart(lines, task, "step", f"{plain(metric)} so far", shares=True)


def _mean_course(courses: Sequence[np.ndarray | None]) -> np.ndarray:
    """Return the mean course over runs; one that has ended counts with its last value."""
    some = [course for course in courses if course is not None and len(course)]
    longest = max(map(len, some), default=0)
    padded = [np.pad(course, (0, longest - len(course)), mode="edge") for course in some]
    return np.mean(padded, axis=0) if padded else np.empty(0)


def task_pictures(findings: Findings, task: Task) -> list[Picture]:
    """Return the pictures of a task: scores, and the course of an episode."""
    score, level = findings.protocol.report.score, level_text(findings.protocol)
    metric = findings.protocol.report.curve_of(task)
    scored = f"Mean {score} with {level} interval."
    scored += open_markers(findings.estimates_of(task.id, score))
    course = (
        f"Course of {metric} over an episode: its value so far, mean over episodes. "
        "A curve ends at the end of its longest episode."
    )
    drawn = [Picture(f"score-{task.id}", scored, partial(scores, findings, task.id))]
    if any(metric in block.curves for block in findings.episodes if block.cell.task == task.id):
        drawn.append(Picture(f"curve-{task.id}", course, partial(curves, findings, task.id)))
    return drawn


def of_task(findings: Findings, task: Task) -> Row:
    """Return the results on a task, beside the pictures of all sections."""
    return Row((task_table(findings, task), Pictures(pictures(findings, task))))


def summary(findings: Findings) -> Table | None:
    """Return the overview of a few tasks; that of many stands above them."""
    several = len(findings.protocol.task) > 1 and not findings.protocol.ad_hoc
    few = len(played_tasks(findings)) <= LONG and findings.estimates
    return overview_table(findings) if several and few else None


def above_tasks(findings: Findings) -> Table | None:
    """Return the overview of many tasks."""
    return overview_table(findings) if is_long(findings) else None


def courses(findings: Findings) -> list[dict[str, Any]]:
    """Return the course of the curve metric; value k is after step k, averaged over episodes."""
    metrics = {task.id: findings.protocol.report.curve_of(task) for task in findings.protocol.task}
    return [
        {
            "task": block.cell.task,
            "policy": block.cell.policy,
            "run": block.cell.run,
            "metric": metric,
            "values": [defined(value) for value in block.curves[metric].tolist()],
        }
        for block in findings.episodes
        if (metric := metrics[block.cell.task]) in block.curves
    ]


SECTION = ReportSection(
    shows={"by task": summary, "every task": above_tasks, "paper": score_tables},
    of_task=of_task,
    task_pictures=task_pictures,
    reading=READING,
    json={"curves": courses},
)
