"""Aggregates: statistics and rank of every policy over groups of tasks, and runs of learners."""

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from coopbench.analysis.aggregates import (
    BEHIND,
    IQM,
    STATISTICS,
    TWO_WAY,
    Aggregate,
    Statistic,
    all_statistics,
    shown_statistics,
)
from coopbench.analysis.findings import Findings
from coopbench.analysis.learning import RISING, rise_of
from coopbench.analysis.score_matrix import score_scales
from coopbench.baselines.registry import entry_of
from coopbench.protocol.loading import protocol_files
from coopbench.report.blocks import Block, Pictures
from coopbench.report.numbers import MISSING, Scale, level_text, scale_of_rows
from coopbench.report.plots.drawing import Drawing, IntervalChart, Sheet
from coopbench.report.plots.policies import finished_groups, open_markers, rows_of
from coopbench.report.plots.style import Picture, plain
from coopbench.report.section import ReportSection
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
    rank_entry,
    unit_names,
    unit_text,
)
from coopbench.report.tables.model import Column, Entry, Footnotes, Group, Table

FIRST = next(iter(STATISTICS))
_FAR = 0.5  # of the width of the bounds
_NAMED = 3  # tasks in a footnote
READING = """
{% for statistic in statistics %}
{{ statistic.label }}: {{ statistic.reading }}

{% endfor %}
{% if iqm_methods %}
IQM: The mean of the middle half of all run means, pooled over tasks: the score of the typical run
(Agarwal et al. 2021, Deep Reinforcement Learning at the Edge of the Statistical Precipice,
NeurIPS 34). Only learners have it.
{% if iqm_methods != ["two-way"] %}
As published, its interval is the stratified bootstrap over runs alone, method {{ iqm_methods |
join(" or ") }}, {{ "{:,}".format(resamples) }} resamples: it leaves out what other episodes would
change.
{% endif %}

{% endif %}

{% if "runs" in units %}
Runs far below: Runs that score more than {{ behind }} below the best run of the same policy on
the same task.
{% endif %}

Acts on: What a registered policy bases its actions on: its own observations (local), also what
others in sight do (neighbours), the whole state (global), or nothing (none). Compare policies
with those that have the same information.
"""


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
        marks = (notes.mark(text(findings, group, policy)) for text in (_beyond, _rising))
        values[0] = replace(values[0], marks=tuple(itertools.chain.from_iterable(marks)))
        rank = ranked.get(policy)
        places = rank_entry(rank, notes.mark(rank.flag) if rank else ())
        count = count_entry(by_statistic[0][policy], findings.aggregates)
        return (name, *values, places, count, information_entry(policy))

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


def _rising(findings: Findings, group: str, policy: str) -> str:
    """Say if the learning curves of a policy still rise when its training ends; "" if not."""
    protocol, table = findings.protocol, findings.episodes
    scales = score_scales(protocol, table)
    rise = rise_of(protocol, table, protocol.groups[group], policy, scales)
    if not rise > RISING:
        return ""
    return (
        f"still rising: by {rise:.2f} in the last quarter of the training, see the learning curves"
    )


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


def aggregate(findings: Findings, group: str, statistic: str) -> IntervalChart:
    """Draw a statistic of every policy over the tasks of a group, by its key.

    The axis shows normalized scores from 0 to 1 at least.
    """
    ends = {
        row.policy: (row.estimate, row.low, row.high)
        for row in findings.aggregates_of(statistic, group)
    }
    reach = [value for row in ends.values() for value in row if math.isfinite(value)]
    low, high = min([0.0, *reach]), max([1.0, *reach])
    room = 0.03 * (high - low)
    axis = all_statistics()[statistic].axis
    label = f"{axis} normalized {plain(findings.protocol.report.score)}"
    title = group if len(findings.protocol.groups) > 1 else ""
    return IntervalChart(rows_of(findings, ends), title, label, (low - room, high + room))


def statistics(findings: Findings, group: str) -> Drawing:
    """Draw the statistics that tables show, one below the other."""
    first, *others = (aggregate(findings, group, key) for key in shown_statistics())
    return Sheet((first, *(replace(other, title="") for other in others)))


def pictures(findings: Findings) -> list[Picture]:
    """Return a picture of the statistics of every group that a policy has finished."""
    shown, drawn = shown_statistics(), []
    names, level = listed([one.name for one in shown.values()]), level_text(findings.protocol)
    for group, (end, whose) in finished_groups(findings).items():
        rows = [row for row in findings.aggregates if row.group == group]
        caption = f"{names} of normalized scores{whose} with {level} interval."
        caption += open_markers([row for row in rows if row.statistic in shown])
        drawn.append(Picture(f"scores{end}", caption, partial(statistics, findings, group)))
    return drawn


def overall(findings: Findings) -> Iterator[Block]:
    """Iterate over the statistics of all policies, as table and pictures, and runs of learners.

    Statistics over a single task are those of the task: its section and the summary have them.
    """
    several = len(findings.protocol.task) > 1
    table, drawn, runs = aggregate_table(findings), pictures(findings), runs_table(findings)
    if table is not None and several:
        yield table
    if drawn and several:
        yield Pictures(tuple(drawn))
    if runs is not None:
        yield runs


def for_paper(findings: Findings) -> Table | None:
    """Return the table of aggregates; None without any."""
    return aggregate_table(findings) if findings.aggregates else None


SECTION = ReportSection(shows={"overall": overall, "paper": for_paper}, reading=READING)
