"""Figures of matplotlib in the style of the plots of reports."""

import io
import re
from typing import Any

from coopbench.report.plots.marks import FAINT, INK, SMALL, Style


def frame(ax: Any) -> None:
    """Remove everything from axes that carries no data."""
    for side in ("top", "right", "left"):
        ax.spines[side].set_visible(False)
    ax.spines["bottom"].set_color(INK)
    ax.grid(color=FAINT, linewidth=0.6)
    ax.set_axisbelow(True)
    ax.tick_params(labelsize=SMALL, color=FAINT, labelcolor=INK)
    ax.xaxis.set_major_formatter(lambda value, _: f"{value:,.8g}")


def dashes(look: Style) -> Any:
    """Return the line of a policy as matplotlib takes it."""
    return (0, look.line) if look.line else "-"


def svg(figure: Any, name: str) -> str:
    """Write a figure as SVG, always with the same bytes; ``name`` makes its ids unique."""
    from matplotlib import rc_context
    from matplotlib.backends.backend_svg import FigureCanvasSVG

    vector = io.StringIO()
    nothing = {"Creator": None, "Date": None, "Format": None, "Type": None}
    with rc_context({"svg.hashsalt": name, "svg.fonttype": "none", "path.simplify": True}):
        # Not savefig, which draws everything twice.
        FigureCanvasSVG(figure).print_svg(vector, metadata=nothing)
    return _slim(vector.getvalue(), name)


def _slim(text: str, name: str) -> str:
    """Drop prolog, metadata and unused ids from an SVG; make the other ids unique to it."""
    text = text[text.index("<svg") :]
    text = re.sub(r"<metadata>.*?</metadata>\s*", "", text, flags=re.DOTALL)
    used = set(re.findall(r"(?:url\(#|href=\"#)([^\")]+)", text))
    text = re.sub(r' id="([^"]*)"', lambda m: m[0] if m[1] in used else "", text)
    for old in sorted(used):
        text = text.replace(f'id="{old}"', f'id="{name}-{old}"')
        text = text.replace(f"url(#{old})", f"url(#{name}-{old})")
        text = text.replace(f'href="#{old}"', f'href="#{name}-{old}"')
    return text
