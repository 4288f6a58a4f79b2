"""Tables of comparisons over groups of tasks."""

from coopbench.analysis.comparisons import GroupComparison
from coopbench.analysis.findings import Findings
from coopbench.report.numbers import Scale, interval_text, level_text, scale_of, scale_of_rows
from coopbench.report.tables.model import Column, Entry, Footnotes, Group, Table
from coopbench.report.tables.words import (
    above_entry,
    claim_entry,
    interval_width,
    number_entry,
    pair_entry,
)


def group_tables(findings: Findings) -> list[Table]:
    """Return the comparisons of all pairs of policies, one table for each group."""
    names = dict.fromkeys(row.group for row in findings.group_comparisons)
    return [_table(findings, group) for group in names]


def _table(findings: Findings, group: str) -> Table:
    rows = [row for row in findings.group_comparisons if row.group == group]
    notes, level, alpha = Footnotes(), level_text(findings.protocol), findings.protocol.report.alpha
    scale = scale_of_rows(rows, "difference")
    middle = scale_of(
        [row.trimmed_difference for row in rows],
        [(row.trimmed_high - row.trimmed_low) / 2 for row in rows],
    )
    body = tuple(
        (
            pair_entry(findings, row.first, row.second),
            *_row(row, (scale, middle), notes, alpha),
        )
        for row in rows
    )
    score, tasks = findings.protocol.report.score, rows[0].tasks
    return Table(
        title=f"Comparisons over {group or 'all tasks'}: mean normalised {score}",
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


def _row(
    row: GroupComparison, scales: tuple[Scale, Scale], notes: Footnotes, alpha: float
) -> tuple[Entry, ...]:
    """Return the entries of a comparison after the names of its policies."""
    scale, middle = scales
    ends = interval_text(row.low, row.high, scale)
    width = row.trimmed_high - row.trimmed_low
    return (
        number_entry(row.difference, scale),
        Entry(ends, interval_width(row), notes.mark(row.flag)),
        claim_entry(row, row.p_value, notes, alpha),
        above_entry(row),
        number_entry(row.trimmed_difference, middle),
        Entry(
            interval_text(row.trimmed_low, row.trimmed_high, middle),
            width if width == width else None,
        ),
    )
