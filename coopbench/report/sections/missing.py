"""Missing runs: the training runs that failed, are missing, or are partial."""

import dataclasses
from collections.abc import Sequence
from typing import Any

from coopbench.analysis.findings import Findings
from coopbench.report.section import ReportSection
from coopbench.report.tables.model import Column, Entry, Group, Table


def missing_table(findings: Findings) -> Table | None:
    """Return the training runs that failed, are missing or partial; None if there are none."""
    runs: dict[tuple[str, ...], list[str]] = {}
    for row in findings.missing_runs:
        alike = row.task, row.policy, row.state, row.reason
        runs.setdefault(alike, []).append(str(row.run))
    if not runs:
        return None
    tasks: dict[tuple[str, ...], list[str]] = {}  # a row may stand for many: most are alike
    for (task, policy, state, reason), seeds in runs.items():
        tasks.setdefault((policy, state, ", ".join(seeds), reason), []).append(task)
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
        footnotes=(),
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
