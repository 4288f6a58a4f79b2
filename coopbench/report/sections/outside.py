"""Outside: actions that policies took outside of the action space, at the top of a report."""

from dataclasses import dataclass

from coopbench.analysis.findings import Findings, Part
from coopbench.analysis.rows import ReportRow
from coopbench.episodes.table import EpisodeTable
from coopbench.protocol.schema import Protocol
from coopbench.report.section import ReportSection
from coopbench.report.tables.entries import policy_entry
from coopbench.report.tables.model import Column, Entry, Group, Table


@dataclass(frozen=True, eq=False)
class Outside(ReportRow):
    """Actions of a policy on one task, over all runs, that were not in the action space."""

    task: str
    policy: str
    actions: int  # that were outside
    share: float  # of all actions of the policy on the task, in (0, 1]


def actions_outside(protocol: Protocol, table: EpisodeTable) -> tuple[Outside, ...]:
    """Count the actions of policies that were not in the action space."""
    rows = []
    for task, policy in table.pairs:
        blocks = table.runs(task, policy)
        count = sum(block.outside for block in blocks)
        if count:
            share = count / sum(block.decisions for block in blocks)
            rows.append(Outside(task, policy, count, share))
    return tuple(rows)


def outside_table(findings: Findings) -> Table | None:
    """Return who took actions outside of the action space; None if nobody did."""
    rows = findings.rows(OUTSIDE)
    if not rows:
        return None

    def entries(row: Outside) -> tuple[Entry, ...]:
        return (
            policy_entry(findings, row.policy),
            Entry(row.task, row.task),
            Entry(f"{row.actions:,}", row.actions),
            Entry(f"{100 * row.share:.3g} %", row.share),
        )

    return Table(
        title="Actions outside of the action space",
        columns=(
            Column("Policy", "who is evaluated", numeric=False),
            Column("Task", "what is played", numeric=False),
            Column("Actions", "that were outside of the action space"),
            Column("Share", "of all actions of the policy on the task"),
        ),
        groups=(Group("", "", tuple(entries(row) for row in rows)),),
        unit="Numbers beyond the bounds were clipped, except forces of Routing-v0, which were "
        "larger than allowed; choices that do not exist were replaced by doing nothing.",
    )


OUTSIDE = Part("outside", actions_outside, rare=True)
SECTION = ReportSection((OUTSIDE,), {"top": outside_table})
