"""What the kernels of version 1 work on: the rules of a task, and the state of its battles.

Arrays over units hold the allies, which are the agents, and then the enemies.
"""

from typing import Any, NamedTuple

import numpy as np

from coopbench_envs.skirmish.army import action_numbers, unit_numbers
from coopbench_envs.skirmish.native import Kinds
from coopbench_envs.skirmish.paths import Ground
from coopbench_envs.states import Array, array, lane_of, state

__all__ = ["Rules", "State", "views"]


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
    obeys: bool  # enemies do what ``State.orders`` says, as agents do what their actions say
    scripted: bool  # agents do what enemies do, whatever their actions; for mirror matches
    faces: bool  # units see a cone
    half_cosine: float  # of half the angle that a unit sees


def _units(c: Any) -> int:
    return len(c.rules.kind)


def _kinds(c: Any) -> tuple[Any, Any]:
    # Kinds that are not drawn are those of the map: its numbers of choices and types follow from
    # them.
    kind = c.rules.kind
    return (0, len(c.rules.kinds.stats) - 1) if c.teams.is_drawn else (kind, kind)


def _per_unit(meaning: str, dtype: Any = np.float64, **more: Any) -> Array:
    return array(meaning, _units, dtype=dtype, **more)


State = state(
    __name__,
    x=_per_unit("place in cells", bounds=lambda c: (0, c.rules.ground.walkable.shape[1])),
    y=_per_unit("place in cells", bounds=lambda c: (0, c.rules.ground.walkable.shape[0])),
    face_x=_per_unit("direction of the last move or attack, of length 1"),
    face_y=_per_unit("direction of the last move or attack, of length 1"),
    hp=_per_unit("health"),
    shield=_per_unit("points of the shield"),
    wait=_per_unit("ticks until the shield grows", start=0),
    energy=_per_unit("points of energy"),
    cooldown=_per_unit("ticks until the next attack", start=0),
    kind=_per_unit("row of the tables of kinds", np.int64, bounds=_kinds),
    living=_per_unit("has not fallen", np.bool_, start=True),
    target=_per_unit("unit that is aimed at, -1: none", np.int64, start=-1, bounds=unit_numbers),
    patient=_per_unit(
        "whom a unit healed in the last tick, -1: nobody", np.int64, start=-1, bounds=unit_numbers
    ),
    last=array(
        "last action, -1 before any",
        "rules.num_agents",
        dtype=np.int64,
        start=-1,
        bounds=action_numbers,
    ),
    march=array("where allies that are scripted and enemies walk, x and y", 2, 2),
    dealt=array("health and shields that agents have taken from enemies", start=0),
    taken=array("health and shields that agents have lost", start=0),
    overkill=array("damage of agents beyond what their victims had left", start=0),
    contact=array("steps before the first damage, -1 before it", dtype=np.int64, start=-1),
    regained=array("points that enemies have regained and not lost again", start=0),
    orders=array(
        "actions of enemies that a policy plays", "rules.num_enemies", dtype=np.int64, scratch=True
    ),
    roll=_per_unit("the living", np.int64, scratch=True),
    before=_per_unit("target before the tick", np.int64, scratch=True),
    command=_per_unit("what the unit does in the coming step", np.int64, scratch=True),
    goal_x=_per_unit("goal of a command to move", scratch=True),
    goal_y=_per_unit("goal of a command to move", scratch=True),
    ordered=_per_unit("target of a command to attack", np.int64, scratch=True),
    aiming=_per_unit("attacks from where it stands", np.bool_, scratch=True),
    moving=_per_unit("moves in this tick", np.bool_, scratch=True),
    old_x=_per_unit("position at the start of the tick", scratch=True),
    old_y=_per_unit("position at the start of the tick", scratch=True),
    push_x=_per_unit("way by which units that overlap are moved apart", scratch=True),
    push_y=_per_unit("way by which units that overlap are moved apart", scratch=True),
    left=_per_unit("shield that the hits of this tick have left", scratch=True),
    lost=_per_unit("health taken by the hits of this tick, less what was healed", scratch=True),
    struck=_per_unit("hit in this tick", np.bool_, scratch=True),
    near=array(
        "later units that each unit may touch", _units, _units, dtype=np.int16, scratch=True
    ),
    near_count=_per_unit("how many these are", np.int64, scratch=True),
    sums=array("sums of the step: dealt, taken, overkill", 3, scratch=True),
)
views = lane_of(State)
