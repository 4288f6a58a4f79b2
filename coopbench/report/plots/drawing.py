"""Drawings: charts as SVG, written from their numbers; the same numbers give the same bytes."""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from coopbench.report.numbers import is_point
from coopbench.report.plots.marks import (
    GAP,
    INK,
    LINE,
    SMALL,
    Axis,
    Ends,
    Numbers,
    Style,
    around,
    band,
    box,
    curve,
    markers,
    number,
    room,
    rule,
    scale,
    text,
    ticks,
    turned,
    written,
)

WIDTH = 345.6  # points: text of 9 points stays legible when the plot is as wide as a phone
_EDGE, _RIGHT = 4.0, 10.0  # around everything, and right of a plot, for half a number
_PLOT = 150.0  # height of a plot of lines
_SAMPLE = 26.0  # length of a line in a legend
_SHORT = 20  # letters of names that have room in two columns
_MARKS, _MARK = 8, 4.5  # markers on a line, about, and their size
_SHARES = (-0.03, 1.03)  # limits of an axis of shares
_LEVEL = "#595959"  # of lines across a plot
_ROW, _LOWER = 19.0, 10.0  # height of a row of intervals, and of each further line of its name
_CELL, _CELL_ROW = 47.0, 26.0  # width and height of a cell of a heat map
_SLOPE = 35  # degrees, of the names of its columns
# From the lowest to the highest value: cividis, which looks alike to the colour-blind.
_HEAT = np.array(
    [
        *((0, 34, 78), (26, 56, 111), (67, 78, 108), (97, 101, 111), (125, 124, 120)),
        *((155, 148, 118), (188, 174, 108), (222, 201, 88), (254, 232, 56)),
    ]
)


class Line(NamedTuple):
    """A line of a plot, with its band if it has one; all parts are as long as ``x``."""

    label: str
    look: Style
    x: Numbers
    y: Numbers
    low: Numbers | None = None
    high: Numbers | None = None


class Level(NamedTuple):
    """A value that a dotted line shows across a plot, with its interval as a band."""

    label: str
    ends: Ends


class Row(NamedTuple):
    """A value with its interval, between its name and its number; nan: nothing is drawn."""

    label: str
    look: Style
    ends: Ends
    text: str


class Drawing:
    """What is drawn as SVG; a notebook shows it below a cell."""

    @property
    def size(self) -> tuple[float, float]:
        """Width and height in points."""
        raise NotImplementedError

    def elements(self) -> Iterator[str]:
        """Iterate over the elements of the SVG."""
        raise NotImplementedError

    @property
    def svg(self) -> str:
        """The drawing as a file."""
        width, height = map(number, self.size)
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}pt" height="{height}pt" '
            f'viewBox="0 0 {width} {height}" font-family="system-ui, sans-serif" '
            f'font-size="{SMALL}" fill="{INK}">\n' + "\n".join(filter(None, self.elements()))
        ) + "\n</svg>\n"

    def _repr_svg_(self) -> str:
        return self.svg


@dataclass(frozen=True)
class LineChart(Drawing):
    """Lines over numbers, with a legend below them.

    Equal lines lie on each other: thinner on top of thicker, with markers in different places.
    """

    lines: tuple[Line, ...]
    title: str
    x_label: str
    y_label: str
    levels: tuple[Level, ...] = ()
    shares: bool = False  # show the range from 0 to 1 where all values are in it
    places: tuple[float, ...] = ()  # of the numbers below the plot; else round ones
    log: bool = False  # equal ratios of x are equally far apart
    written: Callable[[float], str] = written  # writes the numbers below the plot

    @property
    def size(self) -> tuple[float, float]:
        """Width and height in points."""
        legend = self._legend_rows * LINE + _EDGE
        return WIDTH, _top(self.title) + _PLOT + _foot(self.x_label) + legend

    @property
    def _columns(self) -> int:
        return 2 if all(len(line.label) <= _SHORT for line in self.lines) else 1

    @property
    def _legend_rows(self) -> int:
        return math.ceil(len(self.lines) / self._columns)

    def limits(self) -> tuple[float, float]:
        """Return the lowest and the highest y that the plot shows."""
        values = [value for line in self.lines for value in line.y if math.isfinite(value)]
        if self.shares and min(values, default=0) >= 0 and max(values, default=1) <= 1:
            return _SHARES
        sides = [side for line in self.lines for side in (line.low, line.high) if side is not None]
        values += [value for side in sides for value in side]
        low, high = around([*values, *(value for level in self.levels for value in level.ends)])
        for k, level in enumerate(self.levels):  # their names have room within the plot
            space = 0.11 * (high - low)
            low = min(low, level.ends[0] - space) if k else low
            high = high if k else max(high, level.ends[0] + space)
        return low, high

    def elements(self) -> Iterator[str]:
        """Iterate over the elements of the SVG."""
        limits, top = self.limits(), _top(self.title)
        heights = {value: written(value) for value in ticks(*limits, 6)}
        names = self.y_label.split("\n") if self.y_label else []
        left = _EDGE + len(names) * LINE + max(map(room, heights.values())) + 2 * GAP
        x = Axis(self._reach(), left, WIDTH - _RIGHT, self.log)
        y = Axis(limits, top + _PLOT, top)
        yield text(left, top - 8, self.title)
        for value, words in heights.items():
            yield rule(left, y(value), x.end, y(value))
            yield text(left - GAP, y(value), words, "end")
        for k, name in enumerate(names):
            yield turned(_EDGE + (k + 0.5) * LINE, top + 0.5 * _PLOT, -90, name, "middle")
        yield from scale(x, (top, y.start), self.x_label, self.written, self.places)
        for k, level in enumerate(self.levels):
            yield from _across(level, x, y, below=k > 0)
        yield from self._curves(x, y)
        yield from self._legend(left, y.start + _foot(self.x_label))

    def _reach(self) -> tuple[float, float]:
        values = [*self.places, *(value for line in self.lines for value in line.x)]
        if not self.log:
            return around(values)
        low, high = min(values), max(values)
        space = (high / low) ** 0.05 if high > low else 2.0
        return low / space, high * space

    def _curves(self, x: Axis, y: Axis) -> Iterator[str]:
        for line in self.lines:
            if line.low is not None and line.high is not None:
                low, high = ([y(value) for value in side] for side in (line.low, line.high))
                yield band([x(value) for value in line.x], low, high, line.look)
        for k, line in enumerate(self.lines):
            points = [(x(a), y(b)) for a, b in zip(line.x, line.y, strict=True)]
            stride = max(1, len(points) // _MARKS)
            yield curve(points, line.look, 2.4 - 0.8 * k / max(1, len(self.lines) - 1))
            yield markers(points[k * stride // len(self.lines) :: stride], line.look, _MARK)

    def _legend(self, left: float, top: float) -> Iterator[str]:
        wide, rows = (WIDTH - left) / self._columns, self._legend_rows
        for k, line in enumerate(self.lines):
            start, middle = left + k // rows * wide, top + (k % rows + 0.5) * LINE
            yield curve([(start, middle), (start + _SAMPLE, middle)], line.look, 1.6)
            yield markers([(start + 0.5 * _SAMPLE, middle)], line.look, _MARK)
            yield text(start + _SAMPLE + GAP, middle, line.label)


@dataclass(frozen=True)
class IntervalChart(Drawing):
    """Values with their intervals, one row each; a marker is open where there is no interval."""

    rows: tuple[Row, ...]
    title: str
    x_label: str
    limits: tuple[float, float] | None = None  # of the axis; None: around all values
    even: float | None = None  # a value that a dashed line marks

    @property
    def size(self) -> tuple[float, float]:
        """Width and height in points."""
        return WIDTH, _top(self.title) + sum(self._heights) + _foot(self.x_label) + _EDGE

    @property
    def _heights(self) -> list[float]:
        return [_ROW + _LOWER * row.label.count("\n") for row in self.rows]

    def elements(self) -> Iterator[str]:
        """Iterate over the elements of the SVG."""
        top = _top(self.title)
        left = _EDGE + max((room(row.label) for row in self.rows), default=0) + GAP
        right = WIDTH - _EDGE - max((room(row.text) for row in self.rows), default=0) - GAP
        limits = self.limits or around(value for row in self.rows for value in row.ends)
        x, sides = Axis(limits, left, right), (top, top + sum(self._heights))
        yield text(left, top - 8, self.title)
        yield from scale(x, sides, self.x_label, written)
        if self.even is not None:
            place = x(self.even)
            yield rule(place, *(sides[0], place, sides[1]), INK, ' stroke-dasharray="4 3"')
        for row, height in zip(self.rows, self._heights, strict=True):
            middle = top + 0.5 * height
            yield text(left - GAP, middle, row.label, "end")
            yield text(WIDTH - _EDGE, middle, row.text, "end")
            if math.isfinite(row.ends[0]):
                yield from _interval(row, x, middle)
            top += height


@dataclass(frozen=True)
class HeatMap(Drawing):
    """A number in every cell of a square table, coloured from the lowest to the highest.

    Cells of a row and a column of the same name are framed.
    """

    names: tuple[str, ...]
    values: np.ndarray  # (names, names)
    texts: tuple[str, ...]  # of the values, row by row
    title: str
    x_label: str
    y_label: str

    @property
    def size(self) -> tuple[float, float]:
        """Width and height in points."""
        count = len(self.names)
        width = max(self._left + count * _CELL, room(self.title)) + _EDGE
        return max(WIDTH, width), _top(self.title) + count * _CELL_ROW + self._lower

    @property
    def _left(self) -> float:
        """Return the place of the first column; its sloped name begins left of it."""
        longest = max(map(room, self.names))
        sloped = longest * math.cos(math.radians(_SLOPE)) - 0.6 * _CELL
        return _EDGE + max(LINE + longest + GAP, sloped)

    @property
    def _lower(self) -> float:
        """Return the height of what stands below the cells."""
        longest = max(map(room, self.names))
        return longest * math.sin(math.radians(_SLOPE)) + 2.5 * LINE + _EDGE

    def elements(self) -> Iterator[str]:
        """Iterate over the elements of the SVG."""
        count, top, left = len(self.names), _top(self.title), self._left
        bottom = top + count * _CELL_ROW
        yield text(_EDGE, top - 8, self.title)
        yield turned(_EDGE + 0.5 * LINE, 0.5 * (top + bottom), -90, self.y_label, "middle")
        for k, name in enumerate(self.names):
            yield text(left - GAP, top + (k + 0.5) * _CELL_ROW, name, "end")
            yield turned(left + (k + 0.6) * _CELL, bottom + 0.6 * LINE, -_SLOPE, name, "end")
        foot = bottom + self._lower - _EDGE - 0.5 * LINE
        yield text(left + 0.5 * count * _CELL, foot, self.x_label, "middle")
        for k, words in enumerate(self.texts):
            yield from self._cell(k, left + k % count * _CELL, top + k // count * _CELL_ROW, words)

    def _cell(self, k: int, x: float, y: float, words: str) -> Iterator[str]:
        low, high = float(np.nanmin(self.values)), float(np.nanmax(self.values))
        value = float(self.values.flat[k])
        share = (value - low) / (high - low) if low < high and math.isfinite(value) else 0.0
        ink = "#ffffff" if share < 0.5 else INK
        yield box(x, y, _CELL, _CELL_ROW, f'fill="{_heat(share)}" stroke="#ffffff"')
        if k % (len(self.names) + 1) == 0:
            yield box(x + 2, y + 2, _CELL - 4, _CELL_ROW - 4, f'fill="none" stroke="{ink}"')
        yield text(x + 0.5 * _CELL, y + 0.5 * _CELL_ROW, words, "middle", f' fill="{ink}"')


@dataclass(frozen=True)
class Sheet(Drawing):
    """Drawings one below the other, or ``beside`` each other."""

    drawings: tuple[Drawing, ...]
    beside: bool = False

    @property
    def size(self) -> tuple[float, float]:
        """Width and height in points."""
        widths, heights = zip(*(drawing.size for drawing in self.drawings), strict=True)
        return (sum(widths), max(heights)) if self.beside else (max(widths), sum(heights))

    def elements(self) -> Iterator[str]:
        """Iterate over the elements of the SVG."""
        left = top = 0.0
        for drawing in self.drawings:
            yield f'<g transform="translate({number(left)} {number(top)})">'
            yield from drawing.elements()
            yield "</g>"
            width, height = drawing.size
            left, top = (left + width, top) if self.beside else (left, top + height)


def has_interval(ends: Ends) -> bool:
    """Return whether a value has an interval to draw: finite ends that are apart."""
    _, low, high = ends
    return math.isfinite(high - low) and not is_point(low, high)


def _interval(row: Row, x: Axis, middle: float) -> Iterator[str]:
    """Draw the interval of a row and the marker of its value."""
    value, low, high = row.ends
    bounded = has_interval(row.ends)
    if bounded:
        # Ends higher than the marker, so that narrow intervals are seen.
        start, end = x(low), x(high)
        yield rule(start, middle, end, middle, row.look.colour, ' stroke-width="2"')
        for side in (start, end):
            yield rule(side, middle - 5.5, side, middle + 5.5, row.look.colour)
    yield markers([(x(value), middle)], row.look, 6, hollow=not bounded)


def _across(level: Level, x: Axis, y: Axis, *, below: bool) -> Iterator[str]:
    """Draw a dotted line over the whole width, with its name above or below it."""
    value, low, high = level.ends
    if math.isfinite(high - low):
        look = f'fill="{_LEVEL}" fill-opacity="0.12"'
        yield box(x.start, y(high), x.end - x.start, y(low) - y(high), look)
    yield rule(x.start, y(value), x.end, y(value), _LEVEL, ' stroke-dasharray="1 2"')
    halo = ' paint-order="stroke" stroke="#ffffff" stroke-opacity="0.75" stroke-width="3"'
    yield text(x.start + 3, y(value) + (0.6 if below else -0.6) * LINE, level.label, "start", halo)


def _top(title: str) -> float:
    """Return the height above a plot."""
    return _EDGE + (LINE + 3 if title else 0)


def _foot(label: str) -> float:
    """Return the height of an axis below a plot."""
    return (2.7 + label.count("\n")) * LINE


def _heat(share: float) -> str:
    """Return the colour of a value that lies so far from the lowest to the highest."""
    places = np.linspace(0.0, 1.0, len(_HEAT))
    parts = [round(float(np.interp(share, places, part))) for part in _HEAT.T]
    return "#" + "".join(f"{part:02x}" for part in parts)
