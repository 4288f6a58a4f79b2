"""Tables of aggregates: statistics and rank of every policy over groups, and the summary."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from coopbench.analysis.aggregates import (
    BEHIND,
    IQM,
    STATISTICS,
    TWO_WAY,
    Aggregate,
    Statistic,
    shown_statistics,
)
from coopbench.analysis.findings import Findings
from coopbench.analysis.rankings import Rank
from coopbench.baselines.registry import entry_of
from coopbench.protocol.loading import protocol_files
from coopbench.report.numbers import (
    MISSING,
    Scale,
    is_point,
    level_text,
    range_text,
    scale_of_rows,
)
from coopbench.report.tables.entries import (
    bounds_text,
    count_entry,
    ends_entry,
    group_meanings,
    interval_entry,
    listed,
    missing_entries,
    number_entry,
    policy_entry,
    unit_names,
    unit_text,
)
from coopbench.report.tables.model import Column, Entry, Footnotes, Group, Table

FIRST = next(iter(STATISTICS))
_FAR = 0.5  # of the width of the bounds
_NAMED = 3  # tasks in a footnote
_DECIMALS = 3  # of the summary, at most
_ALL = "All tasks"  # heads the column of a protocol without groups


def aggregate_table(findings: Findings) -> Table | None:
    """Return statistics and rank over all tasks, or those of each group; None if ad hoc.

    Its columns are the ``shown_statistics``. Without groups all tasks are one group.
    """
    if findings.protocol.ad_hoc:
        return None
    rows, notes = findings.aggregates_of(FIRST), Footnotes()
    columns = _columns(findings, rows)
    scales = [scale_of_rows(findings.aggregates_of(key), "estimate") for key in shown_statistics()]
    groups = [
        Group(name if meaning else "", meaning, _rows(findings, name, columns, scales, notes))
        for name, meaning in group_meanings(findings.protocol).items()
    ]
    scope = "the tasks of each group" if len(groups) > 1 else "all tasks"
    names = listed([*(statistic.name for statistic in shown_statistics().values()), "rank"])
    return Table(
        title=f"{names} by the normalized {findings.protocol.report.score} over {scope}",
        columns=columns,
        groups=tuple(groups),
        footnotes=notes.all(),
        unit=f"{unit_text(((row.unit, row.count) for row in rows), ' per task')} Intervals are for "
        "new runs and new episodes. Bold: the best, and means whose interval of ranks holds 1.",
        kind="Group",
    )


def _columns(findings: Findings, rows: Sequence[Aggregate]) -> tuple[Column, ...]:
    level, interval = level_text(findings.protocol), f"{TWO_WAY}; sorted by width"
    columns = [Column("Policy", "who is evaluated", numeric=False)]
    for key, statistic in shown_statistics().items():
        if key == FIRST:
            columns += [
                Column(statistic.label, f"{statistic.meaning}; {bounds_text(findings)}"),
                Column(f"{level} interval", f"of the {statistic.label}, {interval}"),
            ]
        else:
            columns += [
                Column(statistic.label, statistic.meaning),
                Column(f"Its {level} interval", interval),
            ]
    return (
        *columns,
        Column("Rank", "all ranks that the policy may have: it cannot be told apart from others"),
        Column("n", f"{unit_names(rows)} per task"),
        Column(
            "Acts on",
            "its own observations (local), also what others in sight do (neighbours), the whole "
            "state (global), or nothing (none)",
            numeric=False,
        ),
    )


def _rows(
    findings: Findings,
    group: str,
    columns: Sequence[Column],
    scales: Sequence[Scale],
    notes: Footnotes,
) -> tuple[tuple[Entry, ...], ...]:
    """Return one row for every policy, in the order of the report."""
    by_statistic = [
        {row.policy: row for row in findings.aggregates_of(statistic, group)}
        for statistic in shown_statistics()
    ]
    ranked = {row.policy: row for row in findings.ranks if row.group == group}
    strong = [
        _best({n: row for n, row in rows.items() if n not in findings.episodes.bare}, statistic)
        for rows, statistic in zip(by_statistic, shown_statistics().values(), strict=True)
    ]
    strong[0] |= {name for name, row in ranked.items() if row.low == 1.0}

    def entries_of(policy: str) -> tuple[Entry, ...]:
        name = policy_entry(findings, policy)
        if policy not in by_statistic[0]:
            return (name, *missing_entries(columns))
        values = [
            entry
            for rows, scale, best in zip(by_statistic, scales, strong, strict=True)
            for entry in (
                replace(number_entry(rows[policy].estimate, scale), strong=policy in best),
                interval_entry(rows[policy], scale, notes),
            )
        ]
        values[0] = replace(values[0], marks=notes.mark(_beyond(findings, group, policy)))
        count = count_entry(by_statistic[0][policy], findings.aggregates)
        return (name, *values, _rank(ranked.get(policy), notes), count, information_entry(policy))

    return tuple(entries_of(policy) for policy in findings.policies)


def _best(rows: Mapping[str, Aggregate], statistic: Statistic) -> set[str]:
    """Return the policies with the best value of a statistic, if there are others."""
    if len(rows) < 2:
        return set()
    values = [row.estimate for row in rows.values()]
    best = (min if statistic.lowest else max)(values, default=math.nan)
    return {name for name, row in rows.items() if row.estimate == best}


def _beyond(findings: Findings, group: str, policy: str) -> str:
    """Name the tasks of a group on which a policy lies far outside of the bounds; "" for none.

    The bounds of shipped protocols are set by certificates, far above what some policies reach.
    """
    protocol, far = findings.protocol, []
    if protocol.report.normalisation == "minmax" or protocol.protocol.name in protocol_files():
        return ""
    for task in protocol.groups[group]:
        rows = findings.estimates_of(task.id, protocol.report.score)
        mean = next((row.mean for row in rows if row.policy == policy), math.nan)
        share = float(task.bounds.normalise(np.array(mean)))
        if share < -_FAR or share > 1.0 + _FAR:
            far.append(f"{task.id} ({share:.3g})")
    names = ", ".join([*far[:_NAMED], *(["..."] if len(far) > _NAMED else [])])
    return f"scores far outside of the declared bounds: {names}; check the bounds" if far else ""


def _rank(row: Rank | None, notes: Footnotes) -> Entry:
    """Return the interval of a rank, sorted by its middle."""
    if row is None:
        return Entry(MISSING)
    return Entry(range_text(row.low, row.high), (row.low + row.high) / 2.0, notes.mark(row.flag))


def runs_table(findings: Findings) -> Table | None:
    """Return what only learners have: the typical run, and runs that fall behind; None without."""
    rows = findings.aggregates_of(IQM)
    if not rows:
        return None
    notes, level = Footnotes(), level_text(findings.protocol)
    scale, methods = scale_of_rows(rows, "estimate"), " or ".join({row.method for row in rows})
    groups = tuple(
        Group(
            name if meaning else "",
            meaning,
            tuple(_run_row(findings, r, scale, notes) for r in rows if r.group == name),
        )
        for name, meaning in group_meanings(findings.protocol).items()
        if any(row.group == name for row in rows)
    )
    return Table(
        title=f"Runs of learners by the normalized {findings.protocol.report.score}",
        columns=(
            Column("Policy", "who is trained", numeric=False),
            Column("IQM", "interquartile mean of all run means, pooled over tasks"),
            Column(f"{level} interval", f"of the IQM, {methods}; sorted by width"),
            Column("Bootstrap", "of the IQM: stratified bootstrap over runs alone, percentile"),
            Column("Mean", "mean over tasks, as in the table of aggregates"),
            Column("Its bootstrap", "of the mean: stratified bootstrap over runs alone"),
            Column("Runs far below", f"runs more than {BEHIND:g} below the best run of the task"),
            Column("n", "runs of all tasks"),
        ),
        groups=groups,
        footnotes=notes.all(),
        unit="Unit of inference: training runs. The IQM is the score of the typical run, "
        "not the expectation, and is not comparable with a fixed policy's.",
        kind="Group",
    )


def _run_row(
    findings: Findings, row: Aggregate, scale: Scale, notes: Footnotes
) -> tuple[Entry, ...]:
    means = findings.aggregates_of(FIRST, row.group)
    (mean,) = (other for other in means if other.policy == row.policy)
    return (
        policy_entry(findings, row.policy),
        number_entry(row.estimate, scale),
        interval_entry(row, scale, notes),
        _bootstrap_entry(row, scale),
        number_entry(mean.estimate, scale),
        _bootstrap_entry(mean, scale),
        Entry(f"{row.behind} of {row.played}", row.behind / row.played),
        Entry(f"{row.runs:,}", row.runs),
    )


def _bootstrap_entry(row: Aggregate, scale: Scale) -> Entry:
    return ends_entry(row.low_bootstrap, row.high_bootstrap, scale)


def information_entry(policy: str) -> Entry:
    """Return what a registered policy acts on; it is not known of any other."""
    entry = entry_of(policy)
    return Entry(entry.acts_on, entry.acts_on) if entry else Entry(MISSING)


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
            f"Mean normalized {score}",
            means,
            f"{bounds[:1].upper()}{bounds[1:]} of each task. ± is half of the {level} interval, "
            "for new training runs and episodes. No ±: there is no interval, or nothing varies.",
        )
    ]
    if ranks:
        tables.append(
            _table(
                findings,
                "Rank by the mean",
                ranks,
                "Several ranks: the policy may have any of them; the data do not separate policies "
                "with overlapping ranks.",
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
