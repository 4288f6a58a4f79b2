"""The summary of a report: mean score and rank of every policy in every group of tasks."""

import math
from dataclasses import replace

from coopbench.analysis.aggregates import Aggregate
from coopbench.analysis.findings import Findings
from coopbench.analysis.rankings import Rank
from coopbench.report.numbers import MISSING, Scale, is_point, level_text, range_text, scale_of_rows
from coopbench.report.tables.aggregates import FIRST
from coopbench.report.tables.entries import bounds_text, policy_entry
from coopbench.report.tables.model import Column, Entry, Group, Table

_DECIMALS = 3  # at most
_ALL = "All tasks"  # heads the column of a protocol without groups


def summary_tables(findings: Findings) -> list[Table]:
    """Return the mean scores, and the ranks, with a column for every group; none if ad hoc."""
    rows = {(row.group, row.policy): row for row in findings.aggregates_of(FIRST)}
    if not rows:
        return []
    scale, score = scale_of_rows(rows.values(), "estimate"), findings.protocol.report.score
    scale = replace(scale, decimals=min(scale.decimals, _DECIMALS))
    means = {place: _mean_entry(row, scale) for place, row in rows.items()}
    ranks = {(row.group, row.policy): _rank_entry(row) for row in findings.ranks}
    bounds, level = bounds_text(findings), level_text(findings.protocol)
    tables = [
        _table(
            findings,
            f"Mean normalised {score}",
            means,
            f"{bounds[:1].upper()}{bounds[1:]} of each task. ± is half of the {level} interval, "
            "for new training runs and episodes; without ±: nothing varies, or there is none.",
        )
    ]
    if ranks:
        tables.append(
            _table(
                findings,
                "Rank by the mean",
                ranks,
                "Several ranks: the policy cannot be told apart from the others of these ranks.",
            )
        )
    return tables


def _table(
    findings: Findings, title: str, entries: dict[tuple[str, str], Entry], note: str
) -> Table:
    """Return a table with a row for every policy and a column for every group."""
    groups = list(findings.protocol.groups)
    body = tuple(
        (
            policy_entry(findings, policy),
            *(entries.get((group, policy), Entry(MISSING)) for group in groups),
        )
        for policy in findings.episodes.policies
    )
    return Table(
        title=title,
        columns=(
            Column("Policy", "who is evaluated", numeric=False),
            *(Column(group if len(groups) > 1 else _ALL, title) for group in groups),
        ),
        groups=(Group("", "", body),),
        footnotes=(),
        unit=note,
        matrix=True,
    )


def _mean_entry(row: Aggregate, scale: Scale) -> Entry:
    half = (row.high - row.low) / 2.0
    bounded = math.isfinite(half) and not is_point(row.low, row.high)
    width = f" ± {scale(half)}" if bounded else ""
    return Entry(f"{scale(row.estimate)}{width}", row.estimate)


def _rank_entry(row: Rank) -> Entry:
    return Entry(range_text(row.low, row.high), (row.low + row.high) / 2.0)
