"""Tables that reports have where a protocol reproduces a publication; see ``Reproduction``.

Returns as published (CAMAR), interquartile means of every metric, medians over runs along the
training (Samvelyan et al. 2019), Cohen's d and the sensitivity to the parameters of a game. Medians
and quartiles describe the runs that were made; they are no intervals for new ones.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from coopbench import statistics
from coopbench.analysis.aggregates import RESAMPLES
from coopbench.analysis.comparisons import standardised
from coopbench.analysis.contrasts import family_pairs
from coopbench.analysis.estimates import run_flags, trimmed_over_tasks
from coopbench.analysis.learning import Course, course_of
from coopbench.analysis.rows import ReportRow
from coopbench.analysis.score_matrix import (
    ScoreMatrix,
    defined_matrices,
    score_matrix,
    score_scales,
    units_of,
)
from coopbench.episodes.table import EpisodeTable
from coopbench.protocol.schema import Protocol
from coopbench.protocol.task import Task
from coopbench.statistics.scores import mean_of_defined

FINAL_STEPS = 250_000  # at the end of training, of which the final medians are
LEAD = 1 / 32  # normalized score; one of 32 episodes, the least by which shares of wins can differ
_EQUAL = "all returns of the report are equal: there is nothing to normalize by"
_ONE_RUN = "one run: nothing is known of its spread between runs"


# -- returns as published -------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class PublishedReturn(ReportRow):
    """Mean return of one run on one task, normalized over all policies, runs and tasks."""

    task: str
    policy: str
    run: int | None  # training seed; None of a fixed policy
    mean: float
    normalised: float  # 0 is the lowest mean of the report, 1 the highest; nan if they are equal


@dataclass(frozen=True, eq=False)
class PublishedAggregate(ReportRow):
    """Statistics of the normalized returns of one policy over the tasks of a group."""

    group: str  # empty if the protocol has no groups: then over all tasks
    policy: str
    iqm: float  # interquartile mean of the matrix of runs and tasks
    iqm_low: float  # stratified bootstrap over runs; nan of a single run
    iqm_high: float
    optimality_gap: float  # mean shortfall from 1; less is better
    gap_low: float
    gap_high: float
    tasks: int
    runs: int  # of the task with fewest; 1 of a fixed policy
    flag: str


def published_returns(protocol: Protocol, table: EpisodeTable) -> tuple[PublishedReturn, ...]:
    """Normalize the mean returns as published: by the lowest and highest run of all tasks at once.

    Only where the protocol asks for it, because every value changes when a policy is added.
    """
    if not protocol.report.reproduces.published_return or not len(table):
        return ()
    blocks = [block for task, policy in table.pairs for block in table.runs(task, policy)]
    means = np.array([block.team_returns.mean() for block in blocks])
    low, width = means.min(), np.ptp(means)
    shares = (means - low) / width if width > 0 else np.full(len(means), np.nan)
    return tuple(
        PublishedReturn(b.cell.task, b.cell.policy, b.cell.run, float(mean), float(share))
        for b, mean, share in zip(blocks, means, shares, strict=True)
    )


def published_aggregates(
    protocol: Protocol, table: EpisodeTable, published: Sequence[PublishedReturn]
) -> tuple[PublishedAggregate, ...]:
    """Aggregate the normalized returns of every policy over the tasks of a group that it played.

    ``published`` are these returns, by run. Interquartile mean and optimality gap are over the
    matrix of runs and tasks, their intervals from the stratified bootstrap over runs (Agarwal et
    al. 2021), the method "percentile".
    """
    rows: dict[tuple[str, str], list[float]] = {}
    for row in published:
        rows.setdefault((row.policy, row.task), []).append(row.normalised)
    policies = dict.fromkeys(policy for policy, _ in rows)
    return tuple(
        _published_aggregate(protocol, group, policy, columns)
        for group, tasks in protocol.groups.items()
        for policy in policies
        if (columns := _columns(rows, policy, tasks))
    )


def _columns(
    rows: dict[tuple[str, str], list[float]], policy: str, tasks: tuple[Task, ...]
) -> list[np.ndarray]:
    """Return the normalized returns of the runs on every task that a policy has played."""
    return [np.array(rows[policy, t.id]) for t in tasks if (policy, t.id) in rows]


def _published_aggregate(
    protocol: Protocol, group: str, policy: str, columns: list[np.ndarray]
) -> PublishedAggregate:
    """Return the statistics of the runs on some tasks, one array for each."""
    runs, nan = min(len(column) for column in columns), math.nan
    size = len(columns), runs
    if not all(np.isfinite(column).all() for column in columns):
        return PublishedAggregate(group, policy, nan, nan, nan, nan, nan, nan, *size, _EQUAL)
    if max(len(column) for column in columns) == 1:
        iqm, gap = statistics.iqm(columns), statistics.optimality_gap(columns)
        return PublishedAggregate(group, policy, iqm, nan, nan, gap, nan, nan, *size, _ONE_RUN)
    middle, gap_of = statistics.bootstrap_intervals(
        columns,
        (statistics.iqm, statistics.optimality_gap),
        reps=max(RESAMPLES, protocol.report.resamples),
        confidence=protocol.report.confidence,
    )
    return PublishedAggregate(
        group,
        policy,
        *(float(middle.estimate), float(middle.low), float(middle.high)),
        *(float(gap_of.estimate), float(gap_of.low), float(gap_of.high)),
        *size,
        "; ".join(middle.warnings),
    )


# -- interquartile means --------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class InterquartileMean(ReportRow):
    """Interquartile mean of a metric of one policy, in units of the metric."""

    group: str
    task: str  # empty: over all tasks of the group
    policy: str
    metric: str
    estimate: float  # over the means of runs and tasks; of one run on one task its mean
    low: float  # two-way interval, over runs and episodes; nan where it is undefined
    high: float
    tasks: int
    count: int  # units of the task with fewest
    unit: str  # "episodes" of a fixed policy, "runs" of a learner
    flag: str


def interquartile_means(protocol: Protocol, table: EpisodeTable) -> tuple[InterquartileMean, ...]:
    """Estimate the interquartile mean of every metric for each task and group.

    Only where the protocol asks for it. A policy is in a group if it has played all of its tasks
    and the metric is defined on each.
    """
    if not protocol.report.reproduces.interquartile:
        return ()
    rows = []
    for group, tasks in protocol.groups.items():
        places = [(task.id, (task,)) for task in tasks]
        for name, members in [*places, ("", tasks)]:
            for policy in table.policies:
                for metric in _shared_metrics(protocol, members):
                    matrices = defined_matrices(protocol, table, members, policy, metric)
                    if len(matrices) == len(members):
                        rows.append(
                            _interquartile_mean(protocol, (group, name, policy, metric), matrices)
                        )
    return tuple(rows)


def _shared_metrics(protocol: Protocol, tasks: Sequence[Task]) -> list[str]:
    """Return the metrics that are reported of all of some tasks."""
    others = [protocol.report.metrics_of(task) for task in tasks]
    return [name for name in others[0] if all(name in names for names in others)]


def _interquartile_mean(
    protocol: Protocol, names: tuple[str, str, str, str], matrices: Sequence[ScoreMatrix]
) -> InterquartileMean:
    """Return the interquartile mean of one policy over the matrices of one metric."""
    confidence = protocol.report.confidence
    if matrices[0].fixed:
        ends = trimmed_over_tasks(matrices, confidence)
    else:
        value, spread = statistics.iqm_of_runs([one.grid() for one in matrices])
        half = float(statistics.half_widths(spread, confidence)[0])
        ends = value, value - half, value + half
    return InterquartileMean(
        *names,
        *ends,
        len(matrices),
        min(len(one.values) for one in matrices),
        matrices[0].unit,
        "; ".join(filter(None, (*run_flags(matrices), *dict.fromkeys(m.note for m in matrices)))),
    )


# -- medians over runs along the training ---------------------------------------------------------


@dataclass(frozen=True, eq=False)
class FinalMedian(ReportRow):
    """Best median over runs within the last ``FINAL_STEPS`` of training, on one task."""

    task: str
    policy: str
    median: float  # over runs of their mean score at the checkpoint where it is highest
    low: float  # quartiles over runs at this checkpoint
    high: float
    step: int  # of the checkpoint, the earliest of several
    runs: int
    leads: bool  # by at least ``LEAD`` of normalized score before every other policy of the table
    flag: str


@dataclass(frozen=True, eq=False)
class MedianPoint(ReportRow):
    """Median and quartiles over runs at one checkpoint, on one task or over several.

    Over several tasks it is the mean of their normalized medians, and of their quartiles.
    """

    group: str  # of the task; empty: over all tasks of the protocol
    task: str  # empty: over all tasks of the group
    policy: str
    step: int
    median: float  # over runs of their mean score
    low: float
    high: float
    leads: int  # tasks on which the median is ahead of every other policy's by at least ``LEAD``
    tasks: int
    runs: int  # per task, at least
    flag: str


def final_medians(protocol: Protocol, table: EpisodeTable) -> tuple[FinalMedian, ...]:
    """Return the best final medians of every policy with checkpoints, where the protocol asks.

    After Samvelyan et al. 2019: the highest median over runs among the checkpoints of the last
    ``FINAL_STEPS`` of training, with the quartiles there, and who leads by ``LEAD``.
    """
    scales, rows = score_scales(protocol, table), []
    for task_id, courses in _courses(protocol, table).items():
        final = {name: _final(course) for name, course in courses.items() if len(course.steps)}
        width = scales[task_id].width if final else 1.0
        medians = {name: float(quartiles[1]) for name, (_, quartiles) in final.items()}
        for name, (step, quartiles) in final.items():
            low, median, high = quartiles.tolist()
            leads = _leads(name, medians, width)
            ends, course = (median, low, high), courses[name]
            runs, flag = len(course.scores), course.flag
            rows.append(FinalMedian(task_id, name, *ends, step, runs, leads, flag))
    return tuple(rows)


def median_points(protocol: Protocol, table: EpisodeTable) -> tuple[MedianPoint, ...]:
    """Return medians and quartiles over runs at every checkpoint, where the protocol asks.

    First those of each task, then those of each group and of all tasks, for the policies that are
    trained on all of them, at the steps that all of these have.
    """
    lines = _lines(protocol, table)
    rows = [row for line in lines.values() for row in line.points()]
    names = dict.fromkeys(policy for _, policy in lines)
    groups = {group: [task.id for task in tasks] for group, tasks in protocol.groups.items()}
    spans = groups | ({"": [task.id for task in protocol.task]} if len(groups) > 1 else {})
    for group, tasks in spans.items():
        trained = [task for task in tasks if protocol.task_of(task).trained_on is None]
        for policy in names:
            parts = [lines[task, policy] for task in trained if (task, policy) in lines]
            if parts and len(parts) == len(trained) and not protocol.ad_hoc:
                rows += _mean_line(group, policy, parts)
    return tuple(rows)


@dataclass(frozen=True, eq=False)
class _Line:
    """Medians of one policy on one task along its training."""

    group: str
    task: str
    policy: str
    course: Course
    quartiles: np.ndarray  # (3, points): lower, median, upper, of scores
    normalised: np.ndarray  # (3, points)
    leads: np.ndarray  # (points,) bool

    def points(self) -> Iterable[MedianPoint]:
        """Iterate over the checkpoints."""
        steps, runs = self.course.steps.tolist(), len(self.course.scores)
        ends = zip(steps, *self.quartiles.tolist(), self.leads.tolist(), strict=True)
        for step, low, median, high, leads in ends:
            head = (self.group, self.task, self.policy, step)
            yield MedianPoint(*head, median, low, high, int(leads), 1, runs, self.course.flag)


def _lines(protocol: Protocol, table: EpisodeTable) -> dict[tuple[str, str], _Line]:
    """Return the medians of every task and policy, {(task, policy): line}."""
    scales, lines = score_scales(protocol, table), {}
    groups = {task.id: task.group for task in protocol.task}
    for task, courses in _courses(protocol, table).items():
        medians = {name: np.median(course.scores, axis=0) for name, course in courses.items()}
        for name, course in courses.items():
            quartiles = np.quantile(course.scores, (0.25, 0.5, 0.75), axis=0)
            ahead = [
                _leads(name, _medians_at(int(step), courses, medians), scales[task].width)
                for step in course.steps
            ]
            normalised = scales[task].normalise(quartiles)
            head = (groups[task], task, name, course)
            lines[task, name] = _Line(*head, quartiles, normalised, np.array(ahead, np.bool_))
    return lines


def _mean_line(group: str, policy: str, lines: list[_Line]) -> Iterable[MedianPoint]:
    """Iterate over the means of the lines of several tasks, at the steps that all of them have."""
    steps = lines[0].course.steps
    for line in lines[1:]:
        steps = np.intersect1d(steps, line.course.steps)
    flags = dict.fromkeys(line.course.flag for line in lines if line.course.flag)
    if any(len(line.course.steps) > len(steps) for line in lines):
        flags[f"over the {len(steps)} steps that all tasks have"] = None
    chosen = [np.isin(line.course.steps, steps) for line in lines]
    values = [line.normalised[:, some] for line, some in zip(lines, chosen, strict=True)]
    led = [line.leads[some] for line, some in zip(lines, chosen, strict=True)]
    means, counts = np.mean(values, axis=0), np.sum(led, axis=0)
    runs, flag = min(len(line.course.scores) for line in lines), "; ".join(flags)
    for k, step in enumerate(steps.tolist()):
        low, median, high = means[:, k].tolist()
        tail = (int(counts[k]), len(lines), runs, flag)
        yield MedianPoint(group, "", policy, step, median, low, high, *tail)


def _courses(protocol: Protocol, table: EpisodeTable) -> dict[str, dict[str, Course]]:
    """Return the courses of all policies by task; empty where the protocol does not ask."""
    if not protocol.report.reproduces.medians:
        return {}
    names = dict.fromkeys(progress.cell.policy for progress in table.progress)
    courses = {
        task.id: {name: course_of(protocol, table, task, name) for name in names}
        for task in protocol.task
    }
    return {
        task: {name: course for name, course in policies.items() if course is not None}
        for task, policies in courses.items()
    }


def _final(course: Course) -> tuple[int, np.ndarray]:
    """Return the step of the highest final median over runs, and the quartiles over runs there."""
    final = course.steps > course.steps[-1] - FINAL_STEPS
    quartiles = np.quantile(course.scores[:, final], (0.25, 0.5, 0.75), axis=0)
    best = int(np.argmax(quartiles[1]))
    return int(course.steps[final][best]), quartiles[:, best]


def _medians_at(
    step: int, courses: Mapping[str, Course], medians: Mapping[str, np.ndarray]
) -> dict[str, float]:
    """Return the medians of the policies that have a checkpoint at a step."""
    return {
        name: float(medians[name][course.steps == step][0])
        for name, course in courses.items()
        if step in course.steps
    }


def _leads(policy: str, medians: Mapping[str, float], width: float) -> bool:
    """Return whether a policy is ahead of every other one by ``LEAD`` of normalized score."""
    others = [value for other, value in medians.items() if other != policy]
    return bool(others) and (medians[policy] - max(others)) / width >= LEAD


# -- effects and sensitivity ----------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Effect(ReportRow):
    """Cohen's d of the score of two policies on one task."""

    task: str
    first: str
    second: str
    cohens_d: float  # nan where nothing varies


@dataclass(frozen=True, eq=False)
class Sensitivity(ReportRow):
    """How much the mean score of a policy depends on the parameters of a game."""

    task: str  # with the parameters of the protocol's own task
    policy: str
    base: float  # mean score there
    low: float  # lowest and highest mean score, over this task and those that vary it
    high: float
    variants: int  # tasks that vary it
    sensitivity: float  # (high - low) / |base|; nan where the base is 0


def effects(protocol: Protocol, table: EpisodeTable) -> tuple[Effect, ...]:
    """Return Cohen's d of all pairs of policies on each task, where the protocol asks for it.

    In pooled standard deviations of episodes for two fixed policies, else of runs.
    """
    if protocol.report.effect != "cohens_d":
        return ()
    return tuple(row for task in protocol.task for row in _of_task(protocol, table, task))


def _of_task(protocol: Protocol, table: EpisodeTable, task: Task) -> Iterator[Effect]:
    """Yield the effects between all pairs of policies on one task."""
    policies = table.policies_on(task.id)
    matrices = {p: score_matrix(protocol, table, task, p, protocol.report.score) for p in policies}
    for one, two in family_pairs(protocol, policies):
        first, second = matrices[one], matrices[two]
        value = math.nan
        if first is not None and second is not None:
            left, right, standardiser = standardised(first, second)
            if np.isfinite(left).all() and np.isfinite(right).all():
                value = statistics.cohens_d(left, right, standardiser=standardiser)
        yield Effect(task.id, one, two, value)


def sensitivities(protocol: Protocol, table: EpisodeTable) -> tuple[Sensitivity, ...]:
    """Return how much the mean score of each policy varies with the parameters of a game.

    Only where tasks of the protocol vary the parameters of others.
    """
    variants: dict[str, list[str]] = {}
    for task in protocol.task:
        if task.varies is not None:
            variants.setdefault(task.varies, []).append(task.id)
    rows = (
        _sensitivity(protocol, table, base, varied, policy)
        for base, varied in variants.items()
        for policy in table.policies
    )
    return tuple(row for row in rows if row is not None)


def _sensitivity(
    protocol: Protocol, table: EpisodeTable, base: str, variants: list[str], policy: str
) -> Sensitivity | None:
    """Return the sensitivity of one policy; None where it has not played all of the tasks."""
    tasks = [protocol.task_of(name) for name in (base, *variants)]
    samples = [units_of(protocol, table, task, policy, protocol.report.score) for task in tasks]
    if not all(len(values) for values in samples):
        return None
    means = [mean_of_defined(values) for values in samples]
    width = max(means) - min(means)
    share = width / abs(means[0]) if means[0] else math.nan
    return Sensitivity(base, policy, means[0], min(means), max(means), len(variants), share)
