"""Plots over several tasks: statistics, profiles, improvement, charts; heat maps of cross-plays."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from coopbench.analysis.aggregates import Aggregate, all_statistics
from coopbench.analysis.findings import Findings
from coopbench.analysis.meetings import Meetings
from coopbench.analysis.rankings import Improvement, ProfilePoint
from coopbench.protocol.report import Chart
from coopbench.protocol.task import Task
from coopbench.report.numbers import scale_of
from coopbench.report.plots.intervals import draw_interval, draw_intervals, height_of, write_values
from coopbench.report.plots.style import (
    INK,
    SMALL,
    WIDTH,
    Line,
    draw_lines,
    frame,
    new_axes,
    plain,
    share_limits,
    styles,
    write_title,
)
from coopbench.report.tables.entries import style_order
from coopbench_envs.parameters import named

PAIRS = 12  # of policies, in one plot


def aggregate(
    findings: Findings, ax: Any = None, group: str | None = None, statistic: str = "mean"
) -> Any:
    """Draw a statistic of every policy over the tasks of a group; return the axes.

    The group is the protocol's first unless it is named; ``statistic`` is a key of
    ``all_statistics``, such as "mean" or "trimmed_mean". The axis shows normalized scores from 0
    to 1 at least.
    """
    names = tuple(findings.protocol.groups)
    group = names[0] if group is None else group
    named("group", group, findings.protocol.groups)
    by_key = all_statistics()
    named("statistic", statistic, by_key)
    rows = {
        row.policy: (row.estimate, row.low, row.high)
        for row in findings.aggregates_of(statistic, group)
    }
    ax = ax if ax is not None else new_axes(height_of(len(findings.policies)))
    draw_intervals(ax, findings, rows)
    reach = [value for ends in rows.values() for value in ends if math.isfinite(value)]
    low, high = min([0.0, *reach]), max([1.0, *reach])
    ax.set_xlim(low - 0.03 * (high - low), high + 0.03 * (high - low))
    axis, score = by_key[statistic].axis, plain(findings.protocol.report.score)
    label = f"{axis} normalized {score}"
    ax.set_xlabel(label, fontsize=SMALL)
    if len(names) > 1:
        write_title(ax, group)
    return ax


def profiles(findings: Findings, group: str, ax: Any = None, unit: str | None = None) -> Any:
    """Draw the performance profiles of the policies of one unit in a group; return the axes.

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
    ax = draw_lines(_lines(findings, by_policy, "threshold"), ax)
    ax.set_ylim(-0.03, 1.03)
    ax.set_xlabel(f"normalized {plain(findings.protocol.report.score)}", fontsize=SMALL)
    ax.set_ylabel(f"share of {unit or 'scores'} above", fontsize=SMALL)
    write_title(ax, group or "all tasks")
    return ax


def improvements(findings: Findings, group: str, ax: Any = None) -> Any:
    """Draw the probability of improvement of the pairs of policies in a group; return the axes.

    Of more than twelve pairs only those with the best policy by the mean are drawn.
    """
    named("group", group, findings.protocol.groups)
    rows, looks = drawn_pairs(findings, group), styles(style_order(findings))
    common = len({row.first for row in rows}) == 1 and len(rows) > 1
    ax = ax if ax is not None else new_axes(0.85 + (0.27 if common else 0.4) * max(1, len(rows)))
    frame(ax)
    ax.axvline(0.5, color=INK, linewidth=1, linestyle=(0, (4, 3)))
    for y, row in enumerate(rows):
        look = looks[row.second if common else row.first]
        draw_interval(ax, y, (row.estimate, row.low, row.high), look, "_")
    write_values(ax, [f"{row.estimate:.2f}" for row in rows])
    names = [
        plain(row.second) if common else f"{plain(row.first)}\nover {plain(row.second)}"
        for row in rows
    ]
    ax.set_yticks(range(len(rows)), names, fontsize=SMALL)
    ax.set_ylim(len(rows) - 0.4, -0.6)
    ax.set_xlim(-0.03, 1.03)
    ax.tick_params(axis="y", length=0)
    ax.grid(axis="y", visible=False)
    who = f"{plain(rows[0].first)}\n" if common else "the first "
    ax.set_xlabel(f"chance that {who}scores higher", fontsize=SMALL)
    write_title(ax, group or "all tasks")
    return ax


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


def chart(findings: Findings, name: str, ax: Any = None) -> Any:
    """Draw a chart of the protocol, one line per policy with its band; return the axes.

    ``name`` is that of the picture, as in ``report.charts``.
    """
    spec, panel = charts_of(findings)[name]
    points = sorted(
        (point for point in findings.charts if point.chart == name), key=lambda point: point.at
    )
    order = dict.fromkeys(point.policy for point in findings.charts if point.chart == name)
    rows = {line: [point for point in points if point.policy == line] for line in order}
    ax = draw_lines(_lines(findings, rows, "at"), ax)
    places = sorted({task.axes[spec.x] for task in panel})
    if spec.scale == "log2":
        ax.set_xscale("log", base=2)
    ax.set_xticks(places, [f"{place:g}" for place in places])
    ax.minorticks_off()
    per = f"{spec.per} = {panel[0].axes[spec.per]:g}" if spec.per else ""
    write_title(ax, ", ".join(filter(None, (spec.group, per))) or "all tasks")
    ax.set_xlabel(plain(spec.x), fontsize=SMALL)
    ax.set_ylabel(plain(spec.metric), fontsize=SMALL)
    ax.yaxis.set_major_formatter(lambda value, _: f"{value:,.8g}")
    share_limits(ax)
    return ax


def charts_of(findings: Findings) -> dict[str, tuple[Chart, tuple[Task, ...]]]:
    """Return the charts of the protocol by the names of their pictures, with their tasks."""
    return {
        name: (spec, panel)
        for spec in findings.protocol.report.chart
        for name, panel in spec.panels(findings.protocol.task).items()
    }


def _lines(findings: Findings, by_policy: Mapping[str, Sequence[Any]], x: str) -> list[Line]:
    """Return the points of policies or methods as lines with their bands; ``x`` names a field."""
    looks = styles(style_order(findings))
    # A method that has a model for every task looks like its first model.
    first = {findings.protocol.family(name)[0]: name for name in reversed(findings.policies)}
    return [
        Line(
            policy,
            looks[policy if policy in looks else first[policy]],
            [getattr(row, x) for row in rows],
            [row.estimate for row in rows],
            [row.low for row in rows],
            [row.high for row in rows],
        )
        for policy, rows in by_policy.items()
    ]


def heat_map(result: Meetings, task: str, ax: Any = None) -> Any:
    """Draw the means of a cross-play on ``task``, numbers in the cells; return the axes.

    Rows are policies in one seat, columns those in all others, or on the other side; self-play is
    framed. The colours
    (cividis) run from the lowest to the highest value and look alike to the colour-blind.
    """
    from matplotlib.patches import Rectangle

    names, values = [plain(name) for name in result.policies], result.matrix(task)
    count, longest = len(names), max(len(name) for name in names)
    ax = ax if ax is not None else new_axes(1.2 + 0.36 * count + 0.05 * longest, _map_width(names))
    mesh = ax.pcolormesh(values, cmap="cividis", edgecolors="white", linewidth=1.5)
    scale, look = scale_of(values.ravel(), ()), {"ha": "center", "va": "center", "fontsize": SMALL}
    for (row, column), value in np.ndenumerate(values):
        colour = "white" if mesh.norm(value) < 0.5 else INK
        ax.text(column + 0.5, row + 0.5, scale(value), color=colour, **look)
        if row == column:
            frame = Rectangle((row + 0.05, row + 0.07), 0.9, 0.86, fill=False, color=colour, lw=1.2)
            ax.add_patch(frame)
    ax.set_xticks(np.arange(count) + 0.5, names, rotation=35, ha="right", rotation_mode="anchor")
    ax.set_yticks(np.arange(count) + 0.5, names)
    ax.set_ylim(count, 0)
    ax.tick_params(length=0, labelsize=SMALL, labelcolor=INK)
    ax.spines[:].set_visible(False)
    ax.set_xlabel(result.places.column, fontsize=SMALL)
    ax.set_ylabel(result.places.row, fontsize=SMALL)
    write_title(ax, f"{task}: mean {result.places.value}")
    return ax


def _map_width(names: Sequence[str]) -> float:
    """Return the width in inches: row names, and a cell of seven digits per column."""
    return max(WIDTH, 0.6 + 0.085 * max(len(name) for name in names) + 0.66 * len(names))
