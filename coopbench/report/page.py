"""The page of a report: one HTML file that needs nothing else, for screen, phone and paper."""

from collections.abc import Sequence
from typing import Any

from coopbench.analysis.findings import Findings
from coopbench.protocol.sections import Task
from coopbench.report import card
from coopbench.report.plots.overall import Picture, pictures, styles
from coopbench.report.replays import NO_REPLAY, RULE, replays
from coopbench.report.tables import overall as tables
from coopbench.report.templates import template

__all__ = ["as_html"]


def as_html(findings: Findings, drawn: Sequence[Picture] | None = None) -> str:
    """Return the page; ``drawn`` are its plots, if they have been made already.

    It loads nothing from anywhere. Its scripts only sort tables and play two episodes; without
    them all numbers are there. The players take 3 MB of it at most.
    """
    drawn = pictures(findings) if drawn is None else drawn
    names = tables.policies(findings)
    return template("page.html").render(
        findings=findings,
        protocol=findings.protocol,
        identity=tables.identity(findings),
        names=names,
        looks=styles(names),
        overall=tables.aggregate_table(findings),
        no_aggregate=tables.NO_AGGREGATE,
        no_comparison=tables.NO_COMPARISON,
        drawn_overall=[picture for picture in _of(drawn, None) if picture.kind != "chart"],
        charts=[picture for picture in drawn if picture.kind == "chart"],
        extras=tables.extra_tables(findings),
        overview=tables.overview_table(findings) if tables.is_long(findings) else None,
        groups={
            name: [_task(findings, task, drawn) for task in tasks]
            for name, tasks in findings.protocol.groups.items()
        },
        replays=replays(findings),
        rule=RULE,
        no_replay=NO_REPLAY,
        reading=tables.reading(findings),
        checklist=card.checklist_table(findings),
        cards=card.cards(findings),
        protocol_json=findings.protocol.model_dump_json(indent=1),
        provenance=tables.provenance(findings),
    )


def _task(findings: Findings, task: Task, drawn: Sequence[Picture]) -> dict[str, Any]:
    return {
        "id": task.id,
        "facts": tables.task_facts(findings, task),
        "table": tables.task_table(findings, task),
        "compared": tables.comparison_table(findings, task),
        "agents": tables.agent_table(findings, task),
        "drawn": _of(drawn, task.id),
    }


def _of(drawn: Sequence[Picture], task: str | None) -> list[Picture]:
    return [picture for picture in drawn if picture.task == task]
