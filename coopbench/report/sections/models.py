"""Methods with several models: their mean over the models."""

import math
from collections.abc import Sequence

import numpy as np

from coopbench.analysis.contrasts import families
from coopbench.analysis.estimates import Estimate, estimate
from coopbench.analysis.findings import Findings, Part
from coopbench.analysis.score_matrix import MODELS, score_scales, units_of
from coopbench.episodes.table import EpisodeTable
from coopbench.protocol.schema import Protocol
from coopbench.protocol.task import Task
from coopbench.report.numbers import Scale, level_text, scale_of_rows
from coopbench.report.section import ReportSection
from coopbench.report.tables.entries import count_entry, interval_entry, number_entry
from coopbench.report.tables.model import Column, Entry, Footnotes, Group, Table


def model_estimates(protocol: Protocol, table: EpisodeTable) -> tuple[Estimate, ...]:
    """Estimate the score of every method that has several models; ``count`` is their number.

    One row per task, in units of the score, and one per group, over the models' means of normalized
    scores; the latter's task is "all of" the group, or "all tasks".
    """
    rows, settings, scales = [], protocol.report, score_scales(protocol, table)
    for name, policies in families(protocol, table).items():
        if policies == [name]:
            continue
        for group, tasks in protocol.groups.items():
            means = np.array([_means(protocol, table, tasks, policy) for policy in policies])
            normalised = [scales[t.id].normalise(means[:, k]) for k, t in enumerate(tasks)]
            columns = {task.id: means[:, k] for k, task in enumerate(tasks)}
            columns[f"all of {group}" if group else "all tasks"] = np.mean(normalised, axis=0)
            rows += [
                estimate(label, name, settings.score, column, settings.confidence, MODELS)
                for label, column in columns.items()
            ]
    return tuple(rows)


def _means(
    protocol: Protocol, table: EpisodeTable, tasks: Sequence[Task], policy: str
) -> list[float]:
    """Return the mean score of a policy on each task; nan on those that it has not played."""
    columns = [units_of(protocol, table, task, policy, protocol.report.score) for task in tasks]
    return [float(units.mean()) if len(units) else math.nan for units in columns]


def model_table(findings: Findings) -> Table | None:
    """Return the mean over the models of every method that has several; None if there is none."""
    if not findings.rows(ESTIMATES):
        return None
    notes, level, score = Footnotes(), level_text(findings.protocol), findings.protocol.report.score
    columns = (
        Column("Task", "what is played; below the tasks of a group, all of them", numeric=False),
        Column("Mean", f"mean over models of their mean {score}; of a group, normalized"),
        Column("SD", "standard deviation over models, divisor n - 1"),
        Column(f"{level} interval", "t interval of the mean over models; sorted by width"),
        Column("n", "models, each trained on another task"),
    )
    groups = []
    for name in dict.fromkeys(row.policy for row in findings.rows(ESTIMATES)):
        rows = [row for row in findings.rows(ESTIMATES) if row.policy == name]
        scale = scale_of_rows(rows, "mean")
        body = tuple(_entries(row, scale, notes, rows) for row in rows)
        groups.append(Group(name, "", body))
    return Table(
        title=f"{score} of methods with several models, over the models",
        columns=columns,
        groups=tuple(groups),
        footnotes=notes.all(),
        unit="Unit of inference: models of one method, trained on different tasks; not episodes.",
        kind="Method",
    )


def _entries(
    row: Estimate, scale: Scale, notes: Footnotes, rows: Sequence[Estimate]
) -> tuple[Entry, ...]:
    """Return the entries of one estimate over models; ``rows`` are all of its method."""
    return (
        Entry(row.task, row.task),
        number_entry(row.mean, scale),
        number_entry(row.std, scale),
        interval_entry(row, scale, notes),
        count_entry(row, rows),
    )


ESTIMATES = Part("models", model_estimates)
SECTION = ReportSection((ESTIMATES,), {"overall": model_table})
