"""Comparisons: differences between all pairs of policies, task by task and over groups.

The interval of a difference is for new runs and new episodes. p is the level at which it touches 0.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from coopbench import statistics
from coopbench.analysis.constants import BOUND, EXACT, NONE, TEST, Matrices
from coopbench.analysis.contrasts import Contrast, adjusted, contrasts, decide, family_pairs, holm
from coopbench.analysis.rows import ReportRow
from coopbench.analysis.score_matrix import (
    EPISODES,
    RUNS,
    ScoreMatrix,
    common_episodes,
    group_matrices,
    same_episodes,
    score_ends,
    score_matrix,
    shared_units,
)
from coopbench.episodes.grouping import grouped
from coopbench.episodes.table import EpisodeTable
from coopbench.protocol.schema import Protocol
from coopbench.protocol.task import Task
from coopbench.statistics.scores import mean_of_defined
from coopbench.statistics.shared_units import connected
from coopbench.statistics.two_way import FEWEST


@dataclass(frozen=True, eq=False)
class Comparison(ReportRow):
    """Difference between two policies in the mean score of one task.

    Two policies are only called equal by the test of equivalence within the protocol's margin.
    """

    task: str
    first: str
    second: str
    difference: float  # mean of first minus mean of second
    low: float  # two-way interval of the difference, over runs and episodes
    high: float
    p_value: float  # level at which the interval touches 0; nan where there is no test
    p_holm: float  # adjusted over the tasks of the group, for this pair of policies
    decided: bool  # whether the difference is claimed: p_holm below alpha
    basis: str  # what p follows from: a "test", a "bound", an "exact" difference, or "none"
    hedges_g: float
    flag: str  # why there is no test, or what it is over
    method: str = "paired"  # "welch": as if the two had played different episodes
    correlation: float = math.nan  # Pearson's, between scores of the same seed
    unit: str = EPISODES  # "runs" where one of the two is a learner
    p_equivalence: float = math.nan  # nan without a margin; adjusted like p_holm
    above: int = 0  # of a learner and a fixed policy: runs of the learner above the fixed policy
    runs: int = 0  # of how many; 0 where there is no such pair
    above_low: float = math.nan  # exact interval of their share (Clopper and Pearson 1934)
    above_high: float = math.nan
    # Where runs have episodes of their own, the test of two learners is Welch's of their means.
    welch_t: float = math.nan
    welch_df: float = math.nan


@dataclass(frozen=True, eq=False)
class GroupComparison(ReportRow):
    """Difference between two policies in the mean normalized score over the tasks of a group."""

    group: str  # empty if the protocol has no groups: then over all tasks
    first: str
    second: str
    difference: float  # of the means over task means
    low: float  # two-way interval of the difference
    high: float
    p_value: float  # of the pair's one test over the group
    p_ranks: float  # adjusted over all pairs of the group; ranks follow from it
    decided: bool  # whether the difference is claimed: p_value below alpha
    basis: str  # as in Comparison
    trimmed_difference: float  # of the trimmed means of task means
    trimmed_low: float  # its interval is up to twice too wide where tasks tie
    trimmed_high: float
    tasks: int
    flag: str
    above: int = 0  # as in Comparison, over the runs of all tasks
    runs: int = 0
    above_low: float = math.nan
    above_high: float = math.nan


def comparisons(protocol: Protocol, table: EpisodeTable) -> tuple[Comparison, ...]:
    """Compare all pairs of policies on each task's score.

    The family of a decision is one pair of policies on the tasks of one group: p is adjusted within
    it by Holm's method, so that no further contestant changes it. Models of one method are not
    compared with each other.
    """
    rows = [row for task in protocol.task for row in _task_comparisons(protocol, table, task)]
    for family in _families(protocol, rows):
        members = [rows[k] for k in family]
        different = decide(members, protocol.report.alpha)
        exact = [row.basis == EXACT for row in members]
        equal = holm([row.p_equivalence for row in members], exact)
        for k, (p, decided), q in zip(family, different, equal, strict=True):
            rows[k] = replace(rows[k], p_holm=p, p_equivalence=q, decided=decided)
    return tuple(rows)


def _families(protocol: Protocol, rows: Sequence[Comparison]) -> list[list[int]]:
    """Return the numbers of the rows of one pair of policies on the tasks of one group."""
    groups = {task.id: group for group, tasks in protocol.groups.items() for task in tasks}
    families = grouped(
        ((groups[row.task], frozenset((row.first, row.second))), k) for k, row in enumerate(rows)
    )
    return list(families.values())


def count_decisions(
    protocol: Protocol, tasks: Sequence[Comparison], groups: Sequence[GroupComparison]
) -> int:
    """Return how many families have a test: pairs on the tasks of a group, pairs over a group.

    What is exact is no test: it cannot be false.
    """
    families = _families(protocol, tasks)
    tested = sum(any(tasks[k].basis in (TEST, BOUND) for k in family) for family in families)
    return tested + sum(row.basis in (TEST, BOUND) for row in groups)


def group_comparisons(protocol: Protocol, table: EpisodeTable) -> tuple[GroupComparison, ...]:
    """Compare all pairs of policies over every group whose tasks both have finished.

    The comparison of two policies over a group is one decision. Models of one method are not
    compared with each other.
    """
    rows: list[GroupComparison] = []
    for group, matrices in group_matrices(protocol, table).items():
        ends = score_ends(protocol, protocol.groups[group], normalized=True)
        means = contrasts(protocol, matrices, ends)
        middle = contrasts(protocol, matrices, ends, statistics.trimmed_weights)
        levels = zip(means.items(), adjusted(list(means.values())), strict=True)
        rows += [
            _group_row(protocol, (group, p), matrices, row, middle[key]) for (key, row), p in levels
        ]
    return tuple(rows)


def _task_comparisons(protocol: Protocol, table: EpisodeTable, task: Task) -> list[Comparison]:
    """Compare all pairs of policies on one task, before any adjustment."""
    score, matrices = protocol.report.score, dict[str, ScoreMatrix]()
    for policy in table.contestants(task.id):
        values = score_matrix(protocol, table, task, policy, score)
        if values is not None:
            matrices[policy] = values
    complete: dict[str, Matrices] = {
        name: (one,) for name, one in matrices.items() if np.isfinite(one.values).all()
    }
    tested = contrasts(protocol, complete, score_ends(protocol, [task]))
    pairs = [(matrices[one], matrices[two]) for one, two in family_pairs(protocol, list(matrices))]
    compared = [
        tested.get((one.policy, two.policy)) or _undefined(one.policy, two.policy, (one, two))
        for one, two in pairs
    ]
    equal = _equivalences(protocol, task, compared)
    rows = zip(compared, pairs, equal, strict=True)
    return [_row(protocol, task, row, pair, p) for row, pair, p in rows]


def _undefined(one: str, two: str, pair: tuple[ScoreMatrix, ScoreMatrix]) -> Contrast:
    """Return the difference of two policies of which one has no score in some episodes."""
    nan, (left, right) = math.nan, (mean_of_defined(side.units) for side in pair)
    reason = "no test: the score is undefined in some episodes"
    return Contrast(one, two, left - right, nan, nan, None, NONE, reason=reason)


def _row(
    protocol: Protocol,
    task: Task,
    contrast: Contrast,
    pair: tuple[ScoreMatrix, ScoreMatrix],
    p_equivalence: float,
) -> Comparison:
    nan, learners = math.nan, any(not one.fixed for one in pair)
    means = [mean_of_defined(one.units) for one in pair]
    gap = contrast.difference if contrast.note else means[0] - means[1]  # of the printed means
    shared = (common_episodes(*pair) or pair) if contrast.note else pair  # what the gap is over
    return Comparison(
        task=task.id,
        first=contrast.first,
        second=contrast.second,
        difference=gap,
        low=gap - contrast.half,
        high=gap + contrast.half,
        p_value=contrast.p_value,
        p_holm=nan,  # until the family is known
        decided=False,
        basis=contrast.basis,
        hedges_g=_effect(protocol, shared) if contrast.basis == TEST else nan,
        flag="; ".join(filter(None, (contrast.reason, contrast.note))),
        method=protocol.report.comparison,
        correlation=_correlation(pair),
        unit=RUNS if learners else EPISODES,
        p_equivalence=p_equivalence,
        **_above([shared]),
        **_welch(pair),
    )


def _welch(pair: tuple[ScoreMatrix, ScoreMatrix]) -> dict[str, Any]:
    """Return Welch's statistic of two learners whose runs have episodes of their own, or {}."""
    if any(one.fixed or not one.own_episodes for one in pair):
        return {}
    means = [one.units for one in pair]
    if min(map(len, means)) < FEWEST or not all(np.isfinite(values).all() for values in means):
        return {}
    t, df = statistics.welch(*means)
    return {"welch_t": t, "welch_df": df}


def _above(pairs: Sequence[tuple[ScoreMatrix, ScoreMatrix]]) -> dict[str, Any]:
    """Return how many runs of a learner are above a fixed policy, over tasks; {} of other pairs.

    Runs without a defined score do not count, nor tasks on which the fixed policy has none. Runs
    that play several of the tasks are not independent there: their share has no interval.
    """
    above, runs, learners = 0, 0, list[ScoreMatrix]()
    for one, two in pairs:
        if one.fixed == two.fixed:
            return {}
        learner, fixed = (two, one) if one.fixed else (one, two)
        gaps = learner.run_means - mean_of_defined(fixed.values)
        above += int(np.sum(gaps > 0.0))
        runs += int(np.isfinite(gaps).sum())
        learners.append(learner)
    low = high = math.nan
    if runs and len(connected(shared_units(learners))) == len(learners):
        low, high = statistics.binomial_interval(above, runs)
    return {"above": above, "runs": runs, "above_low": low, "above_high": high}


def _effect(protocol: Protocol, pair: tuple[ScoreMatrix, ScoreMatrix]) -> float:
    """Return Hedges' g: in deviations of runs if there are any, otherwise of episodes."""
    one, two, standardiser = standardised(*pair)
    return statistics.hedges_g(one, two, standardiser=standardiser)


def standardised(
    first: ScoreMatrix, second: ScoreMatrix
) -> tuple[np.ndarray, np.ndarray, Literal["pooled", "paired"]]:
    """Return the values of two score matrices whose deviation standardises their difference.

    They are episodes of two fixed policies and means of the runs of two learners. A fixed policy
    does not vary over runs: with a learner, the deviation is that of the learner's runs.
    """
    one, two = (side.values if side.fixed else side.run_means for side in (first, second))
    if first.fixed == second.fixed:
        return one, two, "pooled"
    one = np.full(len(two), mean_of_defined(one)) if first.fixed else one
    two = np.full(len(one), mean_of_defined(two)) if second.fixed else two
    return one, two, "paired"


def _correlation(pair: tuple[ScoreMatrix, ScoreMatrix]) -> float:
    """Return the correlation over seeds of the mean scores of two policies; nan where undefined."""
    if not same_episodes(pair):
        return math.nan
    one, two = (side.episode_means for side in pair)
    varying = len(one) > 1 and np.ptp(one) > 0 and np.ptp(two) > 0
    return float(np.corrcoef(one, two)[0, 1]) if varying else math.nan


def _equivalences(protocol: Protocol, task: Task, contrasts: Sequence[Contrast]) -> list[float]:
    """Return the p values of the tests that two policies are equal within the protocol's margin.

    They are searched together: each takes fifty steps.
    """
    margin, p_values = protocol.report.margin, [math.nan] * len(contrasts)
    if margin is None:
        return p_values
    width = margin * (task.bounds.high - task.bounds.low)
    for k, contrast in enumerate(contrasts):
        gap, inside = contrast.difference, abs(contrast.difference) < width
        if contrast.basis == EXACT:
            p_values[k] = 0.0 if inside else 1.0
        elif contrast.basis == BOUND and contrast.spread is None:
            p = statistics.constant_p(gap, *contrast.bound, width) / 2.0  # of one side
            p_values[k] = p if inside else 1.0 - p
    numbers = [k for k, contrast in enumerate(contrasts) if contrast.spread is not None]
    if not numbers:
        return p_values
    gaps = [width + sign * contrasts[k].difference for k in numbers for sign in (1, -1)]
    spreads = [contrasts[k].spread for k in numbers for _ in (1, -1)]
    parts = [np.concatenate(part) for part in zip(*spreads, strict=True)]
    sides = statistics.one_sided(np.array(gaps), statistics.Spread(*parts)).reshape(-1, 2)
    for k, pair in zip(numbers, sides, strict=True):
        p_values[k] = float(np.max(pair))
    return p_values


def _group_row(
    protocol: Protocol,
    where: tuple[str, float],
    matrices: dict[str, Matrices],
    row: Contrast,
    middle: Contrast,
) -> GroupComparison:
    """Return the comparison over a group; ``where`` are its name and the p value for ranks."""
    pair = matrices[row.first], matrices[row.second]
    ((_, decided),) = decide([row], protocol.report.alpha)
    return GroupComparison(
        group=where[0],
        first=row.first,
        second=row.second,
        difference=row.difference,
        low=row.low,
        high=row.high,
        p_value=row.p_value,
        p_ranks=where[1],
        decided=decided,
        basis=row.basis,
        trimmed_difference=middle.difference,
        trimmed_low=middle.low,
        trimmed_high=middle.high,
        tasks=len(pair[0]),
        flag="; ".join(filter(None, (row.reason, row.note))),
        **_above(list(zip(*pair, strict=True))),
    )
