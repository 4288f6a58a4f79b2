"""One step of a battle of version 1, eight ticks; all that is decided in a tick sees one situation.

A tick: targets, moves, contacts, walls, then attacks and recovery (``strikes``).
"""

import math

import numpy as np

from coopbench_envs.core import kernel, routine, subroutine
from coopbench_envs.skirmish.army import (
    FIRST_ENERGY,
    HEALS,
    HP,
    LISTED,
    RADIUS,
    SCAN,
    SHIELD,
    SPEED,
    TICKS,
)
from coopbench_envs.skirmish.dynamics import NO_OP, obey
from coopbench_envs.skirmish.native import GROUND
from coopbench_envs.skirmish.paths import heading, is_ground
from coopbench_envs.skirmish.strikes import fight
from coopbench_envs.skirmish.targets import FOCUS_FIRE, HOLD, KITE, MARCH, MOVE, hits

__all__ = ["muster", "play"]

_FAR = 1e9  # added to the squared distance of an attacker that is out of sight
_INSIDE = 1e-9  # cells from the edge of the map where units that need no ground are held
_APART = 1e-3  # cells by which units in the very same place are taken to be apart


@kernel
def muster(c, s, i):
    """Place all units of lane ``i``, whose kinds are written, as the map says, in full health."""
    n = c.num_agents + c.num_enemies
    for u in range(n):
        kind = s.kind[i, u]
        s.x[i, u], s.y[i, u] = c.start[u, 0], c.start[u, 1]
        s.hp[i, u] = c.kinds.stats[kind, HP]
        s.shield[i, u] = c.kinds.stats[kind, SHIELD]
        s.energy[i, u] = c.kinds.stats[kind, FIRST_ENERGY]


@subroutine
def play(c, b, rng, i, actions):
    """Play the ticks of one step on the views ``b`` of lane ``i``."""
    for u in range(b.kind.shape[0]):
        b.row[u] = b.kind[u]
    _command(c, b, actions, i)
    for k in range(b.sums.shape[0]):
        b.sums[k] = 0.0
    n = _call_roll(b)
    for t in range(TICKS):
        _aim(c, b, n)
        if t % LISTED == 0:
            _list_nearby(c, b, n)
        _part(c, b, n)
        _stay_on_ground(c, b, n)
        fight(c, b, n, rng, i)
        n = _call_roll(b)


@kernel
def _call_roll(b):
    """List the living; return their number."""
    n = 0
    for u in range(b.living.shape[0]):
        if b.living[u]:
            b.roll[n] = u
            n += 1
    return n


@kernel
def _command(c, b, actions, i):
    """Turn actions into commands; enemies march unless a policy plays them."""
    for a in range(c.num_agents):
        action = actions[i, a]
        b.last[a] = max(action, NO_OP)
        b.command[a], b.ordered[a] = MARCH, -1
        if not c.scripted:
            obey(b, a, action, 0 if _heals(c, b, a) else c.num_agents)
    for e in range(c.num_enemies):
        u = c.num_agents + e
        b.command[u], b.ordered[u] = MARCH, -1
        if c.obeys:
            obey(b, u, b.orders[e], c.num_agents if _heals(c, b, u) else 0)


@kernel
def _heals(c, b, u):
    return c.kinds.traits[b.row[u], HEALS] == 1


@routine
def _gap(x, y, u, v):
    """Return the squared distance between the centres of two units."""
    dx, dy = x[v] - x[u], y[v] - y[u]
    return dx * dx + dy * dy


@kernel
def _reaches(c, b, u, v):
    """Return whether ``u`` could attack ``v`` when the tick began, as far as the distance goes."""
    reach = c.kinds.reach[b.row[u], b.row[v]]
    return _gap(b.old_x, b.old_y, u, v) <= reach * reach


@kernel
def _aim(c, b, n):
    """Choose targets, and move every unit as far as it would go if it were alone.

    All follows from the situation at the start of the tick, so that no side is ahead of the other.
    """
    healers_0, healers_1 = 0, 0
    for k in range(n):
        u = b.roll[k]
        b.old_x[u], b.old_y[u], b.before[u] = b.x[u], b.y[u], b.target[u]
        if _heals(c, b, u):
            if u < c.num_agents:
                healers_0 += 1
            else:
                healers_1 += 1
    for k in range(n):
        u = b.roll[k]
        b.target[u] = _keep(c, b, u)
        if b.command[u] == MARCH:
            _seek(c, b, u, healers_0 > 0 if u >= c.num_agents else healers_1 > 0)
    for k in range(n):
        _go(c, b, b.roll[k], n)


@kernel
def _keep(c, b, u):
    """Return the target that unit ``u`` keeps: that of an order while it lives, or its own choice.

    A unit that marches keeps one that is in range, or that aims at it in turn.
    """
    marches = b.command[u] == MARCH
    v = b.before[u] if marches else b.ordered[u]
    if v >= 0 and not b.living[v]:
        v = -1
    if v >= 0 and marches and b.before[v] != u and not _reaches(c, b, u, v):
        v = -1
    return v


@kernel
def _seek(c, b, u, healers):
    """Let unit ``u``, which marches, choose a target; ``healers``: some unit opposite heals."""
    v = b.target[u]
    if _heals(c, b, u):
        if v < 0:
            v = _patient(c, b, u)
    else:
        chooses = v < 0 or c.opponent == FOCUS_FIRE
        if healers and not chooses:
            chooses = c.kinds.traits[b.row[v], HEALS] == 0
        if chooses:
            prey = _prey(c, b, u, v < 0)
            v = prey if prey >= 0 else v
    b.target[u] = v
    is_slow = u >= c.num_agents or c.scripted
    if is_slow and c.reaction > 0 and v >= 0 and v != b.before[u]:
        b.cooldown[u] = max(b.cooldown[u], c.reaction + 1.0)  # of which this tick takes one


@kernel
def _prey(c, b, u, first):
    """Return the unit opposite that ``u`` attacks, -1 if it sees none.

    Units that heal come first, then the nearest. Units that aim at ``u`` are seen from afar if
    ``u`` has no target (``first``). Opponents that focus their fire attack the unit in
    reach with the least health and shield.
    """
    best, rank, nearest = -1, 3, math.inf
    kind = b.row[u]
    scan = c.kinds.stats[kind, SCAN]
    begin, end = 0, c.num_agents
    if u < c.num_agents:
        begin, end = c.num_agents, c.num_agents + c.num_enemies
    for unit in range(begin, end):
        v = np.uint32(unit)
        if not b.living[v] or not hits(c.kinds.traits, kind, b.row[v]):
            continue
        square = _gap(b.old_x, b.old_y, u, v)
        limit = scan + c.kinds.stats[b.row[v], RADIUS]
        if square >= limit * limit:
            if not (first and b.before[v] == u):
                continue
            square += _FAR
        mine = 1 if c.kinds.traits[b.row[v], HEALS] == 1 else 2
        if c.opponent == FOCUS_FIRE and _reaches(c, b, u, v):
            mine, square = 0, b.hp[v] + b.shield[v]
        if mine < rank or (mine == rank and square < nearest):
            best, rank, nearest = unit, mine, square
    return best


@kernel
def _patient(c, b, u):
    """Return the unit that ``u`` heals, -1 if there is none: that with the least health.

    Units that are unhurt but have a target count, too.
    """
    best, least = -1, math.inf
    kind = b.row[u]
    begin, end = c.num_agents, c.num_agents + c.num_enemies
    if u < c.num_agents:
        begin, end = 0, c.num_agents
    for unit in range(begin, end):
        v = np.uint32(unit)
        if not b.living[v] or v == u or not hits(c.kinds.traits, kind, b.row[v]):
            continue
        limit = c.kinds.stats[kind, SCAN] + c.kinds.stats[b.row[v], RADIUS]
        if _gap(b.old_x, b.old_y, u, v) >= limit * limit:
            continue
        is_hurt = b.hp[v] < c.kinds.stats[b.row[v], HP]
        if (is_hurt or b.before[v] >= 0) and b.hp[v] < least:
            best, least = unit, b.hp[v]
    return best


@kernel
def _escort_speed(c, b, u, n):
    """Return the speed of ``u``, which heals and marches: the lowest of the units around it."""
    speed = c.kinds.stats[b.row[u], SPEED]
    limit = c.kinds.stats[b.row[u], SCAN] + c.max_radius
    for k in range(n):
        v = b.roll[k]
        same = (u < c.num_agents) == (v < c.num_agents)
        if (
            same
            and hits(c.kinds.traits, b.row[u], b.row[v])
            and _gap(b.old_x, b.old_y, u, v) <= limit * limit
        ):
            speed = min(speed, c.kinds.stats[b.row[v], SPEED])
    return speed


@kernel
def _go(c, b, u, n):
    """Let unit ``u`` stand and aim, or walk; it reads the places at the start of the tick."""
    kind, command, v = b.row[u], b.command[u], b.target[u]
    x, y = b.old_x[u], b.old_y[u]
    b.aiming[u], b.moving[u] = False, False
    speed = c.kinds.stats[kind, SPEED]
    goal_x, goal_y = x, y
    is_script = command == MARCH
    if v >= 0:
        goal_x, goal_y = b.old_x[v], b.old_y[v]
        if hits(c.kinds.traits, kind, b.row[v]) and _reaches(c, b, u, v):
            _face(b.face_x, b.face_y, u, goal_x - x, goal_y - y)
            b.aiming[u] = True
            goal_x, goal_y = x, y
            if is_script and c.opponent == KITE and _retreats(c, b, u, v):
                b.aiming[u] = False
                goal_x, goal_y = 2.0 * x - b.old_x[v], 2.0 * y - b.old_y[v]
        elif is_script and c.opponent == HOLD:
            goal_x, goal_y = x, y
    elif command == MOVE:
        goal_x, goal_y = b.goal_x[u], b.goal_y[u]
    elif is_script and c.opponent != HOLD:
        goal_x, goal_y = _destination(c, b, u)
        if c.kinds.traits[kind, HEALS] == 1:
            speed = _escort_speed(c, b, u, n)
    if command != MOVE and not b.aiming[u] and c.kinds.layer[kind] == GROUND:
        goal_x, goal_y = heading(c.ground, x, y, goal_x, goal_y)
    dx, dy = goal_x - x, goal_y - y
    length = math.sqrt(dx * dx + dy * dy)
    if length > 0.0 and speed > 0.0:
        share = min(1.0, speed / length)
        b.x[u], b.y[u] = x + share * dx, y + share * dy
        b.moving[u] = True
        _face(b.face_x, b.face_y, u, dx, dy)


@routine
def _face(face_x, face_y, u, dx, dy):
    length = math.sqrt(dx * dx + dy * dy)
    if length > 0.0:
        face_x[u], face_y[u] = dx / length, dy / length


@kernel
def _destination(c, b, u):
    """Return where unit ``u`` marches: to a point, or to the nearest unit opposite."""
    side = 0 if u < c.num_agents else 1
    goal_x, goal_y = b.march[side, 0], b.march[side, 1]
    if c.follows and side == 1:
        nearest = math.inf
        for v in range(c.num_agents):
            square = _gap(b.old_x, b.old_y, u, v)
            if b.living[v] and square < nearest:
                nearest = square
                goal_x, goal_y = b.old_x[v], b.old_y[v]
    return goal_x, goal_y


@kernel
def _retreats(c, b, u, v):
    """Return whether ``u`` walks away from ``v`` while it cannot attack, as it has more reach.

    It stays where the ground behind it is closed or the map ends.
    """
    dx, dy = b.old_x[u] - b.old_x[v], b.old_y[u] - b.old_y[v]
    length = math.sqrt(dx * dx + dy * dy)
    one, other = b.row[u], b.row[v]
    retreats = b.cooldown[u] > 1.0 and c.kinds.reach[one, other] > c.kinds.reach[other, one]
    if retreats and length > 0.0:
        retreats = is_ground(c.ground.walkable, b.old_x[u] + dx / length, b.old_y[u] + dy / length)
    return retreats


@kernel
def _list_nearby(c, b, n):
    """List for each unit the later ones that it may touch within some ticks."""
    square = c.nearby * c.nearby
    for k in range(n):
        u = b.roll[k]
        count = 0
        layer = c.kinds.layer[b.row[u]]
        for j in range(k + 1, n):
            v = b.roll[j]
            if _gap(b.old_x, b.old_y, u, v) <= square and c.kinds.layer[b.row[v]] == layer:
                b.near[u, count] = v
                count += 1
        b.near_count[u] = count


@kernel
def _part(c, b, n):
    """Move units that overlap apart; a unit that stands is not pushed.

    What the pairs of a unit push it by follows from the places after the moves, and is summed.
    """
    for k in range(n):
        u = b.roll[k]
        b.push_x[u], b.push_y[u] = 0.0, 0.0
    for k in range(n):
        u = b.roll[k]
        # What the inner loop reads of ``u`` again and again; it writes arrays, so that the compiler
        # would load them for every pair.
        x, y, moves = b.x[u], b.y[u], b.moving[u]
        push_x, push_y = b.push_x[u], b.push_y[u]
        radius = c.kinds.stats[b.row[u], RADIUS]
        for j in range(b.near_count[u]):
            v = b.near[u, j]
            dx, dy = b.x[v] - x, b.y[v] - y
            both = radius + c.kinds.stats[b.row[v], RADIUS]
            square = dx * dx + dy * dy
            if square < both * both and b.living[v] and (moves or b.moving[v]):
                dx, dy = _push(u, v, dx, dy, both, square, moves and b.moving[v])
                push_x, push_y = push_x - dx, push_y - dy
                b.push_x[v], b.push_y[v] = b.push_x[v] + dx, b.push_y[v] + dy
        b.push_x[u], b.push_y[u] = push_x, push_y
    for k in range(n):
        u = b.roll[k]
        if b.moving[u]:
            b.x[u] += b.push_x[u]
            b.y[u] += b.push_y[u]


@routine
def _push(u, v, dx, dy, both, square, shared):
    """Return by how much ``v``, (dx, dy) from ``u``, is pushed: by half if both move (shared)."""
    gap = math.sqrt(square)
    overlap = both - gap
    if gap < _APART:  # a direction that follows from the numbers of both
        dx, dy = 1.0 + (u % 3), 1.0 + (v % 5)
        gap = math.sqrt(dx * dx + dy * dy)
    if shared:
        overlap *= 0.5
    return dx * overlap / gap, dy * overlap / gap


@kernel
def _stay_on_ground(c, b, n):
    """Let units slide along walls: go along one axis alone where both lead into a wall."""
    rows, columns = c.ground.walkable.shape
    for k in range(n):
        u = b.roll[k]
        if not b.moving[u]:
            continue
        if c.kinds.layer[b.row[u]] != GROUND:
            b.x[u] = min(max(b.x[u], _INSIDE), columns - _INSIDE)
            b.y[u] = min(max(b.y[u], _INSIDE), rows - _INSIDE)
        elif not is_ground(c.ground.walkable, b.x[u], b.y[u]):
            if is_ground(c.ground.walkable, b.x[u], b.old_y[u]):
                b.y[u] = b.old_y[u]
            elif is_ground(c.ground.walkable, b.old_x[u], b.y[u]):
                b.x[u] = b.old_x[u]
            else:
                b.x[u], b.y[u] = b.old_x[u], b.old_y[u]
