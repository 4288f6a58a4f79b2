"""Tables that publications ask for: normalized returns, interquartile means, one row per algorithm.

A report has those that its protocol asks for.
"""

import math

import numpy as np

from coopbench.analysis.findings import Findings
from coopbench.analysis.reproduction import InterquartileMean, PublishedAggregate, Sensitivity
from coopbench.episodes.metrics import values
from coopbench.protocol.task import Task
from coopbench.report.answers import span_text, trained_steps
from coopbench.report.numbers import MISSING, Scale, interval_text, level_text, scale_of_rows
from coopbench.report.tables.entries import ends_entry, groups_of, number_entry
from coopbench.report.tables.model import Column, Entry, Footnotes, Group, Table


def published_table(findings: Findings) -> Table | None:
    """Return the returns normalized as published; None where the protocol does not ask for them."""
    rows = findings.published_aggregates
    if not rows:
        return None
    notes, level = Footnotes(), level_text(findings.protocol)
    groups = groups_of(rows, "group", lambda row: _published_row(row, notes))
    return Table(
        title="Normalized return as published",
        columns=(
            Column("Policy", "who is evaluated", numeric=False),
            Column("IQM", "interquartile mean of the matrix of runs and tasks"),
            Column(f"{level} interval", "of the IQM; stratified bootstrap over runs"),
            Column("Optimality gap", "mean shortfall from 1; less is better"),
            Column(f"Its {level} interval", "stratified bootstrap over runs"),
            Column("Runs", "of each task; 1 of a fixed policy"),
            Column("Tasks", "that the policy has played"),
        ),
        groups=groups,
        footnotes=notes.all(),
        unit="(G - min) / (max - min), where G is the mean return of a run on a task and min and "
        "max are over all policies, runs and tasks of this report: adding a policy moves every "
        "value. For comparisons use the score.",
        kind="Group",
    )


def _published_row(row: PublishedAggregate, notes: Footnotes) -> tuple[Entry, ...]:
    scale = Scale(3)
    return (
        Entry(row.policy, row.policy),
        number_entry(row.iqm, scale),
        ends_entry(row.iqm_low, row.iqm_high, scale, notes.mark(row.flag)),
        number_entry(row.optimality_gap, scale),
        ends_entry(row.gap_low, row.gap_high, scale),
        Entry(f"{row.runs:,}", row.runs),
        Entry(f"{row.tasks:,}", row.tasks),
    )


def interquartile_table(findings: Findings) -> Table | None:
    """Return the interquartile mean of every metric by task and group; None if not asked for."""
    rows = findings.interquartile
    if not rows:
        return None
    metrics, notes = tuple(dict.fromkeys(row.metric for row in rows)), Footnotes()
    scales = {m: scale_of_rows([r for r in rows if r.metric == m], "estimate") for m in metrics}
    by_place: dict[str, dict[str, dict[str, InterquartileMean]]] = {}
    for row in rows:
        place = row.task or (f"all of {row.group}" if row.group else "all tasks")
        by_place.setdefault(place, {}).setdefault(row.policy, {})[row.metric] = row
    groups = tuple(
        Group(
            place,
            "",
            tuple(
                (Entry(name, name), *_interquartile_cells(cells, scales, notes))
                for name, cells in members.items()
            ),
        )
        for place, members in by_place.items()
    )
    return Table(
        title="Interquartile means of all metrics, by task and group",
        columns=(
            Column("Policy", "who is evaluated", numeric=False),
            *(Column(name, "interquartile mean; below it the interval") for name in metrics),
        ),
        groups=groups,
        footnotes=notes.all(),
        unit=f"Over the means of runs and tasks: of one run on one task its mean. Below, the "
        f"{level_text(findings.protocol)} interval for new runs and new episodes. Only metrics "
        "that all tasks of a group have.",
        kind="Task",
    )


def _interquartile_cells(
    cells: dict[str, InterquartileMean], scales: dict[str, Scale], notes: Footnotes
) -> tuple[Entry, ...]:
    """Return one entry per metric: the estimate, and its interval as the second line."""
    entries = []
    for metric, scale in scales.items():
        row = cells.get(metric)
        if row is None:
            entries.append(Entry(MISSING))
            continue
        interval = interval_text(row.low, row.high, scale)
        value = row.estimate if math.isfinite(row.estimate) else None
        marks = notes.mark(row.flag)
        entries.append(Entry(scale(row.estimate), value, marks, below=interval))
    return tuple(entries)


def summary_table(findings: Findings) -> Table | None:
    """Return one row per algorithm and task, as published; None where it is not asked for."""
    names = findings.protocol.report.reproduces.summary
    if not names or not len(findings.episodes):
        return None
    groups = tuple(
        Group(task.id, "", rows)
        for task in findings.protocol.task
        if (rows := _summary_rows(findings, task, names))
    )
    return Table(
        title="Algorithms, one row each",
        columns=(
            Column("Algorithm", "who is evaluated; in bold the best first column", numeric=False),
            Column(f"Mean {names[0]}", "over all episodes of all runs"),
            Column("Std", "population standard deviation of these episodes, divisor n"),
            *(Column(f"Mean {name}", "over the same episodes") for name in names[1:]),
            Column("Training steps", "of each run, in steps of the environment"),
        ),
        groups=groups,
        footnotes=(),
        unit="As published: the spread is that of episodes, with divisor n, and says nothing about "
        "other training runs. Intervals and standard deviations with divisor n - 1 are in the "
        "tables of the tasks.",
        kind="Task",
    )


def _summary_rows(
    findings: Findings, task: Task, names: tuple[str, ...]
) -> tuple[tuple[Entry, ...], ...]:
    """Return the rows of one task, the best value of the first column in bold."""
    table = findings.episodes
    policies = table.policies_on(task.id)
    samples = {
        policy: [
            np.concatenate([values(block, name) for block in table.runs(task.id, policy)])
            for name in names
        ]
        for policy in policies
    }
    means = {p: [_mean(column) for column in columns] for p, columns in samples.items()}
    best = max((row[0] for row in means.values() if math.isfinite(row[0])), default=math.nan)
    first = Scale(1 if abs(best) >= 100 else 3)
    rows = []
    for policy in policies:
        defined = samples[policy][0][np.isfinite(samples[policy][0])]
        steps = trained_steps(findings, policy)
        entry = number_entry(means[policy][0], first)
        strong = means[policy][0] == best
        rows.append(
            (
                Entry(policy, policy),
                Entry(entry.text, entry.value, strong=strong),
                number_entry(float(defined.std()) if len(defined) else math.nan, first),
                *(number_entry(mean, Scale(3)) for mean in means[policy][1:]),
                Entry(span_text(steps), steps[-1]) if steps else Entry(MISSING),
            )
        )
    return tuple(rows)


def _mean(column: np.ndarray) -> float:
    """Return the mean of the finite values; nan if there are none."""
    defined = column[np.isfinite(column)]
    return float(defined.mean()) if len(defined) else math.nan


def sensitivity_table(findings: Findings) -> Table | None:
    """Return how much scores depend on parameters of the games; None where nothing varies them."""
    rows = findings.sensitivity
    if not rows:
        return None
    scale = scale_of_rows(rows, "base")

    def entries(row: Sensitivity) -> tuple[Entry, ...]:
        return (
            Entry(row.policy, row.policy),
            number_entry(row.base, scale),
            number_entry(row.low, scale),
            number_entry(row.high, scale),
            number_entry(row.sensitivity, Scale(3)),
            Entry(f"{row.variants}", row.variants),
        )

    groups = groups_of(rows, "task", entries)
    return Table(
        title="Parameter sensitivity",
        columns=(
            Column("Policy", "who is evaluated", numeric=False),
            Column("Base", f"mean {findings.protocol.report.score} with the task's parameters"),
            Column("Lowest", "mean over this task and those that vary its parameters"),
            Column("Highest", "the same"),
            Column("Sensitivity", "highest minus lowest, as a share of the base"),
            Column("Variants", "tasks that vary its parameters"),
        ),
        groups=groups,
        footnotes=(),
        unit="Learned policies were trained with the task's own parameters. No intervals: those "
        "of the means are in the tables of the tasks.",
        kind="Task",
    )
