"""Table of the registered hypotheses and what became of them."""

from coopbench.analysis.findings import Findings
from coopbench.analysis.registered import DEVIATES, NOT_REGISTERED, REGISTERED
from coopbench.report.tables.model import Column, Entry, Group, Table


def registration_text(findings: Findings) -> str:
    """Say whether the results keep to a registration: registered, not registered, or deviates."""
    registration = findings.registration
    if registration is None:
        return NOT_REGISTERED
    if findings.deviations:
        reasons = "; ".join(findings.deviations)
        return f"{DEVIATES} from the registration of {registration.date}: {reasons}"
    count = len(registration.hypotheses)
    text = f"{REGISTERED} on {registration.date}"
    return f"{text} with {count} hypothes{'is' if count == 1 else 'es'}"


def registered_table(findings: Findings) -> Table | None:
    """Return the outcomes of the registered hypotheses; None where there are none."""
    if not findings.outcomes:
        return None
    return Table(
        title="Registered hypotheses",
        columns=(
            Column("Hypothesis", "as registered", numeric=False),
            Column("Outcome", "supported, refuted or not shown", numeric=False),
            Column("Why", "the adjusted p value, or why there is none", numeric=False),
        ),
        groups=(
            Group(
                "",
                "",
                tuple(
                    tuple(Entry(text, text) for text in (row.hypothesis, row.outcome, row.reason))
                    for row in findings.outcomes
                ),
            ),
        ),
        footnotes=(),
        unit=f"This study: {registration_text(findings)}.",
    )
