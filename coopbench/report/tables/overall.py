"""Tables over all tasks: scores of every task, models, published returns, missing runs."""

from collections.abc import Callable, Sequence

from coopbench.analysis.estimates import Estimate
from coopbench.analysis.findings import Findings
from coopbench.analysis.score_matrix import Scale as ScoreScale
from coopbench.analysis.score_matrix import score_scales
from coopbench.report.numbers import MISSING, Scale, level_text, scale_of_rows
from coopbench.report.tables.aggregates import runs_table
from coopbench.report.tables.certificates import certificate_table
from coopbench.report.tables.context import context_table
from coopbench.report.tables.learning import efficiency_table, late_table
from coopbench.report.tables.model import Column, Entry, Footnotes, Group, Table
from coopbench.report.tables.published import (
    interquartile_table,
    published_table,
    sensitivity_table,
    summary_table,
)
from coopbench.report.tables.registered import registered_table
from coopbench.report.tables.tasks import estimate_row
from coopbench.report.tables.words import (
    bounds_text,
    group_meanings,
    number_entry,
    policies,
    policy_text,
    unit_names,
    unit_text,
)


def overview_table(findings: Findings) -> Table:
    """Return the mean normalised score of every policy that has any, on every task."""
    score = findings.protocol.report.score
    scales = score_scales(findings.protocol, findings.episodes)
    rows = {(row.task, row.policy): row for row in findings.estimates if row.metric == score}
    names = [name for name in policies(findings) if any(policy == name for _, policy in rows)]
    groups = []
    for group, meaning in group_meanings(findings.protocol).items():
        body = [
            (
                Entry(task.id, task.id),
                *(_share(scales.get(task.id), rows.get((task.id, name))) for name in names),
            )
            for task in findings.protocol.groups[group]
        ]
        groups.append(Group(group if meaning else "", meaning, tuple(body)))
    means = f"mean over {unit_names(rows.values())}; {bounds_text(findings)}"
    return Table(
        title=f"Mean normalised {score} on every task",
        columns=(
            Column("Task", "what is played", numeric=False),
            *(Column(policy_text(findings, name), means) for name in names),
        ),
        groups=tuple(groups),
        footnotes=(),
        unit=unit_text(((row.unit, row.count) for row in rows.values()), " per task and policy"),
        kind="Group",
        matrix=True,
    )


def model_table(findings: Findings) -> Table | None:
    """Return the mean over the models of every method that has several; None if there is none."""
    if not findings.models:
        return None
    notes, level, score = Footnotes(), level_text(findings.protocol), findings.protocol.report.score
    columns = (
        Column("Task", "what is played; below the tasks of a group, all of them", numeric=False),
        Column("Mean", f"mean over models of their mean {score}; of a group, normalised"),
        Column("SD", "standard deviation over models, divisor n - 1"),
        Column(f"{level} interval", "t interval of the mean over models; sorted by width"),
        Column("n", "models, each trained on another task"),
    )
    groups = []
    for name in dict.fromkeys(row.policy for row in findings.models):
        rows = [row for row in findings.models if row.policy == name]
        scale = scale_of_rows(rows, "mean")
        body = tuple(
            (Entry(r.task, r.task), *estimate_row(r, scale, notes, rows)[1:]) for r in rows
        )
        groups.append(Group(name, "", body))
    return Table(
        title=f"{score} of methods with several models, over the models",
        columns=columns,
        groups=tuple(groups),
        footnotes=notes.all(),
        unit="Unit of inference: models of one method, trained on different tasks; not episodes.",
        kind="Method",
    )


def missing_table(findings: Findings) -> Table | None:
    """Return the training runs that failed, are missing or partial; None if there are none."""
    runs: dict[tuple[str, ...], list[str]] = {}
    for row in findings.missing_runs:
        alike = row.task, row.policy, row.state, row.reason
        runs.setdefault(alike, []).append(str(row.run))
    if not runs:
        return None
    body = tuple(
        tuple(Entry(text, text) for text in (*alike[:3], ", ".join(seeds), alike[3]))
        for alike, seeds in runs.items()
    )
    return Table(
        title="Missing runs",
        columns=(
            Column("Task", "what is played", numeric=False),
            Column("Policy", "who was trained", numeric=False),
            Column("State", "failed, missing, or partial: fewer checkpoints", numeric=False),
            Column("Runs", "training seeds", numeric=False),
            Column("Details", "why, or how many checkpoints there are", numeric=False),
        ),
        groups=(Group("", "", body),),
        footnotes=(),
        unit="Missing runs are not replaced: estimates are over the runs that exist. Partial runs "
        "count with the checkpoints that they have.",
    )


def _share(scale: ScoreScale | None, row: Estimate | None) -> Entry:
    """Return a mean as normalised score; a dash where the policy has not played the task."""
    if row is None or scale is None:
        return Entry(MISSING)
    return number_entry((row.mean - scale.low) / scale.width, Scale(3))


Maker = Callable[[Findings], Table | None]
# Makers of the tables that only some reports have, in the order in which a report shows them.
EXTRA_TABLES: tuple[Maker, ...] = (
    registered_table,
    runs_table,
    context_table,
    missing_table,
    model_table,
    efficiency_table,
    late_table,
    sensitivity_table,
    published_table,
)
# Those with rows for every task, which are folded where there are many.
LONG_TABLES: tuple[Maker, ...] = (
    certificate_table,
    interquartile_table,
    summary_table,
)


def extra_tables(findings: Findings) -> list[Table]:
    """Return the tables over all tasks that only some reports have."""
    return _made(EXTRA_TABLES, findings)


def long_tables(findings: Findings) -> list[Table]:
    """Return those of them that have rows for every task."""
    return _made(LONG_TABLES, findings)


def _made(makers: Sequence[Maker], findings: Findings) -> list[Table]:
    tables = (make(findings) for make in makers)
    return [table for table in tables if table is not None]
