"""The page of a report: one HTML file that needs nothing else, for screen, phone and paper."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from coopbench.report import card
from coopbench.report.plots.overall import Picture, pictures, styles
from coopbench.report.replays import NO_REPLAY, RULE, replays
from coopbench.report.tables import overall as tables
from coopbench.report.templates import template

if TYPE_CHECKING:
    from coopbench.protocol.schema import Task
    from coopbench.report.report import Report

__all__ = ["as_html"]


def as_html(report: "Report", drawn: Sequence[Picture] | None = None) -> str:
    """Return the page; ``drawn`` are its plots, if they have been made already.

    It loads nothing from anywhere. Its scripts only sort tables and play two episodes; without
    them all numbers are there. The players take 3 MB of it at most.
    """
    drawn = pictures(report) if drawn is None else drawn
    names = tables.policies(report)
    return template("page.html").render(
        report=report,
        found=report.protocol,
        identity=tables.identity(report),
        names=names,
        looks=styles(names),
        overall=tables.aggregate_table(report),
        no_aggregate=tables.NO_AGGREGATE,
        no_comparison=tables.NO_COMPARISON,
        drawn_overall=[picture for picture in _of(drawn, None) if picture.kind != "chart"],
        charts=[picture for picture in drawn if picture.kind == "chart"],
        extras=tables.extra_tables(report),
        overview=tables.overview_table(report) if tables.is_long(report) else None,
        groups={
            name: [_task(report, task, drawn) for task in tasks]
            for name, tasks in report.protocol.groups.items()
        },
        replays=replays(report),
        rule=RULE,
        no_replay=NO_REPLAY,
        reading=tables.reading(report),
        checklist=card.checklist_table(report),
        cards=card.cards(report),
        protocol=report.protocol.model_dump_json(indent=1),
        provenance=tables.provenance(report),
    )


def _task(report: "Report", task: "Task", drawn: Sequence[Picture]) -> dict[str, Any]:
    return {
        "id": task.id,
        "facts": tables.task_facts(report, task),
        "table": tables.task_table(report, task),
        "compared": tables.comparison_table(report, task),
        "agents": tables.agent_table(report, task),
        "drawn": _of(drawn, task.id),
    }


def _of(drawn: Sequence[Picture], task: str | None) -> list[Picture]:
    return [picture for picture in drawn if picture.task == task]
