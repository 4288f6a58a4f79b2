"""Sample efficiency: how the scores of learned policies rise along their training.

Intervals are for new runs and new selection episodes: all runs of a task play the same ones. A
summary of a whole curve, such as its area, is computed for every run and episode first.
"""

import functools
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from coopbench import statistics
from coopbench.analysis.estimates import FEW, few_runs
from coopbench.analysis.findings import Findings, Part
from coopbench.analysis.learning import RISING, Course, course_of, rise_of
from coopbench.analysis.rows import ReportRow
from coopbench.analysis.score_matrix import EPISODES, score_scales
from coopbench.baselines.registry import entry_of
from coopbench.episodes.table import EpisodeTable
from coopbench.protocol.schema import Protocol
from coopbench.protocol.task import Task
from coopbench.report.numbers import MISSING, Scale, defined, level_text, scale_of
from coopbench.report.plots.drawing import Level, Line, LineChart
from coopbench.report.plots.marks import short
from coopbench.report.plots.policies import looks_of
from coopbench.report.plots.style import Picture, plain
from coopbench.report.section import ReportSection
from coopbench.report.tables.entries import (
    ends_entry,
    groups_of,
    number_entry,
    policy_entry,
    runs_text,
)
from coopbench.report.tables.model import Column, Entry, Footnotes, Table
from coopbench.statistics import Grid, TwoWay
from coopbench.statistics.two_way import FEWEST

THRESHOLD = 0.5  # normalized score of which the steps are counted
NEVER = "not reached"
READING = """
{% if findings.learning %}
Learning curves: Scores of the checkpoints of training runs on the selection episodes, at the true
numbers of steps. Bands are intervals of single points, over runs and episodes, not of the whole
curve; over a group, of the trimmed mean over tasks. Where runs have different checkpoints, only
those that all runs have are shown. Dotted lines are fixed policies in the evaluation episodes:
selection episodes are others, and fewer, so that they can be easier or harder; whether a learner
beats a fixed policy is told by the comparisons.
{% endif %}

{% if findings.efficiency %}
{% set threshold = findings.efficiency[0].threshold %}
Area, steps to {{ threshold }}: Area: the mean height of the curve of a group, which rewards early
learning. Steps: to the first checkpoint at which the curve has reached {{ threshold }}; nothing
is interpolated between checkpoints. Its interval goes from where the upper end of the band
reaches it to where the lower end does. Last quarter: the mean score of the checkpoints in the last
quarter of the training less that in the quarter before, mean over tasks; a curve that rises by
more than {{ rising }} there is called still rising.
{% endif %}
"""


@dataclass(frozen=True, eq=False)
class Curve(ReportRow):
    """Score of one policy at its checkpoints, on one task or over the tasks of a group.

    On a task the estimate is the mean over runs of their mean score (Gorsane et al. 2022), over a
    group the trimmed mean over tasks of the mean normalized score. Bands are the two-way
    intervals of single points, not of the whole curve at once.
    """

    group: str
    task: str  # empty: over all tasks of the group
    policy: str
    steps: np.ndarray  # (points,) int64, steps trained, rising; those that all runs have
    estimate: np.ndarray  # (points,)
    low: np.ndarray
    high: np.ndarray
    runs: int  # per task, at least
    flag: str  # which runs have other steps; empty when all have the same

    def points(self) -> Iterator["CurvePoint"]:
        """Iterate over the points, one for each checkpoint."""
        head, tail = (self.group, self.task, self.policy), (self.runs, self.flag)
        columns = [part.tolist() for part in (self.steps, self.estimate, self.low, self.high)]
        for step, centre, low, high in zip(*columns, strict=True):
            yield CurvePoint(*head, step, centre, low, high, *tail)


@dataclass(frozen=True, eq=False)
class CurvePoint(ReportRow):
    """One checkpoint of a ``Curve``."""

    group: str
    task: str  # empty: over all tasks of the group
    policy: str
    step: int
    estimate: float
    low: float
    high: float
    runs: int
    flag: str


@dataclass(frozen=True, eq=False)
class Efficiency(ReportRow):
    """How early a policy learns, from its curve over the tasks of a group."""

    group: str
    policy: str
    area: float  # under the curve, divided by the steps that it spans: a mean normalized score
    area_low: float  # two-way interval; nan where a curve has one point
    area_high: float
    threshold: float
    steps: float  # to the first checkpoint at or above the threshold; inf if it is not reached
    steps_low: float  # where the upper end of the band reaches it, and where the lower end does;
    steps_high: float  # inf where it is not reached
    first: int  # steps of the first and the last checkpoint
    last: int
    runs: int
    flag: str


def learning_curves(protocol: Protocol, table: EpisodeTable) -> tuple[Curve, ...]:
    """Return the learning curves of all policies with checkpoints.

    First the curves of each task, then those of each group of which a policy has all tasks that are
    trained on; an ad-hoc protocol, which has no agreed bounds, has none of the latter.
    """
    curves = [
        _task_curve(protocol, group, task, policy, course)
        for group, policy, courses in _courses(protocol, table)
        for task, course in courses.items()
    ]
    return (*curves, *(_group_curve(protocol, course) for course in _groups(protocol, table)))


def efficiencies(protocol: Protocol, table: EpisodeTable) -> tuple[Efficiency, ...]:
    """Return how early each policy with checkpoints learns, for every group with a curve."""
    courses = _groups(protocol, table)
    return tuple(_efficiency(protocol, course) for course in courses if len(course.steps))


def _courses(
    protocol: Protocol, table: EpisodeTable
) -> Iterator[tuple[str, str, dict[str, Course]]]:
    """Iterate over groups and policies, with the courses on the tasks that are trained on."""
    names = dict.fromkeys(progress.cell.policy for progress in table.progress)
    for group, members in protocol.groups.items():
        tasks = [task for task in members if task.trained_on is None]
        for policy in names if tasks else ():
            courses = {task.id: course_of(protocol, table, task, policy) for task in tasks}
            yield group, policy, {name: c for name, c in courses.items() if c is not None}


def _task_curve(protocol: Protocol, group: str, task: str, policy: str, course: Course) -> Curve:
    """Return the mean over runs with its interval at every step; nan for fewer than three runs."""
    runs, centre = len(course.scores), course.scores.mean(axis=0)
    half = np.empty(0)
    if len(centre):
        two_way = TwoWay([Grid(part, nested=course.nested) for part in course.grids])
        spread = two_way.spread(np.eye(len(centre)))
        half = statistics.half_widths(spread, protocol.report.confidence)
    ends = centre, centre - half, centre + half
    return Curve(group, task, policy, course.steps, *ends, runs, course.flag)


@dataclass(frozen=True)
class _GroupCourse:
    """Normalized scores of a policy on all tasks of a group at the steps that all tasks have."""

    group: str
    policy: str
    steps: np.ndarray  # (points,)
    tasks: list[np.ndarray]  # (points, runs, episodes) each
    runs: int  # of the task with the fewest
    flag: str
    nested: bool  # as in ``Course``

    def grid(self, values: np.ndarray, part: int = 0) -> Grid:
        """Return a grid of values (runs, episodes) of one task; ``part`` tells grids apart.

        All tasks have the same selection seeds, whose luck they share, as in all other tables.
        """
        if self.nested:
            return Grid(values, nested=True)
        return Grid(values, part, seeds=np.arange(values.shape[1]))


def _groups(protocol: Protocol, table: EpisodeTable) -> Iterator[_GroupCourse]:
    """Iterate over the groups of which a policy has all tasks that are trained on."""
    scales = score_scales(protocol, table)
    wanted = {
        group: [task for task in tasks if task.trained_on is None]
        for group, tasks in protocol.groups.items()
    }
    for group, policy, courses in _courses(protocol, table):
        if len(courses) == len(wanted[group]) and not protocol.ad_hoc:
            steps, flag = _aligned(courses)
            scores = [
                scales[task].normalise(course.grids[np.isin(course.steps, steps)])
                for task, course in courses.items()
            ]
            runs = min(part.shape[1] for part in scores)
            head = group, policy, steps, scores, runs, flag
            yield _GroupCourse(*head, table.own_episodes)


def _aligned(courses: dict[str, Course]) -> tuple[np.ndarray, str]:
    """Return the steps that all tasks of a group have, and what limits them."""
    steps = functools.reduce(np.intersect1d, [course.steps for course in courses.values()])
    flags = [f"{task}: {course.flag}" for task, course in courses.items() if course.flag]
    if any(len(course.steps) > len(steps) for course in courses.values()):
        flags.append(f"over the {len(steps)} steps that all tasks have")
    return steps, "; ".join(flags)


def _band(protocol: Protocol, course: _GroupCourse) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the curve over a group, its half widths and weights (points, tasks)."""
    points, tasks = len(course.steps), len(course.tasks)
    grids = [
        course.grid(course.tasks[task][point], point)
        for point in range(points)
        for task in range(tasks)
    ]
    two_way = TwoWay(grids)
    means = two_way.means.reshape(points, tasks)
    weights = np.array([statistics.trimmed_weights(row) for row in means])
    forms = np.zeros((points, points, tasks))
    forms[np.arange(points), np.arange(points)] = weights
    spread = two_way.spread(forms.reshape(points, -1))
    halves = statistics.half_widths(spread, protocol.report.confidence)
    return np.sum(weights * means, axis=1), halves, weights


def _group_curve(protocol: Protocol, course: _GroupCourse) -> Curve:
    """Return the curve over a group, which has no points where the tasks share no step."""
    head, tail = (course.group, "", course.policy, course.steps), (course.runs, course.flag)
    if not len(course.steps):
        nothing = np.empty(0)
        return Curve(*head, nothing, nothing, nothing, *tail)
    centre, half, _ = _band(protocol, course)
    return Curve(*head, centre, centre - half, centre + half, *tail)


def _efficiency(protocol: Protocol, course: _GroupCourse) -> Efficiency:
    """Return area and steps to the threshold of a curve over a group."""
    centre, half, weights = _band(protocol, course)
    steps, flags = course.steps, [course.flag]
    area = _area(protocol, course, centre, weights) if len(steps) > 1 else (np.nan,) * 3
    if course.runs < FEWEST:
        flags.append(f"no interval: it needs {FEWEST} runs")
    elif course.runs < FEW:
        flags.append(few_runs(f"{course.runs} runs"))
    ends = [centre] + ([centre + half, centre - half] if course.runs >= FEWEST else [])
    reached = [float(statistics.steps_to_threshold(end, steps, THRESHOLD)) for end in ends]
    reached += [np.nan] * (3 - len(reached))
    return Efficiency(
        group=course.group,
        policy=course.policy,
        area=area[0],
        area_low=area[1],
        area_high=area[2],
        threshold=THRESHOLD,
        steps=reached[0],
        steps_low=reached[1],
        steps_high=reached[2],
        first=int(steps[0]),
        last=int(steps[-1]),
        runs=course.runs,
        flag="; ".join(filter(None, flags)),
    )


def _area(
    protocol: Protocol, course: _GroupCourse, centre: np.ndarray, weights: np.ndarray
) -> tuple[float, float, float]:
    """Return the mean height of the curve of a group, and its interval.

    Every run and episode of a task first gets the area under its own curve, each point weighted as
    the curve of the group weights the task there.
    """
    shares = statistics.area_under_curve(np.eye(len(course.steps)), course.steps)  # of each point
    grids = [
        course.grid(np.einsum("p,pre->re", shares * weights[:, task], values))
        for task, values in enumerate(course.tasks)
    ]
    spread = TwoWay(grids).spread(np.ones(len(grids)))
    half = float(statistics.half_widths(spread, protocol.report.confidence)[0])
    value = float(shares @ centre)
    return value, value - half, value + half


def task_chart(findings: Findings, task: str) -> LineChart:
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
    curves = [curve for curve in findings.rows(LEARNING) if curve.task == task]
    return _chart(findings, curves, task, plain(score), levels)


def _fixed(levels: Iterable[Level]) -> tuple[Level, ...]:
    """Return the scores of the best fixed policy and of the best that acts on nothing."""
    known = {level: entry for level in levels if (entry := entry_of(level.label)) is not None}
    fixed = list(known)
    blind = [level for level, entry in known.items() if entry.information == "none"]
    best = [max(some, key=lambda level: level.ends[0]) for some in (fixed, blind) if some]
    return tuple(level._replace(label=plain(level.label)) for level in dict.fromkeys(best))


def efficiency(findings: Findings, group: str) -> LineChart:
    """Draw the normalized score of every policy with checkpoints over the tasks of a group.

    x is the number of steps trained, y the trimmed mean over tasks, with the interval of each
    point. Dotted lines are fixed policies, as in ``task_chart``.
    """
    curves = [curve for curve in findings.rows(LEARNING) if not curve.task and curve.group == group]
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
    levels: tuple[Level, ...],
) -> LineChart:
    """Draw curves with their bands over the steps trained."""
    looks = looks_of(findings)
    lines = tuple(
        Line(plain(c.policy), looks[c.policy], c.steps, c.estimate, c.low, c.high) for c in curves
    )
    return LineChart(lines, title, "steps trained", label, levels, written=short)


def efficiency_table(findings: Findings) -> Table | None:
    """Return area and steps to the threshold of every policy with checkpoints; None if none has."""
    rows, notes = findings.rows(EFFICIENCY), Footnotes()
    if not rows:
        return None
    level = level_text(findings.protocol)
    columns = (
        Column("Policy", "who is trained", numeric=False),
        Column("Area", "mean height of the curve of trimmed means over tasks"),
        Column(f"{level} interval", "of the area, over runs and episodes; sorted by width"),
        Column(f"Steps to {THRESHOLD:g}", "to the first checkpoint that is as good, or better"),
        Column(
            f"{level} interval of steps",
            "where the band of the curve reaches it; sorted by its start",
        ),
        Column("Checkpoints", "steps of the first and the last", numeric=False),
        Column("Last quarter", "rise of the curve in the last quarter of the training"),
        Column("n", "runs per task"),
    )
    scale = scale_of([r.area for r in rows], [(r.area_high - r.area_low) / 2 for r in rows])
    groups = groups_of(rows, "group", lambda row: _efficiency_row(findings, row, scale, notes))
    return Table(
        title=f"Sample efficiency: normalized {findings.protocol.report.score} along the training",
        columns=columns,
        groups=groups,
        footnotes=notes.all(),
        unit=f"{runs_text(rows)}. Steps of the environment, all agents "
        f"together; '{NEVER}' is a result: not within the checkpoints.",
        kind="Group",
    )


def _efficiency_row(
    findings: Findings, row: Efficiency, scale: Scale, notes: Footnotes
) -> tuple[Entry, ...]:
    reached = math.isfinite(row.steps_low)
    return (
        policy_entry(findings, row.policy),
        number_entry(row.area, scale),
        ends_entry(row.area_low, row.area_high, scale, notes.mark(row.flag)),
        Entry(_steps(row.steps), row.steps if math.isfinite(row.steps) else None),
        Entry(_span(row.steps_low, row.steps_high), row.steps_low if reached else None),
        Entry(f"{row.first:,} to {row.last:,}", row.last),
        _rise_entry(findings, row),
        Entry(f"{row.runs:,}", row.runs),
    )


def _rise_entry(findings: Findings, row: Efficiency) -> Entry:
    """Return how much a curve rises in the last quarter of the training; few points say nothing."""
    protocol, table = findings.protocol, findings.episodes
    scales = score_scales(protocol, table)
    rise = rise_of(protocol, table, protocol.groups[row.group], row.policy, scales)
    if math.isnan(rise):
        return Entry(MISSING)
    return Entry(f"{rise:+.2f}{', still rising' if rise > RISING else ''}", rise)


def _span(low: float, high: float) -> str:
    if math.isnan(low):
        return MISSING
    return NEVER if math.isinf(low) else f"{_steps(low)} to {_steps(high)}"


def _steps(value: float) -> str:
    return f"{value:,.0f}" if math.isfinite(value) else NEVER


def pictures(findings: Findings) -> Iterator[Picture]:
    """Iterate over the sample efficiency of every group."""
    score, level = findings.protocol.report.score, level_text(findings.protocol)
    for group in dict.fromkeys(row.group for row in findings.rows(LEARNING) if not row.task):
        caption = (
            f"Sample efficiency: trimmed mean over tasks of the mean normalized {score} "
            f"at every checkpoint, with the {level} interval of each point, over runs and "
            "episodes. Dotted: the evaluation of the best fixed policy, and of the best that "
            "ignores its observations."
        )
        name = f"efficiency-{group}" if group else "efficiency"
        yield Picture(name, caption, partial(efficiency, findings, group))


def task_pictures(findings: Findings, task: Task) -> Iterator[Picture]:
    """Iterate over the learning curves of a task."""
    score, level = findings.protocol.report.score, level_text(findings.protocol)
    if any(curve.task == task.id for curve in findings.rows(LEARNING)):
        caption = (
            f"Learning curves: mean over runs of the mean {score} at every checkpoint, with the "
            f"{level} interval of each point, over runs and episodes. Dotted: the evaluation of "
            "the best fixed policy, and of the best that ignores its observations, with the "
            f"{level} interval; its episodes are not those of the curves."
        )
        draw = partial(task_chart, findings, task.id)
        yield Picture(f"learning-{task.id}", caption, draw)


def by_column(findings: Findings) -> list[dict[str, Any]]:
    """Return learning curves by column, with the true steps of their points."""
    columns = ("steps", "estimate", "low", "high")
    return [
        {name: getattr(curve, name) for name in ("group", "task", "policy", "runs", "flag")}
        | {name: [defined(value) for value in getattr(curve, name).tolist()] for name in columns}
        for curve in findings.rows(LEARNING)
    ]


EFFICIENCY = Part("efficiency", efficiencies)
LEARNING = Part("learning", learning_curves, flat=Curve.points)
SECTION = ReportSection(
    (EFFICIENCY, LEARNING),
    {"overall": efficiency_table},
    pictures=pictures,
    task_pictures=task_pictures,
    reading=READING,
    json={"learning": by_column},
)
