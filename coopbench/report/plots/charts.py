"""Charts of a protocol: a metric against an axis of the tasks."""

import math
from collections.abc import Sequence
from typing import Any

from coopbench.analysis.findings import Findings
from coopbench.analysis.models import ChartPoint
from coopbench.protocol.report import Chart
from coopbench.protocol.task import Task
from coopbench.report.plots.style import (
    SMALL,
    Style,
    draw_line,
    frame,
    legend,
    legend_columns,
    legend_height,
    new_axes,
    plain,
    share_limits,
    styles,
    write_title,
)
from coopbench.report.tables.entries import policies


def chart(findings: Findings, name: str, ax: Any = None) -> Any:
    """Draw a chart of the protocol, one line per policy with its band; return the axes.

    ``name`` is that of the picture, as in ``report.charts``.
    """
    points = [point for point in findings.charts if point.chart == name]
    spec, panel = charts_of(findings)[name]
    names, looks = policies(findings), styles(policies(findings))
    lines = dict.fromkeys(point.policy for point in points)
    ax = ax if ax is not None else new_axes(legend_height(lines))
    frame(ax)
    for k, line in enumerate(lines):
        rows = sorted((p for p in points if p.policy == line), key=lambda point: point.at)
        model = next(p for p in names if findings.protocol.family(p)[0] == line)
        width = 2.4 - 0.8 * k / max(1, len(lines) - 1)  # thinner on top of thicker
        _line(ax, rows, looks[model], width, line)
    _finish_chart(ax, spec, panel, legend_columns(lines))
    return ax


def charts_of(findings: Findings) -> dict[str, tuple[Chart, tuple[Task, ...]]]:
    """Return the charts of the protocol by the names of their pictures, with their tasks."""
    return {
        name: (spec, panel)
        for spec in findings.protocol.report.chart
        for name, panel in spec.panels(findings.protocol.task).items()
    }


def _line(ax: Any, rows: Sequence[ChartPoint], look: Style, width: float, label: str) -> None:
    """Draw the points of one policy, joined, with their band."""
    at = [row.at for row in rows]
    low, high = [row.low for row in rows], [row.high for row in rows]
    ax.fill_between(at, low, high, color=look.colour, alpha=0.18, linewidth=0)
    estimates = [row.estimate for row in rows]
    draw_line(ax, at, estimates, look, label, linewidth=width, markersize=5)


def _finish_chart(ax: Any, spec: Chart, panel: Sequence[Task], columns: int) -> None:
    places = sorted({task.axes[spec.x] for task in panel})
    if spec.scale == "log2":
        ax.set_xscale("log", base=2)
    ax.set_xticks(places, [f"{place:g}" for place in places])
    ax.minorticks_off()
    per = f"{spec.per} = {panel[0].axes[spec.per]:g}" if spec.per else ""
    title = ", ".join(filter(None, (spec.group, per))) or "all tasks"
    write_title(ax, title)
    ax.set_xlabel(plain(spec.x), fontsize=SMALL)
    ax.set_ylabel(plain(spec.metric), fontsize=SMALL)
    ax.yaxis.set_major_formatter(lambda value, _: f"{value:,.8g}")
    values = [value for line in ax.lines for value in line.get_ydata() if math.isfinite(value)]
    share_limits(ax, values)
    legend(ax, columns)
