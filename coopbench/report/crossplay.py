"""Files of a cross-play: its matrices as text, Markdown, CSV, JSON and heat maps."""

import dataclasses
import json
import math
from pathlib import Path
from typing import Any

from coopbench.analysis.meetings import Meeting, Meetings
from coopbench.files import write_all
from coopbench.provenance import versions
from coopbench.report.data import as_csv, finite
from coopbench.report.markdown import bullet_facts, escaped, markdown_table
from coopbench.report.numbers import MISSING, Scale, is_point, level_text, scale_of
from coopbench.report.plots.heat_maps import heat_map
from coopbench.report.plots.style import Picture, picture
from coopbench.report.tables.model import Column, Entry, Footnotes, Group, Table
from coopbench.report.terminal import print_table, printed

__all__ = ["as_json", "as_markdown", "as_text", "matrix_table", "pictures", "save", "show"]


ROUNDING = "the values differ by rounding only: a width of zero is not certainty"


def matrix_table(result: Meetings, task: str) -> Table:
    """Return the means on one task: a row per policy, a column per partner."""
    rows, notes, places = result.of(task), Footnotes(), result.places
    every = [meeting for row in rows for meeting in row]
    scale = scale_of([m.mean for m in every], [(m.high - m.low) / 2 for m in every])
    body = tuple(
        (Entry(name, name), *(_entry(meeting, scale, notes) for meeting in row))
        for name, row in zip(result.policies, rows, strict=True)
    )
    return Table(
        title=f"Mean {places.value} on {task}, by who plays {places.column}",
        columns=(
            Column("Policy", places.row, numeric=False),
            *(Column(name, places.column) for name in result.policies),
        ),
        groups=(Group("", "", body),),
        footnotes=notes.all(),
        unit=f"± is half of the {level_text(result.protocol)} t interval over "
        f"{every[0].count:,} episodes of fixed policies; not over training runs.",
    )


def _entry(meeting: Meeting, scale: Scale, notes: Footnotes) -> Entry:
    """Return a mean with the half width of its interval, or a note why there is none."""
    if not meeting.count:
        return Entry(MISSING, None, notes.mark(meeting.flag))
    point = is_point(meeting.low, meeting.high)
    marks = notes.mark(meeting.flag or (ROUNDING if point else ""))
    if point or math.isnan(meeting.low):
        return Entry(scale(meeting.mean), meeting.mean, marks)
    half = scale((meeting.high - meeting.low) / 2)
    return Entry(f"{scale(meeting.mean)} ± {half}", meeting.mean, marks)


def _facts(result: Meetings) -> dict[str, str]:
    protocol = result.protocol
    return {
        "Protocol": f"{protocol.name}, digest {protocol.digest[:12]}",
        "Seats": result.places.rule,
    }


def _game(result: Meetings, name: str) -> str:
    task = result.protocol.task_of(name)
    settings = ", ".join(f"{key} = {value}" for key, value in task.parameters.items())
    return f"{task.env}, {settings or 'defaults'}"


def show(result: Meetings, console: Any) -> None:
    """Print the matrices on a rich console."""
    from rich.text import Text

    console.print(Text(f"Cross-play on {result.protocol.name}", style="bold"))
    for label, text in _facts(result).items():
        console.print(Text(f"{label}: {text}"))
    for task in result.tasks:
        console.print("", Text(task, style="bold"), Text(_game(result, task)), sep="\n")
        print_table(matrix_table(result, task), console)


def as_text(result: Meetings, width: int | None = None) -> str:
    """Return the matrices as plain text, ``width`` columns wide or as wide as the terminal."""
    return printed(lambda console: show(result, console), width)


def as_markdown(result: Meetings) -> str:
    """Return the matrices as Markdown, with links to the heat maps of the folder ``plots``."""
    parts = [f"# Cross-play on {escaped(result.protocol.name)}", bullet_facts(_facts(result))]
    for task in result.tasks:
        parts += [
            f"## {escaped(task)}",
            escaped(_game(result, task)),
            f"![{_caption(result, task)}](plots/crossplay-{task}.svg)",
            markdown_table(matrix_table(result, task)),
        ]
    return "\n\n".join(parts) + "\n"


def as_json(result: Meetings) -> str:
    """Return everything as JSON; null where a number is undefined."""
    content = {
        "schema": 1,
        "name": result.protocol.name,
        "digest": result.protocol.digest,
        "policies": list(result.policies),
        "tasks": list(result.tasks),
        "meetings": [finite(dataclasses.asdict(meeting)) for meeting in result.meetings],
        "protocol": result.protocol.model_dump(mode="json"),
        "versions": versions(),
    }
    return json.dumps(content, indent=1, allow_nan=False, ensure_ascii=False) + "\n"


def pictures(result: Meetings) -> tuple[Picture, ...]:
    """Draw a heat map for every task."""
    return tuple(
        picture(f"crossplay-{task}", task, _caption(result, task), heat_map(result, task))
        for task in result.tasks
    )


def _caption(result: Meetings, task: str) -> str:
    places = result.places
    return (
        f"Mean {places.value} on {task}: the policy of the row plays {places.row}, that of the "
        f"column {places.column}. Framed: self-play."
    )


def save(result: Meetings, folder: Path) -> dict[str, Path]:
    """Write all files below ``folder``, as the files of a report are; return {what: file}."""
    contents: dict[str, str | bytes] = {}
    for drawn in pictures(result):
        contents[f"plots/{drawn.name}.svg"] = drawn.svg
    contents |= {
        "crossplay.md": as_markdown(result),
        "crossplay.csv": as_csv(result.meetings, Meeting),
        "crossplay.json": as_json(result),
    }
    return write_all(folder, contents, "crossplay")
