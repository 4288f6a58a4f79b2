"""Marks: axes, texts, lines, bands and markers as elements of an SVG.

Lengths are points, from the upper left corner. Fonts are the reader's, so room for a text is what a
wide font takes.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise
from unicodedata import east_asian_width

import numpy as np
from markupsafe import escape

INK, FAINT, SMALL = "#222222", "#d0d0d0", 9
LINE = 1.25 * SMALL  # from one line of text to the next
GAP = 5.0  # between a text and what it names
_DOWN = 0.35 * SMALL  # from the middle of a line of text to its foot
_BAND = 0.15  # opacity

Numbers = Sequence[float] | np.ndarray
Ends = tuple[float, float, float]  # value, low and high end of its interval
Points = Sequence[tuple[float, float]]


@dataclass(frozen=True)
class Style:
    """How a policy looks in every plot of a report; ``glyph`` is its marker as a character."""

    colour: str
    marker: str
    line: tuple[float, ...]  # strokes and gaps, in widths of the line; nothing: solid
    glyph: str


# --- axes ----------------------------------------------------------------------------------------


class Axis:
    """From values to places along a side of a plot."""

    def __init__(
        self, limits: tuple[float, float], start: float, end: float, log: bool = False
    ) -> None:
        self.limits, self.start, self.end, self._log = limits, start, end, log
        self._low, self._high = map(math.log, limits) if log else limits

    def __call__(self, value: float) -> float:
        """Return the place of a value."""
        moved = math.log(value) if self._log else float(value)
        share = (moved - self._low) / (self._high - self._low)
        return self.start + share * (self.end - self.start)


def around(values: Iterable[float]) -> tuple[float, float]:
    """Return limits with some room around all finite values."""
    finite = [float(value) for value in values if math.isfinite(value)]
    low, high = min(finite, default=0.0), max(finite, default=1.0)
    room = 0.05 * (high - low) or 0.05 * abs(low) or 0.5
    return low - room, high + room


def ticks(low: float, high: float, most: int) -> list[float]:
    """Return round numbers between two others, with at most so many spaces between them."""
    unit = 10.0 ** math.floor(math.log10((high - low) / most))
    step = next(k * unit for k in (1, 2, 2.5, 5, 10, 20) if k * unit * most >= high - low)
    return [k * step for k in range(math.ceil(low / step), math.floor(high / step) + 1)]


def scale(
    x: Axis,
    sides: tuple[float, float],
    label: str,
    written: Callable[[float], str],
    places: Sequence[float] = (),
) -> Iterator[str]:
    """Draw an axis below a plot: lines across it, numbers where they have room, and what it is."""
    top, bottom = sides
    end = -math.inf
    for value in places or ticks(*x.limits, 5):
        place, half = x(value), 0.5 * room(written(value))
        yield rule(place, top, place, bottom)
        if place - half > end:
            yield text(place, bottom + 0.75 * LINE, written(value), "middle")
            end = place + half + GAP
    yield rule(x.start, bottom, x.end, bottom, INK)
    for k, line in enumerate(label.split("\n")):
        yield text(0.5 * (x.start + x.end), bottom + (1.85 + k) * LINE, line, "middle")


def written(value: float) -> str:
    """Write a number of an axis."""
    return f"{value:,.8g}".replace("-", "\u2212")


def short(steps: float) -> str:
    """Write steps in thousands or millions."""
    for size, letter in ((1e6, "M"), (1e3, "k")):
        if abs(steps) >= size:
            return f"{steps / size:g} {letter}"
    return f"{steps:g}"


def number(value: float) -> str:
    """Write a length or a place, to a tenth of a point."""
    return f"{value:.1f}".removesuffix(".0")


# --- texts ---------------------------------------------------------------------------------------


def room(words: str) -> float:
    """Return how wide the longest line of a text is at most."""
    return max(
        SMALL * sum(1.0 if east_asian_width(letter) in "WF" else 0.6 for letter in line)
        for line in words.split("\n")
    )


def text(x: float, middle: float, words: str, anchor: str = "start", look: str = "") -> str:
    """Write lines of text around the height ``middle``; nothing for an empty text."""
    lines = words.split("\n") if words else []
    first = middle + _DOWN - 0.5 * (len(lines) - 1) * LINE
    begin = "" if anchor == "start" else f' text-anchor="{anchor}"'
    return "".join(
        f'<text x="{number(x)}" y="{number(first + k * LINE)}"{begin}{look}>{escape(line)}</text>'
        for k, line in enumerate(lines)
    )


def turned(x: float, y: float, angle: int, words: str, anchor: str) -> str:
    """Write a text along a line through a place, turned by an angle in degrees."""
    place = f"translate({number(x)} {number(y)}) rotate({angle})"
    return f'<g transform="{place}">{text(0, 0, words, anchor)}</g>'


# --- shapes --------------------------------------------------------------------------------------


def rule(x: float, y: float, to_x: float, to_y: float, ink: str = FAINT, look: str = "") -> str:
    """Draw a straight line; ``look`` are further attributes, with a blank in front."""
    width = ' stroke-width="0.6"' if ink == FAINT else ""
    return f'<path stroke="{ink}"{width}{look} d="{_path([(x, y), (to_x, to_y)])}"/>'


def box(x: float, y: float, width: float, height: float, look: str) -> str:
    """Draw a rectangle."""
    place = f'x="{number(x)}" y="{number(y)}"'
    return f'<rect {place} width="{number(width)}" height="{number(height)}" {look}/>'


def curve(points: Points, look: Style, width: float) -> str:
    """Draw a line through points; it breaks at those that are not numbers."""
    dashes = " ".join(number(width * length) for length in look.line)
    dashed = f' stroke-dasharray="{dashes}"' if dashes else ""
    path = "".join(
        _path(list(part))
        for finite, part in groupby(points, lambda point: math.isfinite(sum(point)))
        if finite
    )
    stroke = f'stroke="{look.colour}" stroke-width="{number(width)}"{dashed}'
    return f'<path fill="none" stroke-linejoin="round" {stroke} d="{path}"/>'


def band(xs: Numbers, low: Numbers, high: Numbers, look: Style) -> str:
    """Fill the area between two lines, given by their places."""
    rows = zip(xs, low, high, strict=True)
    path = ""
    for finite, part in groupby(rows, lambda row: math.isfinite(sum(row))):
        if finite:
            some = list(part)
            ends = [(x, b) for x, _, b in some] + [(x, a) for x, a, _ in reversed(some)]
            path += _path(ends) + "z"
    return f'<path fill="{look.colour}" fill-opacity="{_BAND}" d="{path}"/>'


def markers(points: Points, look: Style, size: float, *, hollow: bool = False) -> str:
    """Draw the marker of a policy at points."""
    half = 0.5 * size
    path = "".join(
        f"M{number(x + half * begin[0])} {number(y + half * begin[1])}"
        + "".join(f"l{number(half * a)} {number(half * b)}" for a, b in steps)
        + "z"
        for x, y in points
        if math.isfinite(x + y)
        for begin, steps in [_OUTLINES[look.marker]]
    )
    inside = "#ffffff" if hollow else look.colour
    return f'<path fill="{inside}" stroke="{look.colour}" stroke-linejoin="round" d="{path}"/>'


def _path(points: Points) -> str:
    return "M" + "L".join(f"{number(x)} {number(y)}" for x, y in points)


def _steps(*corners: tuple[float, float]) -> tuple[tuple[float, float], Points]:
    """Return the first corner of an outline, and the ways from each to the next one."""
    return corners[0], [(c - a, d - b) for (a, b), (c, d) in pairwise(corners)]


def _around(turn: float, distance: float) -> tuple[float, float]:
    """Return the point at a share of a turn from the top, at a distance from the middle."""
    angle = 2.0 * math.pi * turn
    return distance * math.sin(angle), -distance * math.cos(angle)


# By the letter of a marker: its outline, from the middle in halves of its size.
_OUTLINES = {
    "o": _steps(*((math.cos(k * math.pi / 8), math.sin(k * math.pi / 8)) for k in range(16))),
    "s": _steps((-0.9, -0.9), (0.9, -0.9), (0.9, 0.9), (-0.9, 0.9)),
    "^": _steps((0, -1.1), (1.1, 0.9), (-1.1, 0.9)),
    "D": _steps((0, -1.2), (1.2, 0), (0, 1.2), (-1.2, 0)),
    "v": _steps((0, 1.1), (1.1, -0.9), (-1.1, -0.9)),
    "P": _steps(
        *((-0.4, -1.1), (0.4, -1.1), (0.4, -0.4), (1.1, -0.4), (1.1, 0.4), (0.4, 0.4)),
        *((0.4, 1.1), (-0.4, 1.1), (-0.4, 0.4), (-1.1, 0.4), (-1.1, -0.4), (-0.4, -0.4)),
    ),
    "X": _steps(
        *((-1.1, -0.6), (-0.6, -1.1), (0, -0.5), (0.6, -1.1), (1.1, -0.6), (0.5, 0)),
        *((1.1, 0.6), (0.6, 1.1), (0, 0.5), (-0.6, 1.1), (-1.1, 0.6), (-0.5, 0)),
    ),
    "*": _steps(*(_around(k / 10, 0.6 if k % 2 else 1.5) for k in range(10))),
    "H": _steps(*(_around(k / 6, 1.2) for k in range(6))),
    "T": _steps((-1.1, 0), (0.9, -1.1), (0.9, 1.1)),
}
