"""Rankings: how policies compare over whole groups of tasks, and how sure that is.

All of them go by the normalised scores of ``analysis.group_scores``, so that a policy takes part in
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
from coopbench.analysis.estimates import EPISODES, Sample, bootstrap_options, group_scores
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
    found = []
    for group, there in _groups(protocol, table):
        for one, two in itertools.combinations(there, 2):
            if protocol.family(one)[0] != protocol.family(two)[0]:
                found.append(_improvement(protocol, (group, one, two), there[one], there[two]))
    return tuple(found)


def profile_points(protocol: Protocol, table: EpisodeTable) -> tuple[ProfilePoint, ...]:
    """Profile every policy in every group whose tasks it finished, at the same thresholds."""
    found = []
    for group, there in _groups(protocol, table):
        taus = _thresholds([each.values for samples in there.values() for each in samples])
        for policy, samples in there.items():
            found += _profile(protocol, (group, policy), samples, taus)
    return tuple(found)


def ranks(protocol: Protocol, table: EpisodeTable) -> tuple[Rank, ...]:
    """Rank the policies of each unit in every group; none where only one has finished it."""
    found: list[Rank] = []
    for group, there in _groups(protocol, table):
        for unit in dict.fromkeys(samples[0].unit for samples in there.values()):
            those = {name: each for name, each in there.items() if each[0].unit == unit}
            if len(those) > 1:
                found += _ranked(protocol, table, group, those)
    return tuple(found)


def _groups(protocol: Protocol, table: EpisodeTable) -> Iterator[tuple[str, dict[str, Samples]]]:
    """Iterate over the groups that anybody has finished, and the samples of their policies."""
    scores = group_scores(protocol, table)
    for group in protocol.groups:
        there = {policy: each for (name, policy), each in scores.items() if name == group}
        if there:
            yield group, there


def _improvement(
    protocol: Protocol, names: tuple[str, str, str], x: Samples, y: Samples
) -> Improvement:
    """Compare one pair in one group; ``names`` are those of the group and the two."""
    unit, nan = x[0].unit, math.nan
    count = min(len(each.values) for each in (*x, *y))
    if unit != y[0].unit:
        why = f"not compared: {names[1]} stands for its {unit}, {names[2]} for its {y[0].unit}"
        return Improvement(*names, nan, nan, nan, len(x), count, "", "", why)
    interval = statistics.bootstrap_interval(
        ([each.values for each in x], [each.values for each in y]),
        statistics.probability_of_improvement,
        **bootstrap_options(protocol, unit),
    )
    ends = float(interval.estimate), float(interval.low), float(interval.high)
    flag = "; ".join(interval.warnings)
    return Improvement(*names, *ends, len(x), count, unit, interval.method, flag)


def _thresholds(values: Sequence[np.ndarray]) -> np.ndarray:
    """Thresholds from 0 to 1 and beyond, in tenths, as far as scores go within ``WIDEST``."""
    low, high = np.quantile(np.concatenate(values), (TAIL, 1.0 - TAIL))
    first = max(WIDEST[0], min(0.0, math.floor(10.0 * low) / 10.0))
    last = min(WIDEST[1], max(1.0, math.ceil(10.0 * high) / 10.0))
    return np.linspace(first, last, THRESHOLDS)


def _profile(
    protocol: Protocol, names: tuple[str, str], samples: Samples, taus: np.ndarray
) -> list[ProfilePoint]:
    unit = samples[0].unit
    interval = statistics.bootstrap_interval(
        [each.values for each in samples],
        partial(statistics.performance_profile, taus=taus),
        **bootstrap_options(protocol, unit),
    )
    how = unit, interval.method, "; ".join(interval.warnings)
    points = np.stack([taus, interval.estimate, interval.low, interval.high], axis=1)
    return [ProfilePoint(*names, tau, y, low, high, *how) for tau, y, low, high in points.tolist()]


def _ranked(
    protocol: Protocol, table: EpisodeTable, group: str, those: dict[str, Samples]
) -> list[Rank]:
    """Rank the policies of one unit in one group."""
    settings, unit = protocol.report, next(iter(those.values()))[0].unit
    paired = settings.comparison == "paired" and _same_seeds(protocol, table, group, those)
    rows: Literal["paired", "independent"] = "paired" if paired else "independent"
    interval = statistics.rank_intervals(
        [[each.values for each in samples] for samples in those.values()],
        rows=rows,
        reps=settings.resamples,
        confidence=settings.confidence,
        seed=0,
    ).interval
    flag = "; ".join(interval.warnings)
    places = np.stack([interval.estimate, interval.low, interval.high], axis=1)
    return [
        Rank(group, name, rank, low, high, len(those), unit, rows, flag)
        for name, (rank, low, high) in zip(those, places.tolist(), strict=True)
    ]


def _same_seeds(
    protocol: Protocol, table: EpisodeTable, group: str, those: dict[str, Samples]
) -> bool:
    """Whether the k-th episode of a task has the same seed for all; training runs have no pairs."""
    first = next(iter(those))
    if those[first][0].unit != EPISODES:
        return False
    for task in protocol.groups[group]:
        wanted, *others = (table.runs(task.id, policy)[0].seeds for policy in those)
        if not all(np.array_equal(wanted, seeds) for seeds in others):
            return False
    return True
