"""Comparisons: tests between all pairs of policies on each task, adjusted for their number."""

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from coopbench import statistics
from coopbench.analysis.samples import EPISODES, RUNS, mean_of_defined, sample
from coopbench.episodes.table import EpisodeTable
from coopbench.protocol.schema import Protocol
from coopbench.protocol.sections import Task

__all__ = ["Comparison", "comparisons"]


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


def comparisons(protocol: Protocol, table: EpisodeTable) -> tuple[Comparison, ...]:
    """Compare all pairs of policies on each task's score; Holm's adjustment within a task.

    Models of one method are not compared with each other.
    """
    rows: list[Comparison] = []
    for task in protocol.task:
        played = [policy for name, policy in table.pairs if name == task.id]
        pairs = [
            _compared(protocol, table, task, one, two)
            for one, two in itertools.combinations(played, 2)
            if protocol.family(one)[0] != protocol.family(two)[0]
        ]
        different = _holm([pair.p_value for pair in pairs])
        equal = _holm([pair.p_equivalence for pair in pairs])
        rows += [
            replace(pair, p_holm=p, p_equivalence=q)
            for pair, p, q in zip(pairs, different, equal, strict=True)
        ]
    return tuple(rows)


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
    """Bring the scores of two policies to a common unit."""
    score = protocol.report.score
    blocks = table.runs(task, one), table.runs(task, two)
    a, b = (sample(table, task, policy, score) for policy in (one, two))
    if a.unit == b.unit == EPISODES:
        same = np.array_equal(blocks[0][0].seeds, blocks[1][0].seeds)
        return _Pair(a.values, b.values, EPISODES, same)
    if a.unit != b.unit:  # the fixed policy is the same in every run: on the same episodes
        fixed = "against the mean of a fixed policy over the same episodes"
        first, second = (
            side.values if side.unit == RUNS else np.full(size, mean_of_defined(side.values))
            for side, size in ((a, len(b.values)), (b, len(a.values)))
        )
        same = all(np.array_equal(x.seeds, y.seeds) for x in blocks[0] for y in blocks[1])
        # One side does not vary: the deviation is that of the runs, not of both pooled.
        return _Pair(first, second, RUNS, same, fixed, "paired")
    runs = [[block.cell.run for block in side] for side in blocks]
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
    gap = mean_of_defined(a) - mean_of_defined(b)
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
    """Return the p value of the test that two policies are equal within the protocol's margin."""
    margin = protocol.report.margin
    if margin is None or len(a) < 2 or len(b) < 2:
        return math.nan
    width = margin * (task.bounds.high - task.bounds.low)
    test = statistics.paired_tost if protocol.report.comparison == "paired" else statistics.tost
    return test(a, b, width).p_value


def _holm(p_values: Sequence[float]) -> list[float]:
    """Adjust the p values that are defined by Holm's method; the others stay nan."""
    adjusted = np.array(p_values)
    defined = np.isfinite(adjusted)
    if defined.any():
        adjusted[defined] = statistics.holm(adjusted[defined])
    values: list[float] = adjusted.tolist()
    return values
