"""What became of a registered study: whether the results keep to it, and of its hypotheses."""

from collections.abc import Mapping, Set
from dataclasses import dataclass
from typing import Any

from coopbench.analysis.comparisons import Comparison, GroupComparison
from coopbench.episodes.table import Cell, EpisodeTable
from coopbench.protocol.registration import Hypothesis, Registration
from coopbench.protocol.schema import Protocol

REGISTERED, NOT_REGISTERED, DEVIATES = "registered", "not registered", "deviates"
SUPPORTED, REFUTED, OPEN = "supported", "refuted", "not shown"

Pair = Comparison | GroupComparison


@dataclass(frozen=True)
class Outcome:
    """What the results say about a registered hypothesis."""

    hypothesis: str
    outcome: str  # "supported", "refuted" or "not shown"
    reason: str  # the p value that decides, or why there is none


def study_deviations(
    registration: Registration,
    protocol: Protocol,
    table: EpisodeTable,
    metadata: Mapping[Cell, Mapping[str, Any]],
    shipped: Set[str] = frozenset(),
) -> tuple[str, ...]:
    """Return how results deviate from their registration; empty if they keep to it.

    Policies whose runs are ``shipped`` may take part unregistered: they were fixed before.
    """
    reasons = []
    if registration.digest != protocol.content_digest:
        reasons.append(f"it is of {registration.protocol} with another content")
    present = table.policies
    lacking = [name for name in registration.contestants if name not in present]
    allowed = shipped | set(registration.contestants)
    further = [name for name in present if name not in allowed]
    for what, names in (("are missing", lacking), ("were not registered", further)):
        if names:
            reasons.append(f"{', '.join(names)} {what}")
    dates = sorted(
        str(meta["created"])
        for cell, meta in metadata.items()
        if "created" in meta and cell.policy not in shipped
    )
    if dates and dates[0] < registration.date:
        reasons.append(f"the first result is of {dates[0]}, before {registration.date}")
    if not dates and len(table):
        reasons.append("the results have no dates")
    return tuple(reasons)


def outcomes(
    registration: Registration,
    protocol: Protocol,
    comparisons: tuple[Comparison, ...],
    group_comparisons: tuple[GroupComparison, ...],
) -> tuple[Outcome, ...]:
    """Return what the comparisons say about every registered hypothesis.

    On a task p is adjusted over the tasks of its group; a group is a single decision.
    """
    pairs: dict[tuple[str, str, str], Pair] = {}
    for group in group_comparisons:
        pairs[group.group, group.first, group.second] = group
    for task in comparisons:
        pairs[task.task, task.first, task.second] = task
    return tuple(_outcome(one, protocol.report.alpha, pairs) for one in registration.hypotheses)


def _outcome(
    hypothesis: Hypothesis, alpha: float, pairs: Mapping[tuple[str, str, str], Pair]
) -> Outcome:
    place, text = hypothesis.where, str(hypothesis)
    forward = pairs.get((place, hypothesis.first, hypothesis.second))
    row = forward or pairs.get((place, hypothesis.second, hypothesis.first))
    if row is None:
        return Outcome(text, OPEN, "the two have not been compared there")
    if hypothesis.relation == "=" and isinstance(row, Comparison):
        equal = row.p_equivalence < alpha
        reason = f"adjusted p of equivalence {row.p_equivalence:.2g}"
        return Outcome(text, SUPPORTED if equal else OPEN, reason)
    level = (
        f"adjusted p {row.p_holm:.2g}" if isinstance(row, Comparison) else f"p {row.p_value:.2g}"
    )
    if not row.decided:
        return Outcome(text, OPEN, row.flag or level)
    higher = (row.difference > 0.0) == (row is forward)
    return Outcome(text, SUPPORTED if higher else REFUTED, level)
