"""Effect sizes and parameter sensitivity, where a protocol asks for them."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np

from coopbench import statistics
from coopbench.analysis.contests import family_pairs
from coopbench.analysis.plays import Play, play
from coopbench.analysis.rows import ReportRow
from coopbench.analysis.samples import mean_of_defined, sample
from coopbench.episodes.table import EpisodeTable
from coopbench.protocol.schema import Protocol
from coopbench.protocol.sections import Task

__all__ = ["Effect", "Sensitivity", "effects", "sensitivities", "standardised"]


@dataclass(frozen=True, eq=False)
class Effect(ReportRow):
    """Cohen's d of the score of two policies on one task."""

    task: str
    first: str
    second: str
    cohens_d: float  # nan where nothing varies


@dataclass(frozen=True, eq=False)
class Sensitivity(ReportRow):
    """How much the mean score of a policy depends on the parameters of a game."""

    task: str  # with the parameters of the protocol's own task
    policy: str
    base: float  # mean score there
    low: float  # lowest and highest mean score, over this task and those that vary it
    high: float
    variants: int  # tasks that vary it
    sensitivity: float  # (high - low) / |base|; nan where the base is 0


def effects(protocol: Protocol, table: EpisodeTable) -> tuple[Effect, ...]:
    """Return Cohen's d of all pairs of policies on each task, where the protocol asks for it.

    In pooled standard deviations of episodes for two fixed policies, else of runs.
    """
    if protocol.report.effect != "cohens_d":
        return ()
    return tuple(row for task in protocol.task for row in _of_task(protocol, table, task))


def _of_task(protocol: Protocol, table: EpisodeTable, task: Task) -> Iterator[Effect]:
    """Yield the effects between all pairs of policies on one task."""
    policies = [policy for name, policy in table.pairs if name == task.id]
    plays = {p: play(protocol, table, task, p, protocol.report.score) for p in policies}
    for one, two in family_pairs(protocol, policies):
        first, second = plays[one], plays[two]
        value = math.nan
        if first is not None and second is not None:
            left, right, standardiser = standardised(first, second)
            if np.isfinite(left).all() and np.isfinite(right).all():
                value = statistics.cohens_d(left, right, standardiser=standardiser)
        yield Effect(task.id, one, two, value)


def standardised(
    first: Play, second: Play
) -> tuple[np.ndarray, np.ndarray, Literal["pooled", "paired"]]:
    """Return the values of two plays whose deviation standardises their difference.

    They are episodes of two fixed policies and means of the runs of two learners. Beside a learner
    a fixed policy does not vary: the deviation is then that of the learner's runs.
    """
    one, two = (side.values if side.fixed else side.run_means for side in (first, second))
    if first.fixed == second.fixed:
        return one, two, "pooled"
    one = np.full(len(two), one.mean()) if first.fixed else one
    two = np.full(len(one), two.mean()) if second.fixed else two
    return one, two, "paired"


def sensitivities(protocol: Protocol, table: EpisodeTable) -> tuple[Sensitivity, ...]:
    """Return how much the mean score of each policy varies with the parameters of a game.

    Only where tasks of the protocol vary the parameters of others.
    """
    variants: dict[str, list[str]] = {}
    for task in protocol.task:
        if task.varies is not None:
            variants.setdefault(task.varies, []).append(task.id)
    policies = dict.fromkeys(policy for _, policy in table.pairs)
    rows = (
        _sensitivity(protocol, table, base, varied, policy)
        for base, varied in variants.items()
        for policy in policies
    )
    return tuple(row for row in rows if row is not None)


def _sensitivity(
    protocol: Protocol, table: EpisodeTable, base: str, variants: list[str], policy: str
) -> Sensitivity | None:
    """Return the sensitivity of one policy; None where it has not played all of the tasks."""
    samples = [sample(table, t, policy, protocol.report.score).values for t in (base, *variants)]
    if not all(len(values) for values in samples):
        return None
    means = [mean_of_defined(values) for values in samples]
    width = max(means) - min(means)
    share = width / abs(means[0]) if means[0] else math.nan
    return Sensitivity(base, policy, means[0], min(means), max(means), len(variants), share)
