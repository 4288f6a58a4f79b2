"""Cities: draws the maps that come with the package, and the start positions of routing-hard.

    python -m studies.cities            # write all files anew
    python -m studies.cities --check    # compare them with those of the package instead
    python -m studies.cities --picture sheet.png

A city is a raster of 128 x 128 cells in the octile format, ``@`` for impassable cells. Walls are
later drawn as discs on both sides of an edge, so a street loses two cells of its width; the widths
here are those of the raster.
"""

import argparse
import hashlib
import itertools
import math
import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np
from scipy import ndimage, sparse
from scipy.sparse import csgraph

from coopbench_envs.arrays import pack
from coopbench_envs.core import draw, streams
from coopbench_envs.pathfinding.maps import movingai
from studies import archive

ROOT = Path(__file__).resolve().parent.parent
CITIES = ROOT / "coopbench_envs" / "pathfinding" / "maps" / "cities"
SIZE = 128
LANE, STREET, AVENUE = 4.0, 5.5, 8.0  # widths of roads, in cells
CELL = 0.1  # length of a cell in the environment
FARTHEST = 12.0  # length; every cell of a city is within this path length of its central one
NEAREST = 2.0  # length of the straight line from a start to its goal, at least
AGENTS = (8, 16, 32, 64, 128, 256)
EPISODES_PER_CITY = 10

Y, X = np.mgrid[0:SIZE, 0:SIZE].astype(float)
MIDDLE = (SIZE - 1) / 2
Point = tuple[float, float]  # x, y


class City:
    """A raster that starts as solid buildings; roads are carved out, buildings added again."""

    def __init__(self, solid: bool = True) -> None:
        self.solid = np.full((SIZE, SIZE), solid)

    def carve(self, where: np.ndarray) -> None:
        """Make cells passable."""
        self.solid &= ~where

    def build(self, where: np.ndarray) -> None:
        """Make cells impassable."""
        self.solid |= where

    def road(self, points: Sequence[Point], width: float = STREET, closed: bool = False) -> None:
        """Carve a road along a line through points."""
        self.carve(near(points, width / 2, closed))


def length(dx: np.ndarray, dy: np.ndarray) -> np.ndarray:
    """Lengths, rounded so that no cell depends on the last bit of a machine."""
    return np.round(np.hypot(dx, dy), 6)


def near(points: Sequence[Point], reach: float, closed: bool = False) -> np.ndarray:
    """Cells within ``reach`` of a line through points."""
    line = [*points, points[0]] if closed else list(points)
    mask = np.zeros((SIZE, SIZE), bool)
    for (x, y), (u, v) in itertools.pairwise(line):
        dx, dy = u - x, v - y
        along = np.clip(((X - x) * dx + (Y - y) * dy) / max(dx * dx + dy * dy, 1e-9), 0.0, 1.0)
        mask |= length(X - x - along * dx, Y - y - along * dy) < reach
    return mask


def box(left: float, top: float, width: float, height: float) -> np.ndarray:
    """Cells of a rectangle."""
    x, y = X - left, Y - top
    return (x >= 0) & (x < width) & (y >= 0) & (y < height)


def disc(x: float, y: float, radius: float) -> np.ndarray:
    """Cells of a disc."""
    return length(X - x, Y - y) < radius


def circle(radius: float, x: float = MIDDLE, y: float = MIDDLE, corners: int = 48) -> list[Point]:
    """Corners of a regular polygon."""
    turns = [2 * math.pi * k / corners for k in range(corners)]
    return [(x + radius * math.cos(turn), y + radius * math.sin(turn)) for turn in turns]


def steps(first: float, last: float, low: int, high: int, rng: random.Random) -> Iterator[float]:
    """Places from first to last with random distances from low to high."""
    at = first
    while at <= last:
        yield at
        at += low + int((high - low + 1) * rng.random())


def wave(y: float, height: float, length: float, phase: float = 0.0) -> list[Point]:
    """A line across the city that oscillates around ``y``."""
    return [(x, y + height * math.sin(2 * math.pi * x / length + phase)) for x in range(-4, 134, 3)]


def grid(rng: random.Random) -> City:
    """Square blocks, every third road an avenue, some blocks left open as squares."""
    city = City()
    lines = [5 + 14.6 * k for k in range(9)]
    for k, at in enumerate(lines):
        width = AVENUE if k % 3 == 1 else LANE
        city.road([(at, 0), (at, SIZE)], width)
        city.road([(0, at), (SIZE, at)], width)
    for _ in range(7):
        column, row = int(8 * rng.random()), int(8 * rng.random())
        city.carve(box(lines[column], lines[row], 14.6, 14.6))
    return city


def avenues(rng: random.Random) -> City:
    """Long blocks, one avenue across all of them, and a park with ponds."""
    city = City()
    for x in (4, 20, 36, 52, 68, 84, 100, 123):
        city.road([(x, 0), (x, SIZE)], AVENUE if x in (36, 84) else STREET)
    for k in range(13):
        city.road([(0, 4 + 10 * k), (SIZE, 4 + 10 * k)], LANE)
    city.road([(14, SIZE), (60, 64), (118, 0)], AVENUE)
    city.carve(box(52, 34, 32, 60))
    for _ in range(9):
        city.build(disc(56 + 24 * rng.random(), 40 + 48 * rng.random(), 2.5 + 2.5 * rng.random()))
    return city


def radial(rng: random.Random) -> City:
    """Rings and spokes around a round place with a monument."""
    city = City()
    for k, radius in enumerate((24, 37, 50, 63, 77)):
        city.road(circle(radius), AVENUE if k == 2 else STREET, closed=True)
    for k in range(16):
        turn = 2 * math.pi * (k + 0.3 * rng.random()) / 16
        inner, outer = (10 if k % 2 == 0 else 37), 92
        ends = [(MIDDLE + r * math.cos(turn), MIDDLE + r * math.sin(turn)) for r in (inner, outer)]
        city.road(ends, STREET if k % 4 == 0 else LANE)
    city.carve(disc(MIDDLE, MIDDLE, 14))
    city.build(disc(MIDDLE, MIDDLE, 4))
    return city


def borders(places: Sequence[Point], width: float) -> np.ndarray:
    """Cells at about equal distance to the two nearest places."""
    distances = np.sort([length(X - x, Y - y) for x, y in places], axis=0)
    return np.round(distances[1] - distances[0], 5) < width


def scattered(rng: random.Random, spacing: float, jitter: float) -> list[Point]:
    """Places on a grid, each moved a little."""
    lines = np.arange(spacing / 2, SIZE + spacing / 2, spacing)
    return [
        (x + jitter * (rng.random() - 0.5), y + jitter * (rng.random() - 0.5))
        for y in lines
        for x in lines
    ]


def old_town(rng: random.Random) -> City:
    """Crooked lanes inside a round wall with four gates, fields with farms outside."""
    city = City()
    city.carve(borders(scattered(rng, 16, 12), 4.4))
    away = length(X - MIDDLE, Y - MIDDLE)
    city.carve((away > 44) & (away < 49))
    city.build((away > 49) & (away < 53))
    city.carve(away >= 53)
    for x, y in ((8, 8), (20, 5), (6, 20), (112, 6), (5, 112), (16, 117), (113, 113), (100, 118)):
        city.build(box(x, y, 7, 6))
    for turn in (0.2, 1.9, 3.5, 5.0):
        ends = [(MIDDLE + r * math.cos(turn), MIDDLE + r * math.sin(turn)) for r in (8, 58)]
        city.road(ends, 6)
    city.carve(disc(MIDDLE, MIDDLE, 11))
    city.build(disc(MIDDLE, MIDDLE, 3.6))
    return city


def harbour(rng: random.Random) -> City:
    """A town in the north, a quay, and piers with sheds in the water."""
    city = City()
    for x in steps(5, 126, 13, 18, rng):
        city.road([(x, 0), (x + 6, 66)], STREET)
    for y in steps(6, 56, 12, 15, rng):
        city.road([(0, y), (SIZE, y + 3)], STREET)
    city.carve(box(0, 62, SIZE, 11))
    for k, x in enumerate((6, 29, 52, 75, 98)):
        city.carve(box(x, 66, 15, 40 + 13 * ((k * 3) % 4) / 3))
        city.build(box(x + 5, 77, 5, 10))
        city.build(box(x + 5, 92, 5, 8))
    city.carve(box(120, 66, 6, 60))
    city.carve(box(98, 119, 28, 7))
    return city


def river(rng: random.Random) -> City:
    """A river with five bridges, embankments on both sides, and a quarter on each."""
    city = City()
    for x in steps(4, 126, 11, 17, rng):
        city.road([(x, 0), (x - 5 + 10 * rng.random(), SIZE)], LANE)
    for y in steps(5, 126, 12, 17, rng):
        city.road([(0, y), (SIZE, y - 6 + 12 * rng.random())], STREET)
    course = wave(64, 17, 150, 0.6)
    city.carve(near(course, 14))
    city.build(near(course, 8.5))
    for x, y in course[5:44:9]:
        city.road([(x, y - 13), (x, y + 13)], 6)
    return city


def canals(rng: random.Random) -> City:
    """Half rings of water around a port, with quays, rows of houses and bridges."""
    city = City()
    x, y = MIDDLE, -6.0
    away = length(X - x, Y - y)
    for radius in (32, 56, 80, 104, 128):
        city.carve(np.abs(away - radius) < 7.5)
        city.build(np.abs(away - radius) < 2.2)
    for k in range(13):
        turn = math.pi * (k + 0.25 * rng.random()) / 12
        ends = [(x + r * math.cos(turn), y + r * math.sin(turn)) for r in (24, 150)]
        city.road(ends, LANE if k % 2 else STREET)
    city.carve(away < 29)
    city.build(away < 16)
    return city


def hills(rng: random.Random) -> City:
    """Streets along the slopes, joined by stairs."""
    city = City()
    lines = [(y, 7 * math.sin(y / 19), 96 + 30 * math.sin(y / 31)) for y in range(-8, 140, 13)]
    for k, (y, height, length) in enumerate(lines):
        city.road(wave(y, height, length, k / 5), AVENUE if k == 5 else STREET)
    for y in range(0, SIZE, 13):
        for x in steps(6 + 14 * rng.random(), 122, 20, 30, rng):
            city.road([(x, y - 4), (x + 8 * rng.random() - 4, y + 17)], LANE)
    for _ in range(4):
        city.carve(disc(16 + 96 * rng.random(), 16 + 96 * rng.random(), 8))
    return city


def fortress(rng: random.Random) -> City:
    """A star-shaped wall in a field, a grid of barracks inside, five gates."""
    city = City(solid=False)
    star = [
        (MIDDLE + r * math.cos(turn), MIDDLE + r * math.sin(turn))
        for k in range(10)
        for r, turn in [((58 if k % 2 == 0 else 41), math.pi * (k / 5 - 0.5))]
    ]
    city.build(near(star, 2.6, closed=True))
    for x in range(-2, 3):
        for y in range(-2, 3):
            if abs(x) + abs(y) < 4 and (x, y) != (0, 0):
                width, height = 7 + 3 * rng.random(), 7 + 3 * rng.random()
                city.build(box(MIDDLE + 14 * x - 4.5, MIDDLE + 14 * y - 4.5, width, height))
    for k in range(5):
        turn = math.pi * ((2 * k + 1) / 5 - 0.5)
        ends = [(MIDDLE + r * math.cos(turn), MIDDLE + r * math.sin(turn)) for r in (34, 50)]
        city.road(ends, 8)
    for x, y in scattered(rng, 16, 8):
        if math.hypot(x - MIDDLE, y - MIDDLE) > 66:
            city.build(disc(x, y, 3 + 2 * rng.random()))
    return city


def suburb(rng: random.Random) -> City:
    """Small houses with gardens along winding roads, a pond and a sports ground."""
    city = City(solid=False)
    for x, y in scattered(rng, 10.6, 3):
        city.build(box(x - 3, y - 3, 4.4 + 2.5 * rng.random(), 4.4 + 2.5 * rng.random()))
    for k, y in enumerate((32, 96)):
        city.road(wave(y, 8, 80, k), 7)
    city.road([(y, x) for x, y in wave(64, 9, 90)], 7)
    city.carve(disc(98, 64, 17))
    city.build(disc(98, 64, 11))
    city.carve(box(12, 52, 30, 22))
    return city


def campus(rng: random.Random) -> City:
    """Large buildings on open ground: courts, wings, halls and towers."""
    city = City(solid=False)
    shapes = ("court", "wings", "hall", "tower")
    for k, (x, y) in enumerate(scattered(rng, 25.4, 5)):
        left, top, shape = x - 9, y - 9, shapes[(k + k // 5 + int(2 * rng.random())) % 4]
        wide, high = 15 + 4 * rng.random(), 15 + 4 * rng.random()
        if shape == "tower":
            city.build(disc(x, y, 5 + 3 * rng.random()))
            continue
        city.build(box(left, top, wide, high if shape != "hall" else 8))
        if shape == "court":
            city.carve(box(left + 4, top + 4, wide - 8, high - 8))
            city.carve(box(left + wide / 2 - 2.5, top + high / 2, 5, high))
        if shape == "wings":
            city.carve(box(left + 5, top + 5, wide, high))
    return city


def yards(rng: random.Random) -> City:
    """Warehouses, rows of wagons between tracks, tanks, and a road around everything."""
    city = City(solid=False)
    for k in range(5):
        for x in steps(10, 100, 20, 27, rng):
            city.build(box(x, 10 + 7.5 * k, 12 + 5 * rng.random(), 3.5))
    for x in (9, 42, 75, 102):
        city.build(box(x, 56, 20 + 5 * rng.random(), 22))
    city.road([(0, 67), (SIZE, 67)], 4)
    for y in (92, 106, 119):
        for x in range(14, 66, 13):
            city.build(disc(x, y, 4.4))
    for k in range(3):
        city.build(box(70 + 18 * k, 88, 9, 28 + 6 * rng.random()))
    return city


MAKERS: dict[str, Callable[[random.Random], City]] = {
    make.__name__: make
    for make in (
        avenues,
        campus,
        canals,
        fortress,
        grid,
        harbour,
        hills,
        old_town,
        radial,
        river,
        suburb,
        yards,
    )
}


def raster(name: str) -> np.ndarray:
    """Return bools (128, 128) of a city, True if impassable; only connected free cells remain."""
    solid = MAKERS[name](random.Random(f"city {name}")).solid
    solid = ndimage.binary_opening(np.pad(solid, 3, mode="edge"), np.ones((3, 3)))
    solid[:4] = solid[-4:] = solid[:, :4] = solid[:, -4:] = True
    solid = ndimage.binary_closing(solid, np.ones((3, 3)))[3:-3, 3:-3]
    for _ in range(100):
        parts, count = ndimage.label(open_cells(solid))
        sizes = np.bincount(parts.ravel())[1:]
        reached = parts == 1 + int(sizes.argmax())
        mended = (solid | ~ndimage.binary_dilation(reached, iterations=2)) & ~leaks(solid, reached)
        if (mended == solid).all() and count == 1:
            return solid
        solid = mended
    raise RuntimeError(f"{name} does not come to rest.")


def leaks(solid: np.ndarray, reached: np.ndarray) -> np.ndarray:
    """Solid cells that an agent could enter from a free one, because no disc blocks it."""
    hollow = ~movingai.outlines(solid, movingai.Params().low_thr)
    hollow[[0, -1], :] = hollow[:, [0, -1]] = False
    return solid & hollow & ndimage.binary_dilation(reached)


def open_cells(solid: np.ndarray) -> np.ndarray:
    """Cells (128, 128) that are free in the environment; the outermost ring never is."""
    cells = ~(solid | movingai.outlines(solid, movingai.Params().low_thr))
    cells[[0, -1], :] = cells[:, [0, -1]] = False
    return cells


def octile(solid: np.ndarray) -> str:
    """Text of a raster in the octile format."""
    rows = ["".join("@" if cell else "." for cell in row) for row in solid]
    return "\n".join(["type octile", f"height {SIZE}", f"width {SIZE}", "map", *rows]) + "\n"


def ways(free: np.ndarray) -> sparse.csr_matrix:
    """Graph of steps between free cells, in lengths; a diagonal needs both cells beside it."""
    number = np.full(free.shape, -1)
    number[free] = np.arange(free.sum())
    one, other, length = [], [], []
    for dy, dx in ((0, 1), (1, 0), (1, 1), (1, -1)):
        y, x = np.nonzero(free)
        inside = (y + dy < free.shape[0]) & (x + dx >= 0) & (x + dx < free.shape[1])
        y, x = y[inside], x[inside]
        fits = free[y + dy, x + dx] & free[y, x + dx] & free[y + dy, x]
        one.append(number[y[fits], x[fits]])
        other.append(number[y[fits] + dy, x[fits] + dx])
        length.append(np.full(fits.sum(), CELL * math.hypot(dx, dy)))
    shape = (int(free.sum()),) * 2
    pairs = (np.concatenate(one), np.concatenate(other))
    return sparse.csr_matrix((np.concatenate(length), pairs), shape)


def farthest(free: np.ndarray) -> float:
    """Longest path from the most central cell to any other; no two cells are twice that apart."""
    graph, best = ways(free), math.inf
    y, x = np.nonzero(free)
    for cell in np.argsort(np.hypot(x - MIDDLE, y - MIDDLE), kind="stable")[:400:8]:
        away = csgraph.dijkstra(graph, directed=False, indices=int(cell))
        best = min(best, float(away.max()))
    return best


def shuffled(cells: np.ndarray, *key: int) -> np.ndarray:
    """Cells in a random order that is determined by the key."""
    seed = sum(part << (16 * k) for k, part in enumerate(key))
    keys = draw(streams(np.full(len(cells), seed), np.arange(len(cells)), 29))
    return cells[np.argsort(keys, kind="stable")]


def instances(free: Sequence[np.ndarray], agents: int) -> dict[str, np.ndarray]:
    """Starts and goals (episodes, agents) as cells inside the ring, with the cities in rotation."""
    episodes = EPISODES_PER_CITY * len(free)
    city = np.arange(episodes) % len(free)
    starts, goals = np.zeros((2, episodes, agents), np.int16)
    for k in range(episodes):
        cells = np.flatnonzero(free[city[k]][1:-1, 1:-1])
        starts[k] = shuffled(cells, k, agents, 1)[:agents]
        goals[k] = _goals(starts[k], list(shuffled(cells, k, agents, 2)))
    return {"map_index": city.astype(np.int16), "agent_cell": starts, "goal_cell": goals}


def _goals(starts: Iterable[int], cells: list[int]) -> list[int]:
    """For every start the first unused cell that is not too near to it."""
    goals = []
    for start in starts:
        y, x = divmod(int(start), SIZE - 2)
        for place, cell in enumerate(cells):
            v, u = divmod(int(cell), SIZE - 2)
            if CELL * math.hypot(u - x, v - y) >= NEAREST:
                goals.append(cells.pop(place))
                break
    return goals


def files(agents: Sequence[int] = AGENTS) -> Iterator[tuple[Path, bytes]]:
    """All files with their contents: the maps, then the start positions in their archive."""
    rasters = {name: raster(name) for name in sorted(MAKERS)}
    for name, solid in rasters.items():
        yield CITIES / f"{name}.map", octile(solid).encode()
    free = [open_cells(solid) for solid in rasters.values()]
    for name, cells in zip(rasters, free, strict=True):
        if farthest(cells) > FARTHEST:
            raise RuntimeError(f"{name} has ways longer than {2 * FARTHEST:g}; shorten them.")
    for count in agents:
        content = pack(instances(free, count), compressed=False)
        yield archive.INSTANCES / f"cities_a{count}.npz", content


def picture(file: Path) -> None:
    """Draw all cities on one sheet."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(12, 9.4), layout="constrained")
    for ax, name in zip(figure.subplots(3, 4).ravel(), sorted(MAKERS), strict=True):
        solid = raster(name)
        free = open_cells(solid)
        ax.imshow(np.where(solid, 2, np.where(free, 0, 1)), cmap="gray_r", interpolation="nearest")
        ax.set_title(f"{name}: {free.sum():,} free cells, {farthest(free):.1f}", fontsize=9)
        ax.set_axis_off()
    figure.savefig(file, dpi=110)


def main() -> None:
    """Write the files, or name those that differ from the files of the package."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--check", action="store_true", help="compare instead of writing")
    parser.add_argument("--picture", type=Path, help="draw all cities into this file instead")
    asked = parser.parse_args()
    if asked.picture is not None:
        picture(asked.picture)
        return
    differing, stored = 0, archive.stored()
    for path, content in files():
        frozen = path.parent == archive.INSTANCES
        before = stored.get(path.name) if frozen else path.is_file() and path.read_bytes()
        same = before == content
        differing += not same
        if not asked.check and frozen:
            archive.put(path.name, content)
        elif not asked.check:
            path.parent.mkdir(exist_ok=True)
            path.write_bytes(content)
        digest = hashlib.sha256(content).hexdigest()
        print(f"{path.name:<18} sha256 = {digest}{'' if same else '  # differs'}", flush=True)
    if asked.check and differing:
        raise SystemExit(f"{differing} files differ from those of the package.")


if __name__ == "__main__":
    main()
