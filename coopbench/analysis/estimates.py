"""Analysis: from the episode table to estimates, comparisons, aggregates and charts.

The unit of inference of a fixed policy is the episode, that of a policy with training runs the run:
its episodes are averaged first.
"""

import itertools
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

import numpy as np

from coopbench import statistics
from coopbench.episodes.metrics import agent_values, values
from coopbench.episodes.table import EpisodeTable
from coopbench.protocol.schema import Protocol, Task

__all__ = [
    "AgentEstimate",
    "Aggregate",
    "ChartPoint",
    "Comparison",
    "Estimate",
    "PublishedReturn",
    "Sample",
    "agent_estimates",
    "aggregates",
    "bootstrap_method",
    "bootstrap_options",
    "chart_points",
    "comparisons",
    "estimate",
    "estimates",
    "group_scores",
    "model_estimates",
    "published_returns",
    "sample",
    "score_scales",
]


EPISODES, RUNS, MODELS = "episodes", "runs", "models"  # units of inference


@dataclass(frozen=True)
class Sample:
    """Values of one policy on one task, one for each unit of inference."""

    values: np.ndarray  # (units,)
    unit: str  # "episodes" or "runs"


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


@dataclass(frozen=True)
class Comparison:
    """Test between two policies on the score of one task, over their units.

    Two policies are only called equal by the test of equivalence within the protocol's margin.
    """

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
    method: str = "welch"  # or "paired": over differences between units of the same seed
    correlation: float = math.nan  # Pearson's, between scores of the same seed
    unit: str = EPISODES
    p_equivalence: float = math.nan  # nan without a margin; adjusted like p_holm


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
    statistic: str = "iqm"  # or "optimality_gap", "mean", "median"
    unit: str = EPISODES
    method: str = "percentile"  # of the bootstrap


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
    unit: str  # "episodes", "runs" or "models"
    flag: str


@dataclass(frozen=True)
class PublishedReturn:
    """Mean return on one task, normalised over all policies and tasks that were evaluated."""

    task: str
    policy: str
    mean: float
    normalised: float  # 0 is the lowest mean of the report, 1 the highest; nan if they are equal


def sample(table: EpisodeTable, task: str, policy: str, metric: str) -> Sample:
    """Return a metric of a policy on a task by unit of inference; empty if it has not played.

    A run's value is the mean over its episodes in which the metric is defined, nan if there is
    none.
    """
    blocks = table.runs(task, policy)
    if blocks and blocks[0].cell.run is None:
        return Sample(values(blocks[0], metric), EPISODES)
    return Sample(np.array([_mean(values(block, metric)) for block in blocks]), RUNS)


def _mean(found: np.ndarray) -> float:
    defined = found[np.isfinite(found)]
    return float(defined.mean()) if len(defined) else math.nan


def estimates(protocol: Protocol, table: EpisodeTable) -> tuple[Estimate, ...]:
    """Estimate every metric of the protocol for every policy on every task that it played."""
    metrics, found = {task.id: protocol.metrics_of(task) for task in protocol.task}, []
    for task, policy in table.pairs:
        for metric in metrics[task]:
            there, level = sample(table, task, policy, metric), protocol.report.confidence
            found.append(estimate(task, policy, metric, there.values, level, there.unit))
    return tuple(found)


def agent_estimates(protocol: Protocol, table: EpisodeTable) -> tuple[AgentEstimate, ...]:
    """Estimate the return and every further metric of each agent for every policy and task."""
    found, confidence = [], protocol.report.confidence
    for task, policy in table.pairs:
        blocks = table.runs(task, policy)
        for seat, agent in enumerate(blocks[0].agents):
            for metric in ("return", *blocks[0].agent_metrics):
                own = [agent_values(b, metric)[b.seats[:, seat], seat] for b in blocks]
                fixed = blocks[0].cell.run is None
                there = own[0] if fixed else np.array([_mean(each) for each in own])
                unit = EPISODES if fixed else RUNS
                row = estimate(task, policy, metric, there, confidence, unit)
                found.append(AgentEstimate(agent=agent, **asdict(row)))
    return tuple(found)


def estimate(
    task: str,
    policy: str,
    metric: str,
    sample: np.ndarray,
    confidence: float,
    unit: str = EPISODES,
) -> Estimate:
    """Estimate the mean of a sample, one value per unit; what is not finite is left out."""
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


def comparisons(protocol: Protocol, table: EpisodeTable) -> tuple[Comparison, ...]:
    """Compare all pairs of policies on each task's score; Holm's adjustment within a task.

    Models of one method are not compared with each other.
    """
    found: list[Comparison] = []
    for task in protocol.task:
        played = [policy for name, policy in table.pairs if name == task.id]
        pairs = [
            _compared(protocol, table, task, one, two)
            for one, two in itertools.combinations(played, 2)
            if protocol.family(one)[0] != protocol.family(two)[0]
        ]
        different = _holm([pair.p_value for pair in pairs])
        equal = _holm([pair.p_equivalence for pair in pairs])
        found += [
            replace(pair, p_holm=p, p_equivalence=q)
            for pair, p, q in zip(pairs, different, equal, strict=True)
        ]
    return tuple(found)


@dataclass(frozen=True)
class _Pair:
    """Scores of two policies on one task, ready to be compared."""

    first: np.ndarray
    second: np.ndarray
    unit: str
    matched: bool  # whether the k-th of both have the same seed
    note: str = ""
    standardiser: Literal["pooled", "paired"] = "pooled"  # of the size of the effect


def _matched(protocol: Protocol, table: EpisodeTable, task: str, one: str, two: str) -> _Pair:
    """Bring two policies to a common unit."""
    score = protocol.report.score
    blocks = table.runs(task, one), table.runs(task, two)
    a, b = (sample(table, task, policy, score) for policy in (one, two))
    if a.unit == b.unit == EPISODES:
        same = np.array_equal(blocks[0][0].seeds, blocks[1][0].seeds)
        return _Pair(a.values, b.values, EPISODES, same)
    if a.unit != b.unit:  # the fixed policy is the same in every run: on the same episodes
        fixed = "against the mean of a fixed policy over the same episodes"
        first, second = (
            side.values if side.unit == RUNS else np.full(size, _mean(side.values))
            for side, size in ((a, len(b.values)), (b, len(a.values)))
        )
        same = all(np.array_equal(x.seeds, y.seeds) for x in blocks[0] for y in blocks[1])
        # One side does not vary: the deviation is that of the runs, not of both pooled.
        return _Pair(first, second, RUNS, same, fixed, "paired")
    runs = [[block.cell.run for block in each] for each in blocks]
    if runs[0] == runs[1] or protocol.report.comparison == "welch":
        return _Pair(a.values, b.values, RUNS, runs[0] == runs[1])
    both = [run for run in runs[0] if run in runs[1]]
    x, y = (s.values[[r.index(run) for run in both]] for s, r in ((a, runs[0]), (b, runs[1])))
    return _Pair(x, y, RUNS, bool(both), f"over the runs that both have, {len(both)}")


def _compared(
    protocol: Protocol, table: EpisodeTable, task: Task, one: str, two: str
) -> Comparison:
    """Compare two policies on a task, before any adjustment."""
    settings, nan = protocol.report, math.nan
    pair = _matched(protocol, table, task.id, one, two)
    a, b, method = pair.first, pair.second, settings.comparison
    gap = _mean(a) - _mean(b)
    empty = Comparison(
        task.id, one, two, gap, nan, nan, nan, nan, nan, nan, nan, "", method, nan, pair.unit
    )
    if method == "paired" and not pair.matched:
        return replace(empty, flag="no test: they have not played the same seeds")
    if not (np.isfinite(a).all() and np.isfinite(b).all()):
        return replace(empty, flag=f"no test: the score is undefined in some {pair.unit}")
    tests = {"welch": statistics.welch, "paired": statistics.paired_t}
    test = tests[method](a, b, confidence=settings.confidence)
    low, high = (test.interval.low, test.interval.high) if test.interval else (nan, nan)
    reasons = {"welch": "the scores do not vary", "paired": "the differences do not vary"}
    reason = f"a single {pair.unit[:-1]}" if min(len(a), len(b)) < 2 else reasons[method]
    varying = len(a) > 1 and np.ptp(a) > 0 and np.ptp(b) > 0
    flags = [pair.note, f"no test: {reason}" if test.degenerate else ""]
    return replace(
        empty,
        difference=test.estimate,
        low=float(low),
        high=float(high),
        statistic=test.statistic,
        df=test.df,
        p_value=test.p_value,
        hedges_g=nan if test.degenerate else _effect(pair),
        flag="; ".join(filter(None, flags)),
        correlation=float(np.corrcoef(a, b)[0, 1]) if pair.matched and varying else nan,
        p_equivalence=_equivalence(protocol, task, a, b),
    )


def _effect(pair: _Pair) -> float:
    return statistics.hedges_g(pair.first, pair.second, standardiser=pair.standardiser)


def _equivalence(protocol: Protocol, task: Task, a: np.ndarray, b: np.ndarray) -> float:
    """P value of the test that two policies are equal within the protocol's margin."""
    margin = protocol.report.margin
    if margin is None or len(a) < 2 or len(b) < 2:
        return math.nan
    width = margin * (task.bounds.high - task.bounds.low)
    test = statistics.paired_tost if protocol.report.comparison == "paired" else statistics.tost
    return test(a, b, width).p_value


def _holm(p_values: Sequence[float]) -> list[float]:
    """Holm's adjustment of the tests that exist; the others stay nan."""
    found = np.array(p_values)
    defined = np.isfinite(found)
    if defined.any():
        found[defined] = statistics.holm(found[defined])
    return found.tolist()


def aggregates(protocol: Protocol, table: EpisodeTable) -> tuple[Aggregate, ...]:
    """Aggregate the normalised scores of every policy in every group whose tasks it finished.

    One row for each statistic: interquartile mean, optimality gap, mean and median. An ad-hoc
    protocol has no agreed bounds, hence no aggregate.
    """
    found = group_scores(protocol, table)
    rows = (_aggregated(protocol, *key, samples) for key, samples in found.items())
    return tuple(itertools.chain.from_iterable(rows))


def group_scores(
    protocol: Protocol, table: EpisodeTable
) -> dict[tuple[str, str], tuple[Sample, ...]]:
    """Normalised scores {(group, policy): one sample per task}, of all tasks of a group or none."""
    if protocol.ad_hoc:
        return {}
    scales, found = score_scales(protocol, table), {}
    names = dict.fromkeys(policy for _, policy in table.pairs)
    for group, tasks in protocol.groups.items():
        for policy in names:
            samples = [sample(table, task.id, policy, protocol.report.score) for task in tasks]
            if all(len(s.values) and np.isfinite(s.values).all() for s in samples):
                found[group, policy] = tuple(
                    replace(each, values=scales[task.id].normalise(each.values))
                    for task, each in zip(tasks, samples, strict=True)
                )
    return found


@dataclass(frozen=True)
class Scale:
    """What counts as 0 on a task, and how much more as 1."""

    low: float
    width: float

    def normalise(self, scores: np.ndarray) -> np.ndarray:
        """Map scores; values beyond are kept as they are."""
        return (scores - self.low) / self.width


def score_scales(protocol: Protocol, table: EpisodeTable) -> dict[str, Scale]:
    """Scale of every task: its bounds, or the range of all its episodes, nan if there are none.

    The latter, (x - min) / (max - min + 1e-6) over all policies, runs and checkpoints, is that of
    Gorsane et al. 2022; it moves whenever a policy is added.
    """
    if protocol.report.normalisation != "minmax":
        bounds = {task.id: task.bounds for task in protocol.task}
        return {name: Scale(each.low, each.high - each.low) for name, each in bounds.items()}
    score, found = protocol.report.score, {}
    for task in protocol.task:
        blocks = [values(block, score) for block in table if block.cell.task == task.id]
        courses = [each.metrics[score] for each in table.progress if each.cell.task == task.id]
        defined = [each[np.isfinite(each)] for each in (*blocks, *courses)]
        low = min((float(each.min()) for each in defined if each.size), default=math.nan)
        high = max((float(each.max()) for each in defined if each.size), default=math.nan)
        found[task.id] = Scale(low, high - low + 1e-6)
    return found


STATISTICS = {
    "iqm": statistics.iqm,
    "optimality_gap": statistics.optimality_gap,
    "mean": statistics.mean,
    "median": statistics.median,
}


def bootstrap_method(protocol: Protocol, unit: str, tasks: int = 2) -> str:
    """Method of the bootstrap for a unit: for runs, which are few, one that allows for that.

    For the mean of a single task that is Student's t; see the coverage in docs/statistics.md.
    """
    if protocol.report.bootstrap is not None:
        return protocol.report.bootstrap
    if unit == EPISODES:
        return "percentile"
    return "t" if tasks == 1 else "expanded"


def bootstrap_options(protocol: Protocol, unit: str, tasks: int = 2) -> dict[str, Any]:
    """Options of every bootstrap interval of a report over units of one kind."""
    return {
        "method": bootstrap_method(protocol, unit, tasks),
        "reps": protocol.report.resamples,
        "confidence": protocol.report.confidence,
        "seed": 0,
    }


def _aggregated(
    protocol: Protocol, group: str, policy: str, samples: Sequence[Sample]
) -> list[Aggregate]:
    unit, scores = samples[0].unit, [each.values for each in samples]
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
            min(len(each.values) for each in samples),
            "; ".join(interval.warnings),
            name,
            unit,
            options["method"],
        )
        for name, interval in zip(STATISTICS, intervals, strict=True)
    ]


def model_estimates(protocol: Protocol, table: EpisodeTable) -> tuple[Estimate, ...]:
    """Estimate the score of every method that has several models; ``count`` is their number.

    One row per task, in units of the score, and one per group, over the models' means of normalised
    scores; the latter's task is "all of" the group, or "all tasks".
    """
    found, settings, scales = [], protocol.report, score_scales(protocol, table)
    for name, policies in _families(protocol, table).items():
        if policies == [name]:
            continue
        for group, tasks in protocol.groups.items():
            means = np.array([_means(protocol, table, tasks, policy) for policy in policies])
            columns = [scales[t.id].normalise(means[:, k]) for k, t in enumerate(tasks)]
            shares = np.mean(columns, axis=0)
            rows = [(task.id, means[:, k]) for k, task in enumerate(tasks)]
            for what, column in (*rows, (f"all of {group}" if group else "all tasks", shares)):
                row = estimate(what, name, settings.score, column, settings.confidence, MODELS)
                found.append(row)
    return tuple(found)


def _families(protocol: Protocol, table: EpisodeTable) -> dict[str, list[str]]:
    """Policies by the method that they are models of; a policy of no method is its own."""
    found: dict[str, list[str]] = {}
    for policy in dict.fromkeys(policy for _, policy in table.pairs):
        found.setdefault(protocol.family(policy)[0], []).append(policy)
    return found


def _means(
    protocol: Protocol, table: EpisodeTable, tasks: Sequence[Task], policy: str
) -> list[float]:
    """Mean score of a policy on each task; nan on those that it has not played."""
    found = [sample(table, task.id, policy, protocol.report.score) for task in tasks]
    return [float(each.values.mean()) if len(each.values) else math.nan for each in found]


def chart_points(protocol: Protocol, table: EpisodeTable) -> tuple[ChartPoint, ...]:
    """Estimate every point of the protocol's charts of which all tasks have been played."""
    points = []
    for chart in protocol.report.chart:
        for name, panel in chart.panels(protocol.task).items():
            for family, policies in _families(protocol, table).items():
                for at in sorted({task.axes[chart.x] for task in panel}):
                    tasks = [task.id for task in panel if task.axes[chart.x] == at]
                    samples = [_samples(table, tasks, p, chart.metric) for p in policies]
                    if all(len(each) == len(tasks) for each in samples):
                        ends = _point(protocol, samples, policies != [family])
                        where = name, chart.metric, chart.x, at, family
                        points.append(ChartPoint(*where, *ends[:3], len(tasks), *ends[3:]))
    return tuple(points)


def _samples(table: EpisodeTable, tasks: Sequence[str], policy: str, metric: str) -> list[Sample]:
    """Defined values of a metric on each task, without tasks that have none."""
    found = [sample(table, task, policy, metric) for task in tasks]
    there = [each for each in found if np.isfinite(each.values).any()]
    return [replace(each, values=each.values[np.isfinite(each.values)]) for each in there]


def _point(
    protocol: Protocol, samples: list[list[Sample]], models: bool
) -> tuple[float, float, float, int, str, str]:
    """Estimate, interval, count, unit and flag of a point."""
    settings = protocol.report
    tasks = [[each.values for each in model] for model in samples]
    if models:
        means = np.array([statistics.iqm(each) for each in tasks])
        row = estimate("", "", "", means, settings.confidence, MODELS)
        return row.mean, row.low, row.high, row.count, MODELS, row.flag
    unit = samples[0][0].unit
    options = bootstrap_options(protocol, unit)
    interval = statistics.bootstrap_interval(tasks[0], statistics.iqm, **options)
    ends = float(interval.estimate), float(interval.low), float(interval.high)
    count = min(len(each) for each in tasks[0])
    return *ends, count, unit, "; ".join(interval.warnings)


def published_returns(protocol: Protocol, table: EpisodeTable) -> tuple[PublishedReturn, ...]:
    """Normalise the mean returns as published: by the lowest and highest over all cells at once.

    Only where the protocol asks for it, because every value moves when a policy is added.
    """
    if not protocol.report.published_return or not len(table):
        return ()
    found = [sample(table, task, policy, "return") for task, policy in table.pairs]
    means = np.array([each.values.mean() for each in found])
    low, width = means.min(), np.ptp(means)
    shares = (means - low) / width if width > 0 else np.full(len(means), np.nan)
    return tuple(
        PublishedReturn(task, policy, float(mean), float(share))
        for (task, policy), mean, share in zip(table.pairs, means, shares, strict=True)
    )
