"""Terrains: which cells of a map can be walked on, and the walls that the others make."""

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from coopbench_envs.parameters import named
from coopbench_envs.skirmish.reading import Fields

__all__ = ["SIDE", "presets", "read_heights", "read_terrain", "walls_of"]

SIDE = 32  # cells along each side of the bundled maps
_MOST = 256  # cells along a side
_MOST_WALLS = 1000  # rectangles; memory and time grow with their number
_FILE = Path(__file__).parent / "data" / "terrains.txt"  # name and rows of each, apart by a blank
_WALKABLE = {"_": True, "C": False, "X": False}  # ground, cliff, nothing


@cache
def presets() -> dict[str, np.ndarray]:
    """Return the terrains of this package by name, (rows, columns) bool, row 0 at y = 0.

    The file shows them with north, the largest y, at the top.
    """
    terrains = {}
    for block in _FILE.read_text(encoding="ascii").split("\n\n"):
        name, *rows = block.split()
        terrain = np.array([[_WALKABLE[letter] for letter in row] for row in reversed(rows)])
        terrain.flags.writeable = False
        terrains[name] = terrain
    return terrains


def read_terrain(fields: Fields) -> np.ndarray:
    """Return the terrain of a map file, (rows, columns) bool, from a preset or written out.

    ``terrain`` is a list of rows from y = 0 upwards, each a text or a list of the letters ``_``
    (ground), ``C`` (cliff) and ``X`` (nothing). ``width`` and ``height`` must agree with it.

    Raises:
        ValueError: there is none or there are two, or it is empty, ragged or has other letters.
    """
    if ("terrain" in fields) == ("terrain_preset" in fields):
        raise ValueError(
            f"{fields.where} must have either 'terrain_preset', one of {', '.join(presets())}, or "
            f"'terrain', a list of rows."
        )
    if "terrain_preset" in fields:
        preset = fields.word("terrain_preset", tuple(presets()))
        terrain: np.ndarray = named("terrain", preset, presets(), fields.where)
    else:
        terrain = _written(fields)
    for name, cells in (("width", terrain.shape[1]), ("height", terrain.shape[0])):
        if fields.whole(name, 1, _MOST, SIDE if "terrain_preset" in fields else cells) != cells:
            raise fields.wrong(name, f"{cells}, as its terrain has")
    return terrain


def _written(fields: Fields) -> np.ndarray:
    rows = fields.content["terrain"]
    if not isinstance(rows, list) or not 1 <= len(rows) <= _MOST:
        raise fields.wrong("terrain", f"a list of 1 to {_MOST} rows of letters")
    for y, row in enumerate(rows):
        if not isinstance(row, (str, list)) or not 1 <= len(row) <= _MOST:
            raise ValueError(
                f"{fields.where}: row {y} of 'terrain' must be 1 to {_MOST} of the letters "
                f"{', '.join(_WALKABLE)}."
            )
        if len(row) != len(rows[0]):
            raise ValueError(
                f"{fields.where}: 'terrain' is ragged, row 0 has {len(rows[0])} cells and row "
                f"{y} has {len(row)}; all rows must have the same length."
            )
        for x, letter in enumerate(row):
            if not isinstance(letter, str) or letter not in _WALKABLE:
                raise ValueError(
                    f"{fields.where}: 'terrain' has {letter!r} in row {y}, column {x}; allowed: "
                    f"_ (ground), C (cliff), X (nothing)."
                )
    terrain = np.array([[_WALKABLE[letter] for letter in row] for row in rows])
    if not terrain.any():
        raise fields.wrong("terrain", "rows with at least one cell of ground, '_'")
    count = len(walls_of(terrain))
    if count > _MOST_WALLS:
        raise ValueError(
            f"{fields.where}: what is not ground in 'terrain' makes {count:,} walls; allowed: up "
            f"to {_MOST_WALLS:,}. Draw larger pieces."
        )
    return terrain


def read_heights(fields: Fields, shape: tuple[int, ...]) -> np.ndarray | None:
    """Return ``terrain_height``, a number in [0, 1] per cell, or None if the map has none."""
    if "terrain_height" not in fields:
        return None
    rows: Any = fields.content["terrain_height"]
    try:
        heights = np.array(rows, np.float64)
    except (TypeError, ValueError):
        heights = np.zeros(0)
    if heights.shape != shape or not ((heights >= 0) & (heights <= 1)).all():
        raise fields.wrong(
            "terrain_height", f"{shape[0]} rows of {shape[1]} numbers in [0, 1], from y = 0 upwards"
        )
    return heights


def walls_of(terrain: np.ndarray) -> np.ndarray:
    """Return the rectangles that cover the cells which cannot be walked on, (walls, 4) float64.

    Each is x, y, width, height. Cells are taken row by row; the run of closed cells that begins at
    a cell not yet covered becomes as tall as it can. Runs may cover cells of earlier rectangles:
    the rules of movement depend on the rectangles and on their order.
    """
    height, width = terrain.shape
    covered = np.zeros(terrain.shape, bool)
    walls = []
    for y in range(height):
        for x in range(width):
            if covered[y, x] or terrain[y, x]:
                continue
            right = x + 1
            while right < width and not terrain[y, right]:
                right += 1
            top = y + 1
            while top < height and not terrain[top, x:right].any():
                top += 1
            covered[y:top, x:right] = True
            walls.append((x, y, right - x, top - y))
    return np.array(walls, np.float64).reshape(-1, 4)
