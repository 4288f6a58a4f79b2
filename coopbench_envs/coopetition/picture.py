"""Pictures of a coopetition state: who invests how much, who trusts whom, who is blamed."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from coopbench_envs import rendering
from coopbench_envs.rendering import BLUE, GRID, INK, PALE, PAPER, VERMILION, mix_colours

_EDGE, _HEADER, _TITLE, _GAP = 20, 46, 26, 34  # pixels
_PANEL = 300  # side of a matrix, and width of the bars
_MANY = 12  # from more agents on, numbers and names would not fit
_FAINT = (245, 248, 250)


def picture(
    constants: Any, fields: Mapping[str, np.ndarray], agents: tuple[str, ...]
) -> np.ndarray:
    """Draw one lane: bars of the last investments, and the matrices of trust and reputation damage.

    A bar fills with the share of its agent's endowment; the tick on it is the baseline, below which
    others read defection. In the matrices an agent's row holds what it thinks of the columns.
    """
    names = _names(agents)
    canvas = rendering.Canvas(1, 1)
    label = max(canvas.text_width(name, 12) for name in names) + 10 if names else 0
    width = round(2 * _EDGE + 3 * (_PANEL + label) + 2 * _GAP)
    canvas = rendering.Canvas(width + width % 2, _HEADER + _TITLE + _PANEL + 22 + 2 * _EDGE)
    _header(canvas, constants, fields)
    left, top = _EDGE + label, _EDGE + _HEADER + _TITLE
    _bars(canvas, left, top, names, constants, fields)
    left += _PANEL + _GAP + label
    _matrix(canvas, (left, top), "trust of row in column", names, fields["trust"], BLUE)
    left += _PANEL + _GAP + label
    title = "reputation damage of column"
    _matrix(canvas, (left, top), title, names, fields["reputation"], VERMILION)
    return canvas.pixels()


def _names(agents: tuple[str, ...]) -> tuple[str, ...]:
    """Names short enough to stand beside a row; none where rows are too low for letters."""
    if len(agents) > _MANY:
        return ("",) * len(agents)
    return tuple(name.replace("_", " ") for name in agents)


def _header(canvas: Any, constants: Any, fields: Mapping[str, np.ndarray]) -> None:
    time, horizon = int(fields["time"]), int(constants.horizon)
    canvas.text(_EDGE, _EDGE + 4, _summary(constants, fields), 17)
    width = canvas.width - 2 * _EDGE
    canvas.rectangle(_EDGE, _EDGE + 20, width, 4, GRID)
    canvas.rectangle(_EDGE, _EDGE + 20, width * min(1.0, time / horizon), 4, PALE)


def _summary(constants: Any, fields: Mapping[str, np.ndarray]) -> str:
    share = float(np.mean(fields["last_action"] / constants.endowment))
    return (
        f"step {int(fields['time'])} / {int(constants.horizon)}    "
        f"mean trust {_mean(fields['trust']):.2f}    mean investment {100 * share:.0f} %"
    )


def _mean(matrix: np.ndarray) -> float:
    """Mean of what agents hold towards others; the diagonal says nothing."""
    away = ~np.eye(len(matrix), dtype=bool)
    return float(matrix[away].mean()) if away.any() else 0.0


def _bars(
    canvas: Any,
    left: float,
    top: float,
    names: tuple[str, ...],
    constants: Any,
    fields: Mapping[str, np.ndarray],
) -> None:
    canvas.text(left, top - 14, "last investment (tick: baseline)", 14)
    room = _PANEL / len(names)
    thick = min(0.62 * room, 34.0)
    for a, name in enumerate(names):
        middle = top + (a + 0.5) * room
        invested, endowment = float(fields["last_action"][a]), float(constants.endowment[a])
        _bar(canvas, left, middle, thick, invested / endowment, constants.baseline[a] / endowment)
        canvas.text(left - 8, middle, name, 12, PALE, "rm")
        if room > thick + 22:
            below = middle + 0.5 * thick + 8
            canvas.text(left, below, f"{invested:.1f} of {endowment:.0f}", 10, PALE)
    canvas.text(left, top + _PANEL + 14, "0", 11, PALE, "mm")
    canvas.text(left + _PANEL, top + _PANEL + 14, "endowment", 11, PALE, "rm")


def _bar(
    canvas: Any, left: float, middle: float, thick: float, share: float, baseline: float
) -> None:
    canvas.rectangle(left, middle - 0.5 * thick, _PANEL, thick, GRID)
    colour = BLUE if share >= baseline else VERMILION
    canvas.rectangle(left, middle - 0.5 * thick, _PANEL * min(1.0, max(0.0, share)), thick, colour)
    tick = left + _PANEL * baseline
    over = min(4.0, 0.2 * thick)
    ends = [(tick, middle - 0.5 * thick - over), (tick, middle + 0.5 * thick + over)]
    canvas.line(ends, INK, 2.0 if thick > 8 else 1.0)


def _matrix(
    canvas: Any,
    corner: tuple[float, float],
    title: str,
    names: tuple[str, ...],
    values: np.ndarray,
    colour: rendering.Colour,
) -> None:
    left, top = corner
    n = len(names)
    side = _PANEL / n
    canvas.text(left, top - 14, title, 14)
    for a in range(n):
        canvas.text(left - 8, top + (a + 0.5) * side, names[a], 12, PALE, "rm")
        for b in range(n):
            x, y = left + b * side, top + a * side
            value = float(values[a, b])
            shade = GRID if a == b else mix_colours(_FAINT, colour, value)
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


def text(constants: Any, fields: Mapping[str, np.ndarray], agents: tuple[str, ...]) -> str:
    """Write one lane as a table: investments, and mean trust given, trust received and damage."""
    width = max(5, *(len(name) for name in agents))
    lines = [
        _summary(constants, fields),
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


venture, venture_text = picture, text
