"""What agents see: legal actions, observations and the global state, in the layout of SMAC."""

import math
from typing import NamedTuple

import numpy as np

from coopbench_envs.core import kernel, routine
from coopbench_envs.skirmish.army import COOLDOWN, ENERGY, HEALS, HP, SHIELD, TYPE, Army
from coopbench_envs.skirmish.dynamics import FIRST_MOVE, FIRST_TARGET, HALT, NO_OP
from coopbench_envs.skirmish.targets import distance, is_within

__all__ = ["MEANINGS", "SIGHT", "TARGET_RANGE", "Shown", "mask", "observe", "sizes", "write_state"]

SIGHT, TARGET_RANGE = 9.0, 6.0  # cells between centres, of every unit
_AHEAD = 1.0  # cells: a move is legal if the ground this far ahead can be walked on
_GRID = 2  # cells, the distance of the points of the grids around an agent
PATHING, HEIGHTS = 8, 9  # points of the grids


class Shown(NamedTuple):
    """Which parts observations and the global state have."""

    all_health: bool  # health and shield of units in sight
    own_health: bool  # own health and shield
    last_action: bool  # last actions of allies in sight
    timestep: bool  # elapsed share of the episode
    pathing_grid: bool  # which of 8 points around can be walked on
    terrain_height: bool  # height of the ground at 9 points
    state_last_action: bool  # last actions, in the global state
    state_timestep: bool  # elapsed share of the episode, in the global state
    reversed_types: bool  # enemies' kinds are numbered backwards, where SMAC does so


# What the parts of observations are, here and in version 1; options add to them.
MEANINGS = {
    "moves": "1 if the agent can move north, south, east, west; with options the ground around",
    "enemies": "per enemy in sight: 1 if a target, distance, relative x, y, health, shield, kind",
    "allies": "per ally in sight: 1, distance, relative x, y, health, shield, kind, last action",
    "own": "own health, shield and kind",
    "time": "steps played / horizon",
    "place": "own x and y, from -1 to 1 across the map",
}


def sizes(army: Army, shown: Shown) -> dict[str, tuple[int, ...]]:
    """Return the shapes of the parts of an observation, by name and in order."""
    allies = 1 + 3 + shown.all_health * (1 + army.ally_shields) + army.type_bits
    enemies = 1 + 3 + shown.all_health * (1 + army.enemy_shields) + army.type_bits
    oneself = shown.own_health * (1 + army.ally_shields) + army.type_bits
    parts: dict[str, tuple[int, ...]] = {
        "moves": (4 + PATHING * shown.pathing_grid + HEIGHTS * shown.terrain_height,),
        "enemies": (army.num_enemies, enemies),
        "allies": (army.num_agents - 1, allies + shown.last_action * army.choices),
        "own": (oneself,),
    }
    if shown.timestep:
        parts["time"] = (1,)
    return parts


@kernel
def mask(c, s, i, reach, masks):
    """Write the legal actions of all agents: no-op for the dead, anything else for the living.

    Legal targets are within ``reach`` cells.
    """
    for a in range(c.num_agents):
        for k in range(c.choices):
            masks[i, a, k] = 0
        if not s.living[i, a]:
            masks[i, a, NO_OP] = 1
            continue
        masks[i, a, HALT] = 1
        x, y = np.float64(s.x[i, a]), np.float64(s.y[i, a])
        for k in range(4):
            masks[i, a, FIRST_MOVE + k] = is_open(c.terrain, x, y, k)
        heals = c.traits[a, HEALS] == 1
        first = 0 if heals else c.num_agents
        last = c.num_agents if heals else c.num_agents + c.num_enemies
        for v in range(first, last):
            if s.living[i, v] and not (heals and c.traits[v, HEALS] == 1):
                masks[i, a, FIRST_TARGET + v - first] = is_within(
                    s.x[i, v] - s.x[i, a],
                    s.y[i, v] - s.y[i, a],
                    np.float32(reach),
                    np.float32(reach * reach),
                )


@routine
def is_open(terrain, x, y, direction):
    """Return whether a unit at (x, y) may move north, south, east or west (0 to 3)."""
    if direction < 2:
        y += _AHEAD if direction == 0 else -_AHEAD
    else:
        x += _AHEAD if direction == 2 else -_AHEAD
    rows, columns = terrain.shape
    return 0.0 <= x < columns and 0.0 <= y < rows and terrain[int(y), int(x)]


@kernel
def observe(c, w, s, i, horizon, obs):
    """Write the observations of all agents; ``w`` says what they show. The dead see zeros."""
    for a in range(c.num_agents):
        for k in range(obs.shape[2]):
            obs[i, a, k] = 0.0
        if not s.living[i, a]:
            continue
        at = see_ground(c, w, s, i, a, obs)
        for k in range(c.num_enemies + c.num_agents):  # enemies come first
            v = k + c.num_agents if k < c.num_enemies else k - c.num_enemies
            if v != a:
                at = _see_unit(c, w, s, i, a, v, obs, at)
        if w.own_health:
            at = _write_health(c.stats, s.hp, s.shield, i, a, c.ally_shields, obs[i, a], at)
        if c.type_bits > 0:
            obs[i, a, at + c.traits[a, TYPE]] = 1.0
        if w.timestep:
            obs[i, a, at + c.type_bits] = s.time[i] / horizon


@kernel
def see_ground(c, w, s, i, a, obs):
    x, y = np.float64(s.x[i, a]), np.float64(s.y[i, a])
    for k in range(4):
        obs[i, a, k] = is_open(c.terrain, x, y, k)
    at = 4
    rows, columns = c.terrain.shape
    for k in range(PATHING if w.pathing_grid else 0):
        px, py = _grid_point(x, y, k)
        inside = 0 <= px < columns and 0 <= py < rows
        obs[i, a, at] = not inside or c.terrain[py, px]
        at += 1
    for k in range(HEIGHTS if w.terrain_height else 0):
        px, py = _grid_point(x, y, k)
        inside = 0 <= px < columns and 0 <= py < rows
        obs[i, a, at] = c.heights[py, px] if inside else 1.0
        at += 1
    return at


@routine
def _grid_point(x, y, k):
    """Return point ``k`` of the grid around (x, y): straight on, then the diagonals, then here."""
    dx, dy = 0, 0
    if k < 4:
        if k < 2:
            dy = 2 * _GRID * (1 - 2 * k)
        else:
            dx = 2 * _GRID * (5 - 2 * k)
    elif k < 8:
        dx = _GRID if k % 2 == 0 else -_GRID
        dy = dx if k < 6 else -dx
    return int(np.floor(x)) + dx, int(np.floor(y)) + dy


@kernel
def _see_unit(c, w, s, i, a, v, obs, at):
    """Write what ``a`` sees of unit ``v`` from entry ``at`` on; return the entry behind it."""
    is_ally = v < c.num_agents
    shields = c.ally_shields if is_ally else c.enemy_shields
    end = at + 4 + c.type_bits
    if w.all_health:
        end += 2 if shields else 1
    if is_ally and w.last_action:
        end += c.choices
    if not s.living[i, v]:
        return end
    dx, dy = np.float64(s.x[i, a]) - s.x[i, v], np.float64(s.y[i, a]) - s.y[i, v]
    if dx * dx + dy * dy > SIGHT * SIGHT:
        return end
    d = math.sqrt(dx * dx + dy * dy)
    obs[i, a, at] = 1.0 if is_ally else _is_target(c, s, i, a, v, d)
    obs[i, a, at + 1] = d / SIGHT
    obs[i, a, at + 2] = (s.x[i, v] - s.x[i, a]) / SIGHT
    obs[i, a, at + 3] = (s.y[i, v] - s.y[i, a]) / SIGHT
    at += 4
    if w.all_health:
        at = _write_health(c.stats, s.hp, s.shield, i, v, shields, obs[i, a], at)
    if c.type_bits > 0:
        obs[i, a, at + _type(c.traits, c.type_bits, w.reversed_types and not is_ally, v)] = 1.0
    at += c.type_bits
    if is_ally and w.last_action and s.last[i, v] >= 0:
        obs[i, a, at + s.last[i, v]] = 1.0
    return end


@kernel
def _is_target(c, s, i, a, v, d):
    """Return the entry that says of an enemy in sight whether it can be attacked.

    For an agent that heals it is about the agent of the same number, of whichever kind.
    """
    if c.traits[a, HEALS] == 0:
        return d <= TARGET_RANGE
    u = v - c.num_agents
    return (
        u < c.num_agents
        and u != a
        and s.living[i, u]
        and (distance(s.x[i], s.y[i], a, u) <= TARGET_RANGE)
    )


@routine
def _type(traits, bits, backwards, v):
    return bits - 1 - traits[v, TYPE] if backwards else traits[v, TYPE]


@routine
def _write_health(stats, hp, shield, i, v, shields, out, at):
    out[at] = hp[i, v] / stats[v, HP]
    if not shields:
        return at + 1
    if stats[v, SHIELD] > 0.0:
        out[at + 1] = shield[i, v] / stats[v, SHIELD]
    return at + 2


def state_size(army: Army, shown: Shown) -> int:
    """Return the number of entries of the global state."""
    allies = 4 + army.ally_shields + army.type_bits
    enemies = 3 + army.enemy_shields + army.type_bits
    last = army.num_agents * army.choices * shown.state_last_action
    return army.num_agents * allies + army.num_enemies * enemies + last + shown.state_timestep


@kernel
def write_state(c, w, s, i, horizon, out):
    """Write the global state: all units from the middle of the map, last actions, the time."""
    for k in range(out.shape[1]):
        out[i, k] = 0.0
    at = 0
    rows, columns = c.terrain.shape
    for v in range(c.num_agents + c.num_enemies):
        is_ally = v < c.num_agents
        shields = c.ally_shields if is_ally else c.enemy_shields
        end = at + (4 if is_ally else 3) + c.type_bits + (1 if shields else 0)
        if s.living[i, v]:
            out[i, at] = s.hp[i, v] / c.stats[v, HP]
            if is_ally:
                at += 1
                if c.traits[v, HEALS] == 1:
                    out[i, at] = s.energy[i, v] / c.stats[v, ENERGY]
                else:
                    out[i, at] = s.cooldown[i, v] / c.stats[v, COOLDOWN]
            out[i, at + 1] = (np.float64(s.x[i, v]) - 0.5 * columns) / columns
            out[i, at + 2] = (np.float64(s.y[i, v]) - 0.5 * rows) / rows
            at += 3
            if shields:
                if c.stats[v, SHIELD] > 0.0:
                    out[i, at] = s.shield[i, v] / c.stats[v, SHIELD]
                at += 1
            if c.type_bits > 0:
                out[i, at + _type(c.traits, c.type_bits, w.reversed_types and not is_ally, v)] = 1.0
        at = end
    if w.state_last_action:
        for a in range(c.num_agents):
            if s.last[i, a] >= 0:
                out[i, at + s.last[i, a]] = 1.0
            at += c.choices
    if w.state_timestep:
        out[i, at] = s.time[i] / horizon
