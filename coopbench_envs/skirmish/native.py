"""Units on the clock of StarCraft II's speed "normal": 16 ticks a second, cooldowns in whole ticks.

The files of units state times of the speed "faster", which runs 1.4 times as fast.
"""

import math
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from coopbench_envs.skirmish.army import FLIES, Army
from coopbench_envs.skirmish.scenario import Scenario
from coopbench_envs.skirmish.units import TICKS_PER_SECOND, UnitType

__all__ = ["LAYERS", "OVER_CLIFFS", "RANGES", "SIGHT", "Kinds", "kinds_of", "native", "ordered"]

_FASTER = 1.4
SIGHT = 13  # the column of ``Kinds.stats`` behind those of ``Army.stats``
RANGES = "unit", "smacv2", "smac"  # what sight and legal orders to attack follow from
LAYERS = GROUND, AIR, OVER_CLIFFS = 0, 1, 2
# Numbers of this package's units that are no conversion: speeds (cells per second) and health per
# second of SMAC's maps, and the Baneling of StarCraft II.
_SPEEDS = {"STALKER": 2.9531, "ZERGLING": 2.9531, "BANELING": 2.5, "MEDIVAC": 2.75}
_REGENERATION = 0.2734  # of Zerg
_SIGHTS = {
    **{"STALKER": 10.0, "ZEALOT": 9.0, "COLOSSUS": 10.0, "ZERGLING": 8.0, "BANELING": 8.0},
    **{"HYDRALISK": 9.0, "MARINE": 9.0, "MARAUDER": 10.0, "MEDIVAC": 11.0, "SPINE_CRAWLER": 11.0},
}
_USUAL_SIGHT, _USUAL_LIMIT = 9.0, 6.0  # of all units in SMAC
_LEAST_LIMIT = 2.0  # distance at which units that fight hand to hand may be told to attack


class Kinds(NamedTuple):
    """What kinds of units are and do, as the kernels read them."""

    stats: np.ndarray  # (kinds, 14) float64, times in ticks; columns of Army.stats, SIGHT
    traits: np.ndarray  # (kinds, TRAITS) int64, columns of Army.traits
    layer: np.ndarray  # (kinds,) int64, one of LAYERS: only units of one layer touch
    harm: np.ndarray  # (kinds, kinds) float64, damage of one blow before armour
    reach: np.ndarray  # (kinds, kinds) float64, distance between centres of an attack
    legal: np.ndarray  # (kinds, kinds) float64, distance up to which ordering it is legal


def native(scenario: Scenario) -> Scenario:
    """Return the map with its units on this clock: speed in cells per tick, cooldown in ticks."""
    kinds = {kind: _native(kind) for kind in scenario.kinds}
    return replace(scenario, kinds=tuple(kinds[kind] for kind in scenario.kinds))


def _native(kind: UnitType) -> UnitType:
    speed = _SPEEDS.get(kind.name, kind.speed / _FASTER)
    is_baneling = kind.name == "BANELING"
    is_bundled = kind.name in _SIGHTS
    return replace(
        kind,
        speed=speed / TICKS_PER_SECOND,
        cooldown=float(round(kind.cooldown * _FASTER * TICKS_PER_SECOND)),
        regeneration=(
            _REGENERATION if is_bundled and kind.regeneration > 0 else kind.regeneration / _FASTER
        ),
        damage=16.0 if is_baneling else kind.damage,
        bonuses=(("LIGHT", 19.0),) if is_baneling else kind.bonuses,
    )


def ordered(scenario: Scenario) -> Scenario:
    """Return the map with its units in the order of SMAC: by kind, then by place.

    The places of enemies are counted from the other side, so that equal teams mirror each other.
    """
    n = scenario.num_allies
    sign = np.where(np.arange(len(scenario.kinds)) < n, 1.0, -1.0)
    x, y = sign * scenario.positions[:, 0], sign * scenario.positions[:, 1]
    seats = np.lexsort((y.round(4), x.round(4), scenario.type_ids, sign < 0))
    return replace(
        scenario,
        kinds=tuple(scenario.kinds[k] for k in seats),
        positions=scenario.positions[seats],
        order=np.arange(len(seats)),
        type_ids=scenario.type_ids[seats],
    )


def kinds_of(scenario: Scenario, army: Army, *, ranges: str, free: bool) -> Kinds:
    """Return the numbers of the kinds of a map.

    ``ranges``: one of ``RANGES``. ``free``: orders to attack are legal at any distance.
    """
    kinds = tuple(dict.fromkeys(scenario.kinds))
    first = [scenario.kinds.index(kind) for kind in kinds]
    differ = ranges != "smac"
    sight = [_SIGHTS.get(k.name, _USUAL_SIGHT) if differ else _USUAL_SIGHT for k in kinds]
    reach = np.array([[a.attack_range + b.radius + a.radius for b in kinds] for a in kinds])
    traits = army.traits[first]
    climbs = np.array(["MASSIVE" in kind.attributes for kind in kinds])
    return Kinds(
        stats=np.column_stack([army.stats[first], sight]),
        traits=traits,
        layer=np.where(traits[:, FLIES] == 1, AIR, np.where(climbs, OVER_CLIFFS, GROUND)),
        harm=army.harm,
        reach=reach,
        legal=np.full_like(reach, math.inf) if free else _limits(kinds, reach, ranges),
    )


def _limits(kinds: tuple[UnitType, ...], reach: np.ndarray, ranges: str) -> np.ndarray:
    """Return the distances between centres up to which one kind may be told to attack another."""
    if ranges == "smac":
        return np.full_like(reach, _USUAL_LIMIT)
    if ranges == "smacv2":
        weapons = np.array([[kind.attack_range] for kind in kinds])
        return np.broadcast_to(np.maximum(weapons, _LEAST_LIMIT), reach.shape).copy()
    return np.maximum(reach, _LEAST_LIMIT)
