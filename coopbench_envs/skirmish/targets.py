"""What the units of a battle aim at, and where they would like to walk, in one tick.

Agents do what their commands say. Enemies do so, too, if a policy plays them, or attack-move: they
walk to a point and attack what they meet. Units are treated one after the other, and each sees what
those before it have decided.
"""

import math

import numpy as np

from coopbench_envs.core import kernel, routine
from coopbench_envs.skirmish.army import (
    FLIES,
    HEALS,
    HITS_AIR,
    HITS_GROUND,
    HP,
    KIND,
    RADIUS,
    SCAN,
    SPEED,
)

__all__ = [
    "ATTACK",
    "MARCH",
    "MOVE",
    "OPPONENTS",
    "STOP",
    "aim",
    "distance",
    "drop_targets",
    "hits",
    "is_within",
]

STOP, MOVE, ATTACK, MARCH = range(4)  # commands; MARCH is to attack-move
# What enemies do. ATTACK_MOVE are the rules of SMAClite; HOLD do not walk; KITE step back from
# those that have less reach while they cannot attack.
OPPONENTS = ("attack_move", "focus_fire", "kite", "hold")
ATTACK_MOVE, FOCUS_FIRE, KITE, HOLD = range(4)
_FAR = 2e9  # distance of an attacker that is out of sight


@routine
def is_within(dx, dy, reach, square):
    """Return whether the float32 vector (dx, dy) is at most ``reach`` long, in float32."""
    dx, dy = abs(dx), abs(dy)
    if dx > reach or dy > reach:
        return False
    return dx + dy <= reach or dx * dx + dy * dy <= square


@kernel
def _reaches(c, b, u, v):
    """Return whether ``v`` is within the attack range of ``u``."""
    one, other = c.traits[u, KIND], c.traits[v, KIND]
    dx, dy = b.x[u] - b.x[v], b.y[u] - b.y[v]
    return is_within(dx, dy, c.reach[one, other], c.reach_square[one, other])


@routine
def hits(traits, u, v):
    """Return whether ``u`` can attack where ``v`` is, on the ground or in the air.

    Both are rows of ``traits``.
    """
    return traits[u, HITS_AIR if traits[v, FLIES] else HITS_GROUND] == 1


@routine
def distance(x, y, u, v):
    """Return the distance between two units."""
    dx = np.float64(x[u]) - np.float64(x[v])
    dy = np.float64(y[u]) - np.float64(y[v])
    return math.sqrt(dx * dx + dy * dy)


@kernel
def drop_targets(c, b, n):
    """Let all units drop targets that they may not keep; return if an enemy that fights has none.

    The order of units matters: whether an enemy keeps its target depends on its target's target.
    """
    idle = False
    for k in range(n):
        u = b.roll[k]
        v = b.target[u]
        b.before[u] = v
        if b.command[u] != MARCH:
            v = b.ordered[u] if b.command[u] == ATTACK else -1
            if v >= 0 and b.hp[v] <= 0.0:
                v = -1
        elif v >= 0 and (b.hp[v] <= 0.0 or (b.target[v] != u and not _reaches(c, b, u, v))):
            v = -1
        b.target[u] = v
        if u >= c.num_agents and v < 0 and c.traits[u, HEALS] == 0:
            idle = True
    return idle


@kernel
def aim(c, b, n, idle):
    """Choose targets and write the velocity that each unit would have if it were alone.

    ``n`` is the number of living units and ``idle`` what ``drop_targets`` has returned.
    """
    priority = c.has_healers and _is_any_healer_alive(c, b)
    for k in range(n):
        u = b.roll[k]
        command = b.command[u]
        speed = c.stats[u, SPEED]
        victim = -1
        if command == ATTACK:
            victim = b.ordered[u]
        elif command == MARCH:
            victim = b.target[u]
            if c.traits[u, HEALS] == 1:
                speed = _escort_speed(c, b, u, n, idle)
                if victim < 0:
                    victim = _patient(c, b, u)
            elif (
                victim < 0
                or c.opponent == FOCUS_FIRE
                or (priority and c.traits[victim, HEALS] == 0)
            ):
                prey = _prey(c, b, u, victim < 0)
                victim = prey if prey >= 0 else victim
            b.target[u] = victim
        b.wish_x[u], b.wish_y[u] = 0.0, 0.0
        away = 1.0
        if victim >= 0 and hits(c.traits, u, victim) and _reaches(c, b, u, victim):
            if not (command == MARCH and c.opponent == KITE and _retreats(c, b, u, victim)):
                b.aiming[u] = True
                continue
            away = -1.0
        if command == STOP or (command == MARCH and c.opponent == HOLD):
            continue
        if victim >= 0:
            wish_x, wish_y = _towards(b.x, b.y, u, victim, np.float32(speed))
            b.wish_x[u], b.wish_y[u] = away * wish_x, away * wish_y
        else:
            dx, dy = b.goal_x[u] - np.float64(b.x[u]), b.goal_y[u] - np.float64(b.y[u])
            length = math.sqrt(dx * dx + dy * dy)
            if length > 0.0:
                b.wish_x[u], b.wish_y[u] = dx * speed / length, dy * speed / length


@kernel
def _retreats(c, b, u, v):
    """Return whether ``u`` walks away from ``v`` while it cannot attack, as it has more reach.

    It stays where the ground behind it is closed or the map ends.
    """
    one, other = c.traits[u, KIND], c.traits[v, KIND]
    back_x, back_y = _towards(b.x, b.y, v, u, np.float32(1.0))
    x, y = np.float64(b.x[u]) + back_x, np.float64(b.y[u]) + back_y
    rows, columns = c.terrain.shape
    is_open = 0.0 <= x < columns and 0.0 <= y < rows and c.terrain[int(y), int(x)]
    return is_open and b.cooldown[u] > 0.0 and c.reach[one, other] > c.reach[other, one]


@routine
def _towards(x, y, u, v, speed):
    """Return the velocity from one unit to another, computed in float32 as positions are."""
    dx, dy = x[v] - x[u], y[v] - y[u]
    length = np.sqrt(dx * dx + dy * dy)
    if length == 0.0:
        return 0.0, 0.0
    return np.float64(dx * speed / length), np.float64(dy * speed / length)


@kernel
def _is_any_healer_alive(c, b):
    healers = 0
    for a in range(c.num_agents):
        healers += b.living[a] and c.traits[a, HEALS] == 1
    return healers > 0


@kernel
def _prey(c, b, u, first):
    """Return the agent that enemy ``u`` attacks, -1 if it sees none.

    Units that heal come first, then the nearest. Units that aim at ``u`` are seen from afar; with
    ``first``, which is when ``u`` has no target, however far it is. Opponents that focus their fire
    attack the unit in reach with the least health and shield.
    """
    best, rank, nearest = -1, 2, math.inf
    scan = c.stats[u, SCAN] + c.max_radius
    for a in range(c.num_agents):
        if not b.living[a] or b.hp[a] <= 0.0 or not hits(c.traits, u, a):
            continue
        dx, dy = np.float64(b.x[u]) - np.float64(b.x[a]), np.float64(b.y[u]) - np.float64(b.y[a])
        square = dx * dx + dy * dy
        attacked = b.target[a] == u
        if square > scan * scan:
            if not (first and attacked):
                continue
            d = _FAR
        else:
            d = math.sqrt(square)
            if not (attacked or d < c.stats[u, SCAN] + c.stats[a, RADIUS]):
                continue
        mine = 0 if c.traits[a, HEALS] == 1 else 1
        if c.opponent == FOCUS_FIRE and _reaches(c, b, u, a):
            mine, d = -1, b.hp[a] + b.shield[a]
        if mine < rank or (mine == rank and d < nearest):
            best, rank, nearest = a, mine, d
    return best


@kernel
def _patient(c, b, u):
    """Return the unit that enemy ``u`` heals, -1 if there is none: that with the least health.

    Units that are unhurt but have a target count, too.
    """
    best, least = -1, math.inf
    for v in range(c.num_agents, c.num_agents + c.num_enemies):
        if not b.living[v] or b.hp[v] <= 0.0 or not hits(c.traits, u, v):
            continue
        if not distance(b.x, b.y, u, v) < c.stats[u, SCAN] + c.stats[v, RADIUS]:
            continue
        if (b.hp[v] < c.stats[v, HP] or b.target[v] >= 0) and b.hp[v] < least:
            best, least = v, b.hp[v]
    return best


@kernel
def _escort_speed(c, b, u, n, idle):
    """Return the speed of enemy ``u``, which heals: the lowest of those that it accompanies.

    These are all in sight as long as it has no patient, and otherwise the agents that aim at it.
    """
    speed, slowest = c.stats[u, SPEED], math.inf
    for k in range(n):
        v = b.roll[k]
        if b.target[u] < 0:
            near = v >= c.num_agents and hits(c.traits, u, v)
            near = near and distance(b.x, b.y, u, v) <= c.stats[u, SCAN] + c.max_radius
        else:
            near = idle and v < c.num_agents and b.target[v] == u and hits(c.traits, u, v)
        if near and c.stats[v, SPEED] < slowest:
            slowest = c.stats[v, SPEED]
    return slowest if slowest < math.inf else speed
