"""One step of a battle, eight ticks, under the rules of SMAClite."""

import math

import numpy as np

from coopbench_envs.core import integer, kernel, routine, subroutine
from coopbench_envs.skirmish.army import (
    FIRST_ENERGY,
    FLIES,
    HEALS,
    HP,
    LISTED,
    RADIUS,
    SHIELD,
    SPEED,
    TICKS,
)
from coopbench_envs.skirmish.avoidance import best_velocity, unit_line, wall_lines
from coopbench_envs.skirmish.combat import act
from coopbench_envs.skirmish.targets import ATTACK, MARCH, MOVE, STOP, aim, drop_targets

__all__ = ["NO_OP", "muster", "obey", "play"]

NO_OP, HALT, FIRST_MOVE, FIRST_TARGET = 0, 1, 2, 6  # actions
MOVE_AMOUNT = 2.0  # cells that a move aims for


@kernel
def muster(c, s, i):
    """Place all units of lane ``i`` as the map says."""
    for u in range(c.num_agents + c.num_enemies):
        s.x[i, u], s.y[i, u] = c.start[u, 0], c.start[u, 1]
        s.hp[i, u] = c.stats[u, HP]
        s.shield[i, u] = c.stats[u, SHIELD]
        s.energy[i, u] = c.stats[u, FIRST_ENERGY]
    s.turns[i, 0, 0] = -1


@subroutine
def play(c, b, rng, i, actions):
    """Play the ticks of one step on the views ``b`` of lane ``i``; return shots at the dead."""
    _order(c, b, actions, i)
    for k in range(b.sums.shape[0]):
        b.sums[k] = 0.0
    wasted = 0
    drawn = b.turns[0, 0] < 0
    n = _call_roll(c, b)
    for t in range(TICKS):
        idle = drop_targets(c, b, n)
        aim(c, b, n, idle)
        if t % LISTED == 0:
            _list_nearby(c, b, n)
        _steer(c, b, n)
        for k in range(n):
            # Where fewer units are listed than live, the others act in the order of treatment.
            b.turn[k] = b.roll[k] if drawn or b.turns[t, k] < 0 else b.turns[t, k]
        if drawn:
            for k in range(n - 1, 0, -1):
                j = integer(rng, i, k + 1)
                b.turn[k], b.turn[j] = b.turn[j], b.turn[k]
        if c.has_splash:
            for k in range(n):
                u = b.roll[k]
                b.start_x[u], b.start_y[u] = b.x[u], b.y[u]
        wasted += act(c, b, n)
        n = _call_roll(c, b)
    b.turns[0, 0] = -1
    return wasted


@kernel
def _call_roll(c, b):
    """List the units that live, which those without health no longer do; return their number."""
    n = 0
    for k in range(c.order.shape[0]):
        u = c.order[k]
        b.living[u] = b.living[u] and b.hp[u] > 0.0
        if b.living[u]:
            b.roll[n] = u
            n += 1
    return n


@kernel
def _order(c, b, actions, i):
    """Turn actions into commands; enemies march unless a policy plays them."""
    for a in range(c.num_agents):
        b.last[a] = max(actions[i, a], NO_OP)
        obey(b, a, actions[i, a], 0 if c.traits[a, HEALS] == 1 else c.num_agents)
    for e in range(c.num_enemies):
        u = c.num_agents + e
        if c.obeys:
            obey(b, u, b.orders[e], c.num_agents if c.traits[u, HEALS] == 1 else 0)
        else:
            b.command[u] = MARCH
            b.goal_x[u], b.goal_y[u] = c.attack_x, c.attack_y


@routine
def obey(b, u, action, first):
    """Write the command of unit ``u``; its first action on a unit is on unit ``first``."""
    b.command[u] = STOP
    if action >= FIRST_TARGET:
        b.command[u] = ATTACK
        b.ordered[u] = first + action - FIRST_TARGET
    elif action >= FIRST_MOVE:
        b.command[u] = MOVE
        along_y, sign = action < FIRST_MOVE + 2, 1.0 - 2.0 * (action % 2)
        b.goal_x[u] = b.x[u] + (0.0 if along_y else sign * MOVE_AMOUNT)
        b.goal_y[u] = b.y[u] + (sign * MOVE_AMOUNT if along_y else 0.0)


@kernel
def _list_nearby(c, b, n):
    """List for each unit those that can become its neighbours within some ticks, in order."""
    square = np.float32(c.nearby * c.nearby)
    for k in range(n):
        b.near_count[b.roll[k]] = 0
    for k in range(n):
        u = b.roll[k]
        for j in range(k + 1, n):
            v = b.roll[j]
            dx, dy = b.x[v] - b.x[u], b.y[v] - b.y[u]
            if dx * dx + dy * dy <= square and c.traits[u, FLIES] == c.traits[v, FLIES]:
                b.near[u, b.near_count[u]] = v
                b.near[v, b.near_count[v]] = u
                b.near_count[u] += 1
                b.near_count[v] += 1


@kernel
def _steer(c, b, n):
    """Write the velocity of each unit, which keeps it off walls and its neighbours.

    Neighbours are units that nearly touch. A unit that stands is not pushed.
    """
    rows, columns = c.terrain.shape
    for k in range(n):
        u = b.roll[k]
        wish_x, wish_y = b.wish_x[u], b.wish_y[u]
        b.next_x[u], b.next_y[u] = wish_x, wish_y
        if wish_x == 0.0 and wish_y == 0.0:
            continue
        x, y = np.float64(b.x[u]), np.float64(b.y[u])
        vx, vy = b.vx[u], b.vy[u]
        radius, speed = c.stats[u, RADIUS], c.stats[u, SPEED]
        count = 0
        if c.traits[u, FLIES] == 0:
            inside = 0.0 <= x < columns and 0.0 <= y < rows
            cell = int(y) * columns + int(x) if inside else rows * columns
            first, last = c.wall_first[cell], c.wall_first[cell + 1]
            if first < last:
                count = wall_lines(
                    b.lines[0],
                    c.walls,
                    c.wall_list,
                    first,
                    last,
                    x,
                    y,
                    vx,
                    vy,
                    radius,
                    radius + speed,
                )
        fixed = count
        reach = (c.max_radius + radius) * (c.max_radius + radius)
        for j in range(b.near_count[u]):
            v = np.int64(b.near[u, j])
            dx, dy = np.float64(b.x[v]) - x, np.float64(b.y[v]) - y
            square = dx * dx + dy * dy
            if square > reach or not b.living[v]:
                continue
            dx, dy = np.float64(b.x[v] - b.x[u]), np.float64(b.y[v] - b.y[u])  # as float32
            both, gap = radius + c.stats[v, RADIUS], math.sqrt(square)
            share = 1.0 if b.wish_x[v] == 0.0 and b.wish_y[v] == 0.0 else 0.5
            unit_line(b.lines[0], count, dx, dy, gap, both, vx, vy, b.vx[v], b.vy[v], share)
            count += 1
        if count > 0 or c.traits[u, HEALS] == 1:  # who escorts faster units wishes too much
            b.next_x[u], b.next_y[u] = best_velocity(
                b.lines[0], count, fixed, b.lines[1], speed, wish_x, wish_y
            )
