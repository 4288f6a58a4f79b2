"""Ranks: which places every policy may have in a group of tasks, by the mean."""

from coopbench.analysis.findings import Findings
from coopbench.report.section import ReportSection
from coopbench.report.tables.entries import rank_entry, table_by_group
from coopbench.report.tables.model import Table

READING = """
{% if findings.aggregates %}
Rank: All ranks that a policy may have: it ranks below every policy with a significantly higher
mean, and above every policy with a significantly lower mean. The p values are adjusted by Holm's
method over all pairs of the group, so that the ranks of all policies hold simultaneously.
{% endif %}
"""


def rank_table(findings: Findings) -> Table | None:
    """Return the ranks with a column for every group; None where nothing is ranked."""
    if not findings.ranks:
        return None
    return table_by_group(
        findings,
        "Rank by the mean",
        {(row.group, row.policy): rank_entry(row) for row in findings.ranks},
        "Several ranks: the policy may have any of them; the data do not separate policies with "
        "overlapping ranks.",
    )


SECTION = ReportSection(shows={"summary": rank_table}, reading=READING)
