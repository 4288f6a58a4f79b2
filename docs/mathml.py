"""Hook of the documentation build: formulas become MathML, so that pages need no script."""

import html
import re

from latex2mathml.converter import convert

_FORMULA = re.compile(r'<(span|div) class="arithmatex">\\([(\[])(.*?)\\[)\]]</\1>', re.DOTALL)


def on_page_content(text: str, **context: object) -> str:
    """Replace every formula of a page."""

    def formula(match: re.Match[str]) -> str:
        display = "block" if match[2] == "[" else "inline"
        return convert(html.unescape(match[3]), display=display)

    return _FORMULA.sub(formula, text)
