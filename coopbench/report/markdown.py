"""Documents and tables as Markdown."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from coopbench.report.blocks import (
    PAGE,
    Block,
    Details,
    Document,
    Facts,
    Items,
    Pictures,
    Row,
    Section,
    Text,
    Verdict,
)
from coopbench.report.tables.model import Table


def as_markdown(document: Document) -> str:
    """Return a document as Markdown; its plots are linked as files of the folder ``plots``."""
    parts = [f"# {escaped(document.title)}", *_rendered(document.blocks, 2)]
    return "\n\n".join(parts) + "\n"


def _rendered(blocks: Iterable[Block], level: int) -> Iterator[str]:
    """Iterate over the paragraphs of some blocks; ``level`` is that of the next headings."""
    for block in blocks:
        yield from _WRITERS[type(block)](block, level)


def _under(block: Details | Section, level: int) -> Iterator[str]:
    if not (isinstance(block, Section) and block.shown == PAGE):
        yield f"{'#' * level} {escaped(block.title)}"
        yield from _rendered(block.blocks, level + 1)


def _verdict(block: Verdict, level: int) -> list[str]:
    if not block.deviations:
        return [f"{block.title}."]
    return [f"**{block.title}:**", _bullets(block.deviations)]


def _images(block: Pictures, level: int) -> list[str]:
    return [f"![{escaped(one.caption)}](plots/{one.name}.svg)" for one in block.drawn]


_WRITERS: dict[type, Callable[[Any, int], Iterable[str]]] = {
    Verdict: _verdict,
    Facts: lambda block, _: [_facts(block.pairs)],
    Items: lambda block, _: [_bullets(block.lines)],
    Text: lambda block, _: [escaped(block.text)],
    Table: lambda block, _: [markdown_table(block)],
    Pictures: _images,
    Row: lambda block, level: _rendered(block.blocks, level),
    Details: _under,
    Section: _under,
}


def rows_table(heads: Sequence[str], rows: Iterable[Iterable[object]]) -> str:
    """Write heads and rows of cells, which may hold Markdown, as a table."""
    lines = [[str(cell).replace("|", "\\|") for cell in row] for row in (heads, *rows)]
    return _grid(lines[0], ["---"] * len(heads), lines[1:])


def escaped(text: str) -> str:
    """Escape the characters that mean something in Markdown."""
    return "".join(f"\\{char}" if char in "\\&~`*_[]<>|#" else char for char in text)


def markdown_table(table: Table) -> str:
    """Return a table, with its notes beneath."""
    names = [escaped(column.name) for column in table.columns]
    sides = ["---:" if column.numeric else ":---" for column in table.columns]
    rows = []
    for group in table.groups:
        for row in group.rows:
            texts = [escaped("; ".join(entry.lines)) for entry in row]
            cells = [
                f"**{text}**" if entry.strong else text
                for text, entry in zip(texts, row, strict=True)
            ]
            rows.append([escaped(group.name), *cells] if table.grouped else cells)
    if table.grouped:
        names, sides = [table.kind, *names], [":---", *sides]
    return "\n".join(
        [
            f"**{escaped(table.title)}**",
            "",
            _grid(names, sides, rows),
            "",
            _bullets(table.notes),
        ]
    )


def _grid(heads: Sequence[str], sides: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Write cells without unescaped bars as a table."""
    return "\n".join("| " + " | ".join(line) + " |" for line in (heads, sides, *rows))


def _bullets(lines: Iterable[str]) -> str:
    return "\n".join(f"- {escaped(line)}" for line in lines)


def _facts(pairs: Mapping[str, str]) -> str:
    return "\n".join(f"- **{escaped(label)}:** {escaped(text)}" for label, text in pairs.items())
