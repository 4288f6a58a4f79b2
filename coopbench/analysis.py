"""Analysis: from the episode table to estimates, comparisons and aggregates."""

import itertools
from dataclasses import dataclass

import numpy as np

from coopbench import statistics
from coopbench.episodes import EpisodeTable
from coopbench.metrics import values
from coopbench.protocol import Protocol

__all__ = ["Aggregate", "Comparison", "Estimate", "aggregates", "comparisons", "estimates"]


@dataclass(frozen=True)
class Estimate:
    """Mean of one metric over the episodes of one policy on one task."""

    task: str
    policy: str
    metric: str
    count: int  # episodes in which the metric is defined
    mean: float
    std: float  # over episodes, ddof 1; nan for one episode
    low: float  # t interval of the mean; nan where it is undefined
    high: float
    flag: str  # why the interval says less than it seems; empty when all is well


@dataclass(frozen=True)
class Comparison:
    """Welch's test between two policies on the score of one task, over episodes."""

    task: str
    first: str
    second: str
    difference: float  # mean of first minus mean of second
    low: float  # interval of the difference
    high: float
    statistic: float
    df: float
    p_value: float  # nan where the test is undefined
    p_holm: float  # adjusted over all comparisons of the task
    hedges_g: float
    flag: str


@dataclass(frozen=True)
class Aggregate:
    """Interquartile mean of normalised scores over all tasks, for one policy."""

    policy: str
    estimate: float
    low: float  # stratified bootstrap interval: tasks are the strata, episodes are resampled
    high: float
    tasks: int
    episodes: int  # per task
    flag: str


def estimates(protocol: Protocol, table: EpisodeTable) -> tuple[Estimate, ...]:
    """Estimate every metric of the protocol for every finished cell."""
    metrics = dict.fromkeys((protocol.report.score, *protocol.report.metrics))
    return tuple(
        _estimate(
            block.cell.task,
            block.cell.policy,
            metric,
            values(block, metric),
            protocol.report.confidence,
        )
        for block in table
        for metric in metrics
    )


def _estimate(
    task: str, policy: str, metric: str, sample: np.ndarray, confidence: float
) -> Estimate:
    defined = sample[np.isfinite(sample)]
    missing = len(sample) - len(defined)
    flags = [f"undefined in {missing} of {len(sample)} episodes"] if missing else []
    if len(defined) == 0:
        nan = float("nan")
        return Estimate(task, policy, metric, 0, nan, nan, nan, nan, flags[0])
    interval = statistics.t_interval(defined, confidence)
    flags += interval.warnings
    std = float(defined.std(ddof=1)) if len(defined) > 1 else float("nan")
    if len(defined) > 1 and np.ptp(defined) == 0.0:
        std = 0.0  # rounding of the mean must not look like variation
    return Estimate(
        task,
        policy,
        metric,
        len(defined),
        float(defined.mean()),
        std,
        float(interval.low),
        float(interval.high),
        "; ".join(flags),
    )


def comparisons(protocol: Protocol, table: EpisodeTable) -> tuple[Comparison, ...]:
    """Compare all pairs of policies on each task's score; Holm's adjustment within a task."""
    found: list[Comparison] = []
    for task in protocol.task:
        blocks = [block for block in table if block.cell.task == task.id]
        samples = [(block.cell.policy, values(block, protocol.report.score)) for block in blocks]
        pairs = list(itertools.combinations(samples, 2))
        tests = [
            statistics.welch(a, b, confidence=protocol.report.confidence)
            for (_, a), (_, b) in pairs
        ]
        adjusted = _holm(np.array([test.p_value for test in tests]))
        for ((one, a), (two, b)), test, p_holm in zip(pairs, tests, adjusted, strict=True):
            low, high = (
                (test.interval.low, test.interval.high) if test.interval else (np.nan, np.nan)
            )
            found.append(
                Comparison(
                    task.id,
                    one,
                    two,
                    test.estimate,
                    float(low),
                    float(high),
                    test.statistic,
                    test.df,
                    test.p_value,
                    float(p_holm),
                    float("nan") if test.degenerate else statistics.hedges_g(a, b),
                    "no test: the scores do not vary" if test.degenerate else "",
                )
            )
    return tuple(found)


def _holm(p_values: np.ndarray) -> np.ndarray:
    """Holm's adjustment of the tests that exist; the others stay nan."""
    adjusted = np.full(len(p_values), np.nan)
    defined = np.isfinite(p_values)
    if defined.any():
        adjusted[defined] = statistics.holm(p_values[defined])
    return adjusted


def aggregates(protocol: Protocol, table: EpisodeTable) -> tuple[Aggregate, ...]:
    """Aggregate the normalised scores of every policy that finished all tasks.

    An ad-hoc protocol has no agreed bounds, hence no aggregate.
    """
    if protocol.ad_hoc:
        return ()
    found = []
    for policy in dict.fromkeys(block.cell.policy for block in table):
        blocks = [table.of(task.id, policy) for task in protocol.task]
        scores = [
            task.bounds.normalise(values(block, protocol.report.score))
            for task, block in zip(protocol.task, blocks, strict=True)
            if block is not None
        ]
        if len(scores) < len(protocol.task):
            continue
        interval = statistics.bootstrap_interval(
            scores,
            statistics.iqm,
            reps=protocol.report.resamples,
            confidence=protocol.report.confidence,
            seed=0,
        )
        flags = list(interval.warnings)
        found.append(
            Aggregate(
                policy,
                float(interval.estimate),
                float(interval.low),
                float(interval.high),
                len(scores),
                min(len(score) for score in scores),
                "; ".join(flags),
            )
        )
    return tuple(found)
