"""Documents and tables in a terminal, or as plain text."""

import io
import shutil
import sys
from collections.abc import Callable
from typing import Any

from coopbench.report.blocks import (
    ALWAYS,
    Block,
    Details,
    Document,
    Facts,
    Items,
    Row,
    Section,
    Text,
    Verdict,
)
from coopbench.report.numbers import MISSING
from coopbench.report.tables.model import Table


def as_text(document: Document, width: int | None = None) -> str:
    """Return a document as plain text; see ``printed``."""
    return printed(lambda console: show(document, console), width)


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


def show(document: Document, console: Any) -> None:
    """Print a document on a rich console, without plots and what a page folds."""
    _say(console, document.title, "bold")
    for block in document.blocks:
        _show(block, console)
    if any(section.shown != ALWAYS for section in document.sections):
        _say(console, "The report's files hold all tables, plots and explanations.")


def _show(block: Block, console: Any) -> None:
    printer = _PRINTERS.get(type(block))  # none of what only files show
    if printer is not None:
        printer(block, console)


def _verdict(block: Verdict, console: Any) -> None:
    _say(console, block.title, "yellow" if block.warning else "green")
    for reason in block.deviations:
        _say(console, f"  - {reason}")
    _say(console, "")


def _facts(block: Facts, console: Any) -> None:
    if block.shown != ALWAYS:
        return
    for label, text in block.pairs.items():
        _say(console, f"{label}: {text}")
    _say(console, "")


def _items(block: Items, console: Any) -> None:
    for line in block.lines:
        _say(console, f"  - {line}")
    _say(console, "")


def _text(block: Text, console: Any) -> None:
    _say(console, block.text)
    _say(console, "")


def _table(block: Table, console: Any) -> None:
    print_table(block, console)
    _say(console, "")


def _section(block: Section, console: Any) -> None:
    if block.shown == ALWAYS:
        _say(console, block.title, "bold")
        _row(block, console)


def _details(block: Details, console: Any) -> None:
    if block.open:
        _row(block, console)


def _row(block: Row | Section | Details, console: Any) -> None:
    for part in block.blocks:
        _show(part, console)


_PRINTERS: dict[type, Callable[[Any, Any], None]] = {
    Verdict: _verdict,
    Facts: _facts,
    Items: _items,
    Text: _text,
    Table: _table,
    Section: _section,
    Details: _details,
    Row: _row,
}


def _say(console: Any, text: str, style: str = "") -> None:
    from rich.text import Text as Line

    console.print(Line(text, style=style))


def print_table(table: Table, console: Any) -> None:
    """Print a table; a wide one is cut into parts that repeat the names."""
    _say(console, table.title, "italic")
    longest = max(16, 2 * console.width // 5)  # of a name; a longer one is broken, if need be
    if len(_parts(table, console.width, console.width)) == 1:
        longest = console.width
    for number, part in enumerate(_parts(table, console.width, longest)):
        console.print(*([""] if number else []), _grid(table, part, longest), sep="\n")
    for text in table.notes:
        _say(console, text, "dim")


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
