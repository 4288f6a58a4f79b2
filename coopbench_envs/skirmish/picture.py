"""Pictures of a battle: the ground, units by kind with their health and shields, and targets."""

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from coopbench_envs import rendering
from coopbench_envs.rendering import BLUE, GREEN, INK, PALE, SKY, VERMILION, mix_colours
from coopbench_envs.skirmish.scene import Battle, battle_of

__all__ = ["HEADER", "picture", "text"]

HEADER = 68  # pixels above the map: counts, and which kinds the letters stand for
_WRITTEN = 22  # points of a line above the map: legible at half the size, as on a phone
_SIDE = 720  # pixels of the longer side of what is drawn
_EDGE = 14  # pixels around the map
_MARGIN = 1  # cells around the ground that are drawn, too
_WALL, _FLOOR = (172, 172, 172), (248, 248, 248)
_UNSEEN = 0.72  # by which the colours are multiplied of what no agent sees
_LETTERS = 1.4  # least radius in pixels per point of a letter
_SIDES = {True: BLUE, False: VERMILION}  # of agents and enemies


class _View(NamedTuple):
    """Where cells lie in the picture."""

    left: int  # columns and rows that are drawn, the last ones exclusive
    right: int
    bottom: int
    top: int
    scale: float  # pixels of a cell

    def points(self, places: np.ndarray) -> np.ndarray:
        """Return points (..., 2) of the map in pixels of the picture."""
        x = _EDGE + (places[..., 0] - self.left) * self.scale
        y = HEADER + _EDGE + (self.top - places[..., 1]) * self.scale
        return np.stack([x, y], axis=-1)


def picture(
    constants: Any,
    fields: Mapping[str, np.ndarray],
    agents: tuple[str, ...],
    *,
    sight: bool = False,
) -> np.ndarray:
    """Draw one lane: units are discs to scale, agents blue and enemies red, with a letter each.

    The part of the map with ground is drawn. The arc around a unit is its health, a second one
    outside it its shield or energy. A line leads to the unit that it aims at. With ``sight``, what
    no living agent sees is darker.
    """
    battle = battle_of(constants, fields)
    left, right, bottom, top = _drawn(battle.ground)
    view = _View(left, right, bottom, top, _SIDE / max(right - left, top - bottom))
    width = 2 * round(0.5 * (right - left) * view.scale) + 2 * _EDGE
    height = 2 * round(0.5 * (top - bottom) * view.scale) + 2 * _EDGE + HEADER
    canvas = rendering.Canvas(width, height)
    for row in range(bottom, top):
        for column in range(left, right):
            x, y = view.points(np.array([column, row + 1]))
            colour = _FLOOR if battle.ground[row, column] else _WALL
            canvas.rectangle(x, y, view.scale + 0.5, view.scale + 0.5, colour)
    points, living = view.points(battle.places), battle.living
    for u in np.flatnonzero(living):
        target = int(battle.targets[u])
        if target >= 0 and living[target]:
            colour = mix_colours(_side(battle, u), _FLOOR, 0.5)
            canvas.line([tuple(points[u]), tuple(points[target])], colour)
    for u in np.flatnonzero(living):
        _unit(canvas, battle, int(u), points[u], view.scale)
    _header(canvas, battle, _counts(constants, fields), _time(constants, fields))
    pixels = canvas.pixels()
    return _darkened(pixels, battle, view) if sight else pixels


def _drawn(ground: np.ndarray) -> tuple[int, int, int, int]:
    """Return the first and last column and row, the last ones exclusive, of what is drawn."""
    sides = []
    for axis in (0, 1):
        walkable = np.flatnonzero(ground.any(axis=axis))
        first, last = int(walkable.min()) - _MARGIN, int(walkable.max()) + 1 + _MARGIN
        sides += [max(0, first), min(ground.shape[1 - axis], last)]
    return sides[0], sides[1], sides[2], sides[3]


def _side(battle: Battle, u: Any) -> Any:
    return _SIDES[bool(u < battle.num_agents)]


def _unit(
    canvas: rendering.Canvas, battle: Battle, u: int, point: np.ndarray, scale: float
) -> None:
    x, y = float(point[0]), float(point[1])
    radius = float(battle.radii[u]) * scale
    canvas.disc(x, y, radius, mix_colours(_side(battle, u), _FLOOR, 0.35))
    _arc(canvas, x, y, radius, float(battle.health[u]), GREEN)
    if battle.reserves[u]:
        _arc(canvas, x, y, radius + 2.5, float(battle.reserve[u]), SKY)
    if radius >= 5:
        size = max(7.0, radius * _LETTERS)
        canvas.text(x, y, battle.letters[u], size=size, anchor="mm")


def _darkened(pixels: np.ndarray, battle: Battle, view: _View) -> np.ndarray:
    """Darken the cells that no living agent sees."""
    across = int((view.right - view.left) * view.scale)
    down = int((view.top - view.bottom) * view.scale)
    x = view.left + (np.arange(across) + 0.5) / view.scale
    y = view.top - (np.arange(down)[:, None] + 0.5) / view.scale
    seen = np.zeros((down, across), np.bool_)
    for a in np.flatnonzero(battle.living[: battle.num_agents]):
        dx, dy = x - battle.places[a, 0], y - battle.places[a, 1]
        near = dx * dx + dy * dy <= battle.sight[a] ** 2
        if battle.headings is not None:
            turn = np.angle(np.exp(1j * (np.arctan2(dy, dx) - battle.headings[a])))
            near &= np.abs(turn) <= 0.5 * battle.view
        seen |= near | (dx * dx + dy * dy <= (1.5 * battle.radii[a]) ** 2)  # and itself
    upper = HEADER + _EDGE
    part = pixels[upper : upper + down, _EDGE : _EDGE + across]
    part[~seen] = part[~seen] * _UNSEEN
    return pixels


def _arc(
    canvas: rendering.Canvas, x: float, y: float, radius: float, share: float, colour: Any
) -> None:
    """Draw a share of a circle, clockwise from the top."""
    share = min(1.0, max(0.0, share))
    angles = np.linspace(0.0, 2 * math.pi * share, max(2, round(24 * share)))
    if share > 0:
        points = [(x + radius * math.sin(t), y - radius * math.cos(t)) for t in angles]
        canvas.line(points, colour, 2.0)


def _header(canvas: rendering.Canvas, battle: Battle, counts: tuple[str, str], time: str) -> None:
    """Write how many are left and the time, and below it the kind of every letter."""
    left, right = counts
    room, y = canvas.width - 2 * _EDGE, 0.3 * HEADER + 2
    size = canvas.fitting(f"{left}    {time}    {right}", _WRITTEN, room)
    canvas.text(_EDGE, y, left, size, _SIDES[True])
    canvas.text(canvas.width - _EDGE, y, right, size, _SIDES[False], "rm")
    canvas.text(0.5 * canvas.width, y, time, size, INK, "mm")
    pairs = zip(battle.letters, battle.kinds, strict=True)
    kinds = dict.fromkeys(f"{letter} {kind.replace('_', ' ')}" for letter, kind in pairs)
    legend = "    ".join(kinds)
    canvas.text(_EDGE, 0.8 * HEADER, legend, canvas.fitting(legend, _WRITTEN, room), INK)
    canvas.frame(0, 0, canvas.width, 1, PALE)


def _time(constants: Any, fields: Mapping[str, np.ndarray]) -> str:
    return f"step {int(fields['time'])} of {constants.horizon}"


def _counts(constants: Any, fields: Mapping[str, np.ndarray]) -> tuple[str, str]:
    army, living = constants.army, fields["living"]
    agents, enemies = int(living[: army.num_agents].sum()), int(living[army.num_agents :].sum())
    return f"agents {agents} of {army.num_agents}", f"enemies {enemies} of {army.num_enemies}"


def text(constants: Any, fields: Mapping[str, np.ndarray], agents: tuple[str, ...]) -> str:
    """Write one lane: who lives, and a map with agents as capitals and enemies as small letters."""
    army = constants.army
    rows = [["." if cell else "#" for cell in row] for row in army.terrain]
    for u, letter in enumerate(battle_of(constants, fields).letters):
        x, y = int(fields["x"][u]), int(fields["y"][u])
        if fields["living"][u] and 0 <= y < len(rows) and 0 <= x < len(rows[0]):
            rows[y][x] = letter if u < army.num_agents else letter.lower()
    heading = f"step {int(fields['time'])}: {', '.join(_counts(constants, fields))}"
    return "\n".join([heading, *("".join(row) for row in reversed(rows))])
