"""Aggregates: statistics of the normalized scores of a policy over all tasks of a group."""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import NamedTuple

import numpy as np

from coopbench import statistics
from coopbench.analysis.constants import are_exact, constant_interval
from coopbench.analysis.estimates import CERTAIN, flags_of_failed, run_flags
from coopbench.analysis.rows import ReportRow
from coopbench.analysis.score_matrix import (
    EPISODES,
    RUNS,
    ScoreMatrix,
    count_runs,
    group_matrices,
    score_ends,
)
from coopbench.episodes.table import EpisodeTable
from coopbench.protocol.schema import Protocol
from coopbench.statistics import TwoWay, linear_statistics
from coopbench_envs.packages import installed

GAP = "optimality_gap"
IQM = "iqm"  # Agarwal's: of all runs of all tasks; of learners only
RESAMPLES = 50_000  # at least, where a protocol asks for a bootstrap
TWO_WAY = "two-way"  # method of an interval over runs and episodes
_GROUP = "coopbench.statistics"  # of entry points
_OF_MEANS = ("mean", "trimmed_mean")  # of which an interval of scores that do not vary is known
BEHIND = 0.25  # of normalized score below the best run of a task: such a run counts as behind


def _nothing(means: np.ndarray) -> float | np.ndarray:
    return 0.0


class Statistic(NamedTuple):
    """A statistic of the mean normalized scores of tasks, with its words in tables and plots."""

    weights: Callable[[np.ndarray], np.ndarray]  # of task means, see linear_statistics
    label: str  # head of its column
    name: str  # in running text
    meaning: str  # of its column, and what it says in "How to read it"
    reading: str
    axis: str  # text at the axis of its plot, before "normalized" and the score
    shown: bool = True  # in tables, LaTeX and plots; otherwise only in files for machines
    lowest: bool = False  # whether less is better
    # Task means -> what is added to the weighted sum.
    constant: Callable[[np.ndarray], float | np.ndarray] = _nothing


def _share_below(means: np.ndarray) -> np.ndarray:
    """Return the constant of the optimality gap: a task below 1 adds 1 minus its mean."""
    share: np.ndarray = np.mean(means < 1.0, axis=-1)
    return share


# A further entry, or one of another package, appears in all files, tables and plots.
STATISTICS = {
    "mean": Statistic(
        weights=linear_statistics.mean_weights,
        label="Mean",
        name="mean",
        meaning="mean over tasks of the mean normalized score",
        reading="The mean over tasks of the mean normalized score: every task counts alike.",
        axis="mean of",
    ),
    "trimmed_mean": Statistic(
        weights=linear_statistics.trimmed_weights,
        label="Trimmed mean",
        name="trimmed mean",
        meaning="mean of the middle half of the mean normalized scores of the tasks",
        reading="The trimmed mean is the mean of the middle half of the task means: a quarter of "
        "the tasks, rounded down, is dropped at each end. It is over task means for learners and "
        "fixed policies alike.",
        axis="trimmed mean of",
    ),
    GAP: Statistic(
        weights=linear_statistics.gap_weights,
        constant=_share_below,
        label="Optimality gap",
        name="optimality gap",
        meaning="mean shortfall of the task means from the normalized score 1; less is better",
        reading="How far task means fall short of the normalized score 1 on average. Less is "
        "better (Agarwal et al. 2021).",
        axis="optimality gap of",
        lowest=True,
    ),
    "median": Statistic(
        weights=linear_statistics.median_weights,
        label="Median",
        name="median",
        meaning="median over tasks of the mean normalized score",
        reading="The median over tasks of the mean normalized score.",
        axis="median over tasks of",
        shown=False,
    ),
}


def all_statistics() -> dict[str, Statistic]:
    """Return the statistics of this package, and then those of other packages, by key.

    Other packages name a ``Statistic`` in the entry-point group ``coopbench.statistics``; the name
    of the entry point is the key.
    """
    return STATISTICS | _installed()


def shown_statistics() -> dict[str, Statistic]:
    """Return the statistics that stand in tables, LaTeX and plots, by key."""
    return {key: statistic for key, statistic in all_statistics().items() if statistic.shown}


@cache
def _installed() -> dict[str, Statistic]:
    """Return the statistics of other packages; looking for them takes milliseconds."""
    return installed(_GROUP, Statistic, [*STATISTICS, IQM])


@dataclass(frozen=True, eq=False)
class Aggregate(ReportRow):
    """A statistic of the mean normalized scores of the tasks of a group, for one policy."""

    group: str  # empty if the protocol has no groups: then over all tasks
    policy: str
    estimate: float
    low: float  # two-way interval, over runs and episodes; nan where it is undefined
    high: float
    tasks: int
    count: int  # units per task, at least
    flag: str
    statistic: str = "mean"  # a key of all_statistics, or "iqm"
    unit: str = EPISODES
    method: str = TWO_WAY  # or that of the bootstrap which a protocol asks for, of "iqm"
    runs: int = 0  # of all tasks; 0 for a fixed policy
    low_bootstrap: float = math.nan  # of a learner: the stratified bootstrap over its runs
    high_bootstrap: float = math.nan
    behind: int = 0  # runs more than .25 below the best run of the policy on their task
    played: int = 0  # of how many; a run that plays several tasks counts on each
    failed: int = 0  # of these: runs that failed, which count with the floor of their task


def aggregates(protocol: Protocol, table: EpisodeTable) -> tuple[Aggregate, ...]:
    """Aggregate the normalized scores of every policy in every group whose tasks it finished.

    One row for each of ``all_statistics``, and for a learner the interquartile mean of its runs. An
    ad-hoc protocol has no agreed bounds, hence no aggregate.
    """
    rows: list[Aggregate] = []
    for group, members in group_matrices(protocol, table).items():
        ends = score_ends(protocol, protocol.groups[group], normalized=True)
        for policy, matrices in members.items():
            resampled = _bootstrapped(protocol, matrices)
            rows += [
                replace(row, group=group, policy=policy)
                for row in _aggregated(protocol, matrices, ends, resampled)
            ]
    return tuple(rows)


def _bootstrapped(
    protocol: Protocol, matrices: Sequence[ScoreMatrix]
) -> dict[str, tuple[float, float]]:
    """Return the percentile intervals of all statistics of a policy, by key; nan if unknown.

    They are over runs alone: only a learner with two runs or more on every task has them.
    """
    by_key = all_statistics()
    if min(len(one.runs) for one in matrices) < 2:
        return dict.fromkeys((*by_key, IQM), (math.nan, math.nan))
    intervals = statistics.bootstrap_intervals(
        [one.run_means for one in matrices],
        [*(partial(_over_tasks, key) for key in by_key), statistics.iqm],
        reps=protocol.report.resamples,
        confidence=protocol.report.confidence,
    )
    ends = [(float(interval.low), float(interval.high)) for interval in intervals]
    return dict(zip((*by_key, IQM), ends, strict=True))


def _over_tasks(key: str, drawn: list[np.ndarray]) -> np.ndarray:
    """Return a statistic of task means for every resample, (resamples,)."""
    statistic = all_statistics()[key]
    means = np.stack([scores.mean(axis=-1) for scores in drawn], axis=-1)
    if key in STATISTICS:
        sums: np.ndarray = np.sum(statistic.weights(means) * means, axis=-1)
        return sums + statistic.constant(means)
    means.flags.writeable = False  # statistics of other packages read it
    return np.array([statistic.weights(row) @ row + statistic.constant(row) for row in means])


def _disagreement(closed: tuple[float, float], resampled: tuple[float, float]) -> str:
    """Say which of two intervals to use if an end differs by a quarter of the width or more."""
    width = max(closed[1] - closed[0], resampled[1] - resampled[0])
    gap = max(abs(closed[0] - resampled[0]), abs(closed[1] - resampled[1]))
    if not gap > 0.25 * width:
        return ""
    return (
        "the bootstrap interval differs by more than a quarter of the width: use the two-way "
        "interval, because a bootstrap over runs leaves out new episodes and is too narrow for "
        "few runs"
    )


def _aggregated(
    protocol: Protocol,
    matrices: tuple[ScoreMatrix, ...],
    ends: Sequence[Sequence[float]],
    resampled: dict[str, tuple[float, float]],
) -> Iterator[Aggregate]:
    """Yield all statistics of one policy in one group, of a learner also the IQM of its runs.

    ``ends`` are those of the score on the tasks, see ``score_ends``, ``resampled`` the bootstrap
    intervals.
    """
    confidence, runs = protocol.report.confidence, count_runs(matrices)
    two_way, by_key = TwoWay([one.grid() for one in matrices]), all_statistics()
    means = two_way.means
    means.flags.writeable = False  # every statistic reads them
    forms = np.array([statistic.weights(means) for statistic in by_key.values()])
    constants = [statistic.constant(means) for statistic in by_key.values()]
    values = (forms @ means + constants).tolist()
    halves = statistics.half_widths(two_way.spread(forms), confidence).tolist()
    flag = _flag(matrices, has_interval=not any(map(math.isnan, halves)))
    for name, value, half in zip(by_key, values, halves, strict=True):
        low, high = value - half, value + half
        if half == 0.0 and name in _OF_MEANS:
            low, high = constant_interval(matrices, ends, value, confidence)
        reasons = [flag]
        if name == GAP and value == half == 0.0 and any(halves):
            low = high = math.nan  # of new runs or episodes some task mean may be below 1
            reasons.append("no task mean is below 1: the interval of the gap is not known")
        found = "; ".join(filter(None, reasons))
        yield _row(matrices, name, (value, low, high), found, resampled[name])
    if runs:
        yield _of_runs(protocol, matrices, flag, resampled[IQM])


def _of_runs(
    protocol: Protocol, matrices: Sequence[ScoreMatrix], flag: str, resampled: tuple[float, float]
) -> Aggregate:
    """Return the interquartile mean of all runs of a learner, pooled over tasks.

    Its interval is two-way, or that of the bootstrap over runs alone which a protocol that
    reproduces a published one asks for.
    """
    confidence, method = protocol.report.confidence, protocol.report.reproduces.bootstrap
    if method is None:
        value, spread = statistics.iqm_of_runs([one.grid() for one in matrices])
        half = float(statistics.half_widths(spread, confidence)[0])
        return _row(matrices, IQM, (value, value - half, value + half), flag, resampled)
    (interval,) = statistics.bootstrap_intervals(
        [one.run_means for one in matrices],
        [statistics.iqm],
        reps=max(RESAMPLES, protocol.report.resamples),
        confidence=confidence,
    )
    ends = float(interval.estimate), float(interval.low), float(interval.high)
    row = _row(matrices, IQM, ends, "", resampled)
    return replace(row, flag="; ".join(interval.warnings), method=method)


def _row(
    matrices: Sequence[ScoreMatrix],
    statistic: str,
    ends: tuple[float, float, float],
    flag: str,
    resampled: tuple[float, float],
) -> Aggregate:
    """Return one statistic of a policy; ``ends`` are estimate, low and high."""
    runs = count_runs(matrices)
    return Aggregate(
        "",
        "",
        *ends,
        len(matrices),
        min(len(one.runs) or one.episodes for one in matrices),
        "; ".join(filter(None, (flag, _disagreement(ends[1:], resampled)))),
        statistic,
        RUNS if runs else EPISODES,
        runs=runs,
        low_bootstrap=resampled[0],
        high_bootstrap=resampled[1],
        behind=sum(statistics.runs_behind_best(m.run_means, BEHIND) for m in matrices if m.runs),
        played=sum(len(one.runs) for one in matrices),
        failed=sum(one.failed for one in matrices),
    )


def _flag(matrices: Sequence[ScoreMatrix], has_interval: bool) -> str:
    """Say what weakens the interval of an aggregate, or excludes it; empty when all is well."""
    failed = sum(one.failed for one in matrices)
    flags = [*flags_of_failed(failed, matrices), *run_flags(matrices)]
    if are_exact([tuple(matrices)]):
        flags.append(CERTAIN)
    elif has_interval and all(np.ptp(one.values) == 0.0 for one in matrices):
        flags.append("all values of each task are equal: the interval of the mean is a bound")
    return "; ".join(filter(None, (*flags, *dict.fromkeys(one.note for one in matrices))))
