"""Standing: the mean score and the rank of every policy in every group, and what is decided."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from coopbench.analysis.aggregates import Aggregate
from coopbench.analysis.findings import Findings
from coopbench.analysis.rankings import Rank
from coopbench.episodes.grouping import grouped
from coopbench.report.blocks import Block, Items
from coopbench.report.numbers import (
    MISSING,
    Scale,
    is_point,
    level_text,
    longer_side,
    range_text,
    scale_of_rows,
)
from coopbench.report.section import ReportSection
from coopbench.report.sections.aggregates import FIRST
from coopbench.report.tables.entries import bounds_text, own_policies, policy_text
from coopbench.report.tables.model import Column, Entry, Group, Table

_DECIMALS = 3  # at most
_NAMED = 3  # policies in a sentence
# Policies that a certificate holds -> where they earn most; elsewhere others may earn more.
_FOUND = {
    "best_script": "with the training partners",
    "best_constant": "in self-play",
    "open_loop": "in self-play",
}
READING = """
{% if findings.aggregates %}
Rank: All ranks that a policy may have: it ranks below every policy with a significantly higher
mean, and above every policy with a significantly lower mean. The p values are adjusted by Holm's
method over all pairs of the group, so that the ranks of all policies hold simultaneously.
{% endif %}
"""


def standing(findings: Findings) -> Iterator[Block]:
    """Iterate over the sentences and the table; nothing if ad hoc."""
    rows = {(row.group, row.policy): row for row in findings.aggregates_of(FIRST)}
    if not rows:
        return
    sentences = tuple(filter(None, (_decided(findings, name) for name in findings.protocol.groups)))
    if sentences:
        yield Items(sentences)
    ranks = {(row.group, row.policy): row for row in findings.ranks}
    yield _table(findings, rows, ranks)


def _decided(findings: Findings, group: str) -> str:
    """Say who leads a group, and how the policies of the reader stand in it; "" without ranks."""
    ranks = {row.policy: row for row in findings.ranks if row.group == group}
    leaders = [name for name, row in ranks.items() if row.low == 1]
    if not leaders:
        return ""
    where = f"{group}: " if len(findings.protocol.groups) > 1 else ""
    tasks = {task.id for task in findings.protocol.groups[group]}
    played = {block.cell.policy for block in findings.episodes.blocks if block.cell.task in tasks}
    unranked = [name for name in findings.episodes.policies if name in played - ranks.keys()]
    parts = [_lead(findings, {name: ranks[name] for name in leaders}, unranked)]
    parts += [_place(name, ranks[name]) for name in own_policies(findings) if name in ranks]
    return f"{where}{'; '.join(parts)}."


def _lead(findings: Findings, leaders: Mapping[str, Rank], unranked: Sequence[str]) -> str:
    """Say who leads; ``unranked`` are policies that have played, but not enough for a rank."""
    others = "policy"
    if unranked:
        others = f"ranked policy (without a rank: {_names(findings, unranked)})"
    rest = f"; without a rank: {_names(findings, unranked)}" if unranked else ""
    if len(leaders) > 1:
        return f"the highest mean is not decided between {_names(findings, list(leaders))}{rest}"
    ((leader, rank),) = leaders.items()
    if rank.high > 1:  # some pairs have no test, such as models of one method
        return f"no policy is decided to be above {policy_text(findings, leader)}{rest}"
    return f"{policy_text(findings, leader)} has the highest mean, above every other {others}"


def _names(findings: Findings, policies: Sequence[str]) -> str:
    names = [policy_text(findings, name) for name in policies]
    return ", ".join(names) if len(names) <= _NAMED else f"{len(names)} policies"


def _place(policy: str, rank: Rank) -> str:
    """Say of how many policies a policy is decided to be above and below."""
    others, above, below = rank.contestants - 1, rank.contestants - rank.high, rank.low - 1
    undecided = others - above - below
    rest = f", undecided against {undecided}" if undecided else ""
    return f"{policy} is above {above} of {others} and below {below}{rest}"


def _table(
    findings: Findings, rows: dict[tuple[str, str], Aggregate], ranks: dict[tuple[str, str], Rank]
) -> Table:
    """Return a row for every policy, by its mean in the first group, a column for every group."""
    scale, groups = scale_of_rows(rows.values(), "estimate"), list(findings.protocol.groups)
    scale = replace(scale, decimals=min(scale.decimals, _DECIMALS))
    own, level = own_policies(findings), level_text(findings.protocol)

    def place(policy: str) -> float:
        row = rows.get((groups[0], policy))
        return math.inf if row is None or math.isnan(row.estimate) else -row.estimate

    body = tuple(
        (
            Entry(f"{policy_text(findings, policy)}{' *' if policy in own else ''}", policy),
            *(_entry(rows.get((g, policy)), ranks.get((g, policy)), scale) for g in groups),
        )
        for policy in sorted(findings.episodes.policies, key=place)
    )
    title = f"Mean normalized {findings.protocol.report.score}, and rank in parentheses"
    yours = " * not required by the protocol." if own else ""
    note = (
        f"{bounds_text(findings)}. ± is half of the {level} interval, for new training runs and "
        "episodes, or its longer side where it ends at the range of the scores; without ± there is "
        "no interval, or nothing varies. Several ranks: undecided between the policies that share "
        f"them.{yours}{_found(findings)}"
    )
    return Table(
        title=title,
        columns=(
            Column("Policy", "who is evaluated", numeric=False),
            *(Column(group if len(groups) > 1 else "Score", title) for group in groups),
        ),
        groups=(Group("", "", body),),
        unit=note[:1].upper() + note[1:],
        matrix=True,
    )


def _found(findings: Findings) -> str:
    """Say for what the policies of the certificates were found."""
    names = grouped((_FOUND[n], n) for n in _FOUND if n in findings.episodes.policies)
    text = "; ".join(f"{', '.join(same)} {where}" for where, same in names.items())
    return f" Found by search: {text}." if text else ""


def _entry(row: Aggregate | None, rank: Rank | None, scale: Scale) -> Entry:
    if row is None:
        return Entry(MISSING)
    half = longer_side(row.estimate, row.low, row.high)
    bounded = math.isfinite(half) and not is_point(row.low, row.high)
    width = f" ± {scale(half)}" if bounded else ""
    places = f" ({range_text(rank.low, rank.high)})" if rank is not None else ""
    return Entry(f"{scale(row.estimate)}{width}{places}", row.estimate)


SECTION = ReportSection(shows={"summary": standing}, reading=READING)
