"""Entries of tables and sentences about units of inference and bounds, shared by all tables."""

import dataclasses
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from coopbench.analysis.comparisons import count_decisions
from coopbench.analysis.findings import Findings
from coopbench.analysis.rankings import Rank
from coopbench.analysis.score_matrix import EPISODES, MODELS, RUNS
from coopbench.episodes.grouping import grouped
from coopbench.protocol.schema import Protocol
from coopbench.protocol.task import Task
from coopbench.report.numbers import MISSING, Scale, interval_text, is_point, range_text
from coopbench.report.tables.model import Column, Entry, Footnotes, Group, Table

SAME = "nothing varies: a width of zero is not certainty"
LONG = 6  # tasks beyond which a reader needs an overview, and single tasks are folded


def style_order(findings: Findings) -> tuple[str, ...]:
    """Return all policies in the order of their colours.

    Required ones come first, so that they look the same in all reports of a protocol; the others
    stand by name, so that they do in all reports of the same policies, in whatever order.
    """
    names, settings = findings.policies, findings.protocol.report
    required = (*settings.fixed, *settings.learned)
    first = tuple(name for name in required if name in names)
    return (*first, *sorted(name for name in names if name not in first))


def own_policies(findings: Findings) -> list[str]:
    """Return the policies that a protocol does not require, which the reader has added.

    A protocol that requires none has none, either.
    """
    settings = findings.protocol.report
    required = {*settings.fixed, *settings.learned}
    return [name for name in style_order(findings) if required and name not in required]


def policy_text(findings: Findings, policy: str) -> str:
    """Return the name of a policy, with a remark if its runs ship with the package."""
    return f"{policy} (shipped)" if policy in findings.shipped else policy


def policy_entry(findings: Findings, policy: str) -> Entry:
    """Return the entry that begins the row of a policy."""
    return Entry(policy_text(findings, policy), policy)


def is_long(findings: Findings) -> bool:
    """Whether there are too many tasks to show all of them in full at once."""
    return len(findings.protocol.task) > LONG and not findings.protocol.ad_hoc


def played_tasks(findings: Findings) -> tuple[Task, ...]:
    """Return the tasks that a policy has played, in the protocol's order; all if none is played."""
    played = {row.task for row in findings.estimates}
    return tuple(task for task in findings.protocol.task if not played or task.id in played)


def group_meanings(protocol: Protocol) -> dict[str, str]:
    """Return the groups of a protocol and how many tasks they have; no number for a single one."""
    groups = protocol.groups
    if len(groups) == 1:
        return dict.fromkeys(groups, "")
    return {
        name: f"{len(tasks)} task{'s' if len(tasks) > 1 else ''}" for name, tasks in groups.items()
    }


class Field(NamedTuple):
    """A column that shows a field of rows: a text, a number, or with ``high`` an interval."""

    name: str
    meaning: str
    scale: Scale | None = None  # of a number; None of a text
    high: str = ""  # field with the upper end of the interval that begins with this field
    flagged: bool = False  # whether the ``flag`` of a row is a footnote here


def table_of(
    rows: Sequence[Any], fields: Mapping[str, Field], title: str, unit: str, by: str = ""
) -> Table | None:
    """Return a table of rows in groups by the field ``by``, a column for each of some fields.

    None without rows.
    """
    notes = Footnotes()

    def entry(row: Any, name: str, field: Field) -> Entry:
        value, marks = getattr(row, name), notes.mark(row.flag) if field.flagged else ()
        if field.scale is None:
            return Entry(value, value, marks)
        if field.high:
            return ends_entry(value, getattr(row, field.high), field.scale, marks)
        return dataclasses.replace(number_entry(value, field.scale), marks=marks)

    columns = tuple(
        Column(one.name, one.meaning, numeric=one.scale is not None) for one in fields.values()
    )
    groups = groups_of(rows, by, lambda row: tuple(entry(row, *item) for item in fields.items()))
    return Table(title, columns, groups, unit, notes.all(), by.capitalize()) if rows else None


def groups_of(
    rows: Iterable[Any], field: str, entries: Callable[[Any], tuple[Entry, ...]]
) -> tuple[Group, ...]:
    """Return the entries of rows in groups, by the value of a field, in the order of the rows."""
    members = grouped((getattr(row, field) if field else "", entries(row)) for row in rows)
    return tuple(Group(name, "", tuple(body)) for name, body in members.items())


def filled_columns(
    columns: Sequence[Column], groups: Sequence[Group]
) -> tuple[tuple[Column, ...], tuple[Group, ...]]:
    """Leave out the columns that are empty in every row."""
    rows = [row for group in groups for row in group.rows]
    filled = [k for k in range(len(columns)) if any(row[k].text != MISSING for row in rows)]
    kept = tuple(
        Group(group.name, group.meaning, tuple(tuple(row[k] for k in filled) for row in group.rows))
        for group in groups
    )
    return tuple(columns[k] for k in filled), kept


def listed(names: Sequence[str]) -> str:
    """Join names to the beginning of a title: "Mean, gap and rank"."""
    text = f"{', '.join(names[:-1])} and {names[-1]}" if len(names) > 1 else names[0]
    return text[:1].upper() + text[1:]


def unit_text(rows: Iterable[tuple[str, int]], scope: str = "") -> str:
    """Say what the unit of inference of a table is; ``rows`` are unit and count of its rows."""
    counts: dict[str, set[int]] = {EPISODES: set(), RUNS: set()}
    for unit, count in rows:
        counts[unit] |= {count} - {0}
    parts = []
    if counts[EPISODES] or not counts[RUNS]:
        parts.append(f"episodes of a fixed policy{_numbers(counts[EPISODES], scope)}")
    if counts[RUNS]:
        whose = "training runs of learned policies" if parts else "training runs"
        parts += [
            whose + _numbers(counts[RUNS], scope),
            "each is a mean over its evaluation episodes",
        ]
    else:
        parts.append("not over training runs")
    return f"Intervals are over {'; '.join(parts)}."


def _numbers(counts: set[int], scope: str) -> str:
    if not counts:
        return ", none here"
    low, high = min(counts), max(counts)
    return f", n = {low:,}{'' if low == high else f' to {high:,}'}{scope}"


def runs_text(rows: Sequence[Any]) -> str:
    """Say how many training runs some rows are over."""
    counts = sorted({row.runs for row in rows})
    number = f"{counts[0]:,}" if len(counts) == 1 else f"{counts[0]:,} to {counts[-1]:,}"
    return f"Unit of inference: training runs, n = {number} per task"


def unit_names(rows: Iterable[Any]) -> str:
    """Name the units of some rows, for the meaning of a column."""
    units = {row.unit for row in rows}
    names = {EPISODES: "episodes", RUNS: "training runs", MODELS: "models"}
    return " or ".join(name for unit, name in names.items() if unit in units) or "episodes"


def count_entry(row: Any, rows: Iterable[Any]) -> Entry:
    """Return the number of units of a row, with their name where rows of a table differ in it."""
    mixed = len({other.unit for other in rows}) > 1
    return named_count(row) if mixed else Entry(f"{row.count:,}", row.count)


def named_count(row: Any) -> Entry:
    """Return the number of units of a row with their name, and how many runs failed."""
    unit = row.unit.removesuffix("s") if row.count == 1 else row.unit
    failed, played = getattr(row, "failed", 0), getattr(row, "played", row.count)
    of_them = f", {failed} of {played} failed" if failed else ""
    return Entry(f"{row.count:,} {unit}{of_them}", row.count)


def bounds_text(findings: Findings) -> str:
    """Say what the normalized scores 0 and 1 are."""
    if findings.protocol.report.normalisation == "minmax":
        return "0 and 1 are the lowest and the highest value of each task in this report"
    return "0 and 1 are the reference scores of each task, not limits"


def number_entry(value: float, scale: Scale) -> Entry:
    """Return a number, sorted in full precision; one that is not finite comes last."""
    return Entry(scale(value), value if math.isfinite(value) else None)


def missing_entries(columns: Sequence[Column]) -> tuple[Entry, ...]:
    """Return the entries after the name of a policy that has no result."""
    return (Entry("missing"), *(Entry(MISSING) for _ in columns[2:]))


def interval_entry(row: Any, scale: Scale, notes: Footnotes) -> Entry:
    """Return an interval, sorted by its width, with the reason why it says less than it seems."""
    flag = row.flag or (SAME if is_point(row.low, row.high) else "")
    return ends_entry(row.low, row.high, scale, notes.mark(flag))


def decisions_text(findings: Findings) -> str:
    """Say what the decisions of a report are on, and how many of them may be false."""
    alpha = findings.protocol.report.alpha
    number = count_decisions(findings.protocol, findings.comparisons, findings.group_comparisons)
    return (
        "A decision concerns one pair of policies: Holm's method over the tasks of a group, or "
        f"one comparison over the group. If no two policies differ, at most "
        f"{alpha * number:.1f} of the {number} decisions are expected to be false."
    )


def ends_entry(low: float, high: float, scale: Scale, marks: tuple[str, ...] = ()) -> Entry:
    """Return an interval, sorted by its width; one that is undefined comes last."""
    width = high - low
    return Entry(interval_text(low, high, scale), width if math.isfinite(width) else None, marks)


def has_certified_partners(findings: Findings) -> bool:
    """Whether 0 and 1 of the played tasks with partners are those of certificates of games."""
    certified = {row.task for row in findings.certificates}
    played = {task for task, _ in findings.episodes.pairs}
    focal = {task.id for task in findings.protocol.task if task.partners} & played
    return bool(focal) and focal <= certified


def rank_entry(row: Rank | None, marks: tuple[str, ...] = ()) -> Entry:
    """Return the interval of a rank, sorted by its middle."""
    if row is None:
        return Entry(MISSING)
    return Entry(range_text(row.low, row.high), (row.low + row.high) / 2.0, marks)
