"""Intervals of policies, one row each, with their values to the right of the plot."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from coopbench.analysis.findings import Findings
from coopbench.report.numbers import scale_of
from coopbench.report.plots.drawing import Row, has_interval
from coopbench.report.plots.marks import Ends
from coopbench.report.plots.style import plain, styles
from coopbench.report.tables.entries import style_order


def rows_of(findings: Findings, ends: Mapping[str, Ends]) -> tuple[Row, ...]:
    """Return a row for every policy of a report; it says "missing" where there is no value."""
    values = ends.values()
    scale = scale_of([row[0] for row in values], [(row[2] - row[1]) / 2 for row in values])
    looks, nothing = styles(style_order(findings)), (math.nan,) * 3
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
