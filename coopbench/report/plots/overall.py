"""Plots over several tasks: statistics, profiles, improvement, charts; heat maps of cross-plays."""

import math
from dataclasses import replace

from coopbench.analysis.aggregates import Aggregate
from coopbench.analysis.findings import Findings
from coopbench.analysis.meetings import Meetings
from coopbench.analysis.rankings import Improvement, ProfilePoint
from coopbench.protocol.report import Chart
from coopbench.protocol.task import Task
from coopbench.report.numbers import scale_of
from coopbench.report.plots.drawing import (
    HeatMap,
    IntervalChart,
    LineChart,
    Row,
)
from coopbench.report.plots.policies import lines_of
from coopbench.report.plots.style import plain, styles
from coopbench.report.tables.entries import style_order
from coopbench_envs.parameters import named

PAIRS = 12  # of policies, in one plot


def profiles(findings: Findings, group: str, unit: str | None = None) -> LineChart:
    """Draw the performance profiles of the policies of one unit in a group.

    x is a normalized score, y the share of scores above it with its pointwise band. ``unit`` is
    "episodes" or "runs": shares of episodes cannot be compared with shares of runs. By default it
    is that of the first policy.
    """
    named("group", group, findings.protocol.groups)
    by_policy: dict[str, list[ProfilePoint]] = {}
    for point in findings.profiles:
        unit = unit or (point.unit if point.group == group else None)
        if (point.group, point.unit) == (group, unit):
            by_policy.setdefault(point.policy, []).append(point)
    return LineChart(
        lines_of(findings, by_policy, "threshold"),
        group or "all tasks",
        f"normalized {plain(findings.protocol.report.score)}",
        f"share of {unit or 'scores'} above",
        shares=True,
    )


def improvements(findings: Findings, group: str) -> IntervalChart:
    """Draw the probability of improvement of the pairs of policies in a group.

    Of more than twelve pairs only those with the best policy by the mean are drawn.
    """
    named("group", group, findings.protocol.groups)
    pairs, looks = drawn_pairs(findings, group), styles(style_order(findings))
    common = len({pair.first for pair in pairs}) == 1 and len(pairs) > 1
    rows = tuple(
        Row(
            plain(pair.second) if common else f"{plain(pair.first)}\nover {plain(pair.second)}",
            looks[pair.second if common else pair.first],
            (pair.estimate, pair.low, pair.high),
            f"{pair.estimate:.2f}",
        )
        for pair in pairs
    )
    who = f"{plain(pairs[0].first)}\n" if common else "the first "
    label = f"chance that {who}scores higher"
    return IntervalChart(rows, group or "all tasks", label, (-0.03, 1.03), even=0.5)


def drawn_pairs(findings: Findings, group: str) -> list[Improvement]:
    """Return the pairs to draw: all, or if they are many those with the best of their unit."""
    rows = [r for r in findings.improvements if r.group == group and math.isfinite(r.estimate)]
    if len(rows) <= PAIRS:
        return rows
    best: dict[str, Aggregate] = {}
    for row in findings.aggregates_of("mean", group):
        leader = best.setdefault(row.unit, row)
        best[row.unit] = row if row.estimate > leader.estimate else leader
    swapped = [r if r.first == best[r.unit].policy else _swapped(r) for r in rows]
    return [row for row in swapped if row.first == best[row.unit].policy]


def _swapped(row: Improvement) -> Improvement:
    """Return the same pair with the two policies exchanged."""
    return replace(
        row,
        first=row.second,
        second=row.first,
        estimate=1.0 - row.estimate,
        low=1.0 - row.high,
        high=1.0 - row.low,
    )


def chart(findings: Findings, name: str) -> LineChart:
    """Draw a chart of the protocol, one line per policy with its band.

    ``name`` is that of the picture, as in ``report.charts``.
    """
    spec, panel = charts_of(findings)[name]
    points = sorted(
        (point for point in findings.charts if point.chart == name), key=lambda point: point.at
    )
    order = dict.fromkeys(point.policy for point in findings.charts if point.chart == name)
    rows = {line: [point for point in points if point.policy == line] for line in order}
    per = f"{spec.per} = {panel[0].axes[spec.per]:g}" if spec.per else ""
    return LineChart(
        lines_of(findings, rows, "at"),
        ", ".join(filter(None, (spec.group, per))) or "all tasks",
        plain(spec.x),
        plain(spec.metric),
        shares=True,
        places=tuple(sorted({task.axes[spec.x] for task in panel})),
        log=spec.scale == "log2",
    )


def charts_of(findings: Findings) -> dict[str, tuple[Chart, tuple[Task, ...]]]:
    """Return the charts of the protocol by the names of their pictures, with their tasks."""
    return {
        name: (spec, panel)
        for spec in findings.protocol.report.chart
        for name, panel in spec.panels(findings.protocol.task).items()
    }


def heat_map(result: Meetings, task: str) -> HeatMap:
    """Draw the means of a cross-play on ``task``, numbers in the cells.

    Rows are policies in one seat, columns those in all others, or on the other side; self-play is
    framed. The colours (cividis) run from the lowest to the highest value.
    """
    values = result.matrix(task)
    scale = scale_of(values.ravel(), ())
    return HeatMap(
        tuple(plain(name) for name in result.policies),
        values,
        tuple(scale(value) for value in values.flat),
        f"{task}: mean {result.places.value}",
        result.places.column,
        result.places.row,
    )
