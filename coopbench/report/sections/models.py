"""Methods with several models: their mean over the models."""

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from coopbench.analysis.contrasts import families
from coopbench.analysis.estimates import Estimate, estimate
from coopbench.analysis.findings import Findings, Part
from coopbench.analysis.score_matrix import MODELS, defined_matrices, score_scales, units_of
from coopbench.episodes.table import EpisodeTable
from coopbench.protocol.schema import Protocol
from coopbench.protocol.task import Task
from coopbench.report.numbers import Scale, level_text, scale_of_rows
from coopbench.report.section import ReportSection
from coopbench.report.tables.entries import count_entry, interval_entry, number_entry
from coopbench.report.tables.model import Column, Entry, Footnotes, Group, Table
from coopbench.statistics import TwoWay, half_widths


def model_estimates(protocol: Protocol, table: EpisodeTable) -> tuple[Estimate, ...]:
    """Estimate the score of every method that has several models; ``count`` is their number.

    One row per task, in units of the score, and one per group, over the models' means of normalized
    scores; the latter's task is "all of" the group, or "all tasks". All models play the same
    episodes, whose luck a t interval over models leaves out: where that of their mean for new runs
    and episodes is wider, it counts.
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
            shares = np.array([1.0 / (scales[task.id].width * len(tasks)) for task in tasks])
            forms = np.vstack([np.eye(len(tasks)), shares])
            halves = _of_episodes(protocol, table, tasks, policies, forms)
            for (label, column), half in zip(columns.items(), halves, strict=True):
                row = estimate(label, name, settings.score, column, settings.confidence, MODELS)
                rows.append(_wider(row, half))
    return tuple(rows)


def _of_episodes(
    protocol: Protocol,
    table: EpisodeTable,
    tasks: Sequence[Task],
    policies: Sequence[str],
    forms: np.ndarray,
) -> list[float]:
    """Return half widths of means over models, for new runs and episodes.

    ``forms`` are weights (forms, tasks); nan where a model has no score.
    """
    score = protocol.report.score
    models = [defined_matrices(protocol, table, tasks, policy, score) for policy in policies]
    if any(len(matrices) < len(tasks) for matrices in models):
        return [math.nan] * len(forms)
    two_way = TwoWay([one.grid() for matrices in models for one in matrices])
    weights = np.tile(forms / len(models), len(models))
    halves: list[float] = half_widths(two_way.spread(weights), protocol.report.confidence).tolist()
    return halves


def _wider(row: Estimate, half: float) -> Estimate:
    """Return an estimate with the wider one of its interval and that of a half width."""
    if not row.high - row.mean < half:
        return row
    return replace(row, low=row.mean - half, high=row.mean + half)


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
        Column(
            f"{level} interval",
            "over models or, if wider, over their runs and episodes; sorted by width",
        ),
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
        unit="Unit of inference: models of one method, trained on different tasks, which play the "
        "same episodes.",
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
