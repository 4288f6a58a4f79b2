"""Dynamics: how actions and the forces of contacts move an agent during one substep."""

import math
from typing import Annotated, NamedTuple

from coopbench_envs.core import routine
from coopbench_envs.parameters import between
from coopbench_envs.pathfinding.contacts import apart


class Holonomic(NamedTuple):
    """Parameters of ``dynamics="holonomic"``: the action is a force in any direction."""

    accel: Annotated[float, between(0, 1e6, "force per unit of action")] = 5.0
    max_speed: Annotated[float, between(-1e6, 1e6, "cap of the speed; < 0: none")] = 6.0
    damping: Annotated[float, between(0, 1, "share of velocity lost per substep")] = 0.25
    mass: Annotated[float, between(0, 1e6, "mass of an agent", above=True)] = 1.0
    dt: Annotated[float, between(0, 1e3, "duration of a substep", above=True)] = 0.01


DYNAMICS = {"holonomic": Holonomic}
HOLONOMIC = 0  # the code of dynamics is their position in DYNAMICS


def longest_way(p: Holonomic, substeps: int) -> float:
    """Length of the way of a free agent at full speed during ``substeps``."""
    speed = 0.0
    for _ in range(min(substeps, 1000)):
        speed = (1 - p.damping) * speed + math.sqrt(2) * p.accel / p.mass * p.dt
        speed = min(speed, p.max_speed) if p.max_speed >= 0 else speed
    return speed * p.dt * substeps


@routine
def move(c, s, i, actions):
    """Move every agent by one substep; the lists are stale once one has left its skin."""
    stale = False
    for a in range(c.num_agents):
        if c.dynamics_code == HOLONOMIC:
            drive(c, s, i, a, actions)
        stale = stale or not apart(s.agent_pos, s.survey_pos, i, a) <= 0.5 * c.skin
    s.stale[i] = stale


@routine
def drive(c, s, i, a, actions):
    """Holonomic substep: damped velocity, then position (semi-implicit Euler)."""
    force, velocity, pos = s.force, s.agent_vel, s.agent_pos
    kept, impulse, accel, fastest, dt = c.kept, c.impulse, c.accel, c.max_speed, c.dt
    vx = kept * velocity[i, a, 0] + impulse * (force[i, a, 0] + accel * actions[i, a, 0])
    vy = kept * velocity[i, a, 1] + impulse * (force[i, a, 1] + accel * actions[i, a, 1])
    square = vx * vx + vy * vy
    if fastest >= 0.0 and square > fastest * fastest:
        slower = fastest / math.sqrt(square)
        vx *= slower
        vy *= slower
    velocity[i, a, 0], velocity[i, a, 1] = vx, vy
    pos[i, a, 0] += vx * dt
    pos[i, a, 1] += vy * dt
