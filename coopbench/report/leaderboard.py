"""The page of a leaderboard: one HTML file without scripts, which loads nothing."""

import math

from coopbench.analysis.standings import Row, Standings
from coopbench.report.numbers import MISSING, Scale, interval_text, level_text, scale_of_rows
from coopbench.report.tables.model import Column, Entry, Footnotes, Group, Table
from coopbench.report.tables.words import unit_text
from coopbench.report.templates import render

__all__ = ["as_html", "tables"]

_SHORT = 12  # characters of a digest


def as_html(standings: Standings) -> str:
    """Return the page."""
    return render("leaderboard.html", standings=standings, tables=tables(standings), looks={})


def tables(standings: Standings) -> tuple[Table, ...]:
    """Return a table for every group."""
    return tuple(_table(standings, group) for group in standings.protocol.groups)


def _table(standings: Standings, group: str) -> Table:
    protocol, level = standings.protocol, level_text(standings.protocol)
    rows, notes = [row for row in standings.rows if row.group == group], Footnotes()
    columns = (
        Column("Policy", "who was evaluated", numeric=False),
        Column("Rank", "tie of policies that cannot be told apart, and interval of the rank"),
        Column("Mean", f"over tasks of the mean normalised {protocol.report.score}"),
        Column(f"{level} interval", "of the mean, for new runs and new episodes"),
        Column("Trimmed mean", "over tasks, of the mean normalised score"),
        Column("n", "episodes or training runs per task"),
        Column("Acts on", "what the policy bases its actions on", numeric=False),
        Column(
            "Played again",
            "how much of its results was played again",
            numeric=False,
        ),
        Column("Results", "digest of their folder", numeric=False),
    )
    scale = scale_of_rows(rows, "mean")
    groups = (Group("", "", tuple(_entries(row, scale, notes) for row in rows)),)
    tasks = len(protocol.groups[group])
    title = f"{group or 'All tasks'} ({tasks} task{'s' if tasks > 1 else ''})"
    unit = unit_text(((row.unit, row.count) for row in rows), " per task")
    return Table(title, columns, groups, notes.all(), unit, kind="Policies")


def _entries(row: Row, scale: Scale, notes: Footnotes) -> tuple[Entry, ...]:
    digests = ", ".join(digest[:_SHORT] for digest in row.results)
    return (
        Entry(row.policy, row.policy),
        _rank(row),
        Entry(scale(row.mean), row.mean),
        Entry(interval_text(row.low, row.high, scale), row.high, notes.mark(row.flag)),
        Entry(scale(row.trimmed_mean), row.trimmed_mean),
        Entry(f"{row.count:,} {row.unit}", row.count),
        Entry(row.acts_on or MISSING, row.acts_on or None),
        Entry(row.verified, row.verified),
        Entry(digests or MISSING, digests or None),
    )


def _rank(row: Row) -> Entry:
    """Return the tie and the interval of a rank; never a rank alone."""
    if math.isnan(row.first):
        return Entry(MISSING)
    return Entry(f"{row.tie}: {row.first:g} to {row.last:g}", (row.first + row.last) / 2.0)
