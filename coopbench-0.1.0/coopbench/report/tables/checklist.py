"""Table of the checklist."""

from coopbench.analysis.findings import Findings
from coopbench.report.checklist import Item, checklist
from coopbench.report.metadata import SIGNS
from coopbench.report.tables.model import Column, Entry, Group, Table

__all__ = ["checklist_table"]


def checklist_table(findings: Findings) -> Table:
    """Return the checklist as a table."""
    items, topics = checklist(findings), dict.fromkeys(item.topic for item in checklist(findings))
    return Table(
        title="What reviewers ask, and what is known",
        columns=(
            Column("Asked", "what a reviewer wants to know", numeric=False),
            Column("State", "yes, no, missing or not needed", numeric=False),
            Column("What is known", "by the protocol and the results", numeric=False),
        ),
        groups=tuple(
            Group(topic, "", tuple(_row(item) for item in items if item.topic == topic))
            for topic in topics
        ),
        footnotes=(),
        unit="Filled in from the protocol, the results and their metadata. Missing: none of them "
        "says it. Not needed: it does not apply to the policies of this report.",
        kind="Topic",
    )


def _row(item: Item) -> tuple[Entry, ...]:
    return (
        Entry(item.item, item.item),
        Entry(SIGNS[item.state].replace(" ", "\u00a0"), item.state),  # in one line
        Entry(item.known, item.known),
    )
