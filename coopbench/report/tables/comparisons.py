"""Tables of comparisons between policies: over groups, on a task, and what runs can show."""

import dataclasses
import math
from collections.abc import Sequence

from coopbench.analysis.comparisons import Comparison, GroupComparison
from coopbench.analysis.constants import NONE
from coopbench.analysis.findings import Findings
from coopbench.analysis.planning import LEARNER, SCRIPT, Prospect
from coopbench.protocol.schema import Protocol
from coopbench.protocol.task import Task
from coopbench.report.numbers import (
    MISSING,
    Scale,
    level_text,
    scale_of,
    scale_of_rows,
)
from coopbench.report.tables.entries import (
    above_entry,
    claim_entry,
    ends_entry,
    filled_columns,
    number_entry,
    p_entry,
    pair_entry,
    unit_text,
)
from coopbench.report.tables.model import Column, Entry, Footnotes, Group, Table


def group_tables(findings: Findings) -> list[Table]:
    """Return the comparisons of all pairs of policies, one table for each group."""
    names = dict.fromkeys(row.group for row in findings.group_comparisons)
    return [_group_table(findings, group) for group in names]


def _group_table(findings: Findings, group: str) -> Table:
    rows = [row for row in findings.group_comparisons if row.group == group]
    notes, level = Footnotes(), level_text(findings.protocol)
    scale = scale_of_rows(rows, "difference")
    middle = scale_of(
        [row.trimmed_difference for row in rows],
        [(row.trimmed_high - row.trimmed_low) / 2 for row in rows],
    )
    body = tuple(
        (
            pair_entry(findings, row.first, row.second),
            *_group_row(row, (scale, middle), notes),
        )
        for row in rows
    )
    score, tasks = findings.protocol.report.score, rows[0].tasks
    return Table(
        title=f"Comparisons over {group or 'all tasks'}: mean normalized {score}",
        columns=(
            Column("Comparison", "first vs second", numeric=False),
            Column("Difference", "of the means over tasks, first minus second"),
            Column(f"{level} interval", "of the difference, over runs and episodes"),
            Column("p", "two-sided: the level at which the interval touches 0; one decision"),
            Column("Runs above", "runs of a learner above the fixed policy, over all tasks"),
            Column("Trimmed difference", "of the trimmed means over tasks"),
            Column(f"Its {level} interval", "up to twice too wide where tasks tie"),
        ),
        groups=(Group("", "", body),),
        footnotes=notes.all(),
        unit=f"Over {tasks} task{'s' if tasks > 1 else ''}; intervals are for new runs and new "
        "episodes. Runs above: with the exact interval of their share.",
    )


def _group_row(
    row: GroupComparison, scales: tuple[Scale, Scale], notes: Footnotes
) -> tuple[Entry, ...]:
    """Return the entries of a comparison after the names of its policies."""
    scale, middle = scales
    return (
        number_entry(row.difference, scale),
        ends_entry(row.low, row.high, scale, notes.mark(row.flag)),
        claim_entry(row, row.p_value),
        above_entry(row),
        number_entry(row.trimmed_difference, middle),
        ends_entry(row.trimmed_low, row.trimmed_high, middle),
    )


def comparison_table(findings: Findings, task: Task) -> Table | None:
    """Return all pairwise comparisons on one task; None if there is none."""
    rows = [row for row in findings.comparisons if row.task == task.id]
    if not rows:
        return None
    score, alpha = findings.protocol.report.score, findings.protocol.report.alpha
    notes, scale = Footnotes(), scale_of_rows(rows, "difference")
    effects = {(r.first, r.second): r.cohens_d for r in findings.effects if r.task == task.id}
    body = [
        (
            pair_entry(findings, row.first, row.second),
            *_comparison_row(row, scale, notes, alpha),
            number_entry(effects.get((row.first, row.second), math.nan), Scale(2)),
        )
        for row in rows
    ]
    columns, groups = filled_columns(_comparison_columns(findings), [Group("", "", tuple(body))])
    compared = {row.unit for row in rows}
    counts = [
        (row.unit, row.count)
        for row in findings.estimates_of(task.id, score)
        if row.unit in compared
    ]
    return Table(
        title=f"Comparisons of {score} on {task.id}",
        columns=columns,
        groups=groups,
        footnotes=notes.all(),
        unit=" ".join(filter(None, (unit_text(counts, " each"), _equality(findings)))),
    )


def _equality(findings: Findings) -> str:
    """Say when two policies are called equal; nothing where the protocol declares no margin."""
    settings = findings.protocol.report
    if settings.margin is None:
        return ""
    return (
        f"Equivalence p below {settings.alpha:g}: the two differ by less than "
        f"{settings.margin:g} of normalized score. "
        '"No difference" is claimed only by this test.'
    )


def _comparison_columns(findings: Findings) -> tuple[Column, ...]:
    score, level = findings.protocol.report.score, level_text(findings.protocol)
    margin = findings.protocol.report.margin
    equal = f"test that the two differ by less than {margin} of normalized score, adjusted"
    return (
        Column("Comparison", "first vs second", numeric=False),
        Column("Difference", f"mean {score} of the first minus that of the second"),
        Column(f"{level} interval", "of the difference, over runs and episodes; sorted by width"),
        Column("p", "two-sided, unadjusted: the level at which the interval touches 0"),
        Column("Holm p", "adjusted over the tasks of the group, for this pair of policies"),
        Column("Runs above", "runs of a learner above the fixed policy, and their share"),
        Column("Welch t", "of run means (Welch 1947), where runs have episodes of their own"),
        Column("Hedges g", "difference in pooled standard deviations, bias-corrected"),
        Column("r", "correlation between scores of the same seed"),
        Column("Equivalence p", equal),
        Column("Cohen's d", "difference in pooled standard deviations, as published"),
    )


def _welch_entry(row: Comparison) -> Entry:
    if math.isnan(row.welch_t):
        return Entry(MISSING)
    return Entry(f"{row.welch_t:.2f}", row.welch_t, below=f"df {row.welch_df:.1f}")


def _comparison_row(
    row: Comparison, scale: Scale, notes: Footnotes, alpha: float
) -> tuple[Entry, ...]:
    """Return the entries of a comparison after the names of its policies.

    The last is empty where no margin is declared.
    """
    p = dataclasses.replace(claim_entry(row, row.p_value), strong=False)
    if row.basis == NONE:
        p = Entry("no test")
    equal = p_entry(row.p_equivalence)
    return (
        number_entry(row.difference, scale),
        ends_entry(row.low, row.high, scale),
        dataclasses.replace(p, marks=notes.mark(row.flag)),
        claim_entry(row, row.p_holm),
        above_entry(row),
        _welch_entry(row),
        number_entry(row.hedges_g, Scale(2)),
        number_entry(row.correlation, Scale(2)),
        dataclasses.replace(equal, strong=row.p_equivalence < alpha),
    )


def power_table(protocol: Protocol, rows: Sequence[Prospect], source: str) -> Table:
    """Return how often simulated reports decide; ``source`` says where the spreads are from.

    ``rows`` are of pairs: the same plan against a script and against a learner.
    """
    plans: dict[str, dict[tuple[int, float], dict[str, Prospect]]] = {}
    for row in rows:
        plan = plans.setdefault(row.group, {}).setdefault((row.runs, row.effect), {})
        plan[row.rival] = row
    groups = [
        Group(
            name or "all tasks",
            "",
            tuple(
                (Entry(f"{runs}", runs), Entry(f"{effect:g}", effect), *_power_entries(rivals))
                for (runs, effect), rivals in some.items()
            ),
        )
        for name, some in plans.items()
    ]
    trials = min(row.trials for row in rows)
    columns = [Column("Runs", "per learner and task"), Column("Effect", "true difference")]
    for rival in (SCRIPT, LEARNER):
        columns += [
            Column(f"{rival}: group", "share of reports that decide it over the group"),
            Column("tasks", "share on a task, mean over the tasks of the group"),
            Column("lowest", "share on the task where it is lowest"),
        ]
    return Table(
        title=f"Power under {protocol.name}: share of simulated reports that decide a difference",
        columns=tuple(columns),
        groups=tuple(groups),
        footnotes=(),
        unit=f"{trials} simulated reports for each row: standard error at most "
        f"{0.5 / trials**0.5:.2g}. A learner is better than a script, or than another learner, by "
        "the effect on every task, in normalized score. Decisions are those of reports, at alpha "
        f"{protocol.report.alpha:g}: on tasks adjusted over the tasks of the group. {source}",
        kind="Group",
    )


def task_power_table(protocol: Protocol, rows: Sequence[Prospect], source: str) -> Table:
    """Return ``power_table`` with a row for each task in place of each group."""
    plans: dict[str, dict[tuple[str, int, float], dict[str, float]]] = {}
    for row in rows:
        for task, share in row.on_tasks.items():
            plan = plans.setdefault(row.group, {}).setdefault((task, row.runs, row.effect), {})
            plan[row.rival] = share
    whole, scale = power_table(protocol, rows, source), Scale(2)
    groups = [
        Group(
            name or "all tasks",
            "",
            tuple(
                (
                    Entry(task, task),
                    Entry(f"{runs}", runs),
                    Entry(f"{effect:g}", effect),
                    *(number_entry(rivals.get(k, math.nan), scale) for k in (SCRIPT, LEARNER)),
                )
                for (task, runs, effect), rivals in some.items()
            ),
        )
        for name, some in plans.items()
    ]
    columns = (
        Column("Task", "what is played", numeric=False),
        *whole.columns[:2],
        *(Column(rival, "share of reports that decide it") for rival in (SCRIPT, LEARNER)),
    )
    return dataclasses.replace(whole, columns=columns, groups=tuple(groups))


def _power_entries(rivals: dict[str, Prospect]) -> tuple[Entry, ...]:
    entries, scale = list[Entry](), Scale(2)
    for rival in (SCRIPT, LEARNER):
        row = rivals.get(rival)
        if row is None:
            entries += [Entry(MISSING)] * 3
            continue
        shares = (row.over_group, row.of_tasks, min(row.on_tasks.values()))
        entries += [number_entry(share, scale) for share in shares]
    return tuple(entries)
