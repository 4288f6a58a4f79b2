"""What training runs came to along their way: tables and plots of checkpoints."""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from coopbench.analysis.estimates import Estimate
from coopbench.analysis.findings import Findings
from coopbench.analysis.learning import LATE_STEPS, LEAD, THRESHOLD, Curve, Efficiency, LateScore
from coopbench.report.numbers import MISSING, Scale, interval_text, scale_of
from coopbench.report.plots.overall import (
    SMALL,
    WIDTH,
    Picture,
    frame,
    legend,
    legend_columns,
    new_axes,
    picture,
    plain,
    styles,
)
from coopbench.report.tables.overall import Column, Entry, Footnotes, Group, Table, policies

__all__ = [
    "efficiency",
    "efficiency_table",
    "late_table",
    "learning",
    "pictures",
    "reading",
    "tables",
]

NEVER = "not reached"


def tables(findings: Findings) -> list[Table]:
    """Return the tables over all tasks that there are: sample efficiency, late scores."""
    found = (efficiency_table(findings), late_table(findings))
    return [table for table in found if table is not None]


def reading(findings: Findings) -> dict[str, str]:
    """Return how to read learning curves, as {term: some sentences}; nothing where none are."""
    if not findings.learning:
        return {}
    return {
        "Learning curves": "Scores of the checkpoints of training runs on the episodes that choose "
        "among them, at the true numbers of steps. Bands are intervals of single points, not of "
        "the whole curve; over a group, runs are resampled whole, with all their checkpoints. "
        "Where runs have different checkpoints, only those that all have are shown.",
        f"Area, steps to {THRESHOLD:g}": "Area: the mean height of the curve of a group, so that "
        "those who learn early gain. Steps: to the first checkpoint at which the curve has reached "
        f"{THRESHOLD:g}; nothing is read off between checkpoints.",
    }


def efficiency_table(findings: Findings) -> Table | None:
    """Return area and steps to the threshold of every policy with checkpoints; None if none has."""
    rows, notes = findings.efficiency, Footnotes()
    if not rows:
        return None
    level, names = _level(findings), dict.fromkeys(row.group for row in rows)
    columns = (
        Column("Policy", "who is trained", numeric=False),
        Column("Area", "mean height of the curve of interquartile means over its steps"),
        Column(f"{level} interval", "of the area, bootstrap over whole runs; sorted by width"),
        Column(f"Steps to {THRESHOLD:g}", "to the first checkpoint that is as good, or better"),
        Column(f"{level} interval of steps", "percentile, over whole runs; sorted by its start"),
        Column("Checkpoints", "steps of the first and the last", numeric=False),
        Column("n", "runs per task"),
    )
    scale = scale_of([r.area for r in rows], [(r.area_high - r.area_low) / 2 for r in rows])
    groups = tuple(
        Group(name, "", tuple(_efficiency_row(r, scale, notes) for r in rows if r.group == name))
        for name in names
    )
    return Table(
        title=f"Sample efficiency: normalised {findings.protocol.report.score} along the training",
        columns=columns,
        groups=groups,
        footnotes=notes.all(),
        unit=f"{_unit(rows)}; a run is resampled whole. Steps of the environment, all agents "
        f"together; '{NEVER}' is a result: not within the checkpoints.",
        kind="Group",
    )


def _efficiency_row(row: Efficiency, scale: Scale, notes: Footnotes) -> tuple[Entry, ...]:
    width, reached = row.area_high - row.area_low, math.isfinite(row.steps_low)
    area = interval_text(row.area_low, row.area_high, scale)
    return (
        Entry(row.policy, row.policy),
        Entry(scale(row.area), row.area if math.isfinite(row.area) else None),
        Entry(area, width if math.isfinite(width) else None, notes.mark(row.flag)),
        Entry(_steps(row.steps), row.steps if math.isfinite(row.steps) else None),
        Entry(_span(row.steps_low, row.steps_high), row.steps_low if reached else None),
        Entry(f"{row.first:,} to {row.last:,}", row.last),
        Entry(f"{row.runs:,}", row.runs),
    )


def _span(low: float, high: float) -> str:
    return NEVER if math.isinf(low) else f"{_steps(low)} to {_steps(high)}"


def _steps(value: float) -> str:
    return f"{value:,.0f}" if math.isfinite(value) else NEVER


def late_table(findings: Findings) -> Table | None:
    """Return the late medians of every policy and task, and who leads; None if not asked for."""
    rows, notes, score = findings.late, Footnotes(), findings.protocol.report.score
    if not rows:
        return None
    names = tuple(dict.fromkeys(row.policy for row in rows))
    found = {(row.task, row.policy): row for row in rows}
    body = tuple(
        (Entry(task, task), *_late_row([found.get((task, name)) for name in names], notes))
        for task in dict.fromkeys(row.task for row in rows)
    )
    led = [sum(row.leads for row in rows if row.policy == name) for name in names]
    counts = (Entry("tasks led", "tasks led"), *(Entry(str(count), count) for count in led))
    return Table(
        title=f"Late {score}: median and quartiles over runs",
        columns=(
            Column("Task", "what is played", numeric=False),
            *(Column(name, "median (quartiles); bold: leads") for name in names),
        ),
        groups=(Group("", "", body), Group("all tasks", "", (counts,))),
        footnotes=notes.all(),
        unit=f"{_unit(rows)}; quartiles describe these runs and bound nothing. The highest median "
        f"over runs of their mean {score} among the checkpoints of the last {LATE_STEPS:,} steps, "
        f"and the quartiles there. A policy leads where its median is the highest by at least 1/"
        f"{1 / LEAD:g} of the normalised score (Samvelyan et al. 2019, with shares of wins).",
        kind="Over",
    )


def _late_row(rows: Sequence[LateScore | None], notes: Footnotes) -> list[Entry]:
    there = [row for row in rows if row is not None]
    scale = scale_of([row.median for row in there], [(row.high - row.low) / 2 for row in there])
    return [
        Entry(MISSING)
        if row is None
        else Entry(
            f"{scale(row.median)} ({scale(row.low)} to {scale(row.high)})",
            row.median,
            notes.mark(row.flag),
            row.leads,
        )
        for row in rows
    ]


def _level(findings: Findings) -> str:
    return f"{100 * findings.protocol.report.confidence:g} %"


def _unit(rows: Sequence[Efficiency | LateScore]) -> str:
    counts = sorted({row.runs for row in rows})
    number = f"{counts[0]:,}" if len(counts) == 1 else f"{counts[0]:,} to {counts[-1]:,}"
    return f"Unit of inference: training runs, n = {number} per task"


# --- plots ---------------------------------------------------------------------------------------


def learning(findings: Findings, task: str, ax: Any = None) -> Any:
    """Draw the score of every policy with checkpoints on a task along its training.

    x is the number of steps trained, y the mean over runs, with the interval of each point. Dotted
    lines are the evaluation of two fixed policies, with its interval: the best of all, and the best
    that looks at nothing. They played other episodes than the checkpoints. Returns the axes.
    """
    found = [curve for curve in findings.learning if curve.task == task]
    ax = _draw(findings, found, ax)
    for ruler in _rulers(findings, task):
        if math.isfinite(ruler.high - ruler.low):
            ax.axhspan(ruler.low, ruler.high, color="0.35", alpha=0.12, linewidth=0, zorder=0)
        ax.axhline(ruler.mean, color="0.35", linestyle=":", linewidth=1.0, zorder=1)
        place = ax.get_yaxis_transform()
        look = {"va": "bottom", "fontsize": SMALL - 2}
        ax.text(0.01, ruler.mean, plain(ruler.policy), transform=place, **look)
    ax.set_ylabel(plain(findings.protocol.report.score), fontsize=SMALL)
    ax.set_title(task, loc="left", fontsize=SMALL)
    return ax


def _rulers(findings: Findings, task: str) -> list[Estimate]:
    """Scores of the best fixed policy on a task, and of the best that acts on nothing."""
    from coopbench.baselines.registry import entries

    known = {name: entry.information for name, entry in entries().items()}
    fixed = [
        each
        for each in findings.estimates
        if (each.task, each.metric) == (task, findings.protocol.report.score)
        and each.policy.partition(":")[0] in known
        and each.unit == "episodes"
    ]
    blind = [each for each in fixed if known[each.policy.partition(":")[0]] == "none"]
    best = [max(some, key=lambda each: each.mean) for some in (fixed, blind) if some]
    return list({each.policy: each for each in best}.values())


def efficiency(findings: Findings, group: str | None = None, ax: Any = None) -> Any:
    """Draw the normalised score of every policy with checkpoints over the tasks of a group.

    The group is the protocol's first unless it is named. x is the number of steps trained, y the
    interquartile mean over runs and tasks, with the interval of each point. Returns the axes.
    """
    group = next(iter(findings.protocol.groups)) if group is None else group
    found = [curve for curve in findings.learning if not curve.task and curve.group == group]
    ax = _draw(findings, found, ax)
    ax.set_ylabel(f"IQM of normalised {plain(findings.protocol.report.score)}", fontsize=SMALL)
    ax.set_title(group or "all tasks", loc="left", fontsize=SMALL)
    return ax


def _draw(findings: Findings, found: Sequence[Curve], ax: Any) -> Any:
    from matplotlib.ticker import MaxNLocator

    looks = styles(policies(findings))
    names = [curve.policy for curve in found]
    lines = math.ceil(len(names) / legend_columns(names))
    ax = ax if ax is not None else new_axes(2.6 + 0.17 * lines, WIDTH)
    frame(ax)
    for k, curve in enumerate(found):
        look, count = looks[curve.policy], len(curve.steps)
        stride = max(1, count // 8)  # lines that lie on each other have markers in other places
        ax.fill_between(
            curve.steps, curve.low, curve.high, color=look.colour, alpha=0.18, linewidth=0
        )
        ax.plot(
            curve.steps,
            curve.estimate,
            color=look.colour,
            linestyle=look.line,
            linewidth=2.2 - 0.8 * k / max(1, len(found) - 1),
            marker=look.marker,
            markersize=4.5,
            markevery=(k * stride // max(1, len(found)), stride),
            label=plain(curve.policy),
        )
    ax.xaxis.set_major_locator(MaxNLocator(5))
    ax.xaxis.set_major_formatter(lambda value, _: _short(value))
    ax.set_xlabel("steps trained", fontsize=SMALL)
    legend(ax, legend_columns(names))
    return ax


def _short(steps: float) -> str:
    """Steps in thousands or millions."""
    for size, letter in ((1e6, "M"), (1e3, "k")):
        if abs(steps) >= size:
            return f"{steps / size:g} {letter}"
    return f"{steps:g}"


def pictures(findings: Findings) -> list[Picture]:
    """Draw the sample efficiency over every group, then the learning curves of every task."""
    level, score, found = _level(findings), findings.protocol.report.score, []
    for group in dict.fromkeys(row.group for row in findings.learning if not row.task):
        caption = (
            f"Sample efficiency: interquartile mean of the normalised {score} over runs and tasks "
            f"at every checkpoint, with the {level} interval of each point over whole runs."
        )
        name = f"efficiency-{group}" if group else "efficiency"
        drawn = picture(name, None, caption, efficiency(findings, group))
        found.append(replace(drawn, kind="chart"))
    for task in dict.fromkeys(curve.task for curve in findings.learning if curve.task):
        caption = (
            f"Learning curves: mean over runs of the mean {score} at every checkpoint, with the "
            f"{level} t interval of each point over runs. Dotted: the evaluation of the best "
            f"fixed policy, and of the best that looks at nothing, with the {level} interval; its "
            f"episodes are not those of the curves."
        )
        found.append(picture(f"learning-{task}", task, caption, learning(findings, task)))
    return found
