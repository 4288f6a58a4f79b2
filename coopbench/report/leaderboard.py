"""The page of a leaderboard: one HTML file without scripts, which loads nothing."""

import math
from collections.abc import Sequence

from coopbench.analysis.samples import EPISODES, RUNS
from coopbench.analysis.standings import Row, Standings
from coopbench.report.numbers import MISSING, Scale, interval_text, level_text, scale_of_rows
from coopbench.report.tables.model import Column, Entry, Footnotes, Group, Table
from coopbench.report.tables.words import unit_text
from coopbench.report.templates import render

__all__ = ["as_html", "tables"]

_SHORT = 12  # characters of a digest
_UNITS = {RUNS: "Learned policies", EPISODES: "Fixed policies"}


def as_html(standings: Standings) -> str:
    """Return the page."""
    return render("leaderboard.html", standings=standings, tables=tables(standings), looks={})


def tables(standings: Standings) -> tuple[Table, ...]:
    """Return a table for every group."""
    return tuple(_table(standings, group) for group in standings.protocol.groups)


def _table(standings: Standings, group: str) -> Table:
    protocol, level = standings.protocol, level_text(standings.protocol)
    rows, notes = [row for row in standings.rows if row.group == group], Footnotes()
    methods = " or ".join(dict.fromkeys(row.method for row in rows)) or "percentile"
    columns = (
        Column("Policy", "who was evaluated", numeric=False),
        Column("Rank", f"{level} interval of the rank among policies of the same unit"),
        Column("IQM", f"interquartile mean of the normalised {protocol.report.score}"),
        Column(f"{level} interval", f"of the IQM, stratified bootstrap, {methods}"),
        Column("n", "episodes or training runs per task"),
        Column("Acts on", "what the policy bases its actions on", numeric=False),
        Column(
            "Played again",
            "how much of its results was played again",
            numeric=False,
        ),
        Column("Results", "digest of their folder", numeric=False),
    )
    scale = scale_of_rows(rows, "iqm")
    groups = _groups(rows, scale, notes)
    tasks = len(protocol.groups[group])
    title = f"{group or 'All tasks'} ({tasks} task{'s' if tasks > 1 else ''})"
    unit = unit_text(((row.unit, row.count) for row in rows), " per task")
    return Table(title, columns, groups, notes.all(), unit, kind="Policies")


def _groups(rows: Sequence[Row], scale: Scale, notes: Footnotes) -> tuple[Group, ...]:
    """Group the rows by unit of inference, since only these are ranked against each other."""
    members = {unit: [row for row in rows if row.unit == unit] for unit in _UNITS}
    mixed = all(members.values())
    return tuple(
        Group(
            _UNITS[unit] if mixed else "",
            "ranked among themselves" if mixed else "",
            tuple(_entries(row, scale, notes) for row in alike),
        )
        for unit, alike in members.items()
        if alike
    )


def _entries(row: Row, scale: Scale, notes: Footnotes) -> tuple[Entry, ...]:
    digests = ", ".join(digest[:_SHORT] for digest in row.results)
    return (
        Entry(row.policy, row.policy),
        _rank(row),
        Entry(scale(row.iqm), row.iqm),
        Entry(interval_text(row.low, row.high, scale), row.high, notes.mark(row.flag)),
        Entry(f"{row.count:,} {row.unit}", row.count),
        Entry(row.acts_on or MISSING, row.acts_on or None),
        Entry(row.verified, row.verified),
        Entry(digests or MISSING, digests or None),
    )


def _rank(row: Row) -> Entry:
    """Return the interval of a rank; never a rank alone."""
    if math.isnan(row.first):
        return Entry(MISSING)
    return Entry(f"{row.first:g} to {row.last:g}", (row.first + row.last) / 2.0)
