"""Table of the context of scores with partners: best response, joint return, partners' gain."""

from collections.abc import Sequence

import numpy as np

from coopbench.analysis.context import REFERENCE, FocalContext
from coopbench.analysis.findings import Findings
from coopbench.report.numbers import Scale, scale_of
from coopbench.report.tables.model import Column, Entry, Group, Table
from coopbench.report.tables.words import number_entry, policy_entry


def context_table(findings: Findings) -> Table | None:
    """Return the context of every policy in each group with partners; None without partners."""
    rows = findings.contexts
    if not rows:
        return None
    groups = []
    for group, tasks in findings.protocol.groups.items():
        by_policy: dict[str, list[FocalContext]] = {}
        for row in (row for row in rows if row.group == group):
            by_policy.setdefault(row.policy, []).append(row)
        whole = {name: members for name, members in by_policy.items() if len(members) == len(tasks)}
        if whole:
            lines = tuple(_row(findings, name, members) for name, members in whole.items())
            groups.append(Group(group, f"{len(tasks)} tasks", lines))
    return Table(
        title="Scores with partners in context",
        columns=(
            Column("Policy", "who is evaluated", numeric=False),
            Column("Share of best", "mean own return as a share of the best response's"),
            Column("Own return", "mean over tasks of the mean return of its seat"),
            Column("Joint return", "of all agents, mean over tasks"),
            Column("Partners' gain", f"return of a partner, less that with {REFERENCE}"),
        ),
        groups=tuple(groups),
        footnotes=(),
        unit="A normalised score of 1 is the best response to each partner, known in advance, and "
        "0 the best rule that does not look at its partners. That rule earns most of what the best "
        "response earns, so that a small share of the return is a large part of the score. A "
        "negative score is less than that rule earns, not less than chance. By task: contexts.csv; "
        "intervals of returns are in the tables of the tasks.",
        kind="Group",
    )


def _row(findings: Findings, policy: str, rows: Sequence[FocalContext]) -> tuple[Entry, ...]:
    share, own, joint, gain = (
        float(np.mean([getattr(row, name) for row in rows]))
        for name in ("share", "own", "joint", "gain")
    )
    returns = scale_of([own, joint], [own / 100.0])
    return (
        policy_entry(findings, policy),
        number_entry(share, Scale(3)),
        number_entry(own, returns),
        number_entry(joint, returns),
        number_entry(gain, returns),
    )
