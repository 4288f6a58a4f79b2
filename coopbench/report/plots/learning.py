"""Plots of training: learning curves of tasks, and sample efficiency over groups."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from coopbench.analysis.findings import Findings
from coopbench.analysis.learning import Curve
from coopbench.analysis.reproduction import MedianPoint
from coopbench.analysis.score_matrix import EPISODES
from coopbench.baselines.registry import entries, parse_name
from coopbench.report.plots.style import SMALL, Line, draw_lines, plain, styles, write_title
from coopbench.report.tables.entries import style_order

Level = tuple[str, float, float, float]  # a policy, its mean, and the ends of its interval


def learning_curves(findings: Findings, task: str, ax: Any = None) -> Any:
    """Draw the score of every policy with checkpoints on a task along its training.

    x is the number of steps trained, y the mean over runs, with the interval of each point. Dotted
    lines are the evaluation of two fixed policies, with its interval: the best of all, and the best
    that ignores its observations. They played other episodes than the checkpoints did. Returns the
    axes.
    """
    ax = _draw(findings, [curve for curve in findings.learning if curve.task == task], ax)
    score = findings.protocol.report.score
    _draw_fixed(
        ax,
        [
            (row.policy, row.mean, row.low, row.high)
            for row in findings.estimates_of(task, score)
            if row.unit == EPISODES
        ],
    )
    ax.set_ylabel(plain(findings.protocol.report.score), fontsize=SMALL)
    write_title(ax, task)
    return ax


def _draw_fixed(ax: Any, rows: Sequence[Level]) -> None:
    """Draw the scores of the best fixed policy and of the best that acts on nothing."""
    information = {name: entry.information for name, entry in entries().items()}
    fixed = [row for row in rows if parse_name(row[0]).kind in information]
    blind = [row for row in fixed if information[parse_name(row[0]).kind] == "none"]
    best = dict.fromkeys(max(some, key=lambda row: row[1]) for some in (fixed, blind) if some)
    for place, (policy, mean, low, high) in enumerate(best):
        if math.isfinite(high - low):
            ax.axhspan(low, high, color="0.35", alpha=0.12, linewidth=0, zorder=0)
        ax.axhline(mean, color="0.35", linestyle=":", linewidth=1.0, zorder=1)
        _name_line(ax, plain(policy), mean, below=place > 0)


def _name_line(ax: Any, name: str, y: float, *, below: bool) -> None:
    """Write a name above or below a horizontal line, over the curves, within the axes."""
    bottom, top = ax.get_ylim()
    height = 0.11 * (top - bottom)
    if below:
        ax.set_ylim(bottom=min(bottom, y - height))
    else:
        ax.set_ylim(top=max(top, y + height))
    ax.text(
        0.01,
        y,
        name,
        transform=ax.get_yaxis_transform(),
        va="top" if below else "bottom",
        fontsize=SMALL,
        bbox={"facecolor": "white", "alpha": 0.75, "linewidth": 0, "pad": 0.5},
        zorder=4,
    )


def efficiency(findings: Findings, group: str | None = None, ax: Any = None) -> Any:
    """Draw the normalized score of every policy with checkpoints over the tasks of a group.

    The group is the protocol's first unless it is named. x is the number of steps trained, y the
    trimmed mean over tasks, with the interval of each point. Dotted lines are fixed policies, as in
    ``learning_curves``. Returns the axes.
    """
    group = next(iter(findings.protocol.groups)) if group is None else group
    curves = [curve for curve in findings.learning if not curve.task and curve.group == group]
    ax = _draw(findings, curves, ax)
    _draw_fixed(
        ax,
        [
            (row.policy, row.estimate, row.low, row.high)
            for row in findings.aggregates_of("trimmed_mean", group)
            if row.unit == EPISODES
        ],
    )
    score = plain(findings.protocol.report.score)
    ax.set_ylabel(f"trimmed mean of\nnormalized {score}", fontsize=SMALL)
    write_title(ax, group or "all tasks")
    return ax


def medians(findings: Findings, ax: Any = None) -> Any:
    """Draw the mean over all tasks of the median over runs, along the training, with quartiles.

    x is the number of steps trained, y the mean of the tasks' medians of normalized scores; bands
    go from the mean of the lower quartiles to that of the upper ones. Returns the axes.
    """
    rows = _over_all(findings)
    columns = ("median", "low", "high")
    curves = [_curve(policy, points, columns) for policy, points in rows.items()]
    ax = _draw(findings, curves, ax)
    ax.set_ylabel(f"median normalized {plain(findings.protocol.report.score)}", fontsize=SMALL)
    write_title(ax, "all tasks")
    return ax


def tasks_led(findings: Findings, ax: Any = None) -> Any:
    """Draw on how many tasks the median of every policy leads, along the training.

    x is the number of steps trained. Returns the axes.
    """
    rows = _over_all(findings)
    columns = ("leads", "leads", "leads")
    curves = [_curve(policy, points, columns) for policy, points in rows.items()]
    ax = _draw(findings, curves, ax)
    ax.set_ylabel(f"tasks led, of {len(findings.protocol.trained_tasks)}", fontsize=SMALL)
    write_title(ax, "all tasks")
    return ax


def _over_all(findings: Findings) -> dict[str, list[MedianPoint]]:
    """Return the medians over all tasks by policy."""
    groups = list(findings.protocol.groups)
    span = groups[0] if len(groups) == 1 else ""
    rows: dict[str, list[MedianPoint]] = {}
    for row in findings.medians:
        if not row.task and row.group == span:
            rows.setdefault(row.policy, []).append(row)
    return rows


def _curve(policy: str, points: Sequence[MedianPoint], columns: tuple[str, str, str]) -> Curve:
    """Return columns of the points of one policy as a line with its band."""
    line, low, high = (np.array([getattr(p, name) for p in points], float) for name in columns)
    steps = np.array([point.step for point in points])
    return Curve("", "", policy, steps, line, low, high, points[0].runs, points[0].flag)


def _draw(findings: Findings, curves: Sequence[Curve], ax: Any) -> Any:
    """Draw curves with their bands; return the axes."""
    from matplotlib.ticker import MaxNLocator

    looks = styles(style_order(findings))
    lines = [Line(c.policy, looks[c.policy], c.steps, c.estimate, c.low, c.high) for c in curves]
    ax = draw_lines(lines, ax)
    ax.xaxis.set_major_locator(MaxNLocator(5))
    ax.xaxis.set_major_formatter(lambda value, _: _short(value))
    ax.set_xlabel("steps trained", fontsize=SMALL)
    return ax


def _short(steps: float) -> str:
    """Write steps in thousands or millions."""
    for size, letter in ((1e6, "M"), (1e3, "k")):
        if abs(steps) >= size:
            return f"{steps / size:g} {letter}"
    return f"{steps:g}"
