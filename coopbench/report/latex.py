"""Tables of a document as LaTeX, for a paper: booktabs, each with a caption that stands alone."""

import itertools
import re
from collections.abc import Iterable, Iterator, Sequence

from coopbench.report.blocks import Document, Facts, Verdict
from coopbench.report.numbers import MISSING
from coopbench.report.tables.model import Column, Entry, Table

LINES = 22  # rows of a table: as many as fit its height, with an interval below each value
LONGEST = 13  # characters in a line of a column's head

_SPECIAL = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    **{char: f"\\{char}" for char in "&%$#_{}"},
    MISSING: "---",
    "\N{MINUS SIGN}": "$-$",
}
Line = tuple[str, tuple[Entry, ...]]  # a row and the name of its group


def as_latex(document: Document) -> str:
    """Return the tables of a document, to be included in a paper; facts become comments.

    A long table is cut into several of ``LINES`` rows. Columns of intervals stand below the values
    that they belong to. The footer of the document ends every caption.
    """
    parts = ["\n".join(f"% {' '.join(line.split())}" for line in _comments(document))]
    for table in document.blocks:
        if isinstance(table, Table):
            lines = [(group.name, row) for group in table.groups for row in group.rows]
            pages = [lines[k : k + LINES] for k in range(0, len(lines), LINES)]
            for number, page in enumerate(pages, start=1):
                count = f" ({number} of {len(pages)})" if len(pages) > 1 else ""
                notes = " ".join(f"{note.rstrip('.')}." for note in table.notes)
                caption = f"{table.title}{count}. {notes} {document.footer}"
                parts.append(_table(table, page, caption))
    return "\n\n".join(parts) + "\n"


def escaped(text: str) -> str:
    """Escape the characters that mean something in LaTeX, and join lines.

    A bracket or a star at the beginning would be an option of the end of the row before.
    """
    line = "".join(_SPECIAL.get(char, char) for char in " ".join(text.split()))
    return f"{{}}{line}" if line.startswith(("[", "*")) else line


def _comments(document: Document) -> Iterator[str]:
    """Iterate over what this is, what it needs, and why it is not a standard report."""
    for block in document.blocks:
        if isinstance(block, Facts):
            yield from (f"{label}: {text}" for label, text in block.pairs.items())
        if isinstance(block, Verdict) and block.deviations:
            yield f"{block.title}:"
            yield from (f"- {reason}" for reason in block.deviations)
    yield r"Needs in the preamble: \usepackage{booktabs}"


def _table(table: Table, lines: Sequence[Line], caption: str) -> str:
    """Return a page of a table."""
    columns = [column for column in table.columns if not column.is_interval]
    sides = "".join("r" if column.numeric else "l" for column in columns)
    return "\n".join(
        [
            r"\begin{table}[tbp]",
            r"\centering\footnotesize\setlength{\tabcolsep}{3pt}",
            rf"\caption{{{escaped(caption)}}}",
            r"\smallskip",
            rf"\begin{{tabular}}{{@{{}}{sides}@{{}}}}",
            r"\toprule",
            " & ".join(map(_head, columns)) + r" \\",
            r"\midrule",
            *_body(table, lines, len(columns)),
            r"\bottomrule",
            r"\end{tabular}",
            r"\end{table}",
        ]
    )


def _body(table: Table, lines: Sequence[Line], columns: int) -> Iterator[str]:
    for name, rows in itertools.groupby(lines, key=lambda line: line[0]):
        if name:
            yield rf"\multicolumn{{{columns}}}{{@{{}}l}}{{\emph{{{escaped(name)}}}}} \\"
        for _, row in rows:
            values, below = zip(*_cells(table.columns, row), strict=True)
            yield " & ".join(values) + r" \\"
            if any(below):
                small = (rf"{{\scriptsize {text}}}" if text else "" for text in below)
                yield " & ".join(small) + r" \\[2pt]"


def _cells(columns: Sequence[Column], row: Sequence[Entry]) -> Iterable[tuple[str, str]]:
    """Return every value with what stands below it."""
    cells: list[tuple[str, list[str]]] = []
    for column, entry in zip(columns, row, strict=True):
        if column.is_interval:
            if entry.text != MISSING:  # without its second line, for which there is no room
                cells[-1][1].append(_text(column, entry.marked))
            continue
        marks = "".join(rf"\textsuperscript{{{mark}}}" for mark in entry.marks)
        text = _text(column, entry.text)
        text = rf"\textbf{{{text}}}" if entry.strong else text
        cells.append((text + marks, [_text(column, entry.below)] if entry.below else []))
    return [(value, "; ".join(below)) for value, below in cells]


def _text(column: Column, text: str) -> str:
    return (
        escaped(text).replace("-", "$-$") if column.numeric and text != MISSING else escaped(text)
    )


def _head(column: Column) -> str:
    """Break a name into several lines, behind its spaces, dashes, dots, underscores and colons."""
    lines = [""]
    for piece in re.split(r"(?<=[-._: ])", column.name):
        if lines[-1] and len(lines[-1] + piece) > LONGEST:
            lines.append("")
        lines[-1] += piece
    if len(lines) == 1:
        return escaped(column.name)
    side = "r" if column.numeric else "l"
    return rf"\shortstack[{side}]{{" + r" \\ ".join(map(escaped, lines)) + "}"
