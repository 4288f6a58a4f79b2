"""The generated part of docs/leaderboard.md: own results, and the folders that were placed."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import stored_results as stored

from coopbench.episodes.grouping import grouped
from coopbench.report.markdown import rows_table
from studies.leaderboard import PLACED, entries

SHOWN = 5  # rows of this package's results for each protocol; placed entries are all shown
OWN = "this package"


class Entry(NamedTuple):
    """A policy of a protocol."""

    title: str
    scores: Mapping[str, str]  # with their intervals, by group
    first: float  # the score that the order is by
    source: str


def parts(placed: Path = PLACED) -> dict[str, str]:
    """Return the generated part of the page."""
    return {"standings": "\n\n".join(standings(name, placed) for name in stored.names())}


def standings(name: str, placed: Path = PLACED) -> str:
    """Return the table of a protocol under its heading, the best in the first group first."""
    groups, policies = stored.by_policy(name)
    own = [
        Entry(
            stored.titled(name, row),
            {group: stored.score(cell) for group, cell in policies[policy].items()},
            stored.number(row["estimate"]),
            OWN,
        )
        for policy, row in stored.in_order(policies)
        if row["group"] == groups[0]
    ]
    others = [
        entry_of(source, policy, rows, groups)
        for source, all_rows in entries(name, placed).items()
        for policy, rows in grouped((row["policy"], row) for row in all_rows).items()
    ]
    ranked = sorted([*own[:SHOWN], *others], key=lambda entry: -entry.first)
    body = [
        (entry.title, *(entry.scores.get(group, "—") for group in groups), entry.source)
        for entry in ranked
    ]
    table = rows_table(["Policy", *stored.heads(groups), "From"], body)
    return f"## {name}\n\n[All results](results/{name}.md)\n\n{table}"


def entry_of(
    source: str, policy: str, rows: Sequence[dict[str, Any]], groups: Sequence[str]
) -> Entry:
    """Return a policy of placed standings, with the number of its runs."""
    runs = rows[0]["count"] if rows[0]["unit"] == stored.RUNS else 0
    of = f", {runs} run{'' if runs == 1 else 's'}" if runs else ""
    cells = {
        row["group"]: [float("nan") if row[end] is None else row[end] for end in _ENDS]
        for row in rows
    }
    first = next((cells[group][0] for group in groups if group in cells), float("-inf"))
    scores = {group: stored.interval(*ends) for group, ends in cells.items()}
    return Entry(f"`{policy}`{of}", scores, first, f"`{source}`")


_ENDS = ("mean", "low", "high")
