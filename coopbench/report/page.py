"""Pages: documents as HTML files that need nothing else, and the templates that all pages share."""

import json
import re
from collections.abc import Iterator, Sequence
from functools import cache
from importlib import resources
from typing import Any

from markupsafe import Markup, escape

from coopbench.report.blocks import ALWAYS, Block, Document, Row, Section, Verdict
from coopbench.report.plots.style import Picture
from coopbench.report.tables.model import Column, Entry, Table

_MORE = "report.save(folder) writes the page with all tables and plots."


def as_html(document: Document) -> str:
    """Return the page of a document.

    It loads nothing from anywhere. Its scripts only sort tables and play two episodes; without
    them all numbers are there. The players take 3 MB of it at most.
    """
    # What stands before the first section belongs to the head of the page.
    head = [block for block in document.blocks if not isinstance(block, Section)]
    return render("page.html", document=document, head=head, looks=document.looks)


def as_notebook(document: Document) -> str:
    """Return what a notebook shows below a cell: the verdict, and the first table of sections."""
    shown = [section.blocks for section in document.sections if section.shown == ALWAYS]
    firsts = (next(_tables(blocks), None) for blocks in shown)
    return render(
        "notebook.html",
        title=document.title,
        verdict=[block for block in document.blocks if isinstance(block, Verdict)],
        looks=document.looks,
        tables=[table for table in firsts if table is not None],
        more=_MORE,
    )


def _tables(blocks: tuple[Block, ...]) -> Iterator[Table]:
    for block in blocks:
        if isinstance(block, Table):
            yield block
        elif isinstance(block, Row):
            yield from _tables(block.blocks)


def render(name: str, **values: object) -> str:
    """Fill in a template of this package, named by its file; values are escaped."""
    return str(_environment().get_template(name).render(**values))


def filled(template: str, **values: object) -> Markup:
    """Fill in a template that is given as text; values are escaped."""
    return Markup(_environment().from_string(template).render(**values))


@cache
def _environment() -> Any:
    from jinja2 import Environment, FunctionLoader, StrictUndefined

    files = resources.files("coopbench.report")
    environment = Environment(
        loader=FunctionLoader(lambda name: files.joinpath(name).read_text(encoding="utf-8")),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "breakable": _breakable,
        "cells": _cells,
        "embedded": embedded,
        "inline": _inline,
        "kind": lambda block: type(block).__name__,
    }
    return environment


def embedded(data: Any) -> Markup:
    """Return data as JSON that is safe inside a script element: no ``<`` can end it."""
    return Markup(json.dumps(data, separators=(",", ":")).replace("<", "\\u003c"))


def _cells(row: Sequence[Entry], columns: Sequence[Column]) -> Markup:
    """Write a row of a table without its head, a line each; templates take five times as long."""
    pairs = zip(row[1:], columns[1:], strict=True)
    return Markup("".join(f"\n{_cell(*pair)}" for pair in pairs))


def _cell(entry: Entry, column: Column) -> str:
    kind = "num" if column.numeric else "text"
    kind += " interval" if column.is_interval else ""
    kind += " faint" if entry.value is None else ""
    value = "" if entry.value is None else f' data-value="{escape(entry.value)}"'
    text, below = (
        escape(_typeset(line) if column.numeric else line) for line in (entry.text, entry.below)
    )
    shown = f"<strong>{text}</strong>" if entry.strong else text
    marks = "".join(f"<sup>{escape(mark)}</sup>" for mark in entry.marks)
    second = f'<span class="second">{below}</span>' if below else ""
    return f'<td class="{kind}"{value}>{shown}{marks}{second}</td>'


def _typeset(text: str) -> str:
    """Write a number with a true minus sign; lines break only before the end of an interval."""
    text = text.replace("-", "\u2212").replace(" ", "\u00a0")
    for word in ("to", "width", "±"):  # before which a narrow column may break
        text = text.replace(f"\u00a0{word}", f" {word}")
    return text


def _breakable(name: str) -> str:
    """Write a name such that lines may break after its underscores and colons."""
    return name.replace("_", "_\u200b").replace(":", ":\u200b")


def _inline(picture: Picture) -> Markup:
    """Write an SVG as part of the page: as wide as its place, with a label for screen readers."""
    head, _, body = picture.svg.partition(">")
    head = re.sub(r' (?:width|height|version|xmlns:xlink|xmlns)="[^"]*"', "", head)
    return Markup(f'{head} role="img" aria-label="{escape(picture.caption)}">{body}')
