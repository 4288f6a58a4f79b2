"""What is seen of a coopetition state: investments, rewards, trust or records, and damage.

``panels`` and ``text`` show the games of version 0, ``venture_panels`` and ``venture_text`` those
of 1. A picture draws the same panels as the player of recordings, by ``picture``.
"""

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from coopbench_envs import rendering
from coopbench_envs.rendering import BLUE, GRID, INK, PALE, PAPER, VERMILION, mix_colours
from coopbench_envs.scenes import Bars, Panels, Table

_EDGE, _HEADER, _TITLE, _GAP = 20, 46, 26, 34  # pixels
_PANEL = 300  # side of a panel
_MANY = 12  # from more agents on, numbers and names would not fit
_FAINT = (245, 248, 250)
_FACTS = 22  # height of the line that a game adds to the header
_BLANKS = "    "  # between the facts of a line

Fields = Mapping[str, np.ndarray]  # of one lane
Show = Callable[[Any, Fields, tuple[str, ...]], Panels]  # constants, fields, agents
Facts = Callable[[Any, Fields, tuple[str, ...]], list[str]]


def scene(show: Show, agents: Callable[[Any], tuple[str, ...]]) -> Callable[..., Panels]:
    """Return the ``EnvSpec.scene`` of a game: what it shows of one lane."""

    def shown(constants: Any, state: Any, lane: int) -> Panels:
        fields = {name: getattr(state, name)[lane] for name in state._fields}
        return show(constants, fields, agents(constants))

    return shown


def picture(show: Show) -> Callable[[Any, Fields, tuple[str, ...]], np.ndarray]:
    """Return the ``EnvSpec.picture`` of a game: what it shows, drawn in panels side by side."""

    def drawn(constants: Any, fields: Fields, agents: tuple[str, ...]) -> np.ndarray:
        time = int(fields["time"]), int(constants.horizon)
        return _drawn(show(constants, fields, agents), _names(agents), time)

    return drawn


# --- version 0 -----------------------------------------------------------------------------------


def panels(constants: Any, fields: Fields, agents: tuple[str, ...]) -> Panels:
    """Return bars of the last investments, and the matrices of trust and reputation damage.

    A bar fills with the share of its agent's endowment; the tick on it is the baseline, below which
    others read defection. In the matrices an agent's row holds what it thinks of the columns.
    """
    endowment, invested = constants.endowment, fields["last_action"]
    words = tuple(f"{a:.1f} of {of:.0f}" for a, of in zip(invested, endowment, strict=True))
    title, ticks = "last investment (tick: baseline)", constants.baseline / endowment
    return Panels(
        (tuple(_summary(constants, fields)),),
        (
            Bars(title, "endowment", invested / endowment, ticks, words),
            Table("trust of row in column", fields["trust"], BLUE),
            Table("reputation damage of column", fields["reputation"], VERMILION),
        ),
    )


def _summary(constants: Any, fields: Fields) -> list[str]:
    share = float(np.mean(fields["last_action"] / constants.endowment))
    trust = _mean(fields["trust"])
    return [f"mean trust {trust:.2f}", f"mean investment {100 * share:.0f} %"]


def _mean(matrix: np.ndarray) -> float:
    """Mean of what agents hold towards others; the diagonal says nothing."""
    away = ~np.eye(len(matrix), dtype=bool)
    return float(matrix[away].mean()) if away.any() else 0.0


def text(constants: Any, fields: Fields, agents: tuple[str, ...]) -> str:
    """Write one lane as a table: investments, and mean trust given, trust received and damage."""
    width = max(5, *(len(name) for name in agents))
    lines = [
        _line_of(constants, fields, _summary(constants, fields)),
        f"{'agent':<{width}}  invested   of  baseline  trusts  trusted  damage",
    ]
    for a, name in enumerate(agents):
        others = np.arange(len(agents)) != a
        trusts, trusted, damage = (
            float(part[others].mean()) if others.any() else 0.0
            for part in (fields["trust"][a], fields["trust"][:, a], fields["reputation"][:, a])
        )
        lines.append(
            f"{name:<{width}}  {fields['last_action'][a]:8.2f}  {constants.endowment[a]:3.0f}"
            f"  {constants.baseline[a]:8.2f}  {trusts:6.2f}  {trusted:7.2f}  {damage:6.2f}"
        )
    return "\n".join(lines)


# --- version 1 -----------------------------------------------------------------------------------


def venture_panels(facts: Facts | None = None) -> Show:
    """Return what shows bars of the last investments, of the records and of the last incomes.

    The tick on an investment is what was expected of it, on a record one half, on an income its
    agent's endowment: what keeping everything back pays for certain. ``facts`` are a second line.
    """

    def show(constants: Any, fields: Fields, agents: tuple[str, ...]) -> Panels:
        lines = [_venture_summary(fields)]
        if facts:
            lines.append(facts(constants, fields, agents))
        bars = _fractions(fields), _records(fields), _incomes(constants, fields)
        return Panels(tuple(map(tuple, lines)), bars)

    return show


def _venture_summary(fields: Fields) -> list[str]:
    regime = "good" if fields["good"] else "bad"
    return [
        f"next step: {regime} regime, productivity {float(fields['productivity']):.2f}",
        f"mean record {float(np.mean(fields['record'])):.2f}",
        f"mean investment {100 * float(np.mean(fields['fraction'])):.0f} %",
    ]


def _fractions(fields: Fields) -> Bars:
    fractions = fields["fraction"]
    expected = np.broadcast_to(fields["expected"], fractions.shape)
    pairs = zip(fractions, fields["seen"], strict=True)
    words = tuple(f"{100 * a:.0f} %, seen as {100 * b:.0f} %" for a, b in pairs)
    return Bars("last investment (tick: expected)", "endowment", fractions, expected, words)


def _records(fields: Fields) -> Bars:
    records = fields["record"]
    words = tuple(f"{record:.2f}" for record in records)
    return Bars("record of conduct", "best conduct", records, np.full(len(records), 0.5), words)


def _incomes(constants: Any, fields: Fields) -> Bars:
    incomes, reach = fields["income"] / constants.endowment, _reach(constants)
    words = tuple(f"{income:.2f}" for income in incomes)
    title, end = "last income (tick: endowment)", f"{reach:g} endowments"
    return Bars(title, end, incomes / reach, np.full(len(incomes), 1.0 / reach), words)


def _reach(constants: Any) -> float:
    """Return the income per endowment at the right end: the highest possible, rounded up to 0.5."""
    best = constants.high[1] * (1.0 + constants.shock[1]) * constants.share
    shares = best * constants.endowment.sum() / constants.endowment
    highest = float(np.max(np.maximum(shares, 1.0 + shares - best)))
    return max(1.0, math.ceil(2.0 * highest) / 2.0)


def venture_text(
    constants: Any, fields: Fields, agents: tuple[str, ...], *, facts: Facts | None = None
) -> str:
    """Write one lane as a table: investments, incomes and records."""
    width = max(5, *(len(name) for name in agents))
    lines = [
        _line_of(constants, fields, _venture_summary(fields)),
        *(facts(constants, fields, agents) if facts else ()),
        f"{'agent':<{width}}  invested  expected  seen as   income       of  record",
    ]
    expected = np.broadcast_to(fields["expected"], len(agents))
    for a, name in enumerate(agents):
        lines.append(
            f"{name:<{width}}  {fields['fraction'][a]:8.2f}  {expected[a]:8.2f}"
            f"  {fields['seen'][a]:7.2f}  {fields['income'][a]:7.2f}"
            f"  {constants.endowment[a]:7.2f}  {fields['record'][a]:6.2f}"
        )
    return "\n".join(lines)


def _line_of(constants: Any, fields: Fields, facts: list[str]) -> str:
    """Return the first line of a text: the step, and facts."""
    return _BLANKS.join((f"step {int(fields['time'])} / {int(constants.horizon)}", *facts))


# --- pictures ------------------------------------------------------------------------------------


def _drawn(shown: Panels, names: tuple[str, ...], time: tuple[int, int]) -> np.ndarray:
    """Draw panels below a header with the step and the facts."""
    more = _FACTS * (len(shown.facts) - 1)
    canvas, lefts, top = _sheet(names, more)
    first, *others = shown.facts
    _header(canvas, time, _BLANKS.join((f"step {time[0]} / {time[1]}", *first)))
    for k, facts in enumerate(others):
        _line(canvas, _EDGE + _HEADER - 4 + k * _FACTS, _BLANKS.join(facts), 13, PALE)
    for left, panel in zip(lefts, shown.panels, strict=True):
        canvas.text(left, top - 14, panel.title, 14)
        if isinstance(panel, Bars):
            _bars(canvas, (left, top), names, panel)
        else:
            _matrix(canvas, (left, top), names, panel)
    return canvas.pixels()


def _sheet(names: tuple[str, ...], more: float) -> tuple[Any, list[float], float]:
    """Return a canvas for a header, ``more`` below it, and three panels; their lefts, their top."""
    canvas = rendering.Canvas(1, 1)
    label = max(canvas.text_width(name, 12) for name in names) + 10 if names else 0
    width = round(2 * _EDGE + 3 * (_PANEL + label) + 2 * _GAP)
    height = round(_HEADER + more + _TITLE + _PANEL + 22 + 2 * _EDGE)
    canvas = rendering.Canvas(width + width % 2, height + height % 2)
    lefts = [_EDGE + label + k * (_PANEL + _GAP + label) for k in range(3)]
    return canvas, lefts, _EDGE + _HEADER + more + _TITLE


def _names(agents: tuple[str, ...]) -> tuple[str, ...]:
    """Names short enough for the margin of a row; none where rows are too low for letters."""
    if len(agents) > _MANY:
        return ("",) * len(agents)
    return tuple(name.replace("_", " ") for name in agents)


def _header(canvas: Any, time: tuple[int, int], summary: str) -> None:
    width, (step, horizon) = canvas.width - 2 * _EDGE, time
    _line(canvas, _EDGE + 4, summary, 17, INK)
    canvas.rectangle(_EDGE, _EDGE + 20, width, 4, GRID)
    canvas.rectangle(_EDGE, _EDGE + 20, width * min(1.0, step / horizon), 4, PALE)


def _line(canvas: Any, y: float, words: str, size: float, colour: rendering.Colour) -> None:
    """Write a line across the sheet, smaller if it would not fit."""
    room = canvas.width - 2 * _EDGE
    size = min(size, math.floor(size * room / max(1.0, canvas.text_width(words, size))))
    canvas.text(_EDGE, y, words, max(8, size), colour)


def _bars(canvas: Any, corner: tuple[float, float], names: tuple[str, ...], bars: Bars) -> None:
    """Draw a bar for each agent, with its tick, and its number below it where that has room."""
    left, top = corner
    room = _PANEL / len(names)
    thick = min(0.62 * room, 34.0)
    rows = zip(names, bars.shares, bars.ticks, bars.words, strict=True)
    for a, (name, share, tick, words) in enumerate(rows):
        middle = top + (a + 0.5) * room
        _bar(canvas, left, middle, thick, float(share), float(tick))
        canvas.text(left - 8, middle, name, 12, PALE, "rm")
        if room > thick + 22:
            canvas.text(left, middle + 0.5 * thick + 10, words, 10, PALE)
    canvas.text(left, top + _PANEL + 14, "0", 11, PALE, "mm")
    canvas.text(left + _PANEL, top + _PANEL + 14, bars.end, 11, PALE, "rm")


def _bar(canvas: Any, left: float, middle: float, thick: float, share: float, mark: float) -> None:
    canvas.rectangle(left, middle - 0.5 * thick, _PANEL, thick, GRID)
    colour = BLUE if share >= mark else VERMILION
    canvas.rectangle(left, middle - 0.5 * thick, _PANEL * min(1.0, max(0.0, share)), thick, colour)
    tick = left + _PANEL * mark
    over = min(4.0, 0.2 * thick)
    ends = [(tick, middle - 0.5 * thick - over), (tick, middle + 0.5 * thick + over)]
    canvas.line(ends, INK, 2.0 if thick > 8 else 1.0)


def _matrix(canvas: Any, corner: tuple[float, float], names: tuple[str, ...], table: Table) -> None:
    left, top = corner
    n = len(names)
    side = _PANEL / n
    for a in range(n):
        canvas.text(left - 8, top + (a + 0.5) * side, names[a], 12, PALE, "rm")
        for b in range(n):
            x, y = left + b * side, top + a * side
            value = float(table.values[a, b])
            shade = GRID if a == b else mix_colours(_FAINT, table.colour, value)
            canvas.rectangle(x, y, side, side, shade)
            if a != b and n <= _MANY:
                ink = PAPER if value > 0.55 else INK
                canvas.text(x + 0.5 * side, y + 0.5 * side, f"{value:.2f}", _size(side), ink, "mm")
    for k in range(n + 1) if n <= _MANY else ():
        canvas.line([(left + k * side, top), (left + k * side, top + _PANEL)], PAPER, 2.0)
        canvas.line([(left, top + k * side), (left + _PANEL, top + k * side)], PAPER, 2.0)
    _columns(canvas, left, top + _PANEL + 12, side, names)


def _columns(canvas: Any, left: float, y: float, side: float, names: tuple[str, ...]) -> None:
    """Name the columns where that fits: the word above the number, or numbers in order."""
    if len(names) > _MANY:
        return
    words = [name.rpartition(" ") for name in names]
    fits = all(canvas.text_width(word, 11) < side - 6 for word, _, _ in words)
    for b, (word, _, number) in enumerate(words):
        x = left + (b + 0.5) * side
        canvas.text(x, y, word if fits else str(b), 11, PALE, "mm")
        if fits:
            canvas.text(x, y + 13, number, 11, PALE, "mm")


def _size(side: float) -> float:
    return min(18.0, 0.36 * side)
