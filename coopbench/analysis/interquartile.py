"""Interquartile means of every metric, task by task and over groups."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from coopbench import statistics
from coopbench.analysis.estimates import few_runs
from coopbench.analysis.plays import Play, count_runs, play
from coopbench.analysis.rows import ReportRow
from coopbench.analysis.samples import EPISODES, RUNS
from coopbench.episodes.table import EpisodeTable
from coopbench.protocol.schema import Protocol
from coopbench.protocol.sections import Task
from coopbench.statistics import Crossed
from coopbench.statistics.crossed import FEWEST
from coopbench.statistics.unseen import FEW

__all__ = ["InterquartileMean", "interquartile_means"]


@dataclass(frozen=True, eq=False)
class InterquartileMean(ReportRow):
    """Interquartile mean of a metric of one policy, in units of the metric."""

    group: str
    task: str  # empty: over all tasks of the group
    policy: str
    metric: str
    estimate: float  # over the means of runs and tasks; of one run on one task its mean
    low: float  # two-way interval, over runs and episodes; nan where it is undefined
    high: float
    tasks: int
    count: int  # units of the task with fewest
    unit: str  # "episodes" of a fixed policy, "runs" of a learner
    flag: str


def interquartile_means(protocol: Protocol, table: EpisodeTable) -> tuple[InterquartileMean, ...]:
    """Estimate the interquartile mean of every metric for each task and group.

    Only where the protocol asks for it. A policy is in a group if it has played all of its tasks
    and the metric is defined on each.
    """
    if not protocol.report.reproduces.interquartile:
        return ()
    policies, rows = dict.fromkeys(policy for _, policy in table.pairs), []
    for group, tasks in protocol.groups.items():
        places = [(task.id, (task,)) for task in tasks]
        for name, members in [*places, ("", tasks)]:
            for policy in policies:
                for metric in _shared_metrics(protocol, members):
                    plays = _defined(protocol, table, members, policy, metric)
                    if len(plays) == len(members):
                        rows.append(_row(protocol, (group, name, policy, metric), plays))
    return tuple(rows)


def _shared_metrics(protocol: Protocol, tasks: Sequence[Task]) -> list[str]:
    """Return the metrics that are reported of all of some tasks."""
    others = [protocol.metrics_of(task) for task in tasks]
    return [name for name in others[0] if all(name in names for names in others)]


def _defined(
    protocol: Protocol, table: EpisodeTable, tasks: Sequence[Task], policy: str, metric: str
) -> list[Play]:
    """Return the plays of a policy on those tasks on which a metric is ever defined."""
    plays = [play(protocol, table, task, policy, metric) for task in tasks]
    return [one for one in plays if one is not None and np.isfinite(one.values).any()]


def _row(
    protocol: Protocol, names: tuple[str, str, str, str], plays: Sequence[Play]
) -> InterquartileMean:
    """Return the interquartile mean of one policy over the plays of one metric."""
    grids = [one.grid() for one in plays]
    if plays[0].fixed:
        crossed = Crossed(grids)
        weights = statistics.trimmed_weights(crossed.means)
        value, spread = float(weights @ crossed.means), crossed.spread(weights)
    else:
        value, spread = statistics.iqm_of_runs(grids)
    half = float(statistics.half_widths(spread, protocol.report.confidence)[0])
    return InterquartileMean(
        *names,
        value,
        value - half,
        value + half,
        len(plays),
        min(len(one.values) for one in plays),
        EPISODES if plays[0].fixed else RUNS,
        _flag(plays),
    )


def _flag(plays: Sequence[Play]) -> str:
    """Say what weakens an interval, or excludes it; empty when all is well."""
    runs, flags = min(len(one.runs) for one in plays), []
    if not plays[0].fixed and runs < FEWEST:
        flags.append(f"no interval: it needs {FEWEST} runs")
    elif not plays[0].fixed and runs < FEW:
        flags.append(few_runs(count_runs(plays), f"{runs} runs per task"))
    flags += dict.fromkeys(one.note for one in plays if one.note)
    return "; ".join(flags)
