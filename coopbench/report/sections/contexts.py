"""Context of focal scores: what a policy earns compared with the best response, and its partners.

A score with partners is selfish: in tasks with a certificate 0 is the best rule that does not look
at its partners, 1 the best response to each. The same episodes also say what all agents earn
together, and what the partners gain from a policy that cooperates.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from coopbench.analysis.findings import Findings, Part
from coopbench.analysis.rows import ReportRow
from coopbench.analysis.score_matrix import has_agreed_bounds, units_of
from coopbench.episodes.grouping import grouped
from coopbench.episodes.table import Episodes, EpisodeTable
from coopbench.protocol.schema import Protocol
from coopbench.protocol.task import Task
from coopbench.report.numbers import Scale, scale_of
from coopbench.report.section import ReportSection
from coopbench.report.tables.entries import (
    group_meanings,
    has_certified_partners,
    number_entry,
    policy_entry,
)
from coopbench.report.tables.model import Column, Entry, Group, Table

REFERENCE = "always_defect"  # the policy with which partners' gains are compared


@dataclass(frozen=True, eq=False)
class FocalContext(ReportRow):
    """Returns of a policy and of its partners on one task; means over runs and episodes.

    As in the score, a run that failed has the floor of the task; joint return and partners' are
    those of the runs that have played.
    """

    group: str
    task: str
    policy: str
    own: float  # mean return of the policy's seat
    share: float  # of the upper bound of the task, in certified tasks that of the best response
    joint: float  # mean over episodes of the sum of the returns of all agents
    partner: float  # mean return of a partner
    gain: float  # of a partner, over its mean return with always_defect; nan if that has not played


def focal_contexts(protocol: Protocol, table: EpisodeTable) -> tuple[FocalContext, ...]:
    """Return the context of every score with partners, for protocols that score a policy's seat."""
    if protocol.report.score != "own_return" or not has_agreed_bounds(protocol):
        return ()
    rows = []
    for task in (task for task in protocol.task if task.partners):
        blocks = {p: table.runs(task.id, p) for p in table.policies_on(task.id)}
        defecting = _partner(blocks[REFERENCE]) if REFERENCE in blocks else math.nan
        for policy, runs in blocks.items():
            scores = units_of(protocol, table, task, policy, protocol.report.score)
            rows.append(_row(task, policy, float(scores.mean()), runs, defecting))
    return tuple(rows)


def _row(
    task: Task, policy: str, own: float, runs: Sequence[Episodes], defecting: float
) -> FocalContext:
    joint = float(np.mean([block.team_returns.mean() for block in runs]))
    partner = _partner(runs)
    share = own / task.bounds.high if task.bounds.high > 0.0 else math.nan
    return FocalContext(
        task.group, task.id, policy, own, share, joint, partner, partner - defecting
    )


def _partner(runs: Sequence[Episodes]) -> float:
    """Return the mean return of a partner; nan where the policy took every seat."""
    means = [float(block.returns[~block.seats].mean()) for block in runs if not block.seats.all()]
    return float(np.mean(means)) if means else math.nan


_CERTIFIED_SCORES = (
    "A normalized score of 1 is that of the best response to each partner, when the partner is "
    "known in advance; 0 is that of the best rule that ignores its partners. That rule already "
    "earns most of the best response's return, so a small share of the return is a large part of "
    "the score. A negative score means less than that rule earns, not less than chance. "
)


def context_table(findings: Findings) -> Table | None:
    """Return the context of every policy in each group with partners; None without partners."""
    rows = findings.rows(CONTEXTS)
    if not rows:
        return None
    certified, scale, groups = has_certified_partners(findings), _context_scale(rows), []
    for group, tasks in findings.protocol.groups.items():
        by_policy = grouped((row.policy, row) for row in rows if row.group == group)
        whole = {name: members for name, members in by_policy.items() if len(members) == len(tasks)}
        if whole:
            lines = tuple(
                _context_row(findings, name, members, scale) for name, members in whole.items()
            )
            groups.append(Group(group, group_meanings(findings.protocol)[group], lines))
    return Table(
        title="Scores with partners in context",
        columns=(
            Column("Policy", "who is evaluated", numeric=False),
            Column("Share of best", "mean own return as a share of the best response's")
            if certified
            else Column("Share of bound", "mean own return as a share of the upper bound"),
            Column("Own return", "mean over tasks of the mean return of its seat"),
            Column("Joint return", "of all agents, mean over tasks"),
            Column("Partners' gain", f"return of a partner, less that with {REFERENCE}"),
        ),
        groups=tuple(groups),
        unit=f"{_CERTIFIED_SCORES if certified else ''}By task: contexts.csv; intervals of "
        "returns are in the tables of the tasks.",
        kind="Group",
    )


def _context_scale(rows: Sequence[FocalContext]) -> Scale:
    """Choose the decimals of all returns of a table: a hundredth of the typical one."""
    returns = [value for row in rows for value in (row.own, row.joint)]
    return scale_of(returns, [abs(value) / 100.0 for value in returns])


def _context_row(
    findings: Findings, policy: str, rows: Sequence[FocalContext], returns: Scale
) -> tuple[Entry, ...]:
    share, own, joint, gain = (
        float(np.mean([getattr(row, name) for row in rows]))
        for name in ("share", "own", "joint", "gain")
    )
    return (
        policy_entry(findings, policy),
        number_entry(share, Scale(3)),
        number_entry(own, returns),
        number_entry(joint, returns),
        number_entry(gain, returns),
    )


CONTEXTS = Part("contexts", focal_contexts, rare=True)
SECTION = ReportSection((CONTEXTS,), {"overall": context_table})
