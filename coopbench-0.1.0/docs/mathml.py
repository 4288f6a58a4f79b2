"""Hook of the documentation build: formulas become MathML, so that pages need no script."""

import html
import re

from latex2mathml.converter import convert

_FORMULA = re.compile(
    r'<(span|div) class="arithmatex">\\([(\[])(.*?)\\[)\]]</\1>([.,;:)]*)', re.DOTALL
)


def on_page_content(text: str, **context: object) -> str:
    """Replace every formula of a page; raises ``ValueError`` for what is left as it was."""

    def formula(match: re.Match[str]) -> str:
        # Bars that are known as brackets stand close to what is between them.
        source = (
            html.unescape(match[3]).replace(r"\lvert", r"\left|").replace(r"\rvert", r"\right|")
        )
        if match[2] == "(":
            # Together with what follows, or a line could begin with a comma.
            return f'<span class="whole">{_checked(convert(source), source)}{match[4]}</span>'
        # In a box of its own, which scrolls where the formula is wider than the page.
        block = _checked(convert(source, display="block"), source)
        return f'<div class="formula">{block}</div>{match[4]}'

    return _FORMULA.sub(formula, text)


def _checked(converted: str, source: str) -> str:
    left = re.search(r"\\[a-zA-Z]*", converted)
    if left:
        raise ValueError(f"latex2mathml does not know {left[0]!r} in the formula {source!r}.")
    return converted
