"""movingai: street maps, those of this package or your files of the Moving AI benchmark.

The twelve synthetic cities in the folder ``cities`` come with the package; nothing is downloaded. A
map is resized, and its walls are reduced to their outlines. Source: CAMAR, map
``movingai``; format: Sturtevant 2012.
"""

from collections.abc import Mapping
from functools import partial
from importlib import resources
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import numpy as np

from coopbench_envs.core import MapFiles
from coopbench_envs.parameters import Allowed, between, joined
from coopbench_envs.pathfinding.maps.common import Generator, Map
from coopbench_envs.pathfinding.maps.mazes import (
    WALLS,
    AddBorder,
    Placed,
    RemoveBorder,
    is_wall,
    make_mazes,
    maze_instances,
    place,
    reframe,
)
from coopbench_envs.reading import read_regular

NAME = "map 'movingai'"

_TERRAIN = ".GSW@OT*#"  # the letters of the format, and two more letters for walls
_HEADER = ("type ", "height ", "width ", "map")
_LARGEST, _MOST = 1 << 24, 1000  # bytes of a file, and files of a folder
_TOGETHER = 1 << 28  # bytes of all files of a folder


class Own(NamedTuple):
    """Parameters that other mazes do not have."""

    path: Annotated[
        str | None,
        Allowed("a .map file, or a folder whose .map files are used; none: included cities"),
    ] = None
    height: Annotated[int, between(3, 2048, "cells along y")] = 128
    width: Annotated[int, between(3, 2048, "cells along x")] = 128
    walls: Annotated[str, Allowed("characters that are walls")] = WALLS
    only_edges: Annotated[bool, Allowed("reduce walls to their outlines")] = True
    low_thr: Annotated[float, between(0, 10, "smallest Sobel magnitude of an outline")] = 3.7
    remove_border: RemoveBorder = True
    add_border: AddBorder = False


Params = joined(__name__, Own, Placed)


def make_map(p: Any, num_agents: int) -> Map:
    """Return the map, from the files of ``path``.

    Raises:
        ValueError: there is no file, one is not of the format, or it has too few free cells.
    """
    files = find_files(p.path)
    where = [f"{NAME}, file {str(file)!r}," for file in files]
    mazes = [_maze(file, p, name) for file, name in zip(files, where, strict=True)]
    return make_mazes([w for w, _ in mazes], [f for _, f in mazes], p, num_agents, where)


def find_files(path: str | None) -> list[Path]:
    """Return the file, or the .map files of a folder by name; None: those of this package."""
    package = resources.files("coopbench_envs.pathfinding.maps")
    place = Path(str(package.joinpath("cities")) if path is None else path)
    files = sorted(place.glob("*.map")) if place.is_dir() else [place]
    if not files or not all(file.is_file() for file in files):
        raise ValueError(
            f"Parameter 'path' of {NAME} was {path!r}, where there is no map; allowed: a file in "
            f"the octile format, or a folder with files .map. Nothing is downloaded."
        )
    sizes = [file.stat().st_size for file in files]
    if len(files) > _MOST or max(sizes) > _LARGEST or sum(sizes) > _TOGETHER:
        raise ValueError(
            f"Parameter 'path' of {NAME} has {len(files):,} maps of {sum(sizes):,} bytes, the "
            f"largest of {max(sizes):,}; allowed: {_MOST:,} of up to {_LARGEST:,} bytes, "
            f"{_TOGETHER:,} together."
        )
    return files


def _is_played(parameters: Mapping[str, Any]) -> bool:
    return parameters.get("map") == "movingai"


def _place(parameters: Mapping[str, Any]) -> str | None:
    path = (parameters.get("map_params") or {}).get("path") if _is_played(parameters) else None
    return None if path is None else str(path)


def _paths(parameters: Mapping[str, Any]) -> list[Path]:
    return find_files(_place(parameters)) if _is_played(parameters) else []


def _moved(parameters: Mapping[str, Any], place: str) -> dict[str, Any]:
    options = parameters.get("map_params") or {}
    return {**parameters, "map_params": {**options, "path": place}}


FILES = MapFiles(
    condition="map = 'movingai'",
    bundled="bundled synthetic city maps",
    paths=_paths,
    place=_place,
    moved=_moved,
)


def _maze(file: Path, p: Any, where: str) -> tuple[np.ndarray, np.ndarray]:
    """Return the walls of one file, resized, and its free cells."""
    solid = resize(is_wall(read_octile(file, where), p.walls), p.height, p.width)
    walls = outlines(solid, p.low_thr) if p.only_edges else solid
    walls, closed = (
        reframe(w, p.remove_border, p.add_border, where) for w in (walls, walls | solid)
    )
    return walls, np.flatnonzero(~closed)


def read_octile(file: Path, where: str) -> np.ndarray:
    """Return the letters (rows, columns) of a file in the octile format.

    Messages do not quote the file: the parameters of a stranger's protocol may name any.

    Raises:
        ValueError: it is not a regular file, it is too large, or the header, the number or length
            of rows, or a letter is wrong.
    """
    # Editors of Windows write a byte order mark at the beginning.
    lines = read_regular(file, _LARGEST).decode("utf-8-sig", errors="replace").splitlines()
    for k, word in enumerate(_HEADER):
        if len(lines) <= k or not lines[k].startswith(word):
            raise ValueError(f"{where} line {k + 1} does not begin with {word.strip()!r}.")
    height, width = (_number(lines[k], k, where) for k in (1, 2))
    rows = [line.rstrip() for line in lines[len(_HEADER) :]]
    while rows and not rows[-1]:
        rows.pop()
    if len(rows) != height:
        raise ValueError(f"{where} has {len(rows)} rows; allowed: {height}, as its line 2 says.")
    for k, row in enumerate(rows, len(_HEADER) + 1):
        if len(row) != width:
            raise ValueError(
                f"{where} is ragged: line {k} has {len(row)} cells; allowed: {width}, as its line "
                f"3 says."
            )
        strange = sorted(set(row) - set(_TERRAIN))
        if strange:
            raise ValueError(
                f"{where} line {k}, column {row.index(strange[0]) + 1}: unknown terrain; allowed: "
                f"{' '.join(_TERRAIN)}."
            )
    return np.array([list(row) for row in rows])


def _number(line: str, k: int, where: str) -> int:
    word, _, number = line.partition(" ")
    digits = number.strip()
    if not digits.isdecimal() or len(digits) > 5 or not 1 <= int(digits) <= 10_000:
        raise ValueError(f"{where} line {k + 1} is not {word!r} and a number of 1 to 10,000.")
    return int(number)


def resize(cells: np.ndarray, height: int, width: int) -> np.ndarray:
    """Resize by nearest neighbour: the cell that contains the new cell's upper left corner."""
    rows = np.arange(height) * cells.shape[0] // height
    columns = np.arange(width) * cells.shape[1] // width
    return cells[np.ix_(rows, columns)]


def outlines(solid: np.ndarray, threshold: float) -> np.ndarray:
    """Return where the Sobel magnitude of walls (1) and free cells (0) exceeds ``threshold``.

    Cells outside the map count as free.
    """
    padded = np.pad(solid.astype(float), 1)
    smooth_y = padded[:-2] + 2 * padded[1:-1] + padded[2:]
    smooth_x = padded[:, :-2] + 2 * padded[:, 1:-1] + padded[:, 2:]
    along_x = smooth_y[:, 2:] - smooth_y[:, :-2]
    along_y = smooth_x[2:] - smooth_x[:-2]
    return np.sqrt(along_x**2 + along_y**2) > threshold


MAP = Generator(Params, make_map, place, partial(maze_instances, where=NAME))
