"""Analysis: from the episode table to estimates, comparisons and aggregates."""

import itertools
from dataclasses import asdict, dataclass

import numpy as np

from coopbench import statistics
from coopbench.episodes import EpisodeTable
from coopbench.metrics import agent_values, values
from coopbench.protocol import Protocol

__all__ = [
    "AgentEstimate",
    "Aggregate",
    "Comparison",
    "Estimate",
    "agent_estimates",
    "aggregates",
    "comparisons",
    "estimate",
    "estimates",
]


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
class AgentEstimate:
    """Mean of one metric of one agent over the episodes in which a policy played that agent."""

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
    """Interquartile mean of normalised scores over the tasks of a group, for one policy."""

    group: str  # empty if the protocol has no groups: then over all tasks
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
        estimate(
            block.cell.task,
            block.cell.policy,
            metric,
            values(block, metric),
            protocol.report.confidence,
        )
        for block in table
        for metric in metrics
    )


def agent_estimates(protocol: Protocol, table: EpisodeTable) -> tuple[AgentEstimate, ...]:
    """Estimate the return and every further metric of each agent for every finished cell."""
    found = []
    for block in table:
        for seat, agent in enumerate(block.agents):
            own = block.seats[:, seat]
            for metric in ("return", *block.agent_metrics):
                sample = agent_values(block, metric)[own, seat]
                cell, confidence = block.cell, protocol.report.confidence
                row = estimate(cell.task, cell.policy, metric, sample, confidence)
                found.append(AgentEstimate(agent=agent, **asdict(row)))
    return tuple(found)


def estimate(
    task: str, policy: str, metric: str, sample: np.ndarray, confidence: float
) -> Estimate:
    """Estimate the mean of a sample, one value per episode; what is not finite is left out."""
    defined = sample[np.isfinite(sample)]
    missing = len(sample) - len(defined)
    flags = [f"undefined in {missing} of {len(sample)} episodes"] if missing else []
    if len(defined) == 0:
        nan = float("nan")
        flag = "; ".join(flags) or "no episodes"
        return Estimate(task, policy, metric, 0, nan, nan, nan, nan, flag)
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
    """Aggregate the normalised scores of every policy in every group whose tasks it finished.

    An ad-hoc protocol has no agreed bounds, hence no aggregate.
    """
    if protocol.ad_hoc:
        return ()
    names = dict.fromkeys(block.cell.policy for block in table)
    rows = (_aggregate(protocol, table, g, policy) for g in protocol.groups for policy in names)
    return tuple(row for row in rows if row is not None)


def _aggregate(
    protocol: Protocol, table: EpisodeTable, group: str, policy: str
) -> Aggregate | None:
    """Aggregate of one policy over one group; None if it has not finished all tasks."""
    tasks, settings = protocol.groups[group], protocol.report
    blocks = [table.of(task.id, policy) for task in tasks]
    scores = [
        task.bounds.normalise(values(block, settings.score))
        for task, block in zip(tasks, blocks, strict=True)
        if block is not None
    ]
    if len(scores) < len(tasks):
        return None
    interval = statistics.bootstrap_interval(
        scores,
        statistics.iqm,
        reps=settings.resamples,
        confidence=settings.confidence,
        seed=0,
    )
    return Aggregate(
        group,
        policy,
        float(interval.estimate),
        float(interval.low),
        float(interval.high),
        len(scores),
        min(len(score) for score in scores),
        "; ".join(interval.warnings),
    )
