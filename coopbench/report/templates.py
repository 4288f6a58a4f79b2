"""Templates: the HTML of all pages, which share a style sheet, tables and the script that sorts."""

import re
from functools import cache
from importlib import resources
from typing import Any

from coopbench.report.plots.style import Picture

__all__ = ["embedded", "template"]


def template(name: str) -> Any:
    """Return a template of this package by the name of its file; values are escaped in it."""
    return _environment().get_template(name)


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
        "embedded": embedded,
        "inline": _inline,
        "typeset": _typeset,
    }
    return environment


def embedded(data: Any) -> Any:
    """Return data as JSON that may stand in a script element: no ``<`` can end it."""
    import json

    from markupsafe import Markup

    return Markup(json.dumps(data, separators=(",", ":")).replace("<", "\\u003c"))


def _typeset(text: str) -> str:
    """A number with a true minus sign; only intervals break, before what says where they end."""
    text = text.replace("-", "\u2212").replace(" ", "\u00a0")
    return text.replace("\u00a0to", " to").replace("\u00a0width", " width")


def _breakable(name: str) -> str:
    """A name that may go on in a new line after its underscores and colons."""
    return name.replace("_", "_\u200b").replace(":", ":\u200b")


def _inline(picture: Picture) -> Any:
    """An SVG as part of the page: as wide as its place, named for those who cannot see it."""
    from markupsafe import Markup, escape

    head, _, body = picture.svg.partition(">")
    head = re.sub(r' (?:width|height|version|xmlns:xlink|xmlns)="[^"]*"', "", head)
    return Markup(f'{head} role="img" aria-label="{escape(picture.caption)}">{body}')
