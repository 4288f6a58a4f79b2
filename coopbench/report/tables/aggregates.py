"""Table of aggregates: the statistics of every policy over the tasks of a group, and its rank."""

from collections.abc import Sequence

from coopbench.analysis.aggregates import SHOWN, Aggregate
from coopbench.analysis.findings import Findings
from coopbench.analysis.rankings import Rank
from coopbench.baselines.registry import entry_of
from coopbench.report.numbers import MISSING, level_text, scale_of_rows
from coopbench.report.tables.model import Column, Entry, Footnotes, Group, Table
from coopbench.report.tables.words import (
    bounds_text,
    count_entry,
    group_meanings,
    interval_entry,
    listed,
    missing_entries,
    number_entry,
    policies,
    unit_names,
    unit_text,
)

__all__ = ["aggregate_table", "information_entry"]


def aggregate_table(findings: Findings) -> Table | None:
    """Return statistics and rank over all tasks, or those of each group; None if ad hoc.

    Its columns are the shown ``STATISTICS``. Without groups all tasks are one group.
    """
    if findings.protocol.ad_hoc:
        return None
    rows, notes = [row for row in findings.aggregates if row.statistic == "iqm"], Footnotes()
    columns = _columns(findings, rows)
    groups = [
        Group(name if meaning else "", meaning, _rows(findings, name, columns, notes))
        for name, meaning in group_meanings(findings.protocol).items()
    ]
    scope = "the tasks of each group" if len(groups) > 1 else "all tasks"
    names = listed([*(statistic.name for statistic in SHOWN.values()), "rank"])
    mixed = len({row.unit for row in rows}) > 1
    return Table(
        title=f"{names} by the normalised {findings.protocol.report.score} over {scope}",
        columns=columns,
        groups=tuple(groups),
        footnotes=notes.all(),
        unit=unit_text(((row.unit, row.count) for row in rows), " per task")
        + (" Ranks are among policies of one unit." if mixed else ""),
        kind="Group",
    )


def _columns(findings: Findings, rows: Sequence[Aggregate]) -> tuple[Column, ...]:
    level = level_text(findings.protocol)
    method = " or ".join(dict.fromkeys(row.method for row in rows)) or "percentile"
    interval = f"of the stratified bootstrap, method {method}; sorted by width"
    columns = [Column("Policy", "who is evaluated", numeric=False)]
    for key, statistic in SHOWN.items():
        if key == "iqm":
            columns += [
                Column(statistic.label, f"{statistic.meaning}; {bounds_text(findings)}"),
                Column(f"{level} interval", f"of the {statistic.label}, {interval}"),
            ]
        else:
            columns += [
                Column(statistic.label, statistic.meaning),
                Column(f"Its {level} interval", interval),
            ]
    return (
        *columns,
        Column("Rank", f"{level} interval of the rank by IQM, 1 is the best; all hold at once"),
        Column("n", f"{unit_names(rows)} per task"),
        Column(
            "Acts on",
            "its own observations (local), also what others in sight do (neighbours), the whole "
            "state (global), or nothing (none)",
            numeric=False,
        ),
    )


def _rows(
    findings: Findings, group: str, columns: Sequence[Column], notes: Footnotes
) -> tuple[tuple[Entry, ...], ...]:
    """Return one row for every policy, in the order of the report."""
    members = [row for row in findings.aggregates if row.group == group]
    by_statistic = [
        {row.policy: row for row in members if row.statistic == statistic} for statistic in SHOWN
    ]
    scales = [scale_of_rows(rows.values(), "estimate") for rows in by_statistic]
    ranked = {row.policy: row for row in findings.ranks if row.group == group}

    def entries_of(policy: str) -> tuple[Entry, ...]:
        name = Entry(policy, policy)
        if policy not in by_statistic[0]:
            return (name, *missing_entries(columns))
        values = [
            entry
            for rows, scale in zip(by_statistic, scales, strict=True)
            for entry in (
                number_entry(rows[policy].estimate, scale),
                interval_entry(rows[policy], scale, notes),
            )
        ]
        count = count_entry(by_statistic[0][policy], findings.aggregates)
        return (name, *values, _rank(ranked.get(policy)), count, information_entry(policy))

    return tuple(entries_of(policy) for policy in policies(findings))


def _rank(row: Rank | None) -> Entry:
    """Return the interval of a rank, sorted by its middle; never a rank alone."""
    if row is None:
        return Entry(MISSING)
    return Entry(f"{row.low:g} to {row.high:g}", (row.low + row.high) / 2.0)


def information_entry(policy: str) -> Entry:
    """Return what a registered policy acts on; it is not known of any other."""
    entry = entry_of(policy)
    return Entry(entry.information, entry.information) if entry else Entry(MISSING)
