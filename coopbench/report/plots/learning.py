"""Plots of training: learning curves of tasks, and sample efficiency over groups."""

from collections.abc import Iterable, Sequence

from coopbench.analysis.findings import Findings
from coopbench.analysis.learning import Curve
from coopbench.analysis.score_matrix import EPISODES
from coopbench.baselines.registry import entry_of
from coopbench.report.plots.drawing import Level, Line, LineChart
from coopbench.report.plots.style import plain, styles
from coopbench.report.tables.entries import style_order


def learning_curves(findings: Findings, task: str) -> LineChart:
    """Draw the score of every policy with checkpoints on a task along its training.

    x is the number of steps trained, y the mean over runs, with the interval of each point. Dotted
    lines are the evaluation of two fixed policies, with its interval: the best of all, and the best
    that ignores its observations. They played other episodes than the checkpoints did.
    """
    score = findings.protocol.report.score
    levels = _fixed(
        Level(row.policy, (row.mean, row.low, row.high))
        for row in findings.estimates_of(task, score)
        if row.unit == EPISODES
    )
    curves = [curve for curve in findings.learning if curve.task == task]
    return _chart(findings, curves, task, plain(score), levels)


def _fixed(levels: Iterable[Level]) -> tuple[Level, ...]:
    """Return the scores of the best fixed policy and of the best that acts on nothing."""
    known = {level: entry for level in levels if (entry := entry_of(level.label)) is not None}
    fixed = list(known)
    blind = [level for level, entry in known.items() if entry.information == "none"]
    best = [max(some, key=lambda level: level.ends[0]) for some in (fixed, blind) if some]
    return tuple(level._replace(label=plain(level.label)) for level in dict.fromkeys(best))


def efficiency(findings: Findings, group: str | None = None) -> LineChart:
    """Draw the normalized score of every policy with checkpoints over the tasks of a group.

    The group is the protocol's first unless it is named. x is the number of steps trained, y the
    trimmed mean over tasks, with the interval of each point. Dotted lines are fixed policies, as in
    ``learning_curves``.
    """
    group = next(iter(findings.protocol.groups)) if group is None else group
    curves = [curve for curve in findings.learning if not curve.task and curve.group == group]
    levels = _fixed(
        Level(row.policy, (row.estimate, row.low, row.high))
        for row in findings.aggregates_of("trimmed_mean", group)
        if row.unit == EPISODES
    )
    label = f"trimmed mean of\nnormalized {plain(findings.protocol.report.score)}"
    return _chart(findings, curves, group or "all tasks", label, levels)


def _chart(
    findings: Findings,
    curves: Sequence[Curve],
    title: str,
    label: str,
    levels: tuple[Level, ...] = (),
) -> LineChart:
    """Draw curves with their bands over the steps trained."""
    looks = styles(style_order(findings))
    lines = tuple(
        Line(plain(c.policy), looks[c.policy], c.steps, c.estimate, c.low, c.high) for c in curves
    )
    return LineChart(lines, title, "steps trained", label, levels, written=short)


def short(steps: float) -> str:
    """Write steps in thousands or millions."""
    for size, letter in ((1e6, "M"), (1e3, "k")):
        if abs(steps) >= size:
            return f"{steps / size:g} {letter}"
    return f"{steps:g}"
