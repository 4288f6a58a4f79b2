"""Tables of power: how often simulated reports decide a difference."""

import dataclasses
import math
from collections.abc import Sequence

from coopbench.analysis.planning import LEARNER, SCRIPT, Prospect
from coopbench.protocol.schema import Protocol
from coopbench.report.numbers import MISSING, Scale
from coopbench.report.tables.entries import number_entry
from coopbench.report.tables.model import Column, Entry, Group, Table


def power_table(protocol: Protocol, rows: Sequence[Prospect], source: str) -> Table:
    """Return how often simulated reports decide; ``source`` says where the spreads are from.

    ``rows`` are of pairs: the same plan against a script and against a learner.
    """
    plans: dict[str, dict[tuple[int, float], dict[str, Prospect]]] = {}
    for row in rows:
        plan = plans.setdefault(row.group, {}).setdefault((row.runs, row.effect), {})
        plan[row.rival] = row
    groups = [
        Group(
            name or "all tasks",
            "",
            tuple(
                (Entry(f"{runs}", runs), Entry(f"{effect:g}", effect), *_power_entries(rivals))
                for (runs, effect), rivals in some.items()
            ),
        )
        for name, some in plans.items()
    ]
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
        groups=tuple(groups),
        footnotes=(),
        unit=f"{trials} simulated reports for each row: standard error at most "
        f"{0.5 / trials**0.5:.2g}. A learner is better than a script, or than another learner, by "
        "the effect on every task, in normalized score. Decisions are those of reports, at alpha "
        f"{protocol.report.alpha:g}: on tasks adjusted over the tasks of the group. {source}",
        kind="Group",
    )


def task_power_table(protocol: Protocol, rows: Sequence[Prospect], source: str) -> Table:
    """Return ``power_table`` with a row for each task in place of each group."""
    plans: dict[str, dict[tuple[str, int, float], dict[str, float]]] = {}
    for row in rows:
        for task, share in row.on_tasks.items():
            plan = plans.setdefault(row.group, {}).setdefault((task, row.runs, row.effect), {})
            plan[row.rival] = share
    whole, scale = power_table(protocol, rows, source), Scale(2)
    groups = [
        Group(
            name or "all tasks",
            "",
            tuple(
                (
                    Entry(task, task),
                    Entry(f"{runs}", runs),
                    Entry(f"{effect:g}", effect),
                    *(number_entry(rivals.get(k, math.nan), scale) for k in (SCRIPT, LEARNER)),
                )
                for (task, runs, effect), rivals in some.items()
            ),
        )
        for name, some in plans.items()
    ]
    columns = (
        Column("Task", "what is played", numeric=False),
        *whole.columns[:2],
        *(Column(rival, "share of reports that decide it") for rival in (SCRIPT, LEARNER)),
    )
    return dataclasses.replace(whole, columns=columns, groups=tuple(groups))


def _power_entries(rivals: dict[str, Prospect]) -> tuple[Entry, ...]:
    entries, scale = list[Entry](), Scale(2)
    for rival in (SCRIPT, LEARNER):
        row = rivals.get(rival)
        if row is None:
            entries += [Entry(MISSING)] * 3
            continue
        shares = (row.over_group, row.of_tasks, min(row.on_tasks.values()))
        entries += [number_entry(share, scale) for share in shares]
    return tuple(entries)
