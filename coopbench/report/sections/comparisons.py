"""Comparisons: differences between all pairs of policies, on every task and over groups."""

import dataclasses
import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from coopbench import statistics
from coopbench.analysis.comparisons import Comparison, GroupComparison, standardised
from coopbench.analysis.constants import EXACT, NONE
from coopbench.analysis.contrasts import family_pairs
from coopbench.analysis.findings import Findings, Part
from coopbench.analysis.rows import ReportRow
from coopbench.analysis.score_matrix import score_matrix
from coopbench.episodes.table import EpisodeTable
from coopbench.protocol.schema import Protocol
from coopbench.protocol.task import Task
from coopbench.report.blocks import ALWAYS, FILES, Details, Section, Text
from coopbench.report.numbers import MISSING, Scale, level_text, p_text, scale_of, scale_of_rows
from coopbench.report.section import ReportSection
from coopbench.report.tables.entries import (
    ends_entry,
    filled_columns,
    is_long,
    number_entry,
    policy_text,
    unit_text,
)
from coopbench.report.tables.model import Column, Entry, Footnotes, Group, Table

NO_COMPARISON = "No comparison: fewer than two policies have played this task."
_MOST_COMPARED = 5  # policies whose comparisons with each other fit on a screen
READING = """
{% if "runs" in units %}
Runs above: The number of a learner's runs that score above a fixed policy, with the exact
interval of their share (Clopper and Pearson 1934, Biometrika 26: 404-413).
{% endif %}

{% if findings.aggregates %}
Comparisons over groups: The difference of the means over tasks comes first. The difference of
trimmed means has an interval up to twice too wide if tasks tie.
{% endif %}

p, r:
{% if findings.episodes.own_episodes %}
Policies are compared as independent: each has played its own episodes.
{% elif settings.comparison == "paired" %}
Policies are compared on the same episodes, so they share the same random events.
{% else %}
Policies are compared as if they had played different episodes, although they played the same
seeds.
{% endif %}
p is the level at which the interval of the difference touches 0. r is the correlation of the two
scores over seeds.

Holm p: The p value adjusted so that the chance of any false positive among the tasks of a group,
for one pair of policies, stays below the level it is compared with (Holm 1979, Scandinavian
Journal of Statistics 6: 65-70). Bold: values below {{ alpha }} where the difference may be
claimed.

Decisions: {{ decisions }}
{% if settings.normalisation == "minmax" %}
Over a group, other policies can change it: they move the scale of its tasks.
{% else %}
The decision on a pair does not depend on the other policies in the report.
{% endif %}

{% if settings.margin is none %}
Equivalence: The protocol declares no margin within which two policies count as equal, so this
report never says that two do not differ: a large p value does not show it.
{% else %}
Equivalence: Two one-sided tests (Schuirmann 1987, Journal of Pharmacokinetics and
Biopharmaceutics 15: 657-680) that two means differ by less than the margin which the protocol
declares, {{ margin }} of normalized score; adjusted like Holm p. "No difference" is claimed only
through this test, never through a large p value.
{% endif %}

Hedges g: The difference divided by the pooled standard deviation (of runs if a learner is
involved, otherwise of episodes), corrected for small-sample bias (Hedges 1981, Journal of
Educational Statistics 6: 107-128). It is very large where policies hardly vary, for example fixed
policies in deterministic games.
"""


@dataclass(frozen=True, eq=False)
class Effect(ReportRow):
    """Cohen's d of the score of two policies on one task."""

    task: str
    first: str
    second: str
    cohens_d: float  # nan where nothing varies


def effects(protocol: Protocol, table: EpisodeTable) -> tuple[Effect, ...]:
    """Return Cohen's d of all pairs of policies on each task, where the protocol asks for it.

    In pooled standard deviations of episodes for two fixed policies, else of runs.
    """
    if protocol.report.effect != "cohens_d":
        return ()
    return tuple(row for task in protocol.task for row in _of_task(protocol, table, task))


def _of_task(protocol: Protocol, table: EpisodeTable, task: Task) -> Iterator[Effect]:
    """Yield the effects between all pairs of policies on one task."""
    policies = table.policies_on(task.id)
    matrices = {p: score_matrix(protocol, table, task, p, protocol.report.score) for p in policies}
    for one, two in family_pairs(protocol, policies):
        first, second = matrices[one], matrices[two]
        value = math.nan
        if first is not None and second is not None:
            left, right, standardiser = standardised(first, second)
            if np.isfinite(left).all() and np.isfinite(right).all():
                value = statistics.cohens_d(left, right, standardiser=standardiser)
        yield Effect(task.id, one, two, value)


def over_groups(findings: Findings) -> Iterator[Details]:
    """Iterate over the tables of all pairs of policies, folded where there are many tasks."""
    groups = dict.fromkeys(row.group for row in findings.group_comparisons)
    shown = not is_long(findings) or len(groups) == 1
    for table in (_group_table(findings, group) for group in groups):
        yield Details(table.title, (table,), "pairs", shown)


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
            _pair_entry(findings, row.first, row.second),
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
        _claim_entry(row, row.p_value),
        _above_entry(row),
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
    effects = {(r.first, r.second): r.cohens_d for r in findings.rows(EFFECTS) if r.task == task.id}
    body = [
        (
            _pair_entry(findings, row.first, row.second),
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
    p = dataclasses.replace(_claim_entry(row, row.p_value), strong=False)
    if row.basis == NONE:
        p = Entry("no test")
    equal = _p_entry(row.p_equivalence)
    return (
        number_entry(row.difference, scale),
        ends_entry(row.low, row.high, scale),
        dataclasses.replace(p, marks=notes.mark(row.flag)),
        _claim_entry(row, row.p_holm),
        _above_entry(row),
        _welch_entry(row),
        number_entry(row.hedges_g, Scale(2)),
        number_entry(row.correlation, Scale(2)),
        dataclasses.replace(equal, strong=row.p_equivalence < alpha),
    )


def _pair_entry(findings: Findings, first: str, second: str) -> Entry:
    """Return the entry that begins the row of a comparison of two policies."""
    text = f"{policy_text(findings, first)} vs {policy_text(findings, second)}"
    return Entry(text, text)


def _claim_entry(row: Comparison | GroupComparison, p: float) -> Entry:
    """Return the p value by which a comparison is decided, or "exact"; bold if it is decided."""
    entry = Entry("exact", p) if row.basis == EXACT else _p_entry(p)
    return dataclasses.replace(entry, strong=row.decided)


def _above_entry(row: Comparison | GroupComparison) -> Entry:
    """Return how many runs of a learner are above a fixed policy, with their share's interval."""
    if not row.runs:
        return Entry(MISSING)
    text = f"{row.above} of {row.runs}"
    known = not math.isnan(row.above_low)
    share = f"share {row.above_low:.2f} to {row.above_high:.2f}" if known else ""
    return Entry(text, row.above / row.runs, below=share)


def _p_entry(value: float) -> Entry:
    """Return a p value; a dash where there is no test."""
    return Entry(p_text(value), None if math.isnan(value) else value)


def of_task(findings: Findings, task: Task) -> Section:
    """Return the comparisons on a task; a terminal leaves out those of many policies."""
    compared = comparison_table(findings, task) or Text(NO_COMPARISON)
    shown = ALWAYS if len(findings.policies) <= _MOST_COMPARED else FILES
    return Section("Pairwise comparisons", (compared,), shown=shown)


EFFECTS = Part("effects", effects, rare=True)
SECTION = ReportSection((EFFECTS,), {"pairs": over_groups}, of_task, reading=READING)
