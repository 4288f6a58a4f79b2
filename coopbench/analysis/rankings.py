"""Rankings: how policies compare over whole groups of tasks, and how sure that is.

All of them use the normalised scores of ``group_scores``, so that a policy takes part in
a group when it has finished all of its tasks.
"""

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal

import numpy as np

from coopbench import statistics
from coopbench.analysis.aggregates import bootstrap_options
from coopbench.analysis.samples import EPISODES, Sample, group_scores
from coopbench.episodes.table import EpisodeTable
from coopbench.protocol.schema import Protocol

__all__ = ["Improvement", "ProfilePoint", "Rank", "improvements", "profile_points", "ranks"]

THRESHOLDS = 101  # of a profile
TAIL = 0.01  # share of scores that a profile may leave out at each end
WIDEST = (-1.0, 2.0)  # thresholds of a profile: at most one width of the bounds beyond them

Samples = tuple[Sample, ...]  # one per task of a group


@dataclass(frozen=True)
class Improvement:
    """Chance that one policy scores higher than another on a task of a group.

    Task and unit of each policy are drawn at random; a tie counts one half.
    """

    group: str  # empty if the protocol has no groups: then over all tasks
    first: str
    second: str
    estimate: float  # in [0, 1]; nan where the two have different units
    low: float  # stratified bootstrap interval; the two are resampled independently
    high: float
    tasks: int
    count: int  # units per task of either, at least
    unit: str  # "episodes" or "runs"; empty where the two differ
    method: str  # of the bootstrap
    flag: str


@dataclass(frozen=True)
class ProfilePoint:
    """Share of the scores of one policy in a group that lie above a threshold."""

    group: str
    policy: str
    threshold: float  # normalised score
    estimate: float  # share of units of all tasks, in [0, 1]
    low: float  # stratified bootstrap interval of this point alone
    high: float
    unit: str
    method: str
    flag: str


@dataclass(frozen=True)
class Rank:
    """Place of one policy among those of its unit in a group, by interquartile mean; 1 is best."""

    group: str
    policy: str
    rank: float  # of the estimate; equals share the better one
    low: float  # interval; those of all contestants hold at once
    high: float
    contestants: int
    unit: str
    method: str  # "paired": the same seeds are drawn for all contestants; or "independent"
    flag: str


def improvements(protocol: Protocol, table: EpisodeTable) -> tuple[Improvement, ...]:
    """Compare all pairs of policies over every group whose tasks both have finished.

    Models of one method are not compared with each other, nor are episodes with runs.
    """
    rows = []
    for group, scores in _groups(protocol, table):
        for one, two in itertools.combinations(scores, 2):
            if protocol.family(one)[0] != protocol.family(two)[0]:
                rows.append(_improvement(protocol, (group, one, two), scores[one], scores[two]))
    return tuple(rows)


def profile_points(protocol: Protocol, table: EpisodeTable) -> tuple[ProfilePoint, ...]:
    """Profile every policy in every group whose tasks it finished, at the same thresholds."""
    points = []
    for group, scores in _groups(protocol, table):
        taus = _thresholds([task.values for samples in scores.values() for task in samples])
        for policy, samples in scores.items():
            points += _profile(protocol, (group, policy), samples, taus)
    return tuple(points)


def ranks(protocol: Protocol, table: EpisodeTable) -> tuple[Rank, ...]:
    """Rank the policies of each unit in every group; none where only one has finished it."""
    rows: list[Rank] = []
    for group, scores in _groups(protocol, table):
        for unit in dict.fromkeys(samples[0].unit for samples in scores.values()):
            alike = {name: samples for name, samples in scores.items() if samples[0].unit == unit}
            if len(alike) > 1:
                rows += _ranked(protocol, table, group, alike)
    return tuple(rows)


def _groups(protocol: Protocol, table: EpisodeTable) -> Iterator[tuple[str, dict[str, Samples]]]:
    """Iterate over the groups that a policy has finished, and the samples of these policies."""
    scores = group_scores(protocol, table)
    for group in protocol.groups:
        members = {policy: samples for (name, policy), samples in scores.items() if name == group}
        if members:
            yield group, members


def _improvement(
    protocol: Protocol, names: tuple[str, str, str], x: Samples, y: Samples
) -> Improvement:
    """Compare one pair in one group; ``names`` are those of the group and the two."""
    unit, nan = x[0].unit, math.nan
    count = min(len(task.values) for task in (*x, *y))
    if unit != y[0].unit:
        why = f"not compared: {names[1]} stands for its {unit}, {names[2]} for its {y[0].unit}"
        return Improvement(*names, nan, nan, nan, len(x), count, "", "", why)
    interval = statistics.bootstrap_interval(
        ([task.values for task in x], [task.values for task in y]),
        statistics.probability_of_improvement,
        **bootstrap_options(protocol, unit),
    )
    ends = float(interval.estimate), float(interval.low), float(interval.high)
    flag = "; ".join(interval.warnings)
    return Improvement(*names, *ends, len(x), count, unit, interval.method, flag)


def _thresholds(values: Sequence[np.ndarray]) -> np.ndarray:
    """Return thresholds from 0 to 1 and beyond, in tenths, as far as scores go in ``WIDEST``."""
    low, high = np.quantile(np.concatenate(values), (TAIL, 1.0 - TAIL))
    first = max(WIDEST[0], min(0.0, math.floor(10.0 * low) / 10.0))
    last = min(WIDEST[1], max(1.0, math.ceil(10.0 * high) / 10.0))
    return np.linspace(first, last, THRESHOLDS)


def _profile(
    protocol: Protocol, names: tuple[str, str], samples: Samples, taus: np.ndarray
) -> list[ProfilePoint]:
    unit = samples[0].unit
    interval = statistics.bootstrap_interval(
        [task.values for task in samples],
        partial(statistics.performance_profile, taus=taus),
        **bootstrap_options(protocol, unit),
    )
    origin = unit, interval.method, "; ".join(interval.warnings)
    points = np.stack([taus, interval.estimate, interval.low, interval.high], axis=1)
    return [
        ProfilePoint(*names, tau, y, low, high, *origin) for tau, y, low, high in points.tolist()
    ]


def _ranked(
    protocol: Protocol, table: EpisodeTable, group: str, scores: dict[str, Samples]
) -> list[Rank]:
    """Rank the policies of one unit in one group."""
    settings, unit = protocol.report, next(iter(scores.values()))[0].unit
    paired = settings.comparison == "paired" and _same_seeds(protocol, table, group, scores)
    rows: Literal["paired", "independent"] = "paired" if paired else "independent"
    interval = statistics.rank_intervals(
        [[task.values for task in samples] for samples in scores.values()],
        rows=rows,
        reps=settings.resamples,
        confidence=settings.confidence,
        seed=0,
    ).interval
    flag = "; ".join(interval.warnings)
    places = np.stack([interval.estimate, interval.low, interval.high], axis=1)
    return [
        Rank(group, name, rank, low, high, len(scores), unit, rows, flag)
        for name, (rank, low, high) in zip(scores, places.tolist(), strict=True)
    ]


def _same_seeds(
    protocol: Protocol, table: EpisodeTable, group: str, scores: dict[str, Samples]
) -> bool:
    """Whether the k-th episode of a task has the same seed for all; training runs have no pairs."""
    first = next(iter(scores))
    if scores[first][0].unit != EPISODES:
        return False
    for task in protocol.groups[group]:
        expected, *others = (table.runs(task.id, policy)[0].seeds for policy in scores)
        if not all(np.array_equal(expected, seeds) for seeds in others):
            return False
    return True
