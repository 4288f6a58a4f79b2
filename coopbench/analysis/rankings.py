"""Rankings: how policies compare over whole groups of tasks, and how sure that is.

All of them use normalized scores, so that a policy takes part in a group when it has finished all
of its tasks.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from coopbench import statistics
from coopbench.analysis.comparisons import GroupComparison
from coopbench.analysis.contrasts import family_pairs
from coopbench.analysis.rows import ReportRow
from coopbench.analysis.score_matrix import EPISODES, UnitScores, group_matrices, group_units
from coopbench.episodes.table import EpisodeTable
from coopbench.protocol.schema import Protocol

THRESHOLDS = 101  # of a profile
TAIL = 0.01  # share of scores that a profile may leave out at each end
WIDEST = (-1.0, 2.0)  # thresholds of a profile: at most one width of the bounds beyond them


@dataclass(frozen=True, eq=False)
class Improvement(ReportRow):
    """Chance that one policy scores higher than another on a task of a group.

    Task and unit of each policy are drawn at random; a tie counts one half.
    """

    group: str  # empty if the protocol has no groups: then over all tasks
    first: str
    second: str
    estimate: float  # in [0, 1]; nan where the two have different units
    low: float  # Newcombe's interval over the units of both; runs have played these episodes
    high: float
    tasks: int
    count: int  # units per task of either, at least
    unit: str  # "episodes" or "runs"; empty where the two differ
    flag: str


@dataclass(frozen=True, eq=False)
class ProfilePoint(ReportRow):
    """Share of the scores of one policy in a group that lie above a threshold."""

    group: str
    policy: str
    threshold: float  # normalized score
    estimate: float  # share of units of all tasks, in [0, 1]
    low: float  # t interval of this point alone, over units
    high: float
    unit: str
    flag: str


@dataclass(frozen=True, eq=False)
class Rank(ReportRow):
    """Places that one policy may have in a group, by the mean over tasks; 1 is best.

    ``low`` is one more than the number of policies that are significantly better, ``high`` leaves
    room for those that are significantly worse. Policies of one ``tie`` are connected by
    differences that are not significant; every policy of an earlier tie is significantly better.
    """

    group: str
    policy: str
    tie: str  # "A" for the best
    low: int  # interval of the rank; those of all contestants hold at once
    high: int
    contestants: int
    flag: str


def improvements(protocol: Protocol, table: EpisodeTable) -> tuple[Improvement, ...]:
    """Compare all pairs of policies over every group whose tasks both have finished.

    Models of one method are not compared with each other, nor are episodes with runs.
    """
    rows = []
    for group, scores in group_units(protocol, table).items():
        for one, two in family_pairs(protocol, list(scores)):
            rows.append(_improvement(protocol, (group, one, two), scores[one], scores[two]))
    return tuple(rows)


def profile_points(protocol: Protocol, table: EpisodeTable) -> tuple[ProfilePoint, ...]:
    """Profile every policy in every group whose tasks it finished, at the same thresholds."""
    points = []
    for group, scores in group_units(protocol, table).items():
        taus = _thresholds([task for one in scores.values() for task in one.tasks])
        for policy, one in scores.items():
            points += _profile(protocol, (group, policy), one, taus)
    return tuple(points)


def ranks(
    protocol: Protocol, table: EpisodeTable, pairs: Sequence[GroupComparison]
) -> tuple[Rank, ...]:
    """Rank the policies in every group; none where only one has finished it.

    ``pairs`` are the comparisons over groups. A difference is significant if its p value,
    adjusted by Holm's method over all pairs of the group, is below the protocol's alpha. Models of
    one method are not compared with each other. One trained model, a single run of a learner, has
    no rank.
    """
    rows = list[Rank]()
    for group, members in group_matrices(protocol, table).items():
        means = {
            n: np.mean([one.values.mean() for one in matrices])
            for n, matrices in members.items()
            if n not in table.bare
        }
        names = sorted(means, key=lambda name: -means[name])
        if len(names) > 1:
            ranked = [r for r in pairs if r.group == group and {r.first, r.second} <= {*names}]
            rows += _ranked(protocol, group, names, ranked)
    return tuple(rows)


def _ranked(
    protocol: Protocol, group: str, names: Sequence[str], pairs: Sequence[GroupComparison]
) -> list[Rank]:
    """Rank the policies ``names``, the best first, by the comparisons between them."""
    beaten: dict[str, set[str]] = {name: set() for name in names}  # name -> who is better
    beats: dict[str, set[str]] = {name: set() for name in names}
    for row in pairs:
        if row.p_ranks < protocol.report.alpha:  # so that all ranks hold at once
            better, worse = row.first, row.second
            if row.difference < 0.0:
                better, worse = worse, better
            beaten[worse].add(better)
            beats[better].add(worse)
    untested = {
        name for row in pairs if math.isnan(row.p_value) for name in (row.first, row.second)
    }
    letters = _ties(names, beaten)
    return [
        Rank(
            group,
            name,
            letters[name],
            1 + len(beaten[name]),
            len(names) - len(beats[name]),
            len(names),
            "not all of its comparisons could be tested" if name in untested else "",
        )
        for name in names
    ]


def _ties(names: Sequence[str], beaten: dict[str, set[str]]) -> dict[str, str]:
    """Return the tie of every policy: a new one begins where all before are significantly better.

    ``names`` are in the order of their means, the best first.
    """
    letters, tie = {}, 0
    for place, name in enumerate(names):
        before = set(names[:place])
        if before and all(before <= beaten[other] for other in names[place:]):
            tie += 1
        letters[name] = (chr(65 + tie % 26)) * (1 + tie // 26)
    return letters


def _improvement(
    protocol: Protocol, names: tuple[str, str, str], x: UnitScores, y: UnitScores
) -> Improvement:
    """Compare one pair in one group; ``names`` are those of the group and the two."""
    unit, tasks, nan = x.unit, len(x.tasks), math.nan
    count = min(map(len, (*x.tasks, *y.tasks)))
    if unit != y.unit:
        why = f"not compared: {names[1]} stands for its {unit}, {names[2]} for its {y.unit}"
        return Improvement(*names, nan, nan, nan, tasks, count, "", why)
    shared = unit == EPISODES and not x.own_episodes
    interval = statistics.improvement_interval(
        x.tasks,
        y.tasks,
        confidence=protocol.report.confidence,
        matched=shared and len(set(map(len, (*x.tasks, *y.tasks)))) == 1,
    )
    ends = float(interval.estimate), float(interval.low), float(interval.high)
    return Improvement(*names, *ends, tasks, count, unit, "; ".join(interval.warnings))


def _thresholds(values: Sequence[np.ndarray]) -> np.ndarray:
    """Return thresholds from 0 to 1 and beyond, in tenths, as far as scores go in ``WIDEST``."""
    low, high = np.quantile(np.concatenate(values), (TAIL, 1.0 - TAIL))
    first = max(WIDEST[0], min(0.0, math.floor(10.0 * low) / 10.0))
    last = min(WIDEST[1], max(1.0, math.ceil(10.0 * high) / 10.0))
    return np.linspace(first, last, THRESHOLDS)


def _profile(
    protocol: Protocol, names: tuple[str, str], scores: UnitScores, taus: np.ndarray
) -> list[ProfilePoint]:
    interval = statistics.profile_interval(
        scores.tasks, taus, confidence=protocol.report.confidence
    )
    origin = scores.unit, "; ".join(interval.warnings)
    points = np.stack([taus, interval.estimate, interval.low, interval.high], axis=1)
    return [
        ProfilePoint(*names, tau, y, low, high, *origin) for tau, y, low, high in points.tolist()
    ]
