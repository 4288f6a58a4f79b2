"""Algorithms, one row each: the table of Coopetition-Gym, which has no intervals."""

import math
from collections.abc import Mapping

import numpy as np

from coopbench.analysis.findings import Findings
from coopbench.analysis.score_matrix import floor_of
from coopbench.episodes.metrics import known_metrics, missing_metric, values
from coopbench.protocol.schema import Protocol
from coopbench.protocol.task import Task
from coopbench.report.answers import span_text, trained_steps
from coopbench.report.numbers import MISSING, Scale
from coopbench.report.section import ReportSection
from coopbench.report.tables.entries import number_entry
from coopbench.report.tables.model import Column, Entry, Group, Table


def asked(protocol: Protocol) -> Mapping[str, str]:
    """Check that every task has the metrics of the columns."""
    for task in protocol.task:
        for name in protocol.report.reproduces.asked("summary"):
            if name not in known_metrics(task.spec):
                raise ValueError(missing_metric(task.env, name, f"the summary of {task.id!r}"))
    return {}


def summary_table(findings: Findings) -> Table | None:
    """Return one row per algorithm and task, as published; None where it is not asked for."""
    names = findings.protocol.report.reproduces.asked("summary")
    if not names or not len(findings.episodes):
        return None
    bodies = {task.id: _rows(findings, task, names) for task in findings.protocol.task}
    return Table(
        title="Algorithms, one row each",
        columns=(
            Column("Algorithm", "who is evaluated; in bold the best first column", numeric=False),
            Column(f"Mean {names[0]}", "over all episodes of all runs"),
            Column("Std", "population standard deviation of these episodes, divisor n"),
            *(Column(f"Mean {name}", "over those that have it") for name in names[1:]),
            Column("Training steps", "of each run, in steps of the environment"),
        ),
        groups=tuple(Group(task, "", body) for task, body in bodies.items() if body),
        unit="As published: the spread is that of episodes, with divisor n, and says nothing about "
        "other training runs. Runs that failed have the floor of the task as score, and no other "
        "metric. Intervals and standard deviations with divisor n - 1 are in the "
        "tables of the tasks.",
        kind="Task",
    )


def _rows(findings: Findings, task: Task, names: tuple[str, ...]) -> tuple[tuple[Entry, ...], ...]:
    """Return the rows of one task, the best value of the first column in bold."""
    table, rows = findings.episodes, []
    samples = {
        policy: [_sample(findings, task, policy, name) for name in names]
        for policy in table.policies_on(task.id)
    }
    defined = {p: [one[np.isfinite(one)] for one in columns] for p, columns in samples.items()}
    means = {p: [_mean(one) for one in columns] for p, columns in defined.items()}
    best = max((row[0] for row in means.values() if math.isfinite(row[0])), default=math.nan)
    first = Scale(1 if abs(best) >= 100 else 3)
    for policy, (mean, *others) in means.items():
        steps, spread = trained_steps(findings, policy), defined[policy][0]
        rows.append(
            (
                Entry(policy, policy),
                Entry(first(mean), mean if math.isfinite(mean) else None, strong=mean == best),
                number_entry(float(spread.std()) if len(spread) else math.nan, first),
                *(number_entry(other, Scale(3)) for other in others),
                Entry(span_text(steps), steps[-1]) if steps else Entry(MISSING),
            )
        )
    return tuple(rows)


def _sample(findings: Findings, task: Task, policy: str, name: str) -> np.ndarray:
    """Return a metric in all episodes of all runs; a run that failed has the floor of the score."""
    protocol, table = findings.protocol, findings.episodes
    played = [values(block, name) for block in table.runs(task.id, policy)]
    if name == protocol.report.score:
        floor = floor_of(protocol, table, task)
        played += [np.full(len(played[0]), floor) for _ in table.failed(task.id, policy)]
    return np.concatenate(played)


def _mean(defined: np.ndarray) -> float:
    return float(defined.mean()) if len(defined) else math.nan


SECTION = ReportSection(shows={"by task": summary_table}, asked=asked)
