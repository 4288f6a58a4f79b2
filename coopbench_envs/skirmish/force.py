"""What the kernels of version 1 work on: the rules of a task, and the state of its battles.

Arrays over units hold the allies, which are the agents, and then the enemies.
"""

from typing import NamedTuple

import numpy as np

from coopbench_envs.skirmish.native import Kinds
from coopbench_envs.skirmish.paths import Ground

__all__ = ["SCRATCH", "Force", "Rules", "Views", "allocate"]


class Rules(NamedTuple):
    """The numbers of a task that movement and fighting follow from."""

    num_agents: int
    num_enemies: int
    kinds: Kinds
    ground: Ground
    kind: np.ndarray  # (units,) int64, row of the tables of kinds where teams are not drawn
    start: np.ndarray  # (units, 2) float64, as the map places them
    max_radius: float
    nearby: float  # distance of units that may touch before lists of neighbours are made anew
    opponent: int  # what the enemies do, see targets.py
    follows: bool  # enemies walk to the nearest agent, not to a point
    march_x: float  # where the enemies of a fixed start walk, and allies that are scripted
    march_y: float
    reaction: int  # ticks between a new target of an enemy and the first attack
    jitter: bool  # cooldowns vary by -1 to 2 ticks
    has_splash: bool  # some unit explodes or fires beams
    obeys: bool  # enemies do what ``Force.orders`` says, as agents do what their actions say
    scripted: bool  # agents do what enemies do, whatever their actions; for mirror matches
    faces: bool  # units see a cone
    half_cosine: float  # of half the angle that a unit sees


class Force(NamedTuple):
    """Arrays over lanes; axis 0 is always the lane. Fields from ``orders`` on are scratch."""

    time: np.ndarray  # (lanes,) int64, steps played; written by the driver
    x: np.ndarray  # (lanes, units) float64, in cells
    y: np.ndarray
    face_x: np.ndarray  # (lanes, units) direction of the last move or attack, of length 1
    face_y: np.ndarray
    hp: np.ndarray  # (lanes, units)
    shield: np.ndarray
    wait: np.ndarray  # (lanes, units) ticks until the shield grows
    energy: np.ndarray
    cooldown: np.ndarray  # (lanes, units) ticks until the next attack
    kind: np.ndarray  # (lanes, units) int64, row of the tables of kinds
    living: np.ndarray  # (lanes, units) bool
    target: np.ndarray  # (lanes, units) int64, unit that is aimed at, -1: none
    patient: np.ndarray  # (lanes, units) int64, whom a unit healed in the last tick, -1: nobody
    last: np.ndarray  # (lanes, agents) int64, last action, -1 before any
    march: np.ndarray  # (lanes, 2, 2) where allies that are scripted and enemies walk, x and y
    dealt: np.ndarray  # (lanes,) health and shields that agents have taken from enemies
    taken: np.ndarray  # (lanes,) health and shields that agents have lost
    overkill: np.ndarray  # (lanes,) damage of agents beyond what their victims had left
    contact: np.ndarray  # (lanes,) int64, steps before the first damage, -1: none yet
    regained: np.ndarray  # (lanes,) points that enemies have regained and not lost again
    orders: np.ndarray  # (lanes, enemies) int64, actions of enemies that a policy plays
    roll: np.ndarray  # (lanes, units) int64, the living
    before: np.ndarray  # (lanes, units) int64, target before the tick
    command: np.ndarray  # (lanes, units) int64
    goal_x: np.ndarray  # (lanes, units) of a command to move
    goal_y: np.ndarray
    ordered: np.ndarray  # (lanes, units) int64, target of a command to attack
    aiming: np.ndarray  # (lanes, units) bool, attacks from where it stands
    moving: np.ndarray  # (lanes, units) bool
    old_x: np.ndarray  # (lanes, units) position at the start of the tick
    old_y: np.ndarray
    push_x: np.ndarray  # (lanes, units) by which units that overlap are moved apart
    push_y: np.ndarray
    left: np.ndarray  # (lanes, units) shield that the hits of this tick have left
    lost: np.ndarray  # (lanes, units) health taken by the hits of this tick, less what was healed
    struck: np.ndarray  # (lanes, units) bool, hit in this tick
    near: np.ndarray  # (lanes, units, units) int16, later units that each unit may touch
    near_count: np.ndarray  # (lanes, units) int64, how many these are
    sums: np.ndarray  # (lanes, 3) of the step: dealt, taken, overkill


class Views(NamedTuple):
    """The fields of ``Force`` of one lane that a tick reads or writes."""

    x: np.ndarray
    y: np.ndarray
    face_x: np.ndarray
    face_y: np.ndarray
    hp: np.ndarray
    shield: np.ndarray
    wait: np.ndarray
    energy: np.ndarray
    cooldown: np.ndarray
    kind: np.ndarray
    living: np.ndarray
    target: np.ndarray
    patient: np.ndarray
    last: np.ndarray
    march: np.ndarray
    orders: np.ndarray
    roll: np.ndarray
    before: np.ndarray
    command: np.ndarray
    goal_x: np.ndarray
    goal_y: np.ndarray
    ordered: np.ndarray
    aiming: np.ndarray
    moving: np.ndarray
    old_x: np.ndarray
    old_y: np.ndarray
    push_x: np.ndarray
    push_y: np.ndarray
    left: np.ndarray
    lost: np.ndarray
    struck: np.ndarray
    near: np.ndarray
    near_count: np.ndarray
    sums: np.ndarray


_SCALARS = ("time", "dealt", "taken", "overkill", "contact", "regained")
_WHOLE = (
    *("time", "contact", "kind", "target", "patient", "last", "roll", "before", "command"),
    *("ordered", "orders", "near_count"),
)
_FLAGS = ("living", "aiming", "moving", "struck")
SCRATCH = frozenset(Force._fields[Force._fields.index("orders") :])


def allocate(rules: Rules, lanes: int) -> Force:
    """Return a new state for ``lanes`` battles."""
    units = len(rules.kind)
    types = {
        **dict.fromkeys(_WHOLE, np.int64),
        **dict.fromkeys(_FLAGS, np.bool_),
        "near": np.int16,
    }
    shapes = {
        **dict.fromkeys(_SCALARS, (lanes,)),
        "last": (lanes, rules.num_agents),
        "march": (lanes, 2, 2),
        "orders": (lanes, rules.num_enemies),
        "near": (lanes, units, units),
        "sums": (lanes, 3),
    }
    return Force(
        **{
            name: np.zeros(shapes.get(name, (lanes, units)), types.get(name, np.float64))
            for name in Force._fields
        }
    )
