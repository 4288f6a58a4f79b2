"""The certificates of a report's tasks as a table: whether blind play goes far on them."""

from coopbench.analysis.certificates import CertifiedTask
from coopbench.analysis.findings import Findings
from coopbench.report.numbers import Scale, interval_text
from coopbench.report.tables.model import Column, Entry, Group, Table
from coopbench.report.tables.words import group_meanings, number_entry

__all__ = ["certificate_table"]

_SCALE = Scale(3)


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
                _row(rows[task.id]) for task in findings.protocol.groups[group] if task.id in rows
            ),
        )
        for group, meaning in group_meanings(findings.protocol).items()
    ]
    return Table(
        title="Certificates of the tasks",
        columns=(
            Column("Task", "what is played", numeric=False),
            Column("Best blind play", "observes the time, at most also the mask", numeric=False),
            Column("Its score", "normalised, in episodes of the certificate"),
            Column("95 % interval", "for new episodes; sorted by its lower end"),
            Column("Best play that observes", "of those in the certificate", numeric=False),
            Column("Score", "normalised, in episodes of the certificate"),
            Column("Its 95 % interval", "for new episodes; sorted by its lower end"),
            Column("Required", "most that blind play may score"),
            Column(
                "Met", "whether it scores no more; in battles the other wins, too", numeric=False
            ),
        ),
        groups=tuple(group for group in groups if group.rows),
        footnotes=(),
        unit="From the certificates of this package (coopbench certify), not from the episodes of "
        "this report. Where the claim is not met, a high score does not show that agents react to "
        "what they observe. Tasks without a row have no certificate.",
        kind="Group",
    )


def _row(row: CertifiedTask) -> tuple[Entry, ...]:
    return (
        Entry(row.task, row.task),
        Entry(row.blind, row.blind),
        number_entry(row.blind_score, _SCALE),
        Entry(interval_text(row.blind_low, row.blind_high, _SCALE), row.blind_low),
        Entry(row.observing, row.observing),
        number_entry(row.observing_score, _SCALE),
        Entry(interval_text(row.observing_low, row.observing_high, _SCALE), row.observing_low),
        number_entry(row.most, _SCALE),
        Entry("yes" if row.met else "no", "yes" if row.met else "no", strong=row.met),
    )
