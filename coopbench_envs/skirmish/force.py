"""What the kernels of version 1 work on: the rules of a task, and the state of its battles.

Arrays over units hold the allies, which are the agents, and then the enemies.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from coopbench_envs.skirmish.army import ENERGY, HP, SHARED, SHIELD, per_unit, unit_numbers
from coopbench_envs.skirmish.native import Kinds
from coopbench_envs.skirmish.paths import Ground
from coopbench_envs.states import array, lane_of, state

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


def _kinds(c: Any) -> tuple[Any, Any]:
    # Kinds that are not drawn are those of the map: its numbers of choices and types follow from
    # them.
    kind = c.rules.kind
    return (0, len(c.rules.kinds.stats) - 1) if c.teams.is_drawn else (kind, kind)


def _points(column: int) -> Callable[[Any], tuple[Any, Any]]:
    """Return bounds of points that a unit has left; of units that are drawn those of any kind."""

    def bounds(c: Any) -> tuple[Any, Any]:
        most = c.rules.kinds.stats[:, column]
        return 0.0, most.max() if c.teams.is_drawn else most[c.rules.kind]

    return bounds


_POINTS = {
    name: replace(SHARED[name], bounds=_points(column))
    for name, column in (("hp", HP), ("shield", SHIELD), ("energy", ENERGY))
}
# Numbers without a sign, so that indices need no check for counting from the end of an array.
_UNSIGNED = {
    "roll": replace(SHARED["roll"], dtype=np.uint32),
    "near": replace(SHARED["near"], dtype=np.uint16),
    "row": per_unit("its kind", np.uint32, scratch=True),
}

State = state(
    __name__,
    **(SHARED | _POINTS | _UNSIGNED),
    x=per_unit("place in cells", bounds=lambda c: (0, c.rules.ground.walkable.shape[1])),
    y=per_unit("place in cells", bounds=lambda c: (0, c.rules.ground.walkable.shape[0])),
    face_x=per_unit("direction of the last move or attack, of length 1"),
    face_y=per_unit("direction of the last move or attack, of length 1"),
    wait=per_unit("ticks until the shield grows", start=0),
    cooldown=per_unit("ticks until the next attack", start=0),
    kind=per_unit("row of the tables of kinds", np.int64, bounds=_kinds),
    patient=per_unit(
        "unit healed in the last tick, -1: none", np.int64, start=-1, bounds=unit_numbers
    ),
    march=array("where allies that are scripted and enemies walk, x and y", 2, 2),
    dealt=array("health and shields that agents have taken from enemies", start=0),
    taken=array("health and shields that agents have lost", start=0),
    overkill=array("damage of agents beyond what their victims had left", start=0),
    regained=array("points that enemies have regained and not lost again", start=0),
    aiming=per_unit("attacks from where it stands", np.bool_, scratch=True),
    moving=per_unit("moves in this tick", np.bool_, scratch=True),
    old_x=per_unit("position at the start of the tick", scratch=True),
    old_y=per_unit("position at the start of the tick", scratch=True),
    push_x=per_unit("way by which units that overlap are moved apart", scratch=True),
    push_y=per_unit("way by which units that overlap are moved apart", scratch=True),
    left=per_unit("shield that the hits of this tick have left", scratch=True),
    lost=per_unit("health taken by the hits of this tick, less what was healed", scratch=True),
    struck=per_unit("hit in this tick", np.bool_, scratch=True),
)
views = lane_of(State)
