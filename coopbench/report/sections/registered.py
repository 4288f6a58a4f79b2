"""Registered hypotheses, and what became of them."""

import dataclasses
from typing import Any

from coopbench.analysis.findings import Findings
from coopbench.report.facts import registration_text
from coopbench.report.section import ReportSection
from coopbench.report.tables.entries import Field, table_of
from coopbench.report.tables.model import Table


def registered_table(findings: Findings) -> Table | None:
    """Return the outcomes of the registered hypotheses; None where there are none."""
    fields = {
        "hypothesis": Field("Hypothesis", "as registered"),
        "outcome": Field("Outcome", "supported, refuted or not shown"),
        "reason": Field("Why", "the adjusted p value, or why there is none"),
    }
    unit = f"This study: {registration_text(findings)}."
    return table_of(findings.outcomes, fields, "Registered hypotheses", unit)


def registration(findings: Findings) -> dict[str, Any] | None:
    """Return the registration with its standing and the outcomes of its hypotheses."""
    registered = findings.registration
    if registered is None:
        return None
    return {
        **registered.model_dump(mode="json", by_alias=True),
        "deviations": list(findings.study_deviations),
        "outcomes": [dataclasses.asdict(row) for row in findings.outcomes],
    }


SECTION = ReportSection(shows={"summary": registered_table}, json={"registration": registration})
