"""Reports and tables in a terminal, or as plain text."""

import io
import shutil
import sys
from collections.abc import Callable
from typing import Any

from coopbench.analysis.findings import Findings
from coopbench.report.facts import identity, provenance, task_facts
from coopbench.report.numbers import MISSING
from coopbench.report.tables.aggregates import aggregate_table
from coopbench.report.tables.groups import group_tables
from coopbench.report.tables.model import Table
from coopbench.report.tables.overall import extra_tables, overview_table
from coopbench.report.tables.tasks import comparison_table, task_table
from coopbench.report.tables.words import NO_AGGREGATE, NO_COMPARISON, is_long

__all__ = ["as_text", "encodable", "print_table", "printed", "show"]

NOT_STANDARD = "NOT A STANDARD REPORT"


def as_text(findings: Findings, width: int | None = None) -> str:
    """Return the report as plain text; see ``printed``."""
    return printed(lambda console: show(findings, console), width)


def printed(show: Callable[[Any], None], width: int | None = None) -> str:
    """Return what ``show`` prints on a rich console as plain text, without escape codes.

    ``width`` is in columns; by default that of the terminal, or 100 where there is none.
    Characters that standard output cannot show are replaced.
    """
    from rich.console import Console

    width = width or shutil.get_terminal_size((100, 24)).columns
    console = Console(
        file=io.StringIO(), width=width, color_system=None, force_terminal=False, no_color=True
    )
    show(console)
    text = "\n".join(line.rstrip() for line in console.file.getvalue().splitlines())  # type: ignore[attr-defined]
    return encodable(text, getattr(sys.stdout, "encoding", None) or "utf-8")


def encodable(text: str, encoding: str) -> str:
    """Replace the characters that an encoding lacks, so that printing never fails."""
    try:
        text.encode(encoding)
    except UnicodeEncodeError:
        plain = text.replace(MISSING, "--").replace("±", "+/-")
        plain = plain.translate({0x2500: "-", 0x2501: "-"})
        return plain.encode(encoding, "replace").decode(encoding)
    return text


def show(findings: Findings, console: Any) -> None:
    """Print the report on a rich console."""
    from rich.text import Text

    def say(text: str, style: str = "") -> None:
        console.print(Text(text, style=style))

    say(findings.protocol.name, "bold")
    say(*("Standard report", "green") if findings.is_standard else (NOT_STANDARD, "bold yellow"))
    for reason in findings.departures:
        say(f"  - {reason}")
    for label, text in identity(findings).items():
        say(f"{label}: {text}")
    say("")
    print_table(aggregate_table(findings) or NO_AGGREGATE, console)
    for table in extra_tables(findings, not is_long(findings)):
        say("")
        print_table(table, console)
    for table in [] if is_long(findings) else group_tables(findings):
        say("")
        print_table(table, console)
    if is_long(findings):
        say("")
        print_table(overview_table(findings), console)
        say("")
        say(f"The files of the saved report show all {len(findings.protocol.task)} tasks in full.")
    for task in () if is_long(findings) else findings.protocol.task:
        say("")
        say(task.id, "bold")
        say("; ".join(f"{label}: {text}" for label, text in task_facts(findings, task).items()))
        print_table(task_table(findings, task), console)
        say("")
        print_table(comparison_table(findings, task) or NO_COMPARISON, console)
    say("")
    for label, text in provenance(findings).items():
        say(f"{label}: {text}")
    for note in findings.notes:
        say(f"Note: {note}", "yellow")


def print_table(table: Table | str, console: Any) -> None:
    """Print a table, or why there is none; a wide one is cut into parts that repeat the names."""
    from rich.text import Text

    if isinstance(table, str):
        console.print(Text(table))
        return
    console.print(Text(table.title, style="italic"))
    longest = max(16, 2 * console.width // 5)  # of a name; a longer one is broken, if need be
    if len(_parts(table, console.width, console.width)) == 1:
        longest = console.width
    for number, part in enumerate(_parts(table, console.width, longest)):
        console.print(*([""] if number else []), _grid(table, part, longest), sep="\n")
    for text in table.notes:
        console.print(Text(text, style="dim"))


def _parts(table: Table, width: int, longest: int) -> list[list[int]]:
    """Indices of the columns, after the first, that fit side by side."""
    rows = [row for group in table.groups for row in group.rows]
    sizes = [
        max([len(column.name), *(len(line) for row in rows for line in row[k].lines)]) + 2
        for k, column in enumerate(table.columns)
    ]
    head = min(sizes[0], longest) + max(
        [len(group.name) + 2 for group in table.groups if group.name], default=0
    )
    parts: list[list[int]] = [[]]
    for k, size in enumerate(sizes[1:], start=1):
        if parts[-1] and head + sum(sizes[j] for j in parts[-1]) + size > width:
            parts.append([])
        parts[-1].append(k)
    return parts


def _grid(table: Table, part: list[int], longest: int) -> Any:
    from rich import box
    from rich.table import Table as Grid
    from rich.text import Text

    grid = Grid(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False, collapse_padding=True)
    if table.grouped:
        grid.add_column(table.kind, overflow="fold")
    grid.add_column(table.columns[0].name, overflow="fold", max_width=longest)
    for k in part:
        column = table.columns[k]
        if column.numeric:
            grid.add_column(column.name, justify="right", no_wrap=True)
        else:
            grid.add_column(column.name, overflow="fold")
    for group in table.groups:
        for number, row in enumerate(group.rows):
            shown = [row[0], *(row[k] for k in part)]
            cells = [
                Text("\n".join(entry.lines), style="bold" if entry.strong else "")
                for entry in shown
            ]
            head = [Text(group.name if number == 0 else "")] if table.grouped else []
            grid.add_row(*head, *cells, end_section=number == len(group.rows) - 1)
    return grid
