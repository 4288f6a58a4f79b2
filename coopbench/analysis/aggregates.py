"""Aggregates: statistics of the normalised scores of a policy over all tasks of a group."""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from coopbench import statistics
from coopbench.analysis.samples import EPISODES, Sample, group_scores
from coopbench.episodes.table import EpisodeTable
from coopbench.protocol.schema import Protocol

__all__ = ["STATISTICS", "Aggregate", "aggregates", "bootstrap_method", "bootstrap_options"]

STATISTICS = {
    "iqm": statistics.iqm,
    "optimality_gap": statistics.optimality_gap,
    "mean": statistics.mean,
    "median": statistics.median,
}


@dataclass(frozen=True)
class Aggregate:
    """A statistic of normalised scores over the tasks of a group, for one policy."""

    group: str  # empty if the protocol has no groups: then over all tasks
    policy: str
    estimate: float
    low: float  # stratified bootstrap interval: tasks are the strata, units are resampled
    high: float
    tasks: int
    count: int  # units per task, at least
    flag: str
    statistic: str = "iqm"  # a key of STATISTICS
    unit: str = EPISODES
    method: str = "percentile"  # of the bootstrap


def aggregates(protocol: Protocol, table: EpisodeTable) -> tuple[Aggregate, ...]:
    """Aggregate the normalised scores of every policy in every group whose tasks it finished.

    One row for each of ``STATISTICS``. An ad-hoc protocol has no agreed bounds, hence no aggregate.
    """
    scores = group_scores(protocol, table)
    rows = (_aggregated(protocol, *key, samples) for key, samples in scores.items())
    return tuple(itertools.chain.from_iterable(rows))


def bootstrap_method(protocol: Protocol, unit: str, tasks: int = 2) -> str:
    """Return the method of the bootstrap for a unit: for runs, which are few, a wider one.

    For the mean of a single task that is Student's t; see the coverage in docs/statistics.md.
    """
    if protocol.report.bootstrap is not None:
        return protocol.report.bootstrap
    if unit == EPISODES:
        return "percentile"
    return "t" if tasks == 1 else "expanded"


def bootstrap_options(protocol: Protocol, unit: str, tasks: int = 2) -> dict[str, Any]:
    """Return the options of every bootstrap interval of a report over units of one kind."""
    return {
        "method": bootstrap_method(protocol, unit, tasks),
        "reps": protocol.report.resamples,
        "confidence": protocol.report.confidence,
        "seed": 0,
    }


def _aggregated(
    protocol: Protocol, group: str, policy: str, samples: Sequence[Sample]
) -> list[Aggregate]:
    unit, scores = samples[0].unit, [units.values for units in samples]
    options = bootstrap_options(protocol, unit, len(samples))
    intervals = statistics.bootstrap_intervals(scores, list(STATISTICS.values()), **options)
    return [
        Aggregate(
            group,
            policy,
            float(interval.estimate),
            float(interval.low),
            float(interval.high),
            len(samples),
            min(map(len, scores)),
            "; ".join(interval.warnings),
            name,
            unit,
            options["method"],
        )
        for name, interval in zip(STATISTICS, intervals, strict=True)
    ]
