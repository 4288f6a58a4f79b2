"""Findings: everything that the results of a protocol show, as values that draw nothing.

A part is a field of ``Findings`` and a line of ``MAKERS``. CSV files, JSON, frames and the list in
the documentation follow from these two.
"""

import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any, Self

import numpy as np

from coopbench.analysis.ablations import Ablation, ablations
from coopbench.analysis.aggregates import Aggregate, aggregates
from coopbench.analysis.certificates import CertifiedTask, certified_tasks
from coopbench.analysis.comparisons import (
    Comparison,
    GroupComparison,
    comparisons,
    group_comparisons,
)
from coopbench.analysis.context import FocalContext, focal_contexts
from coopbench.analysis.departures import departures
from coopbench.analysis.effects import Effect, Sensitivity, effects, sensitivities
from coopbench.analysis.estimates import AgentEstimate, Estimate, agent_estimates, estimates
from coopbench.analysis.interquartile import InterquartileMean, interquartile_means
from coopbench.analysis.learning import (
    Curve,
    Efficiency,
    efficiencies,
    learning_curves,
)
from coopbench.analysis.medians import LateScore, MedianPoint, late_scores, median_points
from coopbench.analysis.models import (
    ChartPoint,
    chart_points,
    model_estimates,
)
from coopbench.analysis.published import (
    PublishedAggregate,
    PublishedReturn,
    published_aggregates,
    published_returns,
)
from coopbench.analysis.rankings import (
    Improvement,
    ProfilePoint,
    Rank,
    improvements,
    profile_points,
    ranks,
)
from coopbench.analysis.samples import sample, score_scales
from coopbench.episodes.table import Cell, EpisodeTable
from coopbench.protocol.registration import Registration
from coopbench.protocol.schema import Protocol
from coopbench.results.reference import Reference

__all__ = ["MAKERS", "RARE", "Findings", "row_types"]

Maker = Callable[[Protocol, EpisodeTable], tuple[Any, ...]]

# The parts in the order of report.json, with the function that makes the rows of each.
MAKERS: dict[str, Maker] = {
    "aggregates": aggregates,
    "group_comparisons": group_comparisons,
    "ranks": ranks,
    "improvements": improvements,
    "estimates": estimates,
    "comparisons": comparisons,
    "agents": agent_estimates,
    "charts": chart_points,
    "models": model_estimates,
    "published": published_returns,
    "published_aggregates": published_aggregates,
    "contexts": focal_contexts,
    "certificates": certified_tasks,
    "interquartile": interquartile_means,
    "ablations": ablations,
    "effects": effects,
    "sensitivity": sensitivities,
    "efficiency": efficiencies,
    "late": late_scores,
    "medians": median_points,
    "profiles": profile_points,
    "learning": learning_curves,
}


# Parts that few reports have: files of the others do not hold them.
RARE = frozenset(
    {
        *("published_aggregates", "certificates", "interquartile", "ablations", "effects"),
        *("sensitivity", "medians", "contexts"),
    }
)


@dataclass(frozen=True)
class Findings:
    """Protocol, episodes, and the rows of every part of a report."""

    protocol: Protocol
    episodes: EpisodeTable
    estimates: tuple[Estimate, ...]
    comparisons: tuple[Comparison, ...]
    aggregates: tuple[Aggregate, ...]
    departures: tuple[str, ...]  # why it is not a standard report; empty if it is one
    notes: tuple[str, ...] = ()  # damaged results that were redone or left out
    agents: tuple[AgentEstimate, ...] = ()
    charts: tuple[ChartPoint, ...] = ()
    models: tuple[Estimate, ...] = ()  # of methods that have one model per task, over the models
    published: tuple[PublishedReturn, ...] = ()
    # of these, over each group
    published_aggregates: tuple[PublishedAggregate, ...] = ()
    contexts: tuple[FocalContext, ...] = ()  # of scores with partners
    certificates: tuple[CertifiedTask, ...] = ()  # of tasks that have one
    interquartile: tuple[InterquartileMean, ...] = ()  # of every metric, by task and by group
    ablations: tuple[Ablation, ...] = ()
    effects: tuple[Effect, ...] = ()
    sensitivity: tuple[Sensitivity, ...] = ()
    metadata: Mapping[Cell, Mapping[str, Any]] = field(default_factory=dict)  # see store
    improvements: tuple[Improvement, ...] = ()  # of all pairs of policies, over each group
    profiles: tuple[ProfilePoint, ...] = ()
    ranks: tuple[Rank, ...] = ()
    group_comparisons: tuple[GroupComparison, ...] = ()  # of all pairs of policies, by the mean
    learning: tuple[Curve, ...] = ()  # of policies with checkpoints
    efficiency: tuple[Efficiency, ...] = ()  # of these, over each group
    late: tuple[LateScore, ...] = ()  # where the protocol asks for them
    medians: tuple[MedianPoint, ...] = ()  # of the same, along the training
    registration: Registration | None = None  # of the study, from its results folder
    results: str = ""  # digest of the folder with the results, see manifest; empty without one
    reference: tuple[Reference, ...] = ()  # training runs that ship with the package

    @classmethod
    def of(
        cls,
        protocol: Protocol,
        episodes: EpisodeTable,
        notes: tuple[str, ...] = (),
        metadata: Mapping[Cell, Mapping[str, Any]] | None = None,
        reference: tuple[Reference, ...] = (),
    ) -> Self:
        """Analyse a table of episodes: make every part, and list the departures.

        ``reference`` says which of the runs ship with the package.
        """
        parts: dict[str, Any] = {name: make(protocol, episodes) for name, make in MAKERS.items()}
        return cls(
            protocol=protocol,
            episodes=episodes,
            departures=departures(protocol, episodes),
            notes=notes,
            metadata=metadata or {},
            reference=reference,
            **parts,
        )

    @property
    def is_standard(self) -> bool:
        """Whether the protocol was followed exactly."""
        return not self.departures

    @property
    def shipped(self) -> frozenset[str]:
        """The policies whose runs ship with the package."""
        return frozenset(reference.policy for reference in self.reference)

    @property
    def played(self) -> EpisodeTable:
        """The episodes that were played for this report: all but those of shipped runs."""
        blocks = [block for block in self.episodes if block.cell.policy not in self.shipped]
        return replace(self.episodes, blocks=tuple(blocks))

    @property
    def scores(self) -> dict[str, dict[str, np.ndarray]]:
        """Normalised scores {policy: {task: (units,)}}, of episodes or of runs; see samples."""
        scales = score_scales(self.protocol, self.episodes)
        scores: dict[str, dict[str, np.ndarray]] = {}
        for task, policy in self.episodes.pairs:
            raw = sample(self.episodes, task, policy, self.protocol.report.score)
            scores.setdefault(policy, {})[task] = scales[task].normalise(raw.values)
        return scores


@cache
def row_types() -> dict[str, type]:
    """Return the type of the rows of every part, in the order of ``MAKERS``."""
    hints = typing.get_type_hints(Findings)
    return {name: typing.get_args(hints[name])[0] for name in MAKERS}
