"""Style of all plots: how policies look, and how their names are written.

The first seven colours are those of Okabe and Ito (2008), the others of Tol (2021): they can be
told apart with colour-blindness. Neighbours differ in lightness; marker and dash repeat the
distinction for print in grey. Policies that the reader has added have stronger colours and markers
of their own. A policy looks the same in all plots.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from coopbench.report.plots.drawing import Drawing
from coopbench.report.plots.marks import Style

# Without the yellow, which is too pale on paper. Twelve colours, five lines and seven markers have
# no common divisor, so that no combination returns before all have been used.
COLOURS = (
    *("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#000000", "#56B4E9", "#D55E00"),
    *("#999999", "#332288", "#44AA99", "#661100", "#AA4499"),
)
# Lengths of strokes and gaps, in widths of the line; nothing for a solid one.
LINES = ((), (4, 1.5), (1.2, 1.2), (6, 1.5, 1.2, 1.5), (7, 4))
MARKERS = {"o": "●", "s": "■", "^": "▲", "D": "◆", "v": "▼", "P": "✚", "X": "✖"}
# Of policies that the reader has added: no policy of a protocol has them.
OWN_COLOURS = ("#E4003A", "#007A33", "#5B00D6", "#8A6D00")
OWN_MARKERS = {"*": "★", "H": "⬢", "T": "◀"}
_LONGEST = 26  # characters of a policy's name in a plot


@dataclass(frozen=True)
class Picture:
    """A plot with its caption, which is drawn when it is first read."""

    name: str  # of its file, without the ending
    caption: str
    draw: Callable[[], Drawing]

    @cached_property
    def svg(self) -> str:
        """The plot as SVG, always with the same bytes."""
        return self.draw().svg


def styles(names: Sequence[str], own: Sequence[str] = ()) -> dict[str, Style]:
    """Give every policy its colour, marker and line, by its place in the report.

    Those that are the reader's ``own`` have colours and markers that no other policy has.
    """
    others = [name for name in names if name not in own]
    return _styles(others, COLOURS, MARKERS) | _styles(own, OWN_COLOURS, OWN_MARKERS)


def _styles(
    names: Sequence[str], colours: Sequence[str], markers: Mapping[str, str]
) -> dict[str, Style]:
    shapes = list(markers.items())
    return {
        name: Style(
            colours[k % len(colours)],
            shapes[k % len(shapes)][0],
            LINES[k % len(LINES)],
            shapes[k % len(shapes)][1],
        )
        for k, name in enumerate(names)
    }


def plain(text: str) -> str:
    """Write a name with at most 26 characters.

    Of a longer name the middle is left out: names of one method often differ at their ends.
    """
    kept = _LONGEST // 2
    return text if len(text) <= _LONGEST else f"{text[: kept - 1]}…{text[-kept:]}"
