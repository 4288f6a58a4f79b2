"""Leaderboards: the policies of several results folders, ranked, and the document of that."""

import math
from dataclasses import dataclass

from coopbench.analysis.rows import ReportRow
from coopbench.protocol.schema import Protocol
from coopbench.report.blocks import Block, Document, Facts, Items, Section, Text
from coopbench.report.numbers import (
    MISSING,
    Scale,
    interval_text,
    level_text,
    range_text,
    scale_of_rows,
)
from coopbench.report.tables.entries import named_count, unit_text
from coopbench.report.tables.model import Column, Entry, Footnotes, Group, Table

_SHORT = 12  # characters of a digest
_POLICIES = (
    "Scores are normalized and estimated again over all policies on this page. A rank is an "
    "interval: if the intervals of two policies overlap, their order is not certain. Compare "
    "policies only with policies that have the same information."
)
_SOURCES = (
    "Every folder was replayed and compared: registered and trained policies played again, and "
    "the episodes of other policies were replayed from their stored actions. The rest is "
    "verified only by its digests. Incomplete folders are marked as unverified."
)


@dataclass(frozen=True)
class Source:
    """A results folder that takes part."""

    folder: str
    results: str  # digest of its results; empty if it states none
    unverified: str  # why it could not be verified in full; empty if it was
    deviations: tuple[str, ...]  # why its report is not a standard one; empty if it is


@dataclass(frozen=True, eq=False)
class Row(ReportRow):
    """One policy in one group of tasks."""

    group: str  # empty if the protocol has no groups
    policy: str
    mean: float  # over tasks of the mean normalized scores
    low: float  # two-way interval of it
    high: float
    trimmed_mean: float  # over tasks, of the mean normalized scores
    tie: str  # of policies that cannot be told apart, "A" is the best; empty for a single policy
    first: float  # interval of the rank, 1 is the best; nan for a single policy
    last: float
    unit: str  # of inference, "episodes" or "runs"
    count: int  # of them per task, at least
    flag: str
    acts_on: str  # of a policy of this package, see ``Entry.information``; empty for others
    verified: str  # how
    results: tuple[str, ...]  # digests of the folders that hold it, as far as they state one


@dataclass(frozen=True)
class Standings:
    """Policies of several results folders, the best first."""

    protocol: Protocol
    rows: tuple[Row, ...]
    sources: tuple[Source, ...]
    notes: tuple[str, ...]  # who is left out or renamed, and why


def document(standings: Standings) -> Document:
    """Return the tables of all groups, the folders that they come from, and notes."""
    protocol, sources = standings.protocol, tuple(map(_source_text, standings.sources))
    unverified = (
        Text(f"{source.folder} is unverified: {source.unverified}", warning=True)
        for source in standings.sources
        if source.unverified
    )
    blocks: list[Block] = [
        Facts({"Description": protocol.protocol.description, "Digest": protocol.digest}),
        Section("Policies", (*tables(standings), Text(_POLICIES))),
        Section("Sources", (Text(_SOURCES), Items(sources), *unverified)),
    ]
    if standings.notes:
        blocks.append(Section("Notes", (Items(tuple(standings.notes)),)))
    return Document(protocol.name, tuple(blocks), "coopbench leaderboard", scripts=False)


def _source_text(source: Source) -> str:
    digest = f"digest of the results {source.results}" if source.results else ""
    text = f"{source.folder}: {digest or 'no digest of the results'}"
    if source.deviations:
        text += f"; not a standard report: {'; '.join(source.deviations)}"
    return text


def tables(standings: Standings) -> tuple[Table, ...]:
    """Return a table for every group."""
    return tuple(_table(standings, group) for group in standings.protocol.groups)


def _table(standings: Standings, group: str) -> Table:
    protocol, level = standings.protocol, level_text(standings.protocol)
    rows, notes = [row for row in standings.rows if row.group == group], Footnotes()
    columns = (
        Column("Policy", "who was evaluated", numeric=False),
        Column("Rank", "all ranks that the policy may have: it cannot be told apart from others"),
        Column("Mean", f"over tasks of the mean normalized {protocol.report.score}"),
        Column(f"{level} interval", "of the mean, for new runs and new episodes"),
        Column("Trimmed mean", "over tasks, of the mean normalized score"),
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
    return Table(title, columns, groups, unit, notes.all(), "Policies")


def _entries(row: Row, scale: Scale, notes: Footnotes) -> tuple[Entry, ...]:
    digests = ", ".join(digest[:_SHORT] for digest in row.results)
    return (
        Entry(row.policy, row.policy),
        _rank(row),
        Entry(scale(row.mean), row.mean),
        Entry(interval_text(row.low, row.high, scale), row.high, notes.mark(row.flag)),
        Entry(scale(row.trimmed_mean), row.trimmed_mean),
        named_count(row),
        Entry(row.acts_on or MISSING, row.acts_on or None),
        Entry(row.verified, row.verified),
        Entry(digests or MISSING, digests or None),
    )


def _rank(row: Row) -> Entry:
    """Return the interval of a rank; a single number where there is one rank in it."""
    if math.isnan(row.first):
        return Entry(MISSING)
    return Entry(range_text(row.first, row.last), (row.first + row.last) / 2.0)
