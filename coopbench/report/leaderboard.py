"""The page of a leaderboard: one HTML file without scripts, which loads nothing."""

import math
from collections.abc import Sequence

from coopbench.analysis.samples import EPISODES, RUNS
from coopbench.analysis.standings import Row, Standings
from coopbench.report.numbers import MISSING, Scale, interval_text, level_text, scale_of
from coopbench.report.tables.model import Column, Entry, Footnotes, Group, Table
from coopbench.report.tables.words import unit_text
from coopbench.report.templates import render

__all__ = ["as_html", "tables"]

_SHORT = 12  # characters of a digest
_UNITS = {RUNS: "Learned policies", EPISODES: "Fixed policies"}


def as_html(found: Standings) -> str:
    """Return the page."""
    return render("leaderboard.html", found=found, tables=tables(found), looks={})


def tables(found: Standings) -> tuple[Table, ...]:
    """Return a table for every group."""
    return tuple(_table(found, group) for group in found.protocol.groups)


def _table(found: Standings, group: str) -> Table:
    report, level = found.protocol.report, level_text(found.protocol)
    rows, notes = [row for row in found.rows if row.group == group], Footnotes()
    methods = " or ".join(dict.fromkeys(row.method for row in rows)) or "percentile"
    columns = (
        Column("Policy", "who was evaluated", numeric=False),
        Column("Rank", f"{level} interval of the rank among policies of the same unit"),
        Column("IQM", f"interquartile mean of the normalised {report.score}"),
        Column(f"{level} interval", f"of the IQM, stratified bootstrap, {methods}"),
        Column("n", "episodes or training runs per task"),
        Column("Acts on", "what the policy goes by", numeric=False),
        Column("Played again", "how much of its results was verified so", numeric=False),
        Column("Results", "digest of the folder they stand in", numeric=False),
    )
    scale = scale_of([row.iqm for row in rows], [(row.high - row.low) / 2 for row in rows])
    groups = _groups(rows, scale, notes)
    tasks = len(found.protocol.groups[group])
    title = f"{group or 'All tasks'} ({tasks} task{'s' if tasks > 1 else ''})"
    unit = unit_text(((row.unit, row.count) for row in rows), " per task")
    return Table(title, columns, groups, notes.all(), unit, kind="Policies")


def _groups(rows: Sequence[Row], scale: Scale, notes: Footnotes) -> tuple[Group, ...]:
    """Rows of one unit of inference together, since only these are ranked against each other."""
    members = {unit: [row for row in rows if row.unit == unit] for unit in _UNITS}
    mixed = all(members.values())
    return tuple(
        Group(
            _UNITS[unit] if mixed else "",
            "ranked among themselves" if mixed else "",
            tuple(_entries(row, scale, notes) for row in found),
        )
        for unit, found in members.items()
        if found
    )


def _entries(row: Row, scale: Scale, notes: Footnotes) -> tuple[Entry, ...]:
    digests = ", ".join(each[:_SHORT] for each in row.results)
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
    """The interval of a rank; never a rank alone."""
    if math.isnan(row.first):
        return Entry(MISSING)
    return Entry(f"{row.first:g} to {row.last:g}", (row.first + row.last) / 2.0)
