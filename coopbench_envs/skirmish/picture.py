"""Pictures of a battle: the ground, units by kind with their health and shields, and targets."""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from coopbench_envs import rendering
from coopbench_envs.rendering import BLUE, GREEN, INK, PALE, SKY, VERMILION, mix_colours
from coopbench_envs.skirmish.army import ENERGY, HP, RADIUS, SHIELD, words

__all__ = ["HEADER", "picture", "text"]

HEADER = 34  # pixels above the map
_SIDE = 720  # pixels of the longer side of what is drawn
_EDGE = 14  # pixels around the map
_MARGIN = 1  # cells around the ground that are drawn, too
_WALL, _FLOOR = (172, 172, 172), (248, 248, 248)
_LETTERS = 1.4  # least radius in pixels per point of a letter
_USUAL = {
    **{"marine": "m", "marauder": "r", "medivac": "v", "stalker": "s", "zealot": "z"},
    **{"colossus": "c", "hydralisk": "h", "zergling": "g", "baneling": "b", "spine_crawler": "p"},
}
_SIDES = {True: BLUE, False: VERMILION}  # of agents and enemies


def picture(
    constants: Any, fields: Mapping[str, np.ndarray], agents: tuple[str, ...]
) -> np.ndarray:
    """Draw one lane: units are discs to scale, agents blue and enemies red, with a letter each.

    The part of the map with ground is drawn. The arc around a unit is its health, a second one
    outside it its shield or energy. A line leads to the unit that it aims at.
    """
    army = constants.army
    left, right, bottom, top = _ground(army.terrain)
    scale = _SIDE / max(right - left, top - bottom)
    width = 2 * round(0.5 * (right - left) * scale) + 2 * _EDGE
    height = 2 * round(0.5 * (top - bottom) * scale) + 2 * _EDGE + HEADER
    canvas = rendering.Canvas(width, height)
    upper = HEADER + _EDGE
    for row in range(bottom, top):
        for column in range(left, right):
            canvas.rectangle(
                _EDGE + (column - left) * scale,
                upper + (top - 1 - row) * scale,
                scale + 0.5,
                scale + 0.5,
                _FLOOR if army.terrain[row, column] else _WALL,
            )
    x, y = fields["x"].astype(np.float64), fields["y"].astype(np.float64)
    places = np.stack([_EDGE + (x - left) * scale, upper + (top - y) * scale], axis=1)
    living = np.flatnonzero(fields["living"])
    for u in living:
        target = int(fields["target"][u])
        if target >= 0 and fields["living"][target]:
            colour = mix_colours(_SIDES[bool(u < army.num_agents)], _FLOOR, 0.5)
            canvas.line([tuple(places[u]), tuple(places[target])], colour)
    letters, stats = _letters(_words(constants, fields)), _stats(constants, fields)
    for u in living:
        colour = _SIDES[bool(u < army.num_agents)]
        _unit(canvas, stats[u], fields, int(u), places[u], scale, (letters[u], colour))
    _header(canvas, constants, fields, width)
    return canvas.pixels()


def _ground(terrain: np.ndarray) -> tuple[int, int, int, int]:
    """Return the first and last column and row, the last ones exclusive, of what is drawn."""
    sides = []
    for axis in (0, 1):
        walkable = np.flatnonzero(terrain.any(axis=axis))
        first, last = int(walkable.min()) - _MARGIN, int(walkable.max()) + 1 + _MARGIN
        sides += [max(0, first), min(terrain.shape[1 - axis], last)]
    return sides[0], sides[1], sides[2], sides[3]


def _letters(names: list[str]) -> list[str]:
    """Return a letter for each unit; a kind of a user has the first one that is still free."""
    letters = dict(_USUAL)
    for name in dict.fromkeys(names):
        if name in letters:
            continue
        free = [letter for letter in name if letter not in letters.values()]
        letters[name] = free[0] if free else name[0]
    return [letters[name].upper() for name in names]


def _stats(constants: Any, fields: Mapping[str, np.ndarray]) -> np.ndarray:
    """Return the numbers of each unit, (units, columns); kinds may differ between episodes."""
    if "kind" in fields:
        numbers: np.ndarray = constants.rules.kinds.stats[fields["kind"]]
        return numbers
    usual: np.ndarray = constants.army.stats
    return usual


def _words(constants: Any, fields: Mapping[str, np.ndarray]) -> list[str]:
    """Return the word for each unit."""
    names = words(constants.army)
    if "kind" in fields:
        word_of = dict(zip(constants.rules.kind.tolist(), names, strict=True))
        names = [word_of[kind] for kind in fields["kind"].tolist()]
    return names


def _unit(
    canvas: rendering.Canvas,
    stats: np.ndarray,
    fields: Mapping[str, np.ndarray],
    u: int,
    place: np.ndarray,
    scale: float,
    looks: tuple[str, Any],
) -> None:
    x, y = float(place[0]), float(place[1])
    radius = float(stats[RADIUS]) * scale
    letter, colour = looks
    canvas.disc(x, y, radius, mix_colours(colour, _FLOOR, 0.35))
    _arc(canvas, x, y, radius, float(fields["hp"][u] / stats[HP]), GREEN)
    for field, column in (("shield", SHIELD), ("energy", ENERGY)):
        if stats[column] > 0:
            share = float(fields[field][u] / stats[column])
            _arc(canvas, x, y, radius + 2.5, share, SKY)
    if radius >= 5:
        canvas.text(x, y, letter, size=max(7.0, radius * _LETTERS), anchor="mm")


def _arc(
    canvas: rendering.Canvas, x: float, y: float, radius: float, share: float, colour: Any
) -> None:
    """Draw a share of a circle, clockwise from the top."""
    share = min(1.0, max(0.0, share))
    angles = np.linspace(0.0, 2 * math.pi * share, max(2, round(24 * share)))
    if share > 0:
        points = [(x + radius * math.sin(t), y - radius * math.cos(t)) for t in angles]
        canvas.line(points, colour, 2.0)


def _header(
    canvas: rendering.Canvas, constants: Any, fields: Mapping[str, np.ndarray], width: int
) -> None:
    left, right = _counts(constants, fields)
    time = f"step {int(fields['time'])} of {constants.horizon}"
    canvas.text(_EDGE, 0.5 * HEADER + 4, left, colour=_SIDES[True])
    canvas.text(width - _EDGE, 0.5 * HEADER + 4, right, colour=_SIDES[False], anchor="rm")
    canvas.text(0.5 * width, 0.5 * HEADER + 4, time, colour=INK, anchor="mm")
    canvas.frame(0, 0, width, 1, PALE)


def _counts(constants: Any, fields: Mapping[str, np.ndarray]) -> tuple[str, str]:
    army, living = constants.army, fields["living"]
    agents, enemies = int(living[: army.num_agents].sum()), int(living[army.num_agents :].sum())
    return f"agents {agents} of {army.num_agents}", f"enemies {enemies} of {army.num_enemies}"


def text(constants: Any, fields: Mapping[str, np.ndarray], agents: tuple[str, ...]) -> str:
    """Write one lane: who lives, and a map with agents as capitals and enemies as small letters."""
    army = constants.army
    rows = [["." if cell else "#" for cell in row] for row in army.terrain]
    for u, letter in enumerate(_letters(_words(constants, fields))):
        x, y = int(fields["x"][u]), int(fields["y"][u])
        if fields["living"][u] and 0 <= y < len(rows) and 0 <= x < len(rows[0]):
            rows[y][x] = letter if u < army.num_agents else letter.lower()
    heading = f"step {int(fields['time'])}: {', '.join(_counts(constants, fields))}"
    return "\n".join([heading, *("".join(row) for row in reversed(rows))])
