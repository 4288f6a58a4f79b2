"""Registered hypotheses, and what became of them."""

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from coopbench.analysis.comparisons import Comparison, GroupComparison
from coopbench.analysis.constants import EXACT
from coopbench.analysis.findings import Findings
from coopbench.protocol.registration import Hypothesis
from coopbench.report.facts import registration_text
from coopbench.report.section import ReportSection
from coopbench.report.tables.entries import Field, table_of
from coopbench.report.tables.model import Table

SUPPORTED, REFUTED, OPEN = "supported", "refuted", "not shown"

Pair = Comparison | GroupComparison


@dataclass(frozen=True)
class Outcome:
    """What the results say about a registered hypothesis."""

    hypothesis: str
    outcome: str  # "supported", "refuted" or "not shown"
    reason: str  # the p value that decides, or why there is none


def outcomes(findings: Findings) -> tuple[Outcome, ...]:
    """Return what the comparisons say about every registered hypothesis; nothing without one.

    On a task p is adjusted over the tasks of its group; a group is a single decision.
    """
    if findings.registration is None:
        return ()
    pairs: dict[tuple[str, str, str], Pair] = {}
    for group in findings.group_comparisons:
        pairs[group.group, group.first, group.second] = group
    for task in findings.comparisons:
        pairs[task.task, task.first, task.second] = task
    alpha = findings.protocol.report.alpha
    return tuple(_outcome(one, alpha, pairs) for one in findings.registration.hypotheses)


def _outcome(
    hypothesis: Hypothesis, alpha: float, pairs: Mapping[tuple[str, str, str], Pair]
) -> Outcome:
    place, text = hypothesis.where, str(hypothesis)
    forward = pairs.get((place, hypothesis.first, hypothesis.second))
    row = forward or pairs.get((place, hypothesis.second, hypothesis.first))
    if row is None:
        return Outcome(text, OPEN, "the two have not been compared there")
    if hypothesis.relation == "=" and isinstance(row, Comparison):
        if math.isnan(row.p_equivalence):
            return Outcome(text, OPEN, row.flag or "not tested")
        equal = row.p_equivalence < alpha
        reason = f"adjusted p of equivalence {row.p_equivalence:.2g}"
        return Outcome(text, SUPPORTED if equal else OPEN, reason)
    level = (
        f"adjusted p {row.p_holm:.2g}" if isinstance(row, Comparison) else f"p {row.p_value:.2g}"
    )
    level = row.flag if row.basis == EXACT else level
    if not row.decided:
        return Outcome(text, OPEN, row.flag or level)
    higher = (row.difference > 0.0) == (row is forward)
    return Outcome(text, SUPPORTED if higher else REFUTED, level)


def registered_table(findings: Findings) -> Table | None:
    """Return the outcomes of the registered hypotheses; None where there are none."""
    fields = {
        "hypothesis": Field("Hypothesis", "as registered"),
        "outcome": Field("Outcome", "supported, refuted or not shown"),
        "reason": Field("Why", "the adjusted p value, or why there is none"),
    }
    unit = f"This study: {registration_text(findings)}."
    return table_of(outcomes(findings), fields, "Registered hypotheses", unit)


def registration(findings: Findings) -> dict[str, Any] | None:
    """Return the registration with its standing and the outcomes of its hypotheses."""
    registered = findings.registration
    if registered is None:
        return None
    return {
        **registered.model_dump(mode="json", by_alias=True),
        "deviations": list(findings.study_deviations),
        "outcomes": [dataclasses.asdict(row) for row in outcomes(findings)],
    }


SECTION = ReportSection(shows={"summary": registered_table}, json={"registration": registration})
