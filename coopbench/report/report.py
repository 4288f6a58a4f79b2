"""Report: everything that an evaluation found, as values, with its tables and files."""

from dataclasses import dataclass
from pathlib import Path

from coopbench.analysis import Aggregate, Comparison, Estimate
from coopbench.episodes import EpisodeTable
from coopbench.protocol import Protocol

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

    @property
    def is_standard(self) -> bool:
        """Whether the protocol was followed to the letter."""
        return not self.departures

    def __str__(self) -> str:
        from coopbench.report.tables import as_text

        return as_text(self)

    def save(self, folder: str | Path) -> dict[str, Path]:
        """Write the report below ``folder``; return the files by format.

        ``report.html`` (self-contained page with plots), ``report.md``, ``estimates.csv``,
        ``comparisons.csv``, ``aggregates.csv``, ``episodes.csv`` and ``report.json``.
        """
        from coopbench.report.files import save

        return save(self, Path(folder))
