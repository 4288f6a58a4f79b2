"""Ablations: contestants called "NAME without PART", compared with the contestant NAME."""

import math
from dataclasses import dataclass, replace

from coopbench.analysis.comparisons import GroupComparison, group_comparisons
from coopbench.analysis.rows import ReportRow
from coopbench.episodes.table import EpisodeTable
from coopbench.protocol.schema import Protocol

__all__ = ["Ablation", "ablated", "ablations"]

_WITHOUT = " without "


@dataclass(frozen=True, eq=False)
class Ablation(ReportRow):
    """What a contestant loses, over a group, without one of its parts."""

    group: str
    whole: str
    part: str  # that the ablation lacks
    ablation: str
    difference: float  # mean normalised score of the whole minus that of the ablation
    low: float  # two-way interval of the difference
    high: float
    p_value: float  # as in the comparisons over groups
    shown: bool
    not_shown: str
    tasks: int
    flag: str
    above: int = 0  # as in the comparisons over groups
    runs: int = 0
    above_low: float = math.nan
    above_high: float = math.nan


def ablated(policy: str) -> tuple[str, str] | None:
    """Return the contestant of which a policy is an ablation, and the part that it lacks.

    None for a policy that is no ablation. "mine without memory" is one of "mine".
    """
    whole, _, part = policy.partition(_WITHOUT)
    return (whole, part) if whole and part else None


def ablations(protocol: Protocol, table: EpisodeTable) -> tuple[Ablation, ...]:
    """Compare every ablation with the contestant that it is one of, over every group.

    Only those of contestants that the report has.
    """
    policies = dict.fromkeys(policy for _, policy in table.pairs)
    wholes = {p: pair for p in policies if (pair := ablated(p)) and pair[0] in policies}
    if not wholes:
        return ()
    rows = []
    for row in group_comparisons(protocol, table):
        for whole, other, turned in (
            (row.first, row.second, row),
            (row.second, row.first, _turned(row)),
        ):
            if other in wholes and wholes[other][0] == whole:
                rows.append(_ablation(turned, whole, other, wholes[other][1]))
    return tuple(rows)


def _turned(row: GroupComparison) -> GroupComparison:
    """Return a comparison seen from its second policy."""
    return replace(row, difference=-row.difference, low=-row.high, high=-row.low)


def _ablation(row: GroupComparison, whole: str, ablation: str, part: str) -> Ablation:
    return Ablation(
        group=row.group,
        whole=whole,
        part=part,
        ablation=ablation,
        difference=row.difference,
        low=row.low,
        high=row.high,
        p_value=row.p_value,
        shown=row.shown,
        not_shown=row.not_shown,
        tasks=row.tasks,
        flag=row.flag,
        above=row.above,
        runs=row.runs,
        above_low=row.above_low,
        above_high=row.above_high,
    )
