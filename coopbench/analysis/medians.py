"""Medians over runs along the training, as Samvelyan et al. 2019 report them.

Medians and quartiles describe the runs that were made; they are no intervals for new ones.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from coopbench.analysis.learning import Course, course_of
from coopbench.analysis.rows import ReportRow
from coopbench.analysis.samples import score_scales
from coopbench.episodes.table import EpisodeTable
from coopbench.protocol.schema import Protocol

__all__ = ["LATE_STEPS", "LEAD", "LateScore", "MedianPoint", "late_scores", "median_points"]

LATE_STEPS = 250_000  # at the end of training, of which late scores are
LEAD = 1 / 32  # normalised score; one of 32 episodes, the least by which shares of wins can differ


@dataclass(frozen=True, eq=False)
class LateScore(ReportRow):
    """Best median over runs within the last ``LATE_STEPS`` of training, on one task."""

    task: str
    policy: str
    median: float  # over runs of their mean score at the checkpoint where it is highest
    low: float  # quartiles over runs at this checkpoint
    high: float
    step: int  # of the checkpoint, the earliest of several
    runs: int
    leads: bool  # by at least ``LEAD`` of normalised score before every other policy of the table
    flag: str


@dataclass(frozen=True, eq=False)
class MedianPoint(ReportRow):
    """Median and quartiles over runs at one checkpoint, on one task or over several.

    Over several tasks it is the mean of their normalised medians, and of their quartiles.
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


def late_scores(protocol: Protocol, table: EpisodeTable) -> tuple[LateScore, ...]:
    """Return the best late medians of every policy with checkpoints, where the protocol asks.

    After Samvelyan et al. 2019: the highest median over runs among the checkpoints of the last
    ``LATE_STEPS`` of training, with the quartiles there, and who leads by ``LEAD``.
    """
    scales, rows = score_scales(protocol, table), []
    for task_id, courses in _courses(protocol, table).items():
        late = {name: _late(course) for name, course in courses.items() if len(course.steps)}
        width = scales[task_id].width if late else 1.0
        medians = {name: float(quartiles[1]) for name, (_, quartiles) in late.items()}
        for name, (step, quartiles) in late.items():
            low, median, high = quartiles.tolist()
            leads = _leads(name, medians, width)
            ends, course = (median, low, high), courses[name]
            runs, flag = len(course.scores), course.flag
            rows.append(LateScore(task_id, name, *ends, step, runs, leads, flag))
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
                rows += _joined(group, policy, parts)
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


def _joined(group: str, policy: str, lines: list[_Line]) -> Iterable[MedianPoint]:
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


def _late(course: Course) -> tuple[int, np.ndarray]:
    """Return the step of the highest late median over runs, and the quartiles over runs there."""
    late = course.steps > course.steps[-1] - LATE_STEPS
    quartiles = np.quantile(course.scores[:, late], (0.25, 0.5, 0.75), axis=0)
    best = int(np.argmax(quartiles[1]))
    return int(course.steps[late][best]), quartiles[:, best]


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
    """Return whether a policy is ahead of every other one by ``LEAD`` of normalised score."""
    others = [value for other, value in medians.items() if other != policy]
    return bool(others) and (medians[policy] - max(others)) / width >= LEAD
