"""Analysis: from the episode table to estimates, comparisons, aggregates and charts."""

import itertools
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace

import numpy as np

from coopbench import statistics
from coopbench.episodes import Episodes, EpisodeTable
from coopbench.metrics import agent_values, values
from coopbench.protocol import Protocol, Task

__all__ = [
    "AgentEstimate",
    "Aggregate",
    "ChartPoint",
    "Comparison",
    "Estimate",
    "PublishedReturn",
    "agent_estimates",
    "aggregates",
    "chart_points",
    "comparisons",
    "estimate",
    "estimates",
    "model_estimates",
    "published_returns",
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
    """Test between two policies on the score of one task, over episodes."""

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
    method: str = "welch"  # or "paired": over differences between episodes of the same seed
    correlation: float = float("nan")  # Pearson's, between scores of the same seed


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


@dataclass(frozen=True)
class ChartPoint:
    """A metric of one policy at one place of an axis of the tasks."""

    chart: str
    metric: str
    axis: str
    at: float
    policy: str  # of several models: the method
    estimate: float  # interquartile mean over episodes; of models: the mean of theirs
    low: float  # stratified bootstrap interval over episodes; of models: t interval over them
    high: float
    tasks: int  # that stand at this place and are taken together
    count: int  # episodes per task, or models
    unit: str  # "episodes" or "models"
    flag: str


@dataclass(frozen=True)
class PublishedReturn:
    """Mean return on one task, normalised over all policies and tasks that were evaluated."""

    task: str
    policy: str
    mean: float
    normalised: float  # 0 is the lowest mean of the report, 1 the highest; nan if they are equal


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
    """Compare all pairs of policies on each task's score; Holm's adjustment within a task.

    Models of one method are not compared with each other.
    """
    found: list[Comparison] = []
    for task in protocol.task:
        blocks = [block for block in table if block.cell.task == task.id]
        pairs = [
            _compared(protocol, one, two)
            for one, two in itertools.combinations(blocks, 2)
            if protocol.family(one.cell.policy)[0] != protocol.family(two.cell.policy)[0]
        ]
        adjusted = _holm(np.array([pair.p_value for pair in pairs]))
        found += [replace(pair, p_holm=float(p)) for pair, p in zip(pairs, adjusted, strict=True)]
    return tuple(found)


def _compared(protocol: Protocol, one: Episodes, two: Episodes) -> Comparison:
    """Compare two policies on a task, before any adjustment."""
    settings, nan = protocol.report, float("nan")
    a, b = (values(block, settings.score) for block in (one, two))
    same = np.array_equal(one.seeds, two.seeds)
    cells = one.cell.task, one.cell.policy, two.cell.policy
    if settings.comparison == "paired" and not same:
        gap, why = float(a.mean() - b.mean()), "no test: they have not played the same seeds"
        return Comparison(*cells, gap, nan, nan, nan, nan, nan, nan, nan, why, settings.comparison)
    tests = {"welch": statistics.welch, "paired": statistics.paired_t}
    test = tests[settings.comparison](a, b, confidence=settings.confidence)
    low, high = (test.interval.low, test.interval.high) if test.interval else (nan, nan)
    reasons = {"welch": "the scores do not vary", "paired": "the differences do not vary"}
    varying = np.ptp(a) > 0 and np.ptp(b) > 0
    return Comparison(
        *cells,
        test.estimate,
        float(low),
        float(high),
        test.statistic,
        test.df,
        test.p_value,
        nan,
        nan if test.degenerate else statistics.hedges_g(a, b),
        f"no test: {reasons[settings.comparison]}" if test.degenerate else "",
        settings.comparison,
        float(np.corrcoef(a, b)[0, 1]) if same and len(a) > 1 and varying else nan,
    )


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


def model_estimates(protocol: Protocol, table: EpisodeTable) -> tuple[Estimate, ...]:
    """Estimate the score of every method that has several models; ``count`` is their number.

    One row per task, in units of the score, and one per group, over the models' means of normalised
    scores; the latter's task is "all of" the group, or "all tasks".
    """
    found, settings = [], protocol.report
    for name, policies in _families(protocol, table).items():
        if policies == [name]:
            continue
        for group, tasks in protocol.groups.items():
            means = np.array([_means(protocol, table, tasks, policy) for policy in policies])
            low = np.array([task.bounds.low for task in tasks])
            width = np.array([task.bounds.high for task in tasks]) - low
            shares = ((means - low) / width).mean(axis=1)
            rows = [(task.id, means[:, k]) for k, task in enumerate(tasks)]
            for what, sample in (*rows, (f"all of {group}" if group else "all tasks", shares)):
                found.append(estimate(what, name, settings.score, sample, settings.confidence))
    return tuple(found)


def _families(protocol: Protocol, table: EpisodeTable) -> dict[str, list[str]]:
    """Policies by the method that they are models of; a policy of no method is its own."""
    found: dict[str, list[str]] = {}
    for policy in dict.fromkeys(block.cell.policy for block in table):
        found.setdefault(protocol.family(policy)[0], []).append(policy)
    return found


def _means(
    protocol: Protocol, table: EpisodeTable, tasks: Sequence[Task], policy: str
) -> list[float]:
    """Mean score of a policy on each task; nan on those that it has not played."""
    blocks = [table.of(task.id, policy) for task in tasks]
    score = protocol.report.score
    return [float("nan") if b is None else float(values(b, score).mean()) for b in blocks]


def chart_points(protocol: Protocol, table: EpisodeTable) -> tuple[ChartPoint, ...]:
    """Estimate every point of the protocol's charts of which all tasks have been played."""
    points = []
    for chart in protocol.report.chart:
        for name, panel in chart.panels(protocol.task).items():
            for family, policies in _families(protocol, table).items():
                for at in sorted({task.axes[chart.x] for task in panel}):
                    tasks = [task.id for task in panel if task.axes[chart.x] == at]
                    samples = [_samples(table, tasks, p, chart.metric) for p in policies]
                    if all(len(sample) == len(tasks) for sample in samples):
                        ends = _point(protocol, samples, policies != [family])
                        where = name, chart.metric, chart.x, at, family
                        points.append(ChartPoint(*where, *ends[:3], len(tasks), *ends[3:]))
    return tuple(points)


def _samples(
    table: EpisodeTable, tasks: Sequence[str], policy: str, metric: str
) -> list[np.ndarray]:
    """Defined values of a metric on each task, without tasks that have none."""
    blocks = [block for block in (table.of(task, policy) for task in tasks) if block is not None]
    found = [values(block, metric) for block in blocks]
    return [sample[np.isfinite(sample)] for sample in found if np.isfinite(sample).any()]


def _point(
    protocol: Protocol, samples: list[list[np.ndarray]], models: bool
) -> tuple[float, float, float, int, str, str]:
    """Estimate, interval, count, unit and flag of a point."""
    settings = protocol.report
    if models:
        means = np.array([statistics.iqm(sample) for sample in samples])
        row = estimate("", "", "", means, settings.confidence)
        return row.mean, row.low, row.high, row.count, "models", row.flag
    interval = statistics.bootstrap_interval(
        samples[0],
        statistics.iqm,
        reps=settings.resamples,
        confidence=settings.confidence,
        seed=0,
    )
    ends = float(interval.estimate), float(interval.low), float(interval.high)
    count = min(len(sample) for sample in samples[0])
    return *ends, count, "episodes", "; ".join(interval.warnings)


def published_returns(protocol: Protocol, table: EpisodeTable) -> tuple[PublishedReturn, ...]:
    """Normalise the mean returns as published: by the lowest and highest over all cells at once.

    Only where the protocol asks for it, because every value moves when a policy is added.
    """
    if not protocol.report.published_return or not len(table):
        return ()
    means = np.array([values(block, "return").mean() for block in table])
    low, width = means.min(), np.ptp(means)
    shares = (means - low) / width if width > 0 else np.full(len(means), np.nan)
    return tuple(
        PublishedReturn(block.cell.task, block.cell.policy, float(mean), float(share))
        for block, mean, share in zip(table, means, shares, strict=True)
    )
