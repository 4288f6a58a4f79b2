"""Tables of power: how often simulated reports decide a difference."""

import dataclasses
from collections.abc import Callable, Iterable, Sequence

from coopbench.analysis.planning import LEARNER, SCRIPT, Prospect
from coopbench.episodes.grouping import grouped
from coopbench.protocol.schema import Protocol
from coopbench.report.numbers import Scale
from coopbench.report.tables.entries import number_entry
from coopbench.report.tables.model import Column, Entry, Group, Table


def power_table(protocol: Protocol, rows: Sequence[Prospect], source: str) -> Table:
    """Return how often simulated reports decide; ``source`` says where the spreads are from.

    ``rows`` are of pairs: a plan against a script, and then the same against a learner.
    """

    def entries(script: Prospect, learner: Prospect) -> Iterable[tuple[Entry, ...]]:
        shares = [
            share
            for row in (script, learner)
            for share in (row.over_group, row.of_tasks, min(row.on_tasks.values()))
        ]
        yield (*_plan(script), *_shares(shares))

    trials = min(row.trials for row in rows)
    columns = [Column("Runs", "per learner and task"), Column("Effect", "true difference")]
    for rival in (SCRIPT, LEARNER):
        columns += [
            Column(f"{rival}: group", "share of reports that decide it over the group"),
            Column("tasks", "share on a task, mean over the tasks of the group"),
            Column("lowest", "share on the task where it is lowest"),
        ]
    return Table(
        title=f"Power under {protocol.name}: share of simulated reports that decide a difference",
        columns=tuple(columns),
        groups=_groups(rows, entries),
        unit=f"{trials} simulated reports for each row: standard error at most "
        f"{0.5 / trials**0.5:.2g}. A learner is better than a script, or than another learner, by "
        "the effect on every task, in normalized score. Decisions are those of reports, at alpha "
        f"{protocol.report.alpha:g}: on tasks adjusted over the tasks of the group. {source}",
        kind="Group",
    )


def task_power_table(protocol: Protocol, rows: Sequence[Prospect], source: str) -> Table:
    """Return ``power_table`` with a row for each task in place of each group."""

    def entries(script: Prospect, learner: Prospect) -> Iterable[tuple[Entry, ...]]:
        for task, share in script.on_tasks.items():
            yield Entry(task, task), *_plan(script), *_shares([share, learner.on_tasks[task]])

    whole = power_table(protocol, rows, source)
    columns = (
        Column("Task", "what is played", numeric=False),
        *whole.columns[:2],
        *(Column(rival, "share of reports that decide it") for rival in (SCRIPT, LEARNER)),
    )
    return dataclasses.replace(whole, columns=columns, groups=_groups(rows, entries))


def _groups(
    rows: Sequence[Prospect],
    entries: Callable[[Prospect, Prospect], Iterable[tuple[Entry, ...]]],
) -> tuple[Group, ...]:
    """Return the entries of all pairs, in the groups of tasks that they are about."""
    pairs = zip(rows[::2], rows[1::2], strict=True)
    lines = grouped(
        (one.group or "all tasks", line) for one, two in pairs for line in entries(one, two)
    )
    return tuple(Group(name, "", tuple(some)) for name, some in lines.items())


def _plan(row: Prospect) -> tuple[Entry, Entry]:
    return Entry(f"{row.runs}", row.runs), Entry(f"{row.effect:g}", row.effect)


def _shares(shares: Sequence[float]) -> list[Entry]:
    return [number_entry(share, Scale(2)) for share in shares]
