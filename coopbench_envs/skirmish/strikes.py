"""Attacks and recovery in one tick of version 1: all blows fall at once.

The hits on a unit are summed in the order of the attackers, each through the shield that those
before it have left, and taken off together at the end: a unit that dies in a tick still strikes.
"""

import math

from coopbench_envs.core import integer, kernel
from coopbench_envs.skirmish.army import (
    ARMOUR,
    BEAM_HEIGHT,
    BEAM_WIDTH,
    BLAST,
    BLOWS,
    COOLDOWN,
    ENERGY,
    HEALS,
    HP,
    RADIUS,
    REGENERATION,
    SHIELD,
)

__all__ = ["DEALT", "JITTER", "OVERKILL", "TAKEN", "fight"]

DEALT, TAKEN, OVERKILL = range(3)  # entries of ``State.sums``
JITTER = (-1, 2)  # least and greatest number of ticks by which a cooldown varies
_SHIELD_WAIT = 160.0  # ticks without damage until a shield grows
_SHIELD_GROWTH = 2 / 16  # points per tick
_ENERGY_GROWTH = 0.5625 / 16
_HEALING = 9 / 16  # points per tick
_HEALING_PER_ENERGY = 3.0
_ENERGY_TO_BEGIN = 5.0  # with a new patient


@kernel
def fight(c, b, n, rng, i):
    """Let the ``n`` living units attack or heal, recover, and lose what was taken from them."""
    for k in range(n):
        u = b.roll[k]
        b.left[u], b.lost[u], b.struck[u] = b.shield[u], 0.0, False
    for k in range(n):
        u = b.roll[k]
        b.cooldown[u] = max(0.0, b.cooldown[u] - 1.0)
        if not b.aiming[u]:
            b.patient[u] = -1
        elif c.kinds.traits[b.row[u], HEALS] == 1:
            _heal(c, b, u)
        elif b.cooldown[u] == 0.0:
            b.cooldown[u] = c.kinds.stats[b.row[u], COOLDOWN]
            if c.jitter:
                b.cooldown[u] += JITTER[0] + integer(rng, i, JITTER[1] - JITTER[0] + 1)
            b.cooldown[u] = max(1.0, b.cooldown[u])
            _attack(c, b, u, n)
    for k in range(n):
        _recover(c, b, b.roll[k])


@kernel
def _heal(c, b, u):
    """Heal the target for one tick; a new patient needs energy to begin with."""
    v = b.target[u]
    missing = c.kinds.stats[b.row[v], HP] - b.hp[v]
    if (b.patient[u] != v and b.energy[u] < _ENERGY_TO_BEGIN) or missing <= 0.0:
        b.target[u], b.patient[u] = -1, -1
    else:
        amount = min(min(missing, _HEALING), b.energy[u] * _HEALING_PER_ENERGY)
        b.energy[u] = max(0.0, b.energy[u] - amount / _HEALING_PER_ENERGY)
        b.lost[v] -= amount
        b.patient[u] = v


@kernel
def _attack(c, b, u, n):
    """Strike the target, or all that an explosion of ``u`` or its beam touches after the moves."""
    victim, kind = b.target[u], b.row[u]
    blast, beam = c.kinds.stats[kind, BLAST], c.kinds.stats[kind, BEAM_WIDTH]
    if blast > 0.0:
        b.lost[u] = math.inf
    spreads = c.has_splash and (blast > 0.0 or beam > 0.0)
    for k in range(n if spreads else 1):
        v = b.roll[k] if spreads else victim
        touched = not spreads
        if spreads and (v < c.num_agents) != (u < c.num_agents):
            if blast > 0.0:
                touched = _is_in_blast(c, b, u, v, blast)
            else:
                touched = v == victim or _is_in_beam(c, b, u, victim, v, beam)
        if touched:
            _strike(c, b, u, v)


@kernel
def _is_in_blast(c, b, u, v, blast):
    dx, dy = b.x[v] - b.x[u], b.y[v] - b.y[u]
    reach = blast + c.kinds.stats[b.row[v], RADIUS]
    return dx * dx + dy * dy <= reach * reach


@kernel
def _is_in_beam(c, b, u, victim, v, width):
    """Return whether ``v`` touches the beam of ``u``, a rectangle across the shot at its victim.

    Units count that are no farther from the victim than the corners of the rectangle.
    """
    height = c.kinds.stats[b.row[u], BEAM_HEIGHT]
    sx, sy = b.x[victim] - b.x[u], b.y[victim] - b.y[u]
    px, py = b.x[v] - b.x[victim], b.y[v] - b.y[victim]
    length = math.sqrt(sx * sx + sy * sy)
    touched = False
    if length > 0.0 and px * px + py * py <= 0.25 * (width * width + height * height):
        across = max(0.0, abs(px * sy - py * sx) / length - 0.5 * width)
        along = max(0.0, abs(px * sx + py * sy) / length - 0.5 * height)
        radius = c.kinds.stats[b.row[v], RADIUS]
        touched = across * across + along * along <= radius * radius
    return touched


@kernel
def _strike(c, b, u, v):
    """Add the blows of one attack of ``u`` to what ``v`` loses: shield, then health less armour."""
    damage = c.kinds.harm[b.row[u], b.row[v]]
    armour = c.kinds.stats[b.row[v], ARMOUR]
    b.struck[v] = True
    for _ in range(c.kinds.traits[b.row[u], BLOWS]):
        absorbed = min(damage, b.left[v])
        b.left[v] -= absorbed
        if damage > absorbed:
            b.lost[v] += max(0.0, damage - absorbed - armour)


@kernel
def _recover(c, b, u):
    """Let shield, energy and health of ``u`` grow, and take off what the hits have summed up."""
    stats, kind = c.kinds.stats, b.row[u]
    absorbed, lost = b.shield[u] - b.left[u], b.lost[u]
    side = TAKEN if u < c.num_agents else DEALT
    if b.struck[u]:
        b.sums[side] += absorbed
        if 0.0 < lost < math.inf:  # what a unit that explodes loses is no damage dealt
            b.sums[side] += min(lost, b.hp[u])
            if side == DEALT:
                b.sums[OVERKILL] += max(0.0, lost - b.hp[u])
    b.wait[u] = max(0.0, b.wait[u] - 1.0)
    if b.wait[u] == 0.0 and b.shield[u] < stats[kind, SHIELD]:
        b.shield[u] = min(b.shield[u] + _SHIELD_GROWTH, stats[kind, SHIELD])
    b.energy[u] = min(b.energy[u] + _ENERGY_GROWTH, stats[kind, ENERGY])
    hp = min(b.hp[u] + stats[kind, REGENERATION], stats[kind, HP])
    b.shield[u] = max(0.0, b.shield[u] - absorbed)
    b.hp[u] = min(max(0.0, hp - lost), stats[kind, HP])
    if b.struck[u] and stats[kind, SHIELD] > 0.0:
        b.wait[u] = _SHIELD_WAIT
    if b.hp[u] == 0.0:
        b.living[u] = False
        b.shield[u] = 0.0
