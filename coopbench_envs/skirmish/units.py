"""Kinds of units: their numbers, as ``data/units.json`` and files of users state them.

A unit has the shape of SMAClite's files: lengths in cells, times in seconds of 16 ticks.
"""

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from coopbench_envs.skirmish.reading import Fields, read_json

__all__ = ["TICKS_PER_SECOND", "UnitType", "bundled_units", "read_unit"]

TICKS_PER_SECOND = 16

_FILE = Path(__file__).parent / "data" / "units.json"
_PLANES = ("GROUND", "AIR")
_ATTRIBUTES = (
    *("LIGHT", "ARMORED", "MASSIVE", "BIOLOGICAL", "MECHANICAL", "PSIONIC"),
    *("STRUCTURE", "HEROIC"),
)
_TARGETERS = ("STANDARD", "KAMIKAZE", "LASER_BEAM", "HEAL")
_MELEE = 0.1  # attack range
_ENTRIES = (
    *("hp", "hp_regen", "shield", "energy", "starting_energy", "armor", "damage", "attacks"),
    *("bonuses", "cooldown", "speed", "attack_range", "minimum_scan_range", "size", "attributes"),
    *("combat_type", "targeter", "targeter_kwargs", "plane", "valid_targets"),
)


@dataclass(frozen=True, slots=True)
class UnitType:
    """One kind of unit. ``radius`` and ranges in cells, ``cooldown`` and ``regeneration`` by s."""

    name: str
    hp: float
    regeneration: float  # points of health per second
    shield: float
    energy: float
    starting_energy: float
    armour: float
    damage: float
    attacks: int  # blows of an attack, of which armour is subtracted each time
    bonuses: tuple[tuple[str, float], ...]  # attribute of the victim, additional damage
    cooldown: float
    speed: float
    attack_range: float  # from edge to edge
    scan: float  # distance at which an attack-moving unit notices others
    radius: float
    attributes: frozenset[str]
    heals: bool
    flies: bool
    hits_ground: bool
    hits_air: bool
    blast: float  # radius of its explosion; 0 if it does not explode
    beam_width: float  # across the shot; 0 if it fires no beam
    beam_height: float

    def damage_to(self, other: "UnitType") -> float:
        """Return what one blow does to ``other`` before armour."""
        return self.damage + sum(v for k, v in self.bonuses if k in other.attributes)


@cache
def bundled_units() -> dict[str, UnitType]:
    """Return the kinds of this package by the names that maps use: ``STALKER``."""
    return {
        name: _unit(Fields(content, f"The unit {name} in {str(_FILE)!r}", _ENTRIES), name)
        for name, content in read_json(_FILE, "file of units").items()
    }


def read_unit(path: Path, name: str) -> UnitType:
    """Read one file; raise ``ValueError`` if it is missing or an entry is not allowed."""
    return _unit(
        Fields(read_json(path, "unit file"), f"The unit file {str(path)!r}", _ENTRIES), name
    )


def _unit(fields: Fields, name: str) -> UnitType:
    """Return the kind that these entries describe; raise ``ValueError`` if one is not allowed."""
    targets = fields.words("valid_targets", _PLANES)
    if not targets:
        raise fields.wrong("valid_targets", "at least one of GROUND, AIR")
    heals = fields.word("combat_type", ("DAMAGE", "HEALING"), "DAMAGE") == "HEALING"
    energy = fields.number("energy", 0, 1e6, 0)
    attributes = fields.words("attributes", _ATTRIBUTES)
    return UnitType(
        name=name,
        hp=fields.number("hp", 0, 1e6, above=True),
        regeneration=fields.number("hp_regen", 0, 1e6, 0),
        shield=fields.number("shield", 0, 1e6, 0),
        energy=energy,
        starting_energy=fields.number("starting_energy", 0, energy, 0),
        armour=fields.number("armor", 0, 1e6),
        damage=fields.number("damage", 0, 1e6),
        attacks=fields.whole("attacks", 1, 100, 1),
        bonuses=_bonuses(fields),
        cooldown=fields.number("cooldown", 0, 1e3, above=not heals),
        speed=fields.number("speed", 0, 16),
        attack_range=_attack_range(fields),
        scan=fields.number("minimum_scan_range", 0, 1e3, 5),
        radius=fields.number("size", 0, 16, above=True) / 2,
        attributes=attributes,
        heals=heals,
        flies=fields.word("plane", _PLANES, "GROUND") == "AIR",
        hits_ground="GROUND" in targets,
        hits_air="AIR" in targets,
        **_targeter(fields, heals, energy),
    )


def _attack_range(fields: Fields) -> float:
    if fields.content.get("attack_range") == "MELEE":
        return _MELEE
    return fields.number("attack_range", 0, 1e3)


def _bonuses(fields: Fields) -> tuple[tuple[str, float], ...]:
    bonuses = fields.mapping("bonuses")
    inner = Fields(bonuses, f"{fields.where}, 'bonuses'", _ATTRIBUTES)
    return tuple((name, inner.number(name, 0, 1e6)) for name in bonuses)


def _targeter(fields: Fields, heals: bool, energy: float) -> dict[str, Any]:
    """Return the measures of an explosion or of a beam."""
    kind = fields.word("targeter", _TARGETERS, "HEAL" if heals else "STANDARD")
    if heals != (kind == "HEAL") or (heals and energy == 0):
        raise ValueError(
            f"{fields.where}: a unit that heals needs 'combat_type': 'HEALING', 'targeter': "
            f"'HEAL' and 'energy' above 0, and no other unit may have this targeter."
        )
    names = {"KAMIKAZE": ("radius",), "LASER_BEAM": ("width", "height")}.get(kind, ())
    inner = Fields(fields.mapping("targeter_kwargs"), f"{fields.where}, 'targeter_kwargs'", names)
    sizes = {name: inner.number(name, 0, 1e3, above=True) for name in names}
    return {
        "blast": sizes.get("radius", 0.0),
        "beam_width": sizes.get("width", 0.0),
        "beam_height": sizes.get("height", 0.0),
    }
