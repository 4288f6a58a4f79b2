"""The page of a document: one HTML file that needs nothing else, for screen, phone and paper."""

from collections.abc import Iterator

from coopbench.report.blocks import ALWAYS, Block, Document, Row, Section, Verdict
from coopbench.report.plots.style import styles
from coopbench.report.tables.model import Table
from coopbench.report.templates import render

_MORE = "report.save(folder) writes the page with all tables and plots."


def as_html(document: Document) -> str:
    """Return the page of a document.

    It loads nothing from anywhere. Its scripts only sort tables and play two episodes; without
    them all numbers are there. The players take 3 MB of it at most.
    """
    # What stands before the first section belongs to the head of the page.
    head = [block for block in document.blocks if not isinstance(block, Section)]
    return render("page.html", document=document, head=head, looks=styles(document.names))


def as_notebook(document: Document) -> str:
    """Return what a notebook shows below a cell: the verdict, and the first table of sections."""
    shown = [section.blocks for section in document.sections if section.shown == ALWAYS]
    firsts = (next(_tables(blocks), None) for blocks in shown)
    return render(
        "notebook.html",
        title=document.title,
        verdict=[block for block in document.blocks if isinstance(block, Verdict)],
        looks=styles(document.names),
        tables=[table for table in firsts if table is not None],
        more=_MORE,
    )


def _tables(blocks: tuple[Block, ...]) -> Iterator[Table]:
    for block in blocks:
        if isinstance(block, Table):
            yield block
        elif isinstance(block, Row):
            yield from _tables(block.blocks)
