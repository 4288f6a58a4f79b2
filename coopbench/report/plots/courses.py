"""Plots of one task: scores of the policies, and the course of a metric over an episode."""

from collections.abc import Sequence

import numpy as np

from coopbench.analysis.findings import Findings
from coopbench.report.plots.drawing import IntervalChart, Line, LineChart
from coopbench.report.plots.intervals import rows_of
from coopbench.report.plots.style import plain, styles
from coopbench.report.tables.entries import style_order


def scores(findings: Findings, task: str) -> IntervalChart:
    """Draw mean and interval of the score of every policy on ``task``."""
    score = findings.protocol.report.score
    rows = {row.policy: (row.mean, row.low, row.high) for row in findings.estimates_of(task, score)}
    return IntervalChart(rows_of(findings, rows), task, plain(score))


def curves(findings: Findings, task: str) -> LineChart:
    """Draw the course of the protocol's curve metric over an episode.

    x is the step, y the metric so far, mean over episodes and, of a learned policy, over its runs.
    A curve ends with its last episode.
    """
    metric = findings.protocol.report.curve_of(findings.protocol.task_of(task))
    played = findings.episodes.policies_on(task)
    looks = styles(style_order(findings))
    courses = {
        policy: _mean_course([b.curves.get(metric) for b in findings.episodes.runs(task, policy)])
        for policy in played
    }
    lines = tuple(
        Line(plain(policy), looks[policy], range(1, len(values)), values[1:])
        for policy, values in courses.items()
        if len(values) >= 2
    )
    return LineChart(lines, task, "step", f"{plain(metric)} so far", shares=True)


def _mean_course(courses: Sequence[np.ndarray | None]) -> np.ndarray:
    """Return the mean course over runs; one that has ended counts with its last value."""
    some = [course for course in courses if course is not None and len(course)]
    longest = max(map(len, some), default=0)
    padded = [np.pad(course, (0, longest - len(course)), mode="edge") for course in some]
    return np.mean(padded, axis=0) if padded else np.empty(0)
