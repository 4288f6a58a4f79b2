"""Estimates: the mean of every metric of every policy on every task, with its interval."""

import math
from dataclasses import asdict, dataclass

import numpy as np

from coopbench import statistics
from coopbench.analysis.samples import EPISODES, RUNS, mean_of_defined, sample
from coopbench.episodes.metrics import agent_values
from coopbench.episodes.table import EpisodeTable
from coopbench.protocol.schema import Protocol

__all__ = ["AgentEstimate", "Estimate", "agent_estimates", "estimate", "estimates"]


@dataclass(frozen=True)
class Estimate:
    """Mean of one metric over the units of one policy on one task."""

    task: str
    policy: str
    metric: str
    count: int  # units in which the metric is defined
    mean: float
    std: float  # over units, ddof 1; nan for one
    low: float  # t interval of the mean; nan where it is undefined
    high: float
    flag: str  # why the interval says less than it seems; empty when all is well
    unit: str = EPISODES


@dataclass(frozen=True)
class AgentEstimate:
    """Mean of one metric of one agent over the units in which a policy played that agent."""

    task: str
    policy: str
    agent: str
    metric: str
    count: int  # the rest as in Estimate
    mean: float
    std: float
    low: float
    high: float
    flag: str
    unit: str = EPISODES


def estimates(protocol: Protocol, table: EpisodeTable) -> tuple[Estimate, ...]:
    """Estimate every metric of the protocol for every policy on every task that it played."""
    metrics = {task.id: protocol.metrics_of(task) for task in protocol.task}
    confidence, rows = protocol.report.confidence, []
    for task, policy in table.pairs:
        for metric in metrics[task]:
            units = sample(table, task, policy, metric)
            rows.append(estimate(task, policy, metric, units.values, confidence, units.unit))
    return tuple(rows)


def agent_estimates(protocol: Protocol, table: EpisodeTable) -> tuple[AgentEstimate, ...]:
    """Estimate the return and every further metric of each agent for every policy and task."""
    rows, confidence = [], protocol.report.confidence
    for task, policy in table.pairs:
        blocks = table.runs(task, policy)
        fixed = blocks[0].cell.run is None
        for seat, agent in enumerate(blocks[0].agents):
            for metric in ("return", *blocks[0].agent_metrics):
                episodes = [agent_values(b, metric)[b.seats[:, seat], seat] for b in blocks]
                units = episodes[0] if fixed else np.array(list(map(mean_of_defined, episodes)))
                unit = EPISODES if fixed else RUNS
                row = estimate(task, policy, metric, units, confidence, unit)
                rows.append(AgentEstimate(agent=agent, **asdict(row)))
    return tuple(rows)


def estimate(
    task: str,
    policy: str,
    metric: str,
    sample: np.ndarray,
    confidence: float,
    unit: str = EPISODES,
) -> Estimate:
    """Estimate the mean of a sample, one value per unit; values that are not finite are left out.

    ``sample`` is (units,); ``flag`` of the estimate says how many were left out.
    """
    defined = sample[np.isfinite(sample)]
    missing = len(sample) - len(defined)
    flags = [f"undefined in {missing} of {len(sample)} {unit}"] if missing else []
    if len(defined) == 0:
        flag = "; ".join(flags) or f"no {unit}"
        nan = math.nan
        return Estimate(task, policy, metric, 0, nan, nan, nan, nan, flag, unit)
    interval = statistics.t_interval(defined, confidence)
    flags += interval.warnings
    std = float(defined.std(ddof=1)) if len(defined) > 1 else math.nan
    if len(defined) > 1 and np.ptp(defined) == 0.0:
        std = 0.0  # rounding of the mean must not look like variation
    ends = float(defined.mean()), std, float(interval.low), float(interval.high)
    return Estimate(task, policy, metric, len(defined), *ends, "; ".join(flags), unit)
