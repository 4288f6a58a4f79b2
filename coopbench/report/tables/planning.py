"""Table of what a number of training runs can show."""

from collections.abc import Sequence

from coopbench.analysis.planning import GOOD, Prospect, Variation, family_size
from coopbench.protocol.schema import Protocol
from coopbench.report.numbers import Scale
from coopbench.report.tables.model import Column, Entry, Group, Table


def power_table(
    protocol: Protocol, spread: Variation, rows: Sequence[Prospect], power: float, family: int
) -> Table:
    """Return what every number of runs can show; ``family`` is that of ``prospects``."""
    tasks, scale, alpha = family_size(protocol), Scale(3), protocol.report.alpha
    level = (
        f"at alpha {alpha:g}, a single decision"
        if family == 1
        else f"at {alpha / family:.2g}, the first step of Holm's method for alpha {alpha:g} and "
        f"{family} tasks that are judged together"
    )

    def entries(row: Prospect) -> tuple[Entry, ...]:
        shares = (row.unseen, row.against_fixed, row.between, row.over_group)
        values = (*shares, row.rival, row.group_rival)
        cells = (Entry(scale(value), value) for value in values)
        return (Entry(f"{row.runs}", row.runs), *cells)

    return Table(
        title=f"What runs can show under {protocol.name}, in normalised {protocol.report.score}",
        columns=(
            Column("Runs", "per learner and task"),
            Column("Unseen", "share of runs that could fail unseen"),
            Column("vs fixed", "smallest difference from a fixed policy on one task"),
            Column("vs learner", "smallest difference between two learners on one task"),
            Column(f"{tasks} tasks", "smallest difference between two learners over a group"),
            Column(f"{GOOD:g} beats", "the best policy that p may be shown against on one task"),
            Column(f"{GOOD:g} beats, {tasks} tasks", "the same over the group"),
        ),
        groups=(Group("", "", tuple(entries(row) for row in rows)),),
        footnotes=(),
        unit=f"Differences are detected with probability {power:g}: on one task {level}, over a "
        f"group at alpha {alpha:g} (a single decision). Assumed standard deviations: run means "
        f"{spread.runs:.3g}, differences between policies {spread.episodes:.3g} from episode to "
        f"episode. Unseen: share on one task, at the same level. {GOOD:g} beats: a learner that "
        f"scores {GOOD:g} in all runs can be shown to beat policies up to this score; above it, "
        "unobserved failures could refute the claim, no matter how small p is.",
    )
