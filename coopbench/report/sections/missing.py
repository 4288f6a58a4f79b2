"""Missing runs: the training runs that failed, are missing, or are partial."""

import dataclasses
from collections.abc import Sequence
from typing import Any

from coopbench.analysis.findings import Findings
from coopbench.episodes.grouping import grouped
from coopbench.report.section import ReportSection
from coopbench.report.tables.model import Column, Entry, Group, Table


def missing_table(findings: Findings) -> Table | None:
    """Return the training runs that failed, are missing or partial; None if there are none."""
    rows = findings.missing_runs
    if not rows:
        return None
    runs = grouped(((row.task, row.policy, row.state, row.reason), str(row.run)) for row in rows)
    tasks = grouped(  # a row may stand for many: most are alike
        ((policy, state, ", ".join(seeds), reason), task)
        for (task, policy, state, reason), seeds in runs.items()
    )
    body = tuple(
        tuple(Entry(text, text) for text in (_first_of(names), *alike))
        for alike, names in tasks.items()
    )
    return Table(
        title="Missing runs",
        columns=(
            Column("Task", "what is played; report.json lists all", numeric=False),
            Column("Policy", "who was trained", numeric=False),
            Column("State", "failed, missing, or partial: fewer checkpoints", numeric=False),
            Column("Runs", "training seeds", numeric=False),
            Column("Details", "why, or how many checkpoints there are", numeric=False),
        ),
        groups=(Group("", "", body),),
        unit="A failed run counts in the score with the floor of the task, and in no other metric. "
        "Missing runs are not replaced. Partial runs count with the checkpoints that they have.",
    )


def _first_of(names: Sequence[str]) -> str:
    """Return the first of some names, and how many there are besides."""
    first, others = names[0], len(names) - 1
    return f"{first} and {others} other{'s' if others > 1 else ''}" if others else first


def missing_runs(findings: Findings) -> list[dict[str, Any]]:
    """Return every run that failed, is missing, or is partial."""
    return [dataclasses.asdict(row) for row in findings.missing_runs]


SECTION = ReportSection(shows={"summary": missing_table}, json={"missing_runs": missing_runs})
