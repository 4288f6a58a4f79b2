"""Tables over all tasks: scores of every task, models, published returns, missing runs."""

from collections.abc import Callable, Sequence

import numpy as np

from coopbench.analysis.certificates import CertifiedTask
from coopbench.analysis.context import REFERENCE, FocalContext
from coopbench.analysis.estimates import Estimate
from coopbench.analysis.findings import Findings
from coopbench.analysis.score_matrix import Scale as ScoreScale
from coopbench.analysis.score_matrix import score_scales
from coopbench.report.facts import registration_text
from coopbench.report.numbers import (
    MISSING,
    Scale,
    interval_text,
    level_text,
    scale_of,
    scale_of_rows,
)
from coopbench.report.tables.aggregates import runs_table
from coopbench.report.tables.entries import (
    bounds_text,
    group_meanings,
    has_certified_partners,
    number_entry,
    played_tasks,
    policy_entry,
    policy_text,
    unit_names,
    unit_text,
)
from coopbench.report.tables.learning import efficiency_table
from coopbench.report.tables.model import Column, Entry, Footnotes, Group, Table
from coopbench.report.tables.tasks import estimate_row


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
    means = f"mean over {unit_names(rows.values())}; {bounds_text(findings)}"
    return Table(
        title=f"Mean normalized {score} on every task",
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
        Column("Mean", f"mean over models of their mean {score}; of a group, normalized"),
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
    tasks: dict[tuple[str, ...], list[str]] = {}  # a row may stand for many: most are alike
    for (task, policy, state, reason), seeds in runs.items():
        tasks.setdefault((policy, state, ", ".join(seeds), reason), []).append(task)
    body = tuple(
        tuple(Entry(text, text) for text in (_first_of(names), *alike))
        for alike, names in tasks.items()
    )
    return Table(
        title="Missing runs",
        columns=(
            Column("Task", "what is played; report.json lists all", numeric=False),
            Column("Policy", "who was trained", numeric=False),
            Column("State", "failed, missing, or partial: fewer checkpoints", numeric=False),
            Column("Runs", "training seeds", numeric=False),
            Column("Details", "why, or how many checkpoints there are", numeric=False),
        ),
        groups=(Group("", "", body),),
        footnotes=(),
        unit="A failed run counts in the score with the floor of the task, and in no other metric. "
        "Missing runs are not replaced. Partial runs count with the checkpoints that they have.",
    )


def _first_of(names: Sequence[str]) -> str:
    """Return the first of some names, and how many there are besides."""
    first, others = names[0], len(names) - 1
    return f"{first} and {others} other{'s' if others > 1 else ''}" if others else first


def _share(scale: ScoreScale | None, row: Estimate | None) -> Entry:
    """Return a mean as normalized score; a dash where the policy has not played the task."""
    if row is None or scale is None:
        return Entry(MISSING)
    return number_entry((row.mean - scale.low) / scale.width, Scale(3))


def registered_table(findings: Findings) -> Table | None:
    """Return the outcomes of the registered hypotheses; None where there are none."""
    if not findings.outcomes:
        return None
    return Table(
        title="Registered hypotheses",
        columns=(
            Column("Hypothesis", "as registered", numeric=False),
            Column("Outcome", "supported, refuted or not shown", numeric=False),
            Column("Why", "the adjusted p value, or why there is none", numeric=False),
        ),
        groups=(
            Group(
                "",
                "",
                tuple(
                    tuple(Entry(text, text) for text in (row.hypothesis, row.outcome, row.reason))
                    for row in findings.outcomes
                ),
            ),
        ),
        footnotes=(),
        unit=f"This study: {registration_text(findings)}.",
    )


_CERTIFIED_SCORES = (
    "A normalized score of 1 is that of the best response to each partner, when the partner is "
    "known in advance; 0 is that of the best rule that ignores its partners. That rule already "
    "earns most of the best response's return, so a small share of the return is a large part of "
    "the score. A negative score means less than that rule earns, not less than chance. "
)


def context_table(findings: Findings) -> Table | None:
    """Return the context of every policy in each group with partners; None without partners."""
    rows = findings.contexts
    if not rows:
        return None
    certified, scale, groups = has_certified_partners(findings), _context_scale(rows), []
    for group, tasks in findings.protocol.groups.items():
        by_policy: dict[str, list[FocalContext]] = {}
        for row in (row for row in rows if row.group == group):
            by_policy.setdefault(row.policy, []).append(row)
        whole = {name: members for name, members in by_policy.items() if len(members) == len(tasks)}
        if whole:
            lines = tuple(
                _context_row(findings, name, members, scale) for name, members in whole.items()
            )
            groups.append(Group(group, group_meanings(findings.protocol)[group], lines))
    return Table(
        title="Scores with partners in context",
        columns=(
            Column("Policy", "who is evaluated", numeric=False),
            Column("Share of best", "mean own return as a share of the best response's")
            if certified
            else Column("Share of bound", "mean own return as a share of the upper bound"),
            Column("Own return", "mean over tasks of the mean return of its seat"),
            Column("Joint return", "of all agents, mean over tasks"),
            Column("Partners' gain", f"return of a partner, less that with {REFERENCE}"),
        ),
        groups=tuple(groups),
        footnotes=(),
        unit=f"{_CERTIFIED_SCORES if certified else ''}By task: contexts.csv; intervals of "
        "returns are in the tables of the tasks.",
        kind="Group",
    )


def _context_scale(rows: Sequence[FocalContext]) -> Scale:
    """Choose the decimals of all returns of a table: a hundredth of the typical one."""
    returns = [value for row in rows for value in (row.own, row.joint)]
    return scale_of(returns, [abs(value) / 100.0 for value in returns])


def _context_row(
    findings: Findings, policy: str, rows: Sequence[FocalContext], returns: Scale
) -> tuple[Entry, ...]:
    share, own, joint, gain = (
        float(np.mean([getattr(row, name) for row in rows]))
        for name in ("share", "own", "joint", "gain")
    )
    return (
        policy_entry(findings, policy),
        number_entry(share, Scale(3)),
        number_entry(own, returns),
        number_entry(joint, returns),
        number_entry(gain, returns),
    )


_CERTIFIED = Scale(3)


def certificate_table(findings: Findings) -> Table | None:
    """Return what the certificates say of the tasks; None if no task has one."""
    rows = {row.task: row for row in findings.certificates}
    if not rows:
        return None
    groups = [
        Group(
            group if meaning else "",
            meaning,
            tuple(
                _certificate_row(rows[task.id])
                for task in findings.protocol.groups[group]
                if task.id in rows
            ),
        )
        for group, meaning in group_meanings(findings.protocol).items()
    ]
    return Table(
        title="Certificates of the tasks",
        columns=(
            Column("Task", "what is played", numeric=False),
            Column(
                "Simple play",
                "best play that observes only the time and the mask; with partners, best script",
                numeric=False,
            ),
            Column("Its score", "normalized, in episodes of the certificate"),
            Column("95 % interval", "for new episodes; sorted by its lower end"),
            Column("Best play found", "of those in the certificate", numeric=False),
            Column("Score", "normalized, in episodes of the certificate"),
            Column("Its 95 % interval", "for new episodes; sorted by its lower end"),
            Column("Required", "most that simple play may score"),
            Column("Met", "whether its interval ends below that", numeric=False),
        ),
        groups=tuple(group for group in groups if group.rows),
        footnotes=(),
        unit="From the certificates of this package (coopbench certify), not from the episodes of "
        "this report. If the requirement is not met, simple play can reach a high score as well. "
        "Tasks without a row have no certificate.",
        kind="Group",
    )


def _certificate_row(row: CertifiedTask) -> tuple[Entry, ...]:
    return (
        Entry(row.task, row.task),
        Entry(row.simple, row.simple),
        number_entry(row.simple_score, _CERTIFIED),
        Entry(interval_text(row.simple_low, row.simple_high, _CERTIFIED), row.simple_low),
        Entry(row.best, row.best),
        number_entry(row.best_score, _CERTIFIED),
        Entry(interval_text(row.best_low, row.best_high, _CERTIFIED), row.best_low),
        number_entry(row.most, _CERTIFIED),
        Entry("yes" if row.met else "no", "yes" if row.met else "no", strong=row.met),
    )


Maker = Callable[[Findings], Table | None]
# Makers of tables that only some reports have, and a terminal shows as well.
FIRST_TABLES: tuple[Maker, ...] = (registered_table, missing_table)
# Makers of the other tables that only some reports have, in the order of the report.
EXTRA_TABLES: tuple[Maker, ...] = (
    runs_table,
    context_table,
    model_table,
    efficiency_table,
)
# Those with rows for every task, which are folded where there are many.
LONG_TABLES: tuple[Maker, ...] = (certificate_table,)


def first_tables(findings: Findings) -> list[Table]:
    """Return the tables of a summary that only some reports have."""
    return _made(FIRST_TABLES, findings)


def extra_tables(findings: Findings) -> list[Table]:
    """Return the tables over all tasks that only some reports have."""
    return _made(EXTRA_TABLES, findings)


def long_tables(findings: Findings) -> list[Table]:
    """Return those of them that have rows for every task."""
    return _made(LONG_TABLES, findings)


def _made(makers: Sequence[Maker], findings: Findings) -> list[Table]:
    tables = (make(findings) for make in makers)
    return [table for table in tables if table is not None]
