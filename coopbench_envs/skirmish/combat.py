"""Blows, explosions, beams and healing in one tick: units act one after the other."""

import math

import numpy as np

from coopbench_envs.core import kernel
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
    KIND,
    RADIUS,
    REGENERATION,
    SHIELD,
)
from coopbench_envs.skirmish.targets import ATTACK, MARCH, is_within

__all__ = ["DEALT", "KILLS", "TAKEN", "act"]

DEALT, KILLS, TAKEN = range(3)  # entries of ``State.sums``
_TICK = 1 / 16  # seconds
_SHIELD_WAIT = 10.0  # seconds without damage until a shield grows
_SHIELD_GROWTH = 2 / 16  # points per tick
_ENERGY_GROWTH = 0.5625 / 16
_HEALING = 9 / 16  # points per tick
_HEALING_PER_ENERGY = 3.0
_ENERGY_TO_BEGIN = 5.0  # with a new patient


@kernel
def act(c, b, n):
    """Let the ``n`` living units move, recover and attack in turn; return shots at the dead."""
    wasted = 0
    for k in range(n):
        u = b.turn[k]
        if b.hp[u] <= 0.0:
            continue
        _go_on(c, b, u)
        command, ordered, target = b.command[u], b.ordered[u], b.target[u]
        victim = ordered if command == ATTACK else target if command == MARCH else -1
        ready = b.aiming[u] & (victim >= 0)
        b.aiming[u] = b.aiming[u] & (victim < 0)
        if not (ready & (b.cooldown[u] <= 0.0)):
            continue
        b.cooldown[u] = c.stats[u, COOLDOWN]
        if c.traits[u, HEALS] == 1:
            _heal(c, b, u, victim)
            continue
        if u < c.num_agents and b.hp[victim] <= 0.0:
            wasted += 1
        _attack(c, b, u, victim, n)
    return wasted


@kernel
def _go_on(c, b, u):
    """Move a unit and let its cooldown, shield, energy and health go on by one tick.

    Units act in an order drawn anew, so that branches on what they are would be mispredicted.
    """
    b.vx[u], b.vy[u] = b.next_x[u], b.next_y[u]
    b.x[u] = np.float32(np.float64(b.x[u]) + b.vx[u] * _TICK)
    b.y[u] = np.float32(np.float64(b.y[u]) + b.vy[u] * _TICK)
    b.cooldown[u] = max(0.0, b.cooldown[u] - _TICK)
    wait = max(0.0, b.wait[u] - _TICK)
    b.wait[u] = wait
    shield, most = b.shield[u], c.stats[u, SHIELD]
    b.shield[u] = min(shield + _SHIELD_GROWTH, most) if (wait == 0.0) & (shield < most) else shield
    energy, most = b.energy[u], c.stats[u, ENERGY]
    b.energy[u] = min(energy + _ENERGY_GROWTH, most) if energy < most else energy
    health, most = b.hp[u], c.stats[u, HP]
    b.hp[u] = min(health + c.stats[u, REGENERATION], most) if health < most else health


@kernel
def _heal(c, b, u, v):
    """Heal ``v`` for one tick; each unit of energy buys points of healing in advance."""
    is_new = b.before[u] != b.target[u]
    if (is_new and b.energy[u] < _ENERGY_TO_BEGIN) or b.hp[v] == c.stats[v, HP]:
        b.target[u] = -1
        return
    wanted = min(c.stats[v, HP] - b.hp[v], _HEALING)
    if b.healing[u] < wanted:
        spent = min(1.0, b.energy[u])
        b.energy[u] -= spent
        b.healing[u] += spent * _HEALING_PER_ENERGY
    amount = min(wanted, b.healing[u])
    b.healing[u] -= amount
    b.hp[v] += amount


@kernel
def _attack(c, b, u, victim, n):
    """Strike the victim, or all that an explosion of ``u`` or its beam touches."""
    blast, beam = c.stats[u, BLAST], c.stats[u, BEAM_WIDTH]
    if blast > 0.0:
        b.sums[TAKEN if u < c.num_agents else DEALT] += b.hp[u]
        b.hp[u] = 0.0
    spreads = blast > 0.0 or beam > 0.0
    for k in range(n if spreads else 1):
        v = b.roll[k] if spreads else victim
        touched = not spreads
        if spreads and (v < c.num_agents) != (u < c.num_agents):
            if blast > 0.0:
                touched = _is_in_blast(c, b, u, v, blast)
            else:
                touched = _is_in_beam(c, b, u, victim, v, beam)
        if touched:
            _strike(c, b, u, v)


@kernel
def _is_near_start(b, v, u, reach):
    """Return whether ``v`` was within ``reach`` of where ``u`` is now when the tick began."""
    dx = np.float64(b.start_x[v]) - np.float64(b.x[u])
    dy = np.float64(b.start_y[v]) - np.float64(b.y[u])
    return dx * dx + dy * dy <= reach * reach


@kernel
def _is_in_blast(c, b, u, v, blast):
    """Return whether ``v`` was near when the tick began and is in the explosion of ``u`` now."""
    reach = blast + c.stats[v, RADIUS]
    return _is_near_start(b, v, u, blast + c.max_radius) and is_within(
        b.x[v] - b.x[u], b.y[v] - b.y[u], np.float32(reach), np.float32(reach * reach)
    )


@kernel
def _is_in_beam(c, b, u, victim, v, width):
    """Return whether ``v`` touches the beam of ``u``, a rectangle across the shot at its victim."""
    height = c.stats[u, BEAM_HEIGHT]
    if not _is_near_start(b, v, victim, 0.5 * math.sqrt(width * width + height * height)):
        return False
    sx = np.float64(b.x[victim]) - np.float64(b.x[u])
    sy = np.float64(b.y[victim]) - np.float64(b.y[u])
    length = math.sqrt(sx * sx + sy * sy)
    if length == 0.0:
        return False
    px = np.float64(b.x[v]) - np.float64(b.x[victim])
    py = np.float64(b.y[v]) - np.float64(b.y[victim])
    across = max(0.0, abs(px * sy - py * sx) / length - 0.5 * width)
    along = max(0.0, abs(px * sx + py * sy) / length - 0.5 * height)
    radius = c.stats[v, RADIUS]
    return across * across + along * along <= radius * radius


@kernel
def _strike(c, b, u, v):
    """Deal the blows of one attack of ``u`` to ``v``: shields first, then health less armour."""
    damage = c.harm[c.traits[u, KIND], c.traits[v, KIND]]
    for _ in range(c.traits[u, BLOWS]):
        if b.hp[v] <= 0.0:
            break
        if c.stats[v, SHIELD] > 0.0:
            b.wait[v] = _SHIELD_WAIT
        absorbed = max(0.0, min(damage, b.shield[v]))
        b.shield[v] -= absorbed
        lost = max(0.0, min(damage - absorbed - c.stats[v, ARMOUR], b.hp[v]))
        b.hp[v] -= lost
        if v < c.num_agents:
            b.sums[TAKEN] += absorbed + lost
        else:
            b.sums[DEALT] += absorbed + lost
            if b.hp[v] <= 0.0:
                b.sums[KILLS] += 1.0
