"""Plots over the tasks of a group: statistics, performance profiles, improvement."""

import math
from dataclasses import replace
from typing import Any

from coopbench.analysis.aggregates import Aggregate, all_statistics
from coopbench.analysis.findings import Findings
from coopbench.analysis.rankings import Improvement, ProfilePoint
from coopbench.report.plots.intervals import draw_interval, draw_intervals, height_of, write_values
from coopbench.report.plots.style import (
    BAND,
    INK,
    SMALL,
    draw_line,
    frame,
    legend,
    legend_columns,
    legend_height,
    new_axes,
    plain,
    styles,
    write_title,
)
from coopbench.report.tables.entries import policies
from coopbench_envs.parameters import named

PAIRS = 12  # of policies, in one plot


def aggregate(
    findings: Findings, ax: Any = None, group: str | None = None, statistic: str = "mean"
) -> Any:
    """Draw a statistic of every policy over the tasks of a group; return the axes.

    The group is the protocol's first unless it is named; ``statistic`` is a key of
    ``all_statistics``, such as "mean" or "trimmed_mean". The axis shows normalised scores from 0
    to 1 at least.
    """
    names = tuple(findings.protocol.groups)
    group = names[0] if group is None else group
    named("group", group, findings.protocol.groups)
    by_key = all_statistics()
    named("statistic", statistic, by_key)
    rows = {
        row.policy: (row.estimate, row.low, row.high)
        for row in findings.aggregates
        if (row.group, row.statistic) == (group, statistic)
    }
    ax = ax if ax is not None else new_axes(height_of(len(policies(findings))))
    draw_intervals(ax, findings, rows)
    reach = [value for ends in rows.values() for value in ends if math.isfinite(value)]
    low, high = min([0.0, *reach]), max([1.0, *reach])
    ax.set_xlim(low - 0.03 * (high - low), high + 0.03 * (high - low))
    axis, score = by_key[statistic].axis, plain(findings.protocol.report.score)
    label = f"{axis} normalised {score}"
    ax.set_xlabel(label, fontsize=SMALL)
    if len(names) > 1:
        write_title(ax, group)
    return ax


def profiles(findings: Findings, group: str, ax: Any = None, unit: str | None = None) -> Any:
    """Draw the performance profiles of the policies of one unit in a group; return the axes.

    x is a normalised score, y the share of scores above it with its pointwise band. ``unit`` is
    "episodes" or "runs": shares of episodes cannot be compared with shares of runs. By default it
    is that of the first policy.
    """
    named("group", group, findings.protocol.groups)
    by_policy: dict[str, list[ProfilePoint]] = {}
    for point in findings.profiles:
        unit = unit or (point.unit if point.group == group else None)
        if (point.group, point.unit) == (group, unit):
            by_policy.setdefault(point.policy, []).append(point)
    looks = styles(policies(findings))
    ax = ax if ax is not None else new_axes(legend_height(by_policy))
    frame(ax)
    for k, (policy, rows) in enumerate(by_policy.items()):
        look, at = looks[policy], [row.threshold for row in rows]
        low, high = [row.low for row in rows], [row.high for row in rows]
        ax.fill_between(at, low, high, color=look.colour, alpha=BAND, linewidth=0)
        stride = max(1, len(rows) // 6)
        draw_line(
            ax,
            at,
            [row.estimate for row in rows],
            look,
            policy,
            linewidth=2.4 - 0.8 * k / max(1, len(by_policy) - 1),  # thinner on top of thicker
            markersize=4.5,
            markevery=(k * stride // len(by_policy), stride),
        )
    ax.set_ylim(-0.03, 1.03)
    ax.set_xlabel(f"normalised {plain(findings.protocol.report.score)}", fontsize=SMALL)
    ax.set_ylabel(f"share of {unit or 'scores'} above", fontsize=SMALL)
    write_title(ax, group or "all tasks")
    legend(ax, legend_columns(by_policy))
    return ax


def improvements(findings: Findings, group: str, ax: Any = None) -> Any:
    """Draw the probability of improvement of the pairs of policies in a group; return the axes.

    Of more than twelve pairs only those with the best policy by the mean are drawn.
    """
    named("group", group, findings.protocol.groups)
    rows, looks = drawn_pairs(findings, group), styles(policies(findings))
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
    for row in findings.aggregates:
        if (row.group, row.statistic) == (group, "mean"):
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
