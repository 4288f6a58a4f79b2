"""The page of a report: one HTML file that needs nothing else, for screen, phone and paper."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from coopbench.report import tables
from coopbench.report.plots import Picture, pictures, styles

if TYPE_CHECKING:
    from coopbench.protocol import Task
    from coopbench.report.report import Report

__all__ = ["as_html"]


def as_html(report: "Report", drawn: Sequence[Picture] | None = None) -> str:
    """Return the page; ``drawn`` are its plots, if they have been made already.

    It loads nothing from anywhere and is complete without its script, which only sorts tables.
    """
    from importlib import resources

    from jinja2 import Environment, StrictUndefined

    drawn = pictures(report) if drawn is None else drawn
    source = resources.files("coopbench.report").joinpath("page.html").read_text(encoding="utf-8")
    environment = Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters["typeset"] = _typeset
    environment.filters["breakable"] = _breakable
    environment.filters["inline"] = _inline
    names = tables.policies(report)
    return environment.from_string(source).render(
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
        models=tables.model_table(report),
        published=tables.published_table(report),
        overview=tables.overview_table(report) if tables.is_long(report) else None,
        groups={
            name: [_task(report, task, drawn) for task in tasks]
            for name, tasks in report.protocol.groups.items()
        },
        reading=tables.reading(report),
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


def _typeset(text: str) -> str:
    """A number with a true minus sign; only intervals break, before what says where they end."""
    text = text.replace("-", "\u2212").replace(" ", "\u00a0")
    return text.replace("\u00a0to", " to").replace("\u00a0width", " width")


def _breakable(name: str) -> str:
    """A name that may go on in a new line after its underscores and colons."""
    return name.replace("_", "_\u200b").replace(":", ":\u200b")


def _inline(picture: Picture) -> Any:
    """An SVG as part of the page: as wide as its place, named for those who cannot see it."""
    import re

    from markupsafe import Markup, escape

    head, _, body = picture.svg.partition(">")
    head = re.sub(r' (?:width|height|version|xmlns:xlink|xmlns)="[^"]*"', "", head)
    return Markup(f'{head} role="img" aria-label="{escape(picture.caption)}">{body}')
