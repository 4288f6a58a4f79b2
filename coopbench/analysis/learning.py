"""Courses: the scores of learned policies along their training."""

import functools
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from coopbench.analysis.score_matrix import Scale
from coopbench.episodes.table import EpisodeTable, Progress
from coopbench.protocol.schema import Protocol
from coopbench.protocol.task import Task
from coopbench.statistics import complete_grid
from coopbench.statistics.scores import mean_of_defined

RISING = 0.02  # of normalized score, in the last quarter of a training: a curve is not flat yet


@dataclass(frozen=True)
class Course:
    """Scores of the runs of a policy on one task at the steps that all of them have."""

    steps: np.ndarray  # (points,)
    scores: np.ndarray  # (runs, points), means over the episodes in which the score is defined
    grids: np.ndarray  # (points, runs, episodes), complete, with the same means
    flag: str
    nested: bool  # whether every run has played episodes of its own; the grids are then run means


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
    if failed := len(table.failed(task.id, policy)):
        flag = "; ".join(filter(None, (f"without {failed} runs that failed", flag)))
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


def last_rise(steps: np.ndarray, scores: np.ndarray) -> float:
    """Return how much a curve rises in the last quarter of its steps.

    That is the mean score of the checkpoints there less the mean of those in the quarter before;
    nan if either has none, as where the only checkpoint is at step 0. ``steps``, which ascend, and
    ``scores`` are (points,).
    """
    end = steps[-1] if len(steps) else 0
    last = scores[4 * steps > 3 * end]
    before = scores[(2 * steps > end) & (4 * steps <= 3 * end)]
    return float(last.mean() - before.mean()) if len(last) and len(before) else math.nan


def rise_of(
    protocol: Protocol,
    table: EpisodeTable,
    tasks: Sequence[Task],
    policy: str,
    scales: Mapping[str, Scale],
) -> float:
    """Return the mean ``last_rise`` of a policy over the tasks that its models are trained on.

    In normalized score by the ``scales`` of tasks. On a task it is the mean over the runs that
    have checkpoints in both quarters of their steps; other runs show no rise and are left out. nan
    if a task has no such run.
    """
    score, rises = protocol.report.score, []
    for name in dict.fromkeys(task.origin for task in tasks):
        courses = [
            _episodes(run, score) for run in table.progress_of(name, policy) if score in run.metrics
        ]
        of_runs = [
            last_rise(steps, scales[name].normalise(np.nanmean(values, axis=1)))
            for steps, values in courses
        ]
        rises.append(mean_of_defined(np.array(of_runs)))
    return float(np.mean(rises))
