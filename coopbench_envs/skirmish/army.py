"""What the kernels of a battle work on: the numbers of its units, and their state.

Arrays over units hold the allies, which are the agents, and then the enemies.
"""

import re
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from coopbench_envs.skirmish.scenario import Scenario
from coopbench_envs.skirmish.terrain import walls_of
from coopbench_envs.skirmish.units import TICKS_PER_SECOND, UnitType
from coopbench_envs.states import Array, array, lane_of, state

__all__ = [
    "LISTED",
    "SHARED",
    "TICKS",
    "Army",
    "Rewards",
    "State",
    "action_numbers",
    "army_of",
    "per_unit",
    "unit_numbers",
    "views",
    "words",
]

TICKS = 8  # of a step
LISTED = 4  # ticks after which the lists of possible neighbours are made anew

# Columns of ``Army.stats``.
STATS = 13
HP, SHIELD, ENERGY, FIRST_ENERGY, REGENERATION, ARMOUR, COOLDOWN = range(7)
SPEED, SCAN, RADIUS, BLAST, BEAM_WIDTH, BEAM_HEIGHT = range(7, STATS)
# Columns of ``Army.traits``.
TRAITS = 7
KIND, HEALS, FLIES, HITS_GROUND, HITS_AIR, BLOWS, TYPE = range(TRAITS)


class Army(NamedTuple):
    """The units of a map and its ground, as the kernels read them."""

    num_agents: int
    num_enemies: int
    choices: int  # actions of an agent
    stats: np.ndarray  # (units, STATS) float64, see the columns above; regeneration is by tick
    traits: np.ndarray  # (units, TRAITS) int64
    harm: np.ndarray  # (kinds, kinds) float64, damage of one blow before armour
    reach: np.ndarray  # (kinds, kinds) float32, distance between centres of an attack
    reach_square: np.ndarray  # (kinds, kinds) float32
    names: np.ndarray  # (units, 40) uint8, the word for each unit, filled up with zeros
    start: np.ndarray  # (units, 2) float32
    order: np.ndarray  # (units,) int64, the order in which units are treated
    walls: np.ndarray  # (walls, 4) float64, x, y, width and height
    # Walls that a unit can be within reach of, cell by cell and row by row; then all of them.
    wall_first: np.ndarray  # (cells + 2,) int32, where the walls of a cell begin
    wall_list: np.ndarray  # int32
    terrain: np.ndarray  # (rows, columns) bool, cells that can be walked on
    heights: np.ndarray  # (rows, columns) float64; empty if not observed
    max_radius: float  # of any unit
    nearby: float  # distance of units that can become neighbours before lists are made anew
    opponent: int  # what the enemies do, see targets.py
    obeys: bool  # enemies do what ``State.orders`` says, as agents do what their actions say
    attack_x: float  # where the enemies walk
    attack_y: float
    type_bits: int  # entries that tell kinds of units apart
    ally_shields: bool  # shields of agents are shown
    enemy_shields: bool  # shields of enemies are shown
    has_healers: bool  # among the agents
    has_splash: bool  # some unit explodes or fires beams
    max_reward: float  # of a won battle, before it is scaled


class Rewards(NamedTuple):
    """How blows, deaths and the outcome are paid."""

    sparse: bool  # 1 for a victory, -1 for a defeat, otherwise 0
    only_positive: bool  # losses of agents are not subtracted
    death: float  # of an enemy
    win: float  # of a victory
    defeat: float  # of a defeat
    negative: float  # share at which what agents lose is subtracted
    scale: float  # by which the sum is multiplied


def _units(c: Any) -> int:
    return len(c.army.stats)


def unit_numbers(c: Any) -> tuple[int, int]:
    """Return the bounds of arrays that hold units, -1 for none."""
    return -1, _units(c) - 1


def action_numbers(c: Any) -> tuple[int, int]:
    """Return the bounds of arrays that hold actions, -1 for none."""
    return -1, c.army.choices - 1


def points(column: int) -> Callable[[Any], tuple[Any, Any]]:
    """Return bounds of points that a unit has left: from 0 to this column of ``Army.stats``."""
    return lambda c: (0.0, c.army.stats[:, column])


def per_unit(meaning: str, dtype: Any = np.float64, **more: Any) -> Array:
    """Declare an array over the units of a battle."""
    return array(meaning, _units, dtype=dtype, **more)


# What both versions of the game declare alike.
SHARED = {
    "hp": per_unit("health", bounds=points(HP)),
    "shield": per_unit("points of the shield", bounds=points(SHIELD)),
    "energy": per_unit("points of energy", bounds=points(ENERGY)),
    "living": per_unit("has not fallen", np.bool_, start=True),
    "target": per_unit("unit that is aimed at, -1: none", np.int64, start=-1, bounds=unit_numbers),
    "last": array(
        "last action, -1 before any",
        "army.num_agents",
        dtype=np.int64,
        start=-1,
        bounds=action_numbers,
    ),
    "contact": array("steps before the first damage, -1 before it", dtype=np.int64, start=-1),
    "orders": array(
        "actions of enemies that a policy plays", "army.num_enemies", dtype=np.int64, scratch=True
    ),
    "roll": per_unit("the living, in the order of treatment", np.int64, scratch=True),
    "before": per_unit("target before the tick", np.int64, scratch=True),
    "command": per_unit("what the unit does in the coming step", np.int64, scratch=True),
    "ordered": per_unit("target of a command to attack", np.int64, scratch=True),
    "goal_x": per_unit("goal of a command to move", scratch=True),
    "goal_y": per_unit("goal of a command to move", scratch=True),
    "near": array(
        "units that may come close to each unit", _units, _units, dtype=np.int16, scratch=True
    ),
    "near_count": per_unit("how many these are", np.int64, scratch=True),
    "sums": array("sums of a step, see combat.py and strikes.py", 3, scratch=True),
}

State = state(
    __name__,
    **SHARED,
    x=per_unit("place in cells", np.float32),
    y=per_unit("place in cells", np.float32),
    vx=per_unit("velocity of the last tick", start=0),
    vy=per_unit("velocity of the last tick", start=0),
    wait=per_unit("seconds until the shield grows", start=0),
    healing=per_unit("points of healing that energy has been paid for", start=0),
    cooldown=per_unit("seconds until the next attack", start=0),
    aiming=per_unit("ready to attack from where it is", np.bool_, start=False),
    turns=array(
        "units in the order in which they act in each tick of the coming step, -1 behind them; "
        "-1 at first: the order is drawn",
        TICKS,
        _units,
        dtype=np.int16,
        bounds=unit_numbers,
    ),
    dealt=array("health and shields that enemies have lost to agents", start=0),
    taken=array("health and shields that agents have lost", start=0),
    wasted=array("shots of agents at the dead", dtype=np.int64, start=0),
    turn=per_unit("the living in the order in which they act", np.int64, scratch=True),
    wish_x=per_unit("velocity without others", scratch=True),
    wish_y=per_unit("velocity without others", scratch=True),
    next_x=per_unit("velocity of this tick", scratch=True),
    next_y=per_unit("velocity of this tick", scratch=True),
    start_x=per_unit("position at the start of the tick", np.float32, scratch=True),
    start_y=per_unit("position at the start of the tick", np.float32, scratch=True),
    lines=array(
        "limits of velocities, see avoidance.py",
        2,
        lambda c: _units(c) + 4 * len(c.army.walls),
        4,
        scratch=True,
    ),
)
views = lane_of(State)


def army_of(
    scenario: Scenario,
    *,
    heights: bool,
    rewards: Rewards,
    opponent: int = 0,
    obeys: bool = False,
) -> Army:
    """Return the units and the ground of a map as arrays."""
    kinds = tuple(dict.fromkeys(scenario.kinds))
    units, allies = scenario.kinds, scenario.kinds[: scenario.num_allies]
    enemies = units[scenario.num_allies :]
    # What heals targets allies by number, so the last of those that can be healed decides.
    patients = [k + 1 for k, kind in enumerate(allies) if not kind.heals]
    healers = any(kind.heals for kind in allies)
    reach = np.array([[a.attack_range + b.radius + a.radius for b in kinds] for a in kinds])
    walls = walls_of(scenario.terrain)
    wall_first, wall_list = _near_walls(walls, scenario.terrain.shape, max(map(_halo, kinds)))
    radius, speed = max(kind.radius for kind in kinds), max(kind.speed for kind in kinds)
    return Army(
        num_agents=len(allies),
        num_enemies=len(enemies),
        choices=6 + max(len(enemies), max(patients) if healers else 0),
        stats=np.array([_stats(kind) for kind in units], np.float64),
        traits=np.array(
            [_traits(kind, kinds, t) for kind, t in zip(units, scenario.type_ids, strict=True)]
        ),
        harm=np.array([[a.damage_to(b) for b in kinds] for a in kinds], np.float64),
        reach=reach.astype(np.float32),
        reach_square=(reach**2).astype(np.float32),
        names=np.array([list(_word(kind).ljust(_LONGEST, b"\0")) for kind in units], np.uint8),
        start=scenario.positions.copy(),
        order=scenario.order.copy(),
        walls=walls,
        wall_first=wall_first,
        wall_list=wall_list,
        terrain=np.array(scenario.terrain),
        heights=np.array(scenario.heights) if heights else np.zeros((0, 0)),
        max_radius=radius,
        nearby=2 * radius + 2 * (LISTED - 1) * speed / TICKS_PER_SECOND + 1e-3,
        opponent=opponent,
        obeys=obeys,
        attack_x=scenario.attack_point[0],
        attack_y=scenario.attack_point[1],
        type_bits=scenario.type_bits,
        ally_shields=scenario.shields[0],
        enemy_shields=scenario.shields[1],
        has_healers=healers,
        has_splash=any(kind.blast > 0 or kind.beam_width > 0 for kind in kinds),
        max_reward=len(enemies) * rewards.death
        + rewards.win
        + sum(kind.hp + kind.shield for kind in enemies),
    )


_LONGEST = 40  # characters of the word for a unit


def _word(kind: UnitType) -> bytes:
    """Return the word for a kind in ASCII: letters, digits and underscores."""
    word = re.sub(r"[^a-z0-9_]", "_", kind.name.lower())
    return word.encode()[:_LONGEST]


def words(army: Army) -> list[str]:
    """Return the word for each unit: ``stalker``."""
    return [bytes(row).rstrip(b"\0").decode() for row in army.names]


def _stats(kind: UnitType) -> list[float]:
    names = (
        *("hp", "shield", "energy", "starting_energy", "regeneration", "armour", "cooldown"),
        *("speed", "scan", "radius", "blast", "beam_width", "beam_height"),
    )
    values = [float(getattr(kind, name)) for name in names]
    values[REGENERATION] /= TICKS_PER_SECOND
    return values


def _traits(kind: UnitType, kinds: tuple[UnitType, ...], type_id: int) -> list[int]:
    names = ("heals", "flies", "hits_ground", "hits_air", "attacks")
    return [kinds.index(kind), *(int(getattr(kind, name)) for name in names), int(type_id)]


def _halo(kind: UnitType) -> float:
    """Return the distance at which walls matter to a unit that walks on the ground."""
    return 0.0 if kind.flies else kind.radius + kind.speed


def _near_walls(
    walls: np.ndarray, shape: tuple[int, ...], reach: float
) -> tuple[np.ndarray, np.ndarray]:
    """Return the walls within ``reach`` of some point of each cell, and all walls at the end."""
    y, x = np.mgrid[: shape[0], : shape[1]] + 0.5
    lists: list[list[int]] = [[] for _ in range(x.size)]
    for w, (left, bottom, width, height) in enumerate(walls):
        dx = np.maximum(0, np.abs(x - left - width / 2) - width / 2 - 0.5)
        dy = np.maximum(0, np.abs(y - bottom - height / 2) - height / 2 - 0.5)
        for cell in np.flatnonzero(dx**2 + dy**2 <= (reach + 1e-6) ** 2):
            lists[cell].append(w)
    lists.append(list(range(len(walls))))
    first = np.cumsum([0, *map(len, lists)])
    return first.astype(np.int32), np.array([w for one in lists for w in one], np.int32)
