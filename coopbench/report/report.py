"""Report: everything that an evaluation found, as values, with its tables and files."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from coopbench.analysis.estimates import (
    AgentEstimate,
    Aggregate,
    ChartPoint,
    Comparison,
    Estimate,
    PublishedReturn,
    sample,
    score_scales,
)
from coopbench.analysis.learning import Curve, Efficiency, LateScore
from coopbench.analysis.rankings import Improvement, ProfilePoint, Rank
from coopbench.episodes.table import Cell, EpisodeTable
from coopbench.protocol.schema import Protocol

__all__ = ["Report"]


@dataclass(frozen=True)
class Report:
    """Result of ``coopbench.evaluate``; print it, or ``save`` it."""

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
    metadata: Mapping[Cell, Mapping[str, Any]] = field(default_factory=dict)  # see store
    improvements: tuple[Improvement, ...] = ()  # of all pairs of policies, over each group
    profiles: tuple[ProfilePoint, ...] = ()
    ranks: tuple[Rank, ...] = ()
    learning: tuple[Curve, ...] = ()  # of policies with checkpoints
    efficiency: tuple[Efficiency, ...] = ()  # of these, over each group
    late: tuple[LateScore, ...] = ()  # where the protocol asks for them
    results: str = ""  # digest of the folder with the results, see manifest; empty without one

    @property
    def is_standard(self) -> bool:
        """Whether the protocol was followed to the letter."""
        return not self.departures

    @property
    def scores(self) -> dict[str, dict[str, np.ndarray]]:
        """Normalised scores {policy: {task: (units,)}}, of episodes or of runs; see analysis."""
        scales = score_scales(self.protocol, self.episodes)
        found: dict[str, dict[str, np.ndarray]] = {}
        for task, policy in self.episodes.pairs:
            there = sample(self.episodes, task, policy, self.protocol.report.score)
            found.setdefault(policy, {})[task] = scales[task].normalise(there.values)
        return found

    def __repr__(self) -> str:
        tasks, names = len(self.protocol.task), {policy for _, policy in self.episodes.pairs}
        return f"<Report of {self.protocol.name}: tasks {tasks}, policies {len(names)}>"

    def __str__(self) -> str:
        from coopbench.report.tables.overall import as_text

        return as_text(self)

    def save(self, folder: str | Path) -> dict[str, Path]:
        """Write the report below ``folder``; return the files by format.

        ``report.html`` (self-contained page with plots), ``report.md``, ``estimates.csv``,
        ``agents.csv``, ``comparisons.csv``, ``aggregates.csv``, ``improvements.csv``,
        ``profiles.csv``, ``ranks.csv``, ``charts.csv``, ``models.csv``, ``published.csv``,
        ``learning.csv``, ``efficiency.csv``, ``late.csv``, ``episodes.csv``, ``report.tex`` and
        ``report.json``.
        """
        from coopbench.report.files import save

        return save(self, Path(folder))

    def latex(self) -> str:
        """Return the tables of aggregates and of the score for a paper, as in ``report.tex``."""
        from coopbench.report.latex import as_latex

        return as_latex(self)

    def to_frame(self, what: str = "episodes") -> Any:
        """Return a part as a pandas ``DataFrame``; see ``coopbench.exchange.frame``."""
        from coopbench.exchange.marl_eval_export import frame

        return frame(self, what)
