"""Context of focal scores: what a policy earns compared with the best response, and its partners.

A score with partners is selfish: in tasks with a certificate 0 is the best rule that does not look
at its partners, 1 the best response to each. The same episodes also say what all agents earn
together, and what the partners gain from a policy that cooperates.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from coopbench.analysis.rows import ReportRow
from coopbench.analysis.score_matrix import has_agreed_bounds
from coopbench.episodes.metrics import values
from coopbench.episodes.table import Episodes, EpisodeTable
from coopbench.protocol.schema import Protocol
from coopbench.protocol.task import Task

REFERENCE = "always_defect"  # the policy with which partners' gains are compared


@dataclass(frozen=True, eq=False)
class FocalContext(ReportRow):
    """Returns of a policy and of its partners on one task; means over runs and episodes."""

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
        rows += [_row(task, policy, runs, defecting) for policy, runs in blocks.items()]
    return tuple(rows)


def _row(task: Task, policy: str, runs: Sequence[Episodes], defecting: float) -> FocalContext:
    own = float(np.mean([values(block, "own_return").mean() for block in runs]))
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
