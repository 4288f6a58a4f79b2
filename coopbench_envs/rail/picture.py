"""Pictures of a railway: rails, trains as arrows, and where they want to go."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from coopbench_envs import rendering
from coopbench_envs.rail.cells import BASES, STEPS, rotated
from coopbench_envs.rail.trains import ARRIVED, BROKEN_OFF_MAP
from coopbench_envs.rendering import GRID, INK, PALE, PALETTE, PAPER, VERMILION

__all__ = ["picture", "text"]

_SIDE = 840  # pixels of the map's longer side at most
_LEAST, _MOST = 5, 28  # pixels of a cell
_EDGE, _HEADER = 14, 42  # pixels around the map, and above it
_WRITTEN = 22  # points of the line above the map: legible at half the size, as on a phone
_RAIL, _FLOOR = (110, 110, 110), (248, 248, 248)
_COLOURS = PALETTE[:5]  # vermilion marks trains that are broken
_FLAGS = 60  # trains at most with flags at their targets
_SIGNS = "^>v<"


def _grid(c: Any, values: np.ndarray) -> np.ndarray:
    """Return a field of cells as (rows, columns), without the ring."""
    inside: np.ndarray = values.reshape(c.map.height + 2, c.map.width + 2)[1:-1, 1:-1]
    return inside


def _positions(c: Any, cells: np.ndarray) -> np.ndarray:
    return np.stack([cells // c.map.columns - 1, cells % c.map.columns - 1], axis=-1)


def picture(
    constants: Any, fields: Mapping[str, np.ndarray], agents: tuple[str, ...]
) -> np.ndarray:
    """Draw one lane: rails, targets as rings, trains as arrows in their agent's colour.

    A train that is broken has a red ring, one that can never move again a black frame.
    """
    c = constants
    cell = min(_MOST, max(_LEAST, _SIDE // max(c.map.height, c.map.width)))
    canvas = rendering.Canvas(
        2 * ((cell * c.map.width + 2 * _EDGE + 1) // 2),
        2 * ((cell * c.map.height + 2 * _EDGE + _HEADER + 1) // 2),
    )
    canvas.rectangle(_EDGE, _EDGE + _HEADER, cell * c.map.width, cell * c.map.height, _FLOOR)
    grid = _grid(c, fields["rail"])
    for row, column in np.argwhere(grid):
        for ends in tracks_of(int(grid[row, column])):
            canvas.line([_point(row, column, cell, end) for end in ends], _RAIL, cell / 9)
    if len(agents) <= _FLAGS:
        _draw_targets(canvas, c, fields, cell)
    for a in np.flatnonzero(_on_map(fields)).tolist():
        _draw_train(canvas, c, fields, a, cell)
        if fields["stuck"][a]:
            _frame(canvas, c, fields, a, cell)
    _header(canvas, fields)
    return canvas.pixels()


def tracks_of(code: int) -> list[tuple[Any, ...]]:
    """Return the tracks of a cell, as points from (-0.5, -0.5) to (0.5, 0.5), row first."""
    tracks: list[tuple[Any, ...]] = []
    for heading in range(4):
        for turn in range(4):
            if (code >> (4 * (3 - heading) + 3 - turn)) & 1:
                back, ahead = STEPS[(heading + 2) % 4], STEPS[turn]
                start, end = (tuple(0.5 * k for k in side) for side in (back, ahead))
                if start == end:  # a dead end
                    tracks.append((start, (0.0, 0.0)))
                elif start < end:  # the other direction is the same track
                    tracks.append((start, end))
    return tracks


def _point(row: int, column: int, cell: int, shift: Any = (0.0, 0.0)) -> tuple[float, float]:
    x = _EDGE + cell * (column + 0.5 + shift[1])
    return x, _EDGE + _HEADER + cell * (row + 0.5 + shift[0])


def _draw_targets(canvas: Any, c: Any, fields: Mapping[str, np.ndarray], cell: int) -> None:
    """Draw a ring for every target of trains that have not arrived, one within the other."""
    rings: dict[int, int] = {}
    for a, target in enumerate(fields["target"].tolist()):
        rings[target] = rings.get(target, 0) + 1
        row, column = _positions(c, np.array(target))
        if fields["status"][a] != ARRIVED and rings[target] <= 3:
            x, y = _point(int(row), int(column), cell)
            canvas.ring(x, y, cell * (0.62 - 0.14 * rings[target]), _COLOURS[a % 5], 2.0)


def _draw_train(canvas: Any, c: Any, fields: Mapping[str, np.ndarray], a: int, cell: int) -> None:
    """Draw an arrowhead in the direction of travel, further on the more of its cell lies behind."""
    place = int(fields["place"][a])
    row, column = (int(k) for k in _positions(c, np.array(place >> 2)))
    along = STEPS[place & 3]
    share = float(fields["distance"][a]) / c.drive.unit * 0.4 - 0.2
    x, y = _point(row, column, cell, tuple(share * k for k in along))
    size, (dy, dx) = 0.45 * cell, along
    tip = (x + dx * size, y + dy * size)
    back = (x - dx * size, y - dy * size)
    if fields["broken"][a] > 0:
        canvas.disc(x, y, 0.62 * cell, VERMILION)
        canvas.disc(x, y, 0.45 * cell, PAPER)
    canvas.line([back, tip], INK, 0.55 * cell)
    canvas.line([back, (x + dx * (size - 1), y + dy * (size - 1))], _COLOURS[a % 5], 0.4 * cell)
    canvas.arrow(x - 0.6 * dx * size, y - 0.6 * dy * size, 1.4 * dx * size, 1.4 * dy * size, INK)


def _frame(canvas: Any, c: Any, fields: Mapping[str, np.ndarray], a: int, cell: int) -> None:
    row, column = (int(k) for k in _positions(c, np.array(int(fields["place"][a]) >> 2)))
    x, y = _point(row, column, cell, (-0.5, -0.5))
    canvas.frame(x, y, cell, cell, INK)


def _header(canvas: Any, fields: Mapping[str, np.ndarray]) -> None:
    y = _EDGE + 0.4 * _HEADER
    width, line = canvas.width - 2 * _EDGE, _summary(fields)
    canvas.text(_EDGE, y, line, canvas.fitting(line, _WRITTEN, width))
    done = min(1.0, int(fields["time"]) / max(1, int(fields["limit"])))
    canvas.rectangle(_EDGE, y + 17, width, 3, GRID)
    canvas.rectangle(_EDGE, y + 17, width * done, 3, PALE)


def _summary(fields: Mapping[str, np.ndarray]) -> str:
    status, on_map = fields["status"], _on_map(fields)
    return (
        f"step {int(fields['time'])} / {int(fields['limit'])}    on map {int(on_map.sum())}    "
        f"arrived {int((status == ARRIVED).sum())} / {len(status)}    "
        f"broken {int((fields['broken'] > 0).sum())}    "
        f"deadlocked {int((on_map & fields['stuck']).sum())}"
    )


def _on_map(fields: Mapping[str, np.ndarray]) -> np.ndarray:
    """Return which trains are on the map, bool (trains,)."""
    on_map: np.ndarray = (fields["status"] > BROKEN_OFF_MAP) & (fields["status"] < ARRIVED)
    return on_map


def text(constants: Any, fields: Mapping[str, np.ndarray], agents: tuple[str, ...]) -> str:
    """Write one lane as a map of characters.

    Rails are lines, ``+`` stands for switches and crossings, ``^>v<`` for trains in their heading,
    ``x`` for broken ones, ``*`` for targets.
    """
    c = constants
    grid = _grid(c, fields["rail"])
    page = np.vectorize(lambda code: _LETTERS.get(int(code), "+"), otypes=[str])(grid)
    for a in np.flatnonzero(fields["status"] != ARRIVED).tolist():
        page[tuple(_positions(c, fields["target"][a]))] = "*"
    for a in np.flatnonzero(_on_map(fields)).tolist():
        place = int(fields["place"][a])
        sign = "x" if fields["broken"][a] > 0 else _SIGNS[place & 3]
        page[tuple(_positions(c, np.array(place >> 2)))] = sign
    return "\n".join([_summary(fields), *("".join(row).rstrip() for row in page)])


_LETTERS = {0: " "} | {
    rotated(BASES[name], k): letters[k]
    for name, letters in {"straight": "│─│─", "turn": "┌┐┘└", "dead end": "╷╴╵╶"}.items()
    for k in range(4)
}
