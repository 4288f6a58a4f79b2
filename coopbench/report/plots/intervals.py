"""Intervals of policies, one row each, with their values to the right of the plot."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from coopbench.analysis.findings import Findings
from coopbench.report.numbers import Scale, is_point, scale_of
from coopbench.report.plots.style import INK, SMALL, Style, frame, plain, styles
from coopbench.report.tables.entries import style_order

Ends = tuple[float, float, float]  # value, low and high end of its interval


def draw_intervals(ax: Any, findings: Findings, rows: Mapping[str, Ends]) -> None:
    """Draw one row per policy: an open marker without an interval, "missing" without a value."""
    from matplotlib.ticker import MaxNLocator

    names = findings.policies
    looks, scale = styles(style_order(findings)), _value_scale(rows)
    frame(ax)
    for y, name in enumerate(names):
        row = rows.get(name, (math.nan,) * 3)
        if math.isfinite(row[0]):
            draw_interval(ax, y, row, looks[name], plain(name))
    write_values(ax, [scale(rows[name][0]) if name in rows else "missing" for name in names])
    ax.set_yticks(range(len(names)), [plain(name) for name in names], fontsize=SMALL)
    ax.set_ylim(len(names) - 0.4, -0.6)
    ax.tick_params(axis="y", length=0)
    ax.grid(axis="y", visible=False)
    ax.xaxis.set_major_locator(MaxNLocator(5))


def draw_interval(ax: Any, y: int, row: Ends, look: Style, label: str) -> None:
    """Draw a value with its interval; the marker is open where there is no interval."""
    centre, low, high = row
    bounded = has_interval(low, high)
    if bounded:
        # Ends higher than the marker, so that narrow intervals are seen.
        ends = {"marker": "|", "markersize": 11, "markeredgewidth": 1.2}
        ax.plot([low, high], [y, y], color=look.colour, linewidth=2, solid_capstyle="butt", **ends)
    ax.plot(
        [centre],
        [y],
        linestyle="none",
        marker=look.marker,
        markersize=6,
        markeredgewidth=1.5,
        color=look.colour,
        markerfacecolor=look.colour if bounded else "white",
        label=label,
        zorder=3,
    )


def has_interval(low: float, high: float) -> bool:
    """Return whether there is an interval to draw."""
    return math.isfinite(low) and math.isfinite(high) and not is_point(low, high)


def open_markers(rows: Sequence[Any]) -> str:
    """Say what an open marker means, if there is one."""
    if all(has_interval(row.low, row.high) for row in rows):
        return ""
    return " Open markers: no interval, or one without width; the table says why."


def write_values(ax: Any, texts: Sequence[str]) -> None:
    """Write the numbers to the right of the plot, flush right."""
    digit = 0.62 * SMALL  # points
    reach = 6 + digit * max((len(text.replace(",", "")) for text in texts), default=0)
    for y, text in enumerate(texts):
        ax.annotate(
            text,
            (1, y),
            xytext=(reach, 0),
            xycoords=("axes fraction", "data"),
            textcoords="offset points",
            ha="right",
            va="center",
            fontsize=SMALL,
            color=INK,
        )


def _value_scale(rows: Mapping[str, Ends]) -> Scale:
    ends = rows.values()
    return scale_of([row[0] for row in ends], [(row[2] - row[1]) / 2 for row in ends])


def height_of(rows: int) -> float:
    """Return the height in inches of a plot with one row per policy."""
    return 0.85 + 0.27 * rows
