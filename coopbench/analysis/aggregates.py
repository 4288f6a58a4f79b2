"""Aggregates: statistics of the normalised scores of a policy over all tasks of a group."""

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from coopbench import statistics
from coopbench.analysis.samples import EPISODES, Sample, group_scores
from coopbench.episodes.table import EpisodeTable
from coopbench.protocol.schema import Protocol

__all__ = [
    "SHOWN",
    "STATISTICS",
    "Aggregate",
    "Statistic",
    "aggregates",
    "bootstrap_method",
    "bootstrap_options",
]


class Statistic(NamedTuple):
    """A statistic of normalised scores over tasks, with its words in tables and plots."""

    compute: Callable[..., Any]  # a statistic of coopbench.statistics
    label: str  # head of its column
    name: str  # in running text
    meaning: str  # of its column, and what it says in "How to read it"
    reading: str
    axis: str  # text at the axis of its plot, before "normalised" and the score
    shown: bool = True  # in tables, LaTeX and plots; otherwise only in files for machines
    lowest: bool = False  # whether less is better


# A further entry appears in all files, tables and plots.
STATISTICS = {
    "iqm": Statistic(
        compute=statistics.iqm,
        label="IQM",
        name="interquartile mean",
        meaning="interquartile mean of normalised scores",
        reading="The interquartile mean is the mean of the middle half of all normalised scores.",
        axis="IQM of",
    ),
    "optimality_gap": Statistic(
        compute=statistics.optimality_gap,
        label="Optimality gap",
        name="optimality gap",
        meaning="mean shortfall from the normalised score 1; less is better",
        reading="How far scores fall short of the normalised score 1 on average: scores above 1 "
        "count as 1, scores below 0 count in full. Less is better (Agarwal et al. 2021).",
        axis="optimality gap of",
        lowest=True,
    ),
    "mean": Statistic(
        compute=statistics.mean,
        label="Mean",
        name="mean",
        meaning="mean of normalised scores",
        reading="The mean of all normalised scores.",
        axis="mean of",
        shown=False,
    ),
    "median": Statistic(
        compute=statistics.median,
        label="Median",
        name="median",
        meaning="median over tasks of the mean normalised score",
        reading="The median over tasks of the mean normalised score.",
        axis="median over tasks of",
        shown=False,
    ),
}
SHOWN = {key: statistic for key, statistic in STATISTICS.items() if statistic.shown}


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
    measures = [statistic.compute for statistic in STATISTICS.values()]
    intervals = statistics.bootstrap_intervals(scores, measures, **options)
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
