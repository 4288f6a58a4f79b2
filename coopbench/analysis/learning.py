"""Sample efficiency: how the scores of learned policies rise along their training.

Intervals are for new runs and new selection episodes: all runs of a task play the same ones. A
summary of a whole curve, such as its area, is computed for every run and episode first.
"""

import functools
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from coopbench import statistics
from coopbench.analysis.estimates import FEW, few_runs
from coopbench.analysis.rows import ReportRow
from coopbench.analysis.score_matrix import score_scales
from coopbench.episodes.table import EpisodeTable, Progress
from coopbench.protocol.schema import Protocol
from coopbench.protocol.task import Task
from coopbench.statistics import Grid, TwoWay, complete_grid
from coopbench.statistics.two_way import FEWEST

THRESHOLD = 0.5  # normalized score of which the steps are counted


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


@dataclass(frozen=True)
class Course:
    """Scores of the runs of a policy on one task at the steps that all of them have."""

    steps: np.ndarray  # (points,)
    scores: np.ndarray  # (runs, points), means over the episodes in which the score is defined
    grids: np.ndarray  # (points, runs, episodes), complete, with the same means
    flag: str
    nested: bool  # whether every run has played episodes of its own; the grids are then run means


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


def course_of(protocol: Protocol, table: EpisodeTable, task: Task, policy: str) -> Course | None:
    """Return the scores of a policy along its training on a task.

    None if it has no checkpoints, or some that lack the score, as files from elsewhere may do.
    """
    runs = table.progress_of(task.id, policy)
    if not runs or any(protocol.report.score not in run.metrics for run in runs):
        return None
    single = [_episodes(progress, protocol.report.score) for progress in runs]
    common = functools.reduce(np.intersect1d, [steps for steps, _ in single])
    flag = _other_steps(runs, [steps for steps, _ in single], len(common))
    fewest = min(values.shape[1] for _, values in single)
    if any(values.shape[1] > fewest for _, values in single):
        flag = "; ".join(filter(None, (flag, f"over {fewest} episodes, which all runs have")))
    rows = [values[np.isin(steps, common), :fewest] for steps, values in single]
    grids = [complete_grid(part, keep=True) for part in np.stack(rows, axis=1)]
    whole = np.array(grids).reshape(len(common), len(runs), fewest)
    if table.own_episodes:
        whole = whole.mean(axis=2, keepdims=True)
    return Course(common, whole.mean(axis=2).T, whole, flag, table.own_episodes)


def _episodes(progress: Progress, score: str) -> tuple[np.ndarray, np.ndarray]:
    """Return the steps at which the score of a run is defined, and its episodes there."""
    values = progress.metrics[score]
    some = np.isfinite(values).any(axis=1)
    return progress.steps[some], values[some]


def _other_steps(runs: Sequence[Progress], steps: Sequence[np.ndarray], common: int) -> str:
    """Name the runs whose steps differ from those of most runs."""
    kinds = [tuple(part.tolist()) for part in steps]
    usual, _ = Counter(kinds).most_common(1)[0]
    others = [str(r.cell.run) for r, kind in zip(runs, kinds, strict=True) if kind != usual]
    if not others:
        return ""
    who = f"run {others[0]} has" if len(others) == 1 else f"runs {', '.join(others)} have"
    return f"{who} other checkpoints than most: over the {common} steps that all runs have"


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
    games: list[str]  # of the tasks: those of one game share the luck of an episode
    runs: int  # of the task with the fewest
    flag: str
    nested: bool  # as in ``Course``

    def grid(self, task: int, values: np.ndarray, part: int = 0) -> Grid:
        """Return a grid of values (runs, episodes) of one task; ``part`` tells grids apart."""
        episodes = None if self.nested else (values.shape[1], self.games[task], part)
        return Grid(values, episodes, nested=self.nested)


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
            games = [task.env for task in wanted[group]]
            head = group, policy, steps, scores, games, runs, flag
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
        course.grid(task, course.tasks[task][point], point)
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
        course.grid(task, np.einsum("p,pre->re", shares * weights[:, task], values))
        for task, values in enumerate(course.tasks)
    ]
    spread = TwoWay(grids).spread(np.ones(len(grids)))
    half = float(statistics.half_widths(spread, protocol.report.confidence)[0])
    value = float(shares @ centre)
    return value, value - half, value + half
