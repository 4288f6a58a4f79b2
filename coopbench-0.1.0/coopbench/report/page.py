"""The page of a report: one HTML file that needs nothing else, for screen, phone and paper."""

from collections.abc import Sequence
from typing import Any

from coopbench.analysis.findings import Findings
from coopbench.protocol.sections import Task
from coopbench.report.card import cards
from coopbench.report.facts import identity, provenance, task_facts
from coopbench.report.plots.pictures import pictures
from coopbench.report.plots.style import Picture, styles
from coopbench.report.reading import reading
from coopbench.report.replays import NO_REPLAY, RULE, replays
from coopbench.report.tables.aggregates import aggregate_table
from coopbench.report.tables.checklist import checklist_table
from coopbench.report.tables.groups import group_tables
from coopbench.report.tables.overall import extra_tables, overview_table
from coopbench.report.tables.tasks import agent_table, comparison_table, task_table
from coopbench.report.tables.words import NO_AGGREGATE, NO_COMPARISON, is_long, policies
from coopbench.report.templates import render

__all__ = ["as_html"]


def as_html(findings: Findings, drawn: Sequence[Picture] | None = None) -> str:
    """Return the page; ``drawn`` are its plots, if they have been made already.

    It loads nothing from anywhere. Its scripts only sort tables and play two episodes; without
    them all numbers are there. The players take 3 MB of it at most.
    """
    drawn = pictures(findings) if drawn is None else drawn
    names = policies(findings)
    return render(
        "page.html",
        findings=findings,
        protocol=findings.protocol,
        identity=identity(findings),
        names=names,
        looks=styles(names),
        overall=aggregate_table(findings),
        no_aggregate=NO_AGGREGATE,
        no_comparison=NO_COMPARISON,
        drawn_overall=[picture for picture in _of(drawn, None) if picture.kind != "chart"],
        pairs=group_tables(findings),
        charts=[picture for picture in drawn if picture.kind == "chart"],
        extras=extra_tables(findings),
        overview=overview_table(findings) if is_long(findings) else None,
        groups={
            name: [_task(findings, task, drawn) for task in tasks]
            for name, tasks in findings.protocol.groups.items()
        },
        replays=replays(findings),
        rule=RULE,
        no_replay=NO_REPLAY,
        reading=reading(findings),
        checklist=checklist_table(findings),
        cards=cards(findings),
        protocol_json=findings.protocol.model_dump_json(indent=1),
        provenance=provenance(findings),
    )


def _task(findings: Findings, task: Task, drawn: Sequence[Picture]) -> dict[str, Any]:
    return {
        "id": task.id,
        "facts": task_facts(findings, task),
        "table": task_table(findings, task),
        "compared": comparison_table(findings, task),
        "agents": agent_table(findings, task),
        "drawn": _of(drawn, task.id),
    }


def _of(drawn: Sequence[Picture], task: str | None) -> list[Picture]:
    return [picture for picture in drawn if picture.task == task]
