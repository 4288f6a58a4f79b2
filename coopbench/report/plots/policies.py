"""What plots of policies share: rows with intervals, lines with bands, and groups of tasks."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from coopbench.analysis.findings import Findings
from coopbench.report.numbers import scale_of
from coopbench.report.plots.drawing import Line, Row, has_interval
from coopbench.report.plots.marks import Ends, Style
from coopbench.report.plots.style import plain, styles
from coopbench.report.tables.entries import own_policies, style_order


def looks_of(findings: Findings) -> dict[str, Style]:
    """Return how every policy of a report looks; those that the reader has added stand out."""
    return styles(style_order(findings), own_policies(findings))


def rows_of(findings: Findings, ends: Mapping[str, Ends]) -> tuple[Row, ...]:
    """Return a row for every policy of a report; it says "missing" where there is no value."""
    values = ends.values()
    scale = scale_of([row[0] for row in values], [(row[2] - row[1]) / 2 for row in values])
    looks, nothing = looks_of(findings), (math.nan,) * 3
    return tuple(
        Row(
            plain(name),
            looks[name],
            ends.get(name, nothing),
            scale(ends[name][0]) if name in ends else "missing",
        )
        for name in findings.policies
    )


def open_markers(rows: Sequence[Any]) -> str:
    """Say what an open marker means, if there is one."""
    if all(has_interval((math.nan, row.low, row.high)) for row in rows):
        return ""
    return " Open markers: no interval, or one without width; the table says why."


def lines_of(
    findings: Findings, by_policy: Mapping[str, Sequence[Any]], x: str
) -> tuple[Line, ...]:
    """Return the points of policies or methods as lines with their bands; ``x`` names a field."""
    looks = looks_of(findings)
    # A method that has a model for every task looks like its first model.
    first = {findings.protocol.family(name)[0]: name for name in reversed(findings.policies)}
    return tuple(
        Line(
            plain(policy),
            looks[policy if policy in looks else first[policy]],
            *([getattr(row, name) for row in rows] for name in (x, "estimate", "low", "high")),
        )
        for policy, rows in by_policy.items()
    )


def finished_groups(findings: Findings) -> dict[str, tuple[str, str]]:
    """Return the groups with aggregates, each with the end of its files and a phrase."""
    several = len(findings.protocol.groups) > 1
    return {
        group: (f"-{group}", f" of {group}") if several else ("", "")
        for group in findings.protocol.groups
        if any(row.group == group for row in findings.aggregates)
    }
