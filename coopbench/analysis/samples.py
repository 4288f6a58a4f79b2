"""Samples: the values of a metric by unit of inference, and the scale that normalises scores.

The unit of inference of a fixed policy is the episode, that of a policy with training runs the run:
its episodes are averaged first.
"""

import math
from dataclasses import dataclass, replace

import numpy as np

from coopbench.episodes.metrics import values
from coopbench.episodes.table import EpisodeTable
from coopbench.protocol.schema import Protocol

__all__ = [
    "EPISODES",
    "MODELS",
    "RUNS",
    "Sample",
    "Scale",
    "group_scores",
    "mean_of_defined",
    "sample",
    "score_scales",
]

EPISODES, RUNS, MODELS = "episodes", "runs", "models"  # units of inference
_EPSILON = 1e-6  # added to the width of a range by Gorsane et al. 2022


@dataclass(frozen=True)
class Sample:
    """Values of one policy on one task, one for each unit of inference."""

    values: np.ndarray  # (units,)
    unit: str  # "episodes" or "runs"


@dataclass(frozen=True)
class Scale:
    """The score of a task that counts as 0, and how much more counts as 1."""

    low: float
    width: float

    def normalise(self, scores: np.ndarray) -> np.ndarray:
        """Map scores to normalised scores; those beyond the bounds are not clipped."""
        return (scores - self.low) / self.width


def sample(table: EpisodeTable, task: str, policy: str, metric: str) -> Sample:
    """Return a metric of a policy on a task by unit of inference; empty if it has not played.

    A run's value is the mean over its episodes in which the metric is defined, nan if there is
    none.
    """
    blocks = table.runs(task, policy)
    if blocks and blocks[0].cell.run is None:
        return Sample(values(blocks[0], metric), EPISODES)
    return Sample(np.array([mean_of_defined(values(block, metric)) for block in blocks]), RUNS)


def mean_of_defined(sample: np.ndarray) -> float:
    """Return the mean of the finite values of a sample; nan if there are none."""
    defined = sample[np.isfinite(sample)]
    return float(defined.mean()) if len(defined) else math.nan


def group_scores(
    protocol: Protocol, table: EpisodeTable
) -> dict[tuple[str, str], tuple[Sample, ...]]:
    """Return normalised scores, {(group, policy): one sample per task}.

    A policy is in a group only if its score is defined on all tasks of the group. An ad-hoc
    protocol has no agreed bounds, hence no normalised scores.
    """
    if protocol.ad_hoc:
        return {}
    scales, scores = score_scales(protocol, table), {}
    names = dict.fromkeys(policy for _, policy in table.pairs)
    for group, tasks in protocol.groups.items():
        for policy in names:
            samples = [sample(table, task.id, policy, protocol.report.score) for task in tasks]
            if all(len(s.values) and np.isfinite(s.values).all() for s in samples):
                scores[group, policy] = tuple(
                    replace(raw, values=scales[task.id].normalise(raw.values))
                    for task, raw in zip(tasks, samples, strict=True)
                )
    return scores


def score_scales(protocol: Protocol, table: EpisodeTable) -> dict[str, Scale]:
    """Return the scale of every task: its bounds, or the range of all its episodes.

    The latter, (x - min) / (max - min + 1e-6) over all policies, runs and checkpoints, is that of
    Gorsane et al. 2022; it changes whenever a policy is added. It is nan on a task that nobody has
    played.
    """
    if protocol.report.normalisation != "minmax":
        bounds = {task.id: task.bounds for task in protocol.task}
        return {task: Scale(b.low, b.high - b.low) for task, b in bounds.items()}
    return {task.id: _range(table, task.id, protocol.report.score) for task in protocol.task}


def _range(table: EpisodeTable, task: str, score: str) -> Scale:
    """Return the scale from the lowest to the highest score of a task."""
    blocks = [values(block, score) for block in table if block.cell.task == task]
    courses = [
        p.metrics[score] for p in table.progress if p.cell.task == task and score in p.metrics
    ]
    defined = [scores[np.isfinite(scores)] for scores in (*blocks, *courses)]
    low = min((float(scores.min()) for scores in defined if scores.size), default=math.nan)
    high = max((float(scores.max()) for scores in defined if scores.size), default=math.nan)
    return Scale(low, high - low + _EPSILON)
