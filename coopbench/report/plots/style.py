"""Style of all plots: how policies look, axes, legends, and figures as SVG.

The first seven colours are those of Okabe and Ito (2008), the others of Tol (2021): they can be
told apart with colour-blindness. Neighbours differ in lightness; marker and dash repeat the
distinction for print in grey. A policy looks the same in all plots. Settings of a user, such as a
``matplotlibrc``, change nothing, and no global state changes.
"""

import io
import math
import re
import warnings
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

# Without the yellow, which is too pale on paper. Twelve colours, five lines and seven markers have
# no common divisor, so that no combination returns before all have been used.
COLOURS = (
    *("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#000000", "#56B4E9", "#D55E00"),
    *("#999999", "#332288", "#44AA99", "#661100", "#AA4499"),
)
LINES: tuple[Any, ...] = (
    "-",
    (0, (4, 1.5)),
    (0, (1.2, 1.2)),
    (0, (6, 1.5, 1.2, 1.5)),
    (0, (7, 4)),
)
MARKERS = {"o": "●", "s": "■", "^": "▲", "D": "◆", "v": "▼", "P": "✚", "X": "✖"}
WIDTH = 4.8  # inches: text of 9 points stays legible when the plot is as wide as a phone
INK, FAINT, SMALL = "#222222", "#d0d0d0", 9
BAND = 0.15  # opacity
_LONGEST = 26  # characters of a policy's name in a plot


@dataclass(frozen=True)
class Style:
    """How a policy looks in every plot of a report; ``glyph`` is its marker as a character."""

    colour: str
    marker: str
    line: Any
    glyph: str


@dataclass(frozen=True)
class Picture:
    """A plot, which is drawn when it is first read."""

    name: str  # of its file, without the ending
    caption: str
    draw: Callable[[], Any]  # makes a figure, and returns its axes or the first of them

    @cached_property
    def svg(self) -> str:
        """The figure, always with the same bytes."""
        from matplotlib import style

        with warnings.catch_warnings(), style.context("default"):
            # Of names in other scripts: the font only measures here, and a browser has others.
            warnings.filterwarnings("ignore", r"Glyph .* missing from|.*not support \w+ natively")
            return svg(self.draw().figure, self.name)


def styles(names: Sequence[str]) -> dict[str, Style]:
    """Give every policy its colour, marker and line, by its place in the report."""
    shapes = list(MARKERS.items())
    return {
        name: Style(
            COLOURS[k % len(COLOURS)],
            shapes[k % len(shapes)][0],
            LINES[k % len(LINES)],
            shapes[k % len(shapes)][1],
        )
        for k, name in enumerate(names)
    }


@dataclass(frozen=True)
class Line:
    """A line of a plot, with its band if it has one; all parts are as long as ``x``."""

    label: str
    look: Style
    x: Sequence[float] | np.ndarray
    y: Sequence[float] | np.ndarray
    low: Sequence[float] | np.ndarray | None = None
    high: Sequence[float] | np.ndarray | None = None


def draw_lines(lines: Sequence[Line], ax: Any) -> Any:
    """Draw lines and their legend on axes, or on new ones where ``ax`` is None; return the axes.

    Equal lines lie on each other: thinner on top of thicker, with markers in different places.
    """
    names = [line.label for line in lines]
    ax = ax if ax is not None else new_axes(legend_height(names))
    frame(ax)
    for k, line in enumerate(lines):
        if line.low is not None:
            band = {"color": line.look.colour, "alpha": BAND, "linewidth": 0}
            ax.fill_between(line.x, line.low, line.high, **band)
        stride = max(1, len(line.x) // 8)
        ax.plot(
            line.x,
            line.y,
            color=line.look.colour,
            linestyle=line.look.line,
            linewidth=2.4 - 0.8 * k / max(1, len(lines) - 1),
            marker=line.look.marker,
            markersize=4.5,
            markevery=(k * stride // len(lines), stride),
            label=plain(line.label),
        )
    legend(ax, legend_columns(names))
    return ax


def new_axes(height: float, width: float = WIDTH) -> Any:
    """Return axes of a new figure that pyplot does not know."""
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained").add_subplot()


def frame(ax: Any) -> None:
    """Remove everything from axes that carries no data."""
    for side in ("top", "right", "left"):
        ax.spines[side].set_visible(False)
    ax.spines["bottom"].set_color(INK)
    ax.grid(color=FAINT, linewidth=0.6)
    ax.set_axisbelow(True)
    ax.tick_params(labelsize=SMALL, color=FAINT, labelcolor=INK)
    ax.xaxis.set_major_formatter(lambda value, _: f"{value:,.8g}")


def plain(text: str) -> str:
    """Write a name literally: no formulas, no hidden legend entries, at most 26 characters.

    Of a longer name the middle is left out: names of one method often differ at their ends.
    """
    kept = _LONGEST // 2
    short = text if len(text) <= _LONGEST else f"{text[: kept - 1]}…{text[-kept:]}"
    short = short.replace("$", r"\$")
    return f" {short}" if short.startswith("_") else short


def write_title(ax: Any, text: str) -> None:
    """Write a line above axes, flush left."""
    # Without y, which is where it stands anyway, matplotlib measures both axes for it.
    ax.set_title(text, loc="left", fontsize=SMALL, y=1.0)


def legend_columns(names: Iterable[str]) -> int:
    """Return the number of columns of a legend that is no wider than its plot."""
    return 2 if max(map(len, names), default=0) <= 20 else 1


def legend_height(names: Collection[str]) -> float:
    """Return the height in inches of a plot with one line per name and its legend."""
    return 2.6 + 0.17 * math.ceil(len(names) / legend_columns(names))


def legend(ax: Any, columns: int) -> None:
    """Name the lines below the plot."""
    from matplotlib.transforms import ScaledTranslation

    if not ax.lines:
        return
    below = ax.transAxes + ScaledTranslation(0, -32 / 72, ax.figure.dpi_scale_trans)
    ax.legend(
        loc="upper left",
        bbox_to_anchor=(0, 0),
        bbox_transform=below,
        ncols=columns,
        frameon=False,
        fontsize=SMALL,
        handlelength=3.2,
        borderaxespad=0,
    )


def share_limits(ax: Any) -> None:
    """Show the whole range where all lines are shares, so that plots can be compared."""
    values = [value for line in ax.lines for value in line.get_ydata() if math.isfinite(value)]
    if values and min(values) >= 0.0 and max(values) <= 1.0:
        ax.set_ylim(-0.03, 1.03)


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
