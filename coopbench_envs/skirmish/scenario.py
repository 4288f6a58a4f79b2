"""Scenarios: the maps of SMAC and those of users, read from files in the shape of SMAClite's.

A map names groups of units with the middle of each group; here the groups are laid out and checked.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from coopbench_envs.parameters import unknown
from coopbench_envs.skirmish.reading import Fields, read_json
from coopbench_envs.skirmish.terrain import read_heights, read_terrain
from coopbench_envs.skirmish.units import UnitType, bundled_units, read_unit

__all__ = ["Scenario", "bundled_maps", "laid_out_in_square", "read_scenario", "unit_files"]

_FILE = Path(__file__).parent / "data" / "maps.json"
_BUFFER = 0.05  # between the units of a group
_MOST = 200  # units of a side
_LONGEST_NAME = 200  # characters of the name of a unit's file
_ENTRIES = (
    *("name", "num_allied_units", "num_enemy_units", "groups", "attack_point", "terrain"),
    *("terrain_preset", "terrain_height", "num_unit_types", "unit_type_ids", "ally_has_shields"),
    *("enemy_has_shields", "custom_unit_path", "width", "height", "limit"),
    "enemies_follow",
)


@dataclass(frozen=True, slots=True, eq=False)
class Scenario:
    """A map with its units; arrays over units hold the allies and then the enemies."""

    name: str
    kinds: tuple[UnitType, ...]  # of each unit
    num_allies: int
    positions: np.ndarray  # (units, 2) float32, at the start
    order: np.ndarray  # (units,) int64, the units in the order in which the map places them
    attack_point: tuple[float, float]  # where the enemies walk
    terrain: np.ndarray  # (rows, columns) bool, cells that can be walked on, row 0 at y = 0
    heights: np.ndarray | None  # (rows, columns) in [0, 1]
    shields: tuple[bool, bool]  # whether allies and enemies show their shields
    type_bits: int  # entries that say of which kind a unit is; 0 if there is one kind
    type_ids: np.ndarray  # (units,) int64, which of these entries
    limit: int | None  # steps of an episode
    follow: bool = False  # version 1: the enemies walk to the agents, not to the attack point

    @property
    def num_enemies(self) -> int:
        """Number of enemies."""
        return len(self.kinds) - self.num_allies


@dataclass(frozen=True, slots=True)
class _Group:
    where: str  # its name in error messages
    number: int
    x: float
    y: float
    is_ally: bool
    kinds: tuple[UnitType, ...]


def bundled_maps() -> tuple[str, ...]:
    """Return the names of the maps of this package."""
    return tuple(_bundled())


@cache
def bundled(name: str) -> Scenario:
    """Return a map of this package."""
    return _scenario(Fields(_bundled()[name], f"The map {name} in {str(_FILE)!r}", _ENTRIES), _FILE)


@cache
def _bundled() -> dict[str, Any]:
    """Return what the file of maps holds, by name."""
    return read_json(_FILE, "file of maps")


def read_scenario(path: Path) -> Scenario:
    """Read a map and lay out its groups.

    Raises:
        ValueError: an entry of the map or of one of its units is missing or not allowed, the file
            of a unit has the name of a unit of this package, a side has no units, a unit stands in
            a wall, outside the map, or in another one, or the attack point lies outside the map.
    """
    return _scenario(_fields(path), path)


def _scenario(fields: Fields, path: Path) -> Scenario:
    """Lay out the groups of a map; its own units lie beside the file at ``path``."""
    groups = _groups(fields, path)
    terrain = read_terrain(fields)
    sides = [[g for g in groups if g.is_ally], [g for g in groups if not g.is_ally]]
    counts = [sum(len(g.kinds) for g in side) for side in sides]
    for name, side, count in zip(_COUNTS, _SIDES, counts, strict=True):
        if count == 0:
            raise ValueError(f"{fields.where}: {side} has no units; add a group with this faction.")
        if count > _MOST or fields.whole(name, 1, _MOST, count) != count:
            raise fields.wrong(name, f"{count}, as its groups have, and at most {_MOST}")
    _check_healers(fields, sides)
    kinds, positions, order, groups_of = _laid_out(groups, counts[0])
    _check_positions(fields, kinds, positions, groups_of, terrain)
    bits, ids = _type_ids(fields, kinds, counts[0])
    return Scenario(
        name=str(fields.content.get("name", path.stem)),
        kinds=kinds,
        num_allies=counts[0],
        positions=positions,
        order=order,
        attack_point=_point(fields, terrain),
        terrain=terrain,
        heights=read_heights(fields, terrain.shape),
        shields=_shields(fields, kinds, counts[0]),
        type_bits=bits,
        type_ids=ids,
        limit=fields.whole("limit", 1, 1_000_000) if "limit" in fields else None,
        follow=fields.flag("enemies_follow", False),
    )


_COUNTS, _SIDES = ("num_allied_units", "num_enemy_units"), ("ALLY", "ENEMY")


def unit_files(path: Path) -> list[Path]:
    """Return the files of the units of a map that are not those of this package."""
    fields = _fields(path)
    names = {name for group in _entries(fields) for name in group.mapping("units")}
    if len(names) > 2 * _MOST:
        raise ValueError(f"{fields.where} names {len(names):,} units; allowed: up to {2 * _MOST}.")
    return sorted(_unit_file(fields, path, name) for name in names - bundled_units().keys())


def _fields(path: Path) -> Fields:
    return Fields(read_json(path, "map file"), f"The map file {str(path)!r}", _ENTRIES)


def _entries(fields: Fields) -> list[Fields]:
    """Return the groups of a map file."""
    groups = fields.content.get("groups")
    if not isinstance(groups, list) or not groups or not all(isinstance(g, dict) for g in groups):
        raise fields.wrong("groups", "a list of objects with x, y, faction and units")
    names = ("x", "y", "faction", "units")
    return [Fields(g, f"{fields.where}, group {k}", names) for k, g in enumerate(groups)]


def _groups(fields: Fields, path: Path) -> list[_Group]:
    return [
        _Group(
            where=entry.where,
            number=k,
            x=entry.number("x", -1e6, 1e6),
            y=entry.number("y", -1e6, 1e6),
            is_ally=entry.word("faction", _SIDES) == "ALLY",
            kinds=_kinds(entry, fields, path),
        )
        for k, entry in enumerate(_entries(fields))
    ]


def _kinds(entry: Fields, fields: Fields, path: Path) -> tuple[UnitType, ...]:
    units = entry.mapping("units")
    inner = Fields(units, f"{entry.where}, 'units'", tuple(units))
    kinds: list[UnitType] = []
    for name in units:
        kinds += [_kind(fields, path, name, entry.where)] * inner.whole(name, 0, _MOST)
    return tuple(kinds)


def _kind(fields: Fields, path: Path, name: str, where: str) -> UnitType:
    if name in bundled_units():
        return bundled_units()[name]
    file = _unit_file(fields, path, name)
    stem = name.removesuffix(".json")
    if stem in bundled_units():  # rules, observations and names of agents go by the name
        raise ValueError(
            f"{where}: the unit {name!r} has the name of a unit of this package. Rename "
            f"{str(file)!r} for a unit of your own, or write {stem!r} for that of this package."
        )
    if len(file.name) > _LONGEST_NAME or not file.is_file():
        message = unknown("unit", name, bundled_units(), where)
        if name.upper() in bundled_units():
            message += f" Write {name.upper()!r}, in capitals."
        raise ValueError(f"{message} A unit of your own is read from {str(file)!r}.")
    return read_unit(file, stem)


def _unit_file(fields: Fields, path: Path, name: str) -> Path:
    """Return the file of a unit: in ``custom_unit_path``, which begins at the map's folder."""
    folder = fields.content.get("custom_unit_path", ".")
    if not isinstance(folder, str):
        raise fields.wrong("custom_unit_path", "a folder, as text")
    return path.parent / folder / f"{name.removesuffix('.json')}.json"


def _check_healers(fields: Fields, sides: Sequence[Sequence[_Group]]) -> None:
    """Raise ``ValueError`` if a side has more units that heal than units that can be healed."""
    for name, side in zip(_SIDES, sides, strict=True):
        healers = sum(kind.heals for group in side for kind in group.kinds)
        others = sum(not kind.heals for group in side for kind in group.kinds)
        if healers > others:
            groups = [str(g.number) for g in side if any(kind.heals for kind in g.kinds)]
            raise ValueError(
                f"{fields.where}: {name} has {healers} units that heal, in group "
                f"{' and '.join(groups)}, and {others} that they can heal; add units that fight, "
                f"or leave healers out."
            )


def _laid_out(
    groups: Sequence[_Group], num_allies: int
) -> tuple[tuple[UnitType, ...], np.ndarray, np.ndarray, list[_Group]]:
    """Return kind, position and group of each unit, allies first, and the order of placement."""
    placed = [
        (kind, x, y, group)
        for group in groups
        for kind, (x, y) in zip(group.kinds, _places(group), strict=True)
    ]
    is_ally = np.array([group.is_ally for *_, group in placed])
    seats = np.argsort(~is_ally, kind="stable")
    order = np.empty(len(placed), np.int64)
    order[seats] = np.arange(len(placed))
    kinds = tuple(placed[k][0] for k in seats)
    positions = np.array([placed[k][1:3] for k in seats], np.float32)
    return kinds, positions, order, [placed[k][3] for k in seats]


def _places(group: _Group) -> list[tuple[float, float]]:
    return laid_out_in_square(group.x, group.y, group.kinds, is_ally=group.is_ally)


def laid_out_in_square(
    x: float, y: float, units: Sequence[UnitType], *, is_ally: bool
) -> list[tuple[float, float]]:
    """Lay units out row by row in a square around (x, y); enemies are its image in the middle."""
    side = math.ceil(math.sqrt(len(units)))
    rows = [units[k * side : (k + 1) * side] for k in range(side)]
    radii = [max((kind.radius for kind in row), default=0.0) for row in rows]
    width = max((sum(2 * kind.radius for kind in row) for row in rows), default=0.0)
    height = 2 * sum(radii) + (side - 1) * _BUFFER
    sign = 1 if is_ally else -1
    left, y = x - sign * width / 2, y - sign * height / 2
    places, below = [], 0.0
    for row, radius in zip(rows, radii, strict=True):
        x, beside = left, 0.0
        y += sign * (below + radius)
        below = radius
        for kind in row:
            x += sign * (beside + kind.radius)
            beside = kind.radius
            places.append((x, y))
            x += sign * _BUFFER
        y += sign * _BUFFER
    return places


def _check_positions(
    fields: Fields,
    kinds: Sequence[UnitType],
    positions: np.ndarray,
    groups: Sequence[_Group],
    terrain: np.ndarray,
) -> None:
    """Raise ``ValueError`` for a unit outside the map, in a wall, or in one of another group."""
    height, width = terrain.shape
    for u, (x, y) in enumerate(positions):
        where = f"{groups[u].where}: the {kinds[u].name} at ({x:.2f}, {y:.2f})"
        if not (0 <= x < width and 0 <= y < height):
            raise ValueError(
                f"{where} stands outside the map of {width} x {height} cells; move the group, or "
                f"enlarge the terrain."
            )
        if not kinds[u].flies and not terrain[int(y), int(x)]:
            raise ValueError(f"{where} stands in a wall; move the group, or change the terrain.")
        for v in range(u):
            if groups[v] is groups[u] or kinds[v].flies != kinds[u].flies:
                continue
            distance = math.dist(positions[u], positions[v])
            if distance < 0.99 * (kinds[u].radius + kinds[v].radius):
                raise ValueError(
                    f"{where} overlaps the {kinds[v].name} at ({positions[v][0]:.2f}, "
                    f"{positions[v][1]:.2f}) of group {groups[v].number}; move the groups apart."
                )


def _point(fields: Fields, terrain: np.ndarray) -> tuple[float, float]:
    point: Any = fields.content.get("attack_point")
    if not isinstance(point, list) or len(point) != 2:
        raise fields.wrong("attack_point", "two numbers, [x, y]")
    inner = Fields({"x": point[0], "y": point[1]}, f"{fields.where}, 'attack_point'", ("x", "y"))
    rows, columns = terrain.shape
    return inner.number("x", 0, columns), inner.number("y", 0, rows)


def _shields(fields: Fields, kinds: Sequence[UnitType], num_allies: int) -> tuple[bool, bool]:
    """Return whether each side shows shields; by default if one of its units has a shield."""
    allies, enemies = kinds[:num_allies], kinds[num_allies:]
    return (
        fields.flag("ally_has_shields", any(kind.shield > 0 for kind in allies)),
        fields.flag("enemy_has_shields", any(kind.shield > 0 for kind in enemies)),
    )


def _type_ids(fields: Fields, kinds: Sequence[UnitType], num_allies: int) -> tuple[int, np.ndarray]:
    """Return the number of entries for the kind of a unit, and the entry of each unit.

    Where each side has units of one kind alone, no entry need tell them apart.
    """
    names = list(dict.fromkeys(kind.name for kind in kinds))
    bits = fields.whole("num_unit_types", 0, _MOST, len(names))
    sides = kinds[:num_allies], kinds[num_allies:]
    if any(len({kind.name for kind in side}) > 1 for side in sides):
        fewest = 2 if "unit_type_ids" in fields else len(names)
        if bits < fewest:
            raise fields.wrong(
                "num_unit_types", f"at least {fewest}, because units of a side are of several kinds"
            )
    if bits <= 1:
        return 0, np.zeros(len(kinds), np.int64)
    ids = fields.mapping("unit_type_ids") or {name: k for k, name in enumerate(names)}
    inner = Fields(ids, f"{fields.where}, 'unit_type_ids'", tuple(ids))
    numbers = {name.removesuffix(".json"): inner.whole(name, 0, bits - 1) for name in ids}
    for name in names:
        if name not in numbers:
            raise fields.wrong("unit_type_ids", f"a number for every kind of unit, also {name}")
    return bits, np.array([numbers[kind.name] for kind in kinds], np.int64)
