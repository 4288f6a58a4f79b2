"""Certificates: what is proven of the tasks, and how far simple play goes on them."""

from coopbench.analysis.certificates import CertifiedTask
from coopbench.analysis.findings import Findings
from coopbench.report.numbers import Scale, interval_text
from coopbench.report.section import ReportSection
from coopbench.report.tables.entries import group_meanings, number_entry
from coopbench.report.tables.model import Column, Entry, Group, Table

_CERTIFIED = Scale(3)


def certificate_table(findings: Findings) -> Table | None:
    """Return what the certificates say of the tasks; None if no task has one."""
    rows = {row.task: row for row in findings.certificates}
    if not rows:
        return None
    groups = [
        Group(
            group if meaning else "",
            meaning,
            tuple(
                _certificate_row(rows[task.id])
                for task in findings.protocol.groups[group]
                if task.id in rows
            ),
        )
        for group, meaning in group_meanings(findings.protocol).items()
    ]
    return Table(
        title="Certificates of the tasks",
        columns=(
            Column("Task", "what is played", numeric=False),
            Column(
                "Simple play",
                "best play that observes only the time and the mask; with partners, best script",
                numeric=False,
            ),
            Column("Its score", "normalized, in episodes of the certificate"),
            Column("95 % interval", "for new episodes; sorted by its lower end"),
            Column("Best play found", "of those in the certificate", numeric=False),
            Column("Score", "normalized, in episodes of the certificate"),
            Column("Its 95 % interval", "for new episodes; sorted by its lower end"),
            Column("Required", "most that simple play may score"),
            Column("Met", "whether its interval ends below that", numeric=False),
        ),
        groups=tuple(group for group in groups if group.rows),
        unit="From the certificates of this package, not from the episodes of this report. If the "
        "requirement is not met, simple play can reach a high score as well. Tasks without a row "
        "have no certificate.",
        kind="Group",
    )


def _certificate_row(row: CertifiedTask) -> tuple[Entry, ...]:
    return (
        Entry(row.task, row.task),
        Entry(row.simple, row.simple),
        number_entry(row.simple_score, _CERTIFIED),
        Entry(interval_text(row.simple_low, row.simple_high, _CERTIFIED), row.simple_low),
        Entry(row.best, row.best),
        number_entry(row.best_score, _CERTIFIED),
        Entry(interval_text(row.best_low, row.best_high, _CERTIFIED), row.best_low),
        number_entry(row.most, _CERTIFIED),
        Entry("yes" if row.met else "no", "yes" if row.met else "no", strong=row.met),
    )


SECTION = ReportSection(shows={"by task": certificate_table})
