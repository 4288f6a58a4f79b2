"""Standings: the policies of several results folders, ranked in every group of tasks."""

from dataclasses import dataclass

from coopbench.analysis.rows import ReportRow
from coopbench.protocol.schema import Protocol


@dataclass(frozen=True)
class Source:
    """A results folder that takes part."""

    folder: str
    results: str  # digest of its results; empty if it states none
    unverified: str  # why it could not be verified in full; empty if it was
    deviations: tuple[str, ...]  # why its report is not a standard one; empty if it is


@dataclass(frozen=True, eq=False)
class Row(ReportRow):
    """One policy in one group of tasks."""

    group: str  # empty if the protocol has no groups
    policy: str
    mean: float  # over tasks of the mean normalised scores
    low: float  # two-way interval of it
    high: float
    trimmed_mean: float  # over tasks, of the mean normalised scores
    tie: str  # of policies that cannot be told apart, "A" is the best; empty where nobody else is
    first: float  # interval of the rank, 1 is the best; nan where nobody else is in the group
    last: float
    unit: str  # of inference, "episodes" or "runs"
    count: int  # of them per task, at least
    flag: str
    acts_on: str  # of a policy of this package, see ``Entry.information``; empty for others
    verified: str  # how
    results: tuple[str, ...]  # digests of the folders that hold it, as far as they state one


@dataclass(frozen=True)
class Standings:
    """Policies of several results folders, the best first."""

    protocol: Protocol
    rows: tuple[Row, ...]
    sources: tuple[Source, ...]
    notes: tuple[str, ...]  # who is left out or renamed, and why
