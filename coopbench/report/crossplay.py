"""Files of a cross-play: its matrices as text, Markdown, CSV, JSON and heat maps."""

import dataclasses
import json
import math
from functools import partial
from pathlib import Path

from coopbench.analysis.meetings import Meeting, Meetings
from coopbench.files import write_all
from coopbench.provenance import versions
from coopbench.report.blocks import ALWAYS, Document, Facts, Pictures, Section, Text
from coopbench.report.markdown import as_markdown
from coopbench.report.numbers import MISSING, Scale, finite, is_point, level_text, scale_of
from coopbench.report.plots.drawing import HeatMap
from coopbench.report.plots.style import Picture, plain
from coopbench.report.serialise import as_csv
from coopbench.report.tables.model import Column, Entry, Footnotes, Group, Table

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
        f"{every[0].count:,} episodes of fixed policies, within seats; not over training runs.",
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


def document(result: Meetings) -> Document:
    """Return the matrices and heat maps of all tasks."""
    protocol = result.protocol
    facts = {
        "Protocol": f"{protocol.name}, digest {protocol.digest[:12]}",
        "Seats": result.places.rule,
    }
    tasks = (
        Section(
            task,
            (
                Text(_game(result, task)),
                Pictures((_picture(result, task),)),
                matrix_table(result, task),
            ),
            shown=ALWAYS,
        )
        for task in result.tasks
    )
    return Document(
        f"Cross-play on {protocol.name}", (Facts(facts), *tasks), "coopbench cross-play"
    )


def _game(result: Meetings, name: str) -> str:
    task = result.protocol.task_of(name)
    settings = ", ".join(f"{key} = {value}" for key, value in task.parameters.items())
    return f"{task.env}, {settings or 'defaults'}"


def _picture(result: Meetings, task: str) -> Picture:
    places = result.places
    caption = (
        f"Mean {places.value} on {task}: the policy of the row plays {places.row}, that of the "
        f"column {places.column}. Framed: self-play."
    )
    return Picture(f"crossplay-{task}", caption, partial(heat_map, result, task))


def heat_map(result: Meetings, task: str) -> HeatMap:
    """Draw the means of a cross-play on ``task``, numbers in the cells.

    Rows are policies in one seat, columns those in all others, or on the other side; self-play is
    framed. The colours (cividis) run from the lowest to the highest value.
    """
    values = result.matrix(task)
    scale = scale_of(values.ravel(), ())
    return HeatMap(
        tuple(plain(name) for name in result.policies),
        values,
        tuple(scale(value) for value in values.flat),
        f"{task}: mean {result.places.value}",
        result.places.column,
        result.places.row,
    )


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


def save(result: Meetings, folder: Path) -> dict[str, Path]:
    """Write all files below ``folder``, as the files of a report are; return {what: file}.

    Matrices of an earlier run on other tasks are removed: the tables here are not theirs.
    """
    shown = document(result)
    contents: dict[str, str | bytes] = {
        f"plots/{picture.name}.svg": picture.svg for picture in shown.pictures
    }
    contents |= {
        "crossplay.md": as_markdown(shown),
        "crossplay.csv": as_csv(result.meetings, Meeting),
        "crossplay.json": as_json(result),
    }
    written = write_all(folder, contents, "crossplay")
    for picture in (folder / "plots").glob("crossplay-*.svg"):
        if f"plots/{picture.name}" not in contents:
            picture.unlink()
    return written
