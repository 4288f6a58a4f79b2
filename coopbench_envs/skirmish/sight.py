"""What agents of version 1 see: legal actions, observations, the global state; SMAC's layout.

Behind SMAC's parts an observation has the agent's own place. Sight and legal targets follow from
kinds, and a field of view may narrow what is seen and attacked.
"""

import math

from coopbench_envs.core import kernel, routine, subroutine
from coopbench_envs.skirmish.army import COOLDOWN, ENERGY, HEALS, HP, SHIELD, TYPE, Army
from coopbench_envs.skirmish.dynamics import FIRST_MOVE, FIRST_TARGET, HALT, NO_OP
from coopbench_envs.skirmish.features import Shown, is_open, see_ground, sizes
from coopbench_envs.skirmish.force import State
from coopbench_envs.skirmish.native import SIGHT
from coopbench_envs.skirmish.strikes import JITTER
from coopbench_envs.states import part_of

__all__ = ["mask", "observe", "parts", "seen", "write_state"]


def parts(army: Army, shown: Shown) -> dict[str, tuple[int, ...]]:
    """Return the shapes of the parts of an observation, by name and in order."""
    shapes = sizes(army, shown)
    time = {"time": shapes.pop("time")} if "time" in shapes else {}
    return {**shapes, **time, "place": (2,)}


# What agents see something of.
seen = part_of(
    State,
    *("time", "x", "y", "face_x", "face_y", "hp", "shield", "energy", "cooldown", "kind"),
    *("living", "last"),
)


@routine
def _sees(x, y, face_x, face_y, faces, half_cosine, a, v, limit):
    """Return whether ``v`` is at most ``limit`` cells from ``a``, and in its field of view."""
    dx, dy = x[v] - x[a], y[v] - y[a]
    square = dx * dx + dy * dy
    seen = square <= limit * limit
    if seen and faces and square > 0.0:
        seen = dx * face_x[a] + dy * face_y[a] >= half_cosine * math.sqrt(square)
    return seen


@kernel
def _is_seen(r, s, i, a, v, limit):
    return _sees(s.x[i], s.y[i], s.face_x[i], s.face_y[i], r.faces, r.half_cosine, a, v, limit)


@subroutine
def mask(c, r, s, i, masks):
    """Write the legal actions of all agents: no-op for the dead, anything else for the living."""
    for a in range(r.num_agents):
        for k in range(masks.shape[2]):
            masks[i, a, k] = 0
        if not s.living[i, a]:
            masks[i, a, NO_OP] = 1
            continue
        masks[i, a, HALT] = 1
        for k in range(4):
            masks[i, a, FIRST_MOVE + k] = is_open(c.terrain, s.x[i, a], s.y[i, a], k)
        kind = s.kind[i, a]
        heals = r.kinds.traits[kind, HEALS] == 1
        first = 0 if heals else r.num_agents
        last = r.num_agents if heals else r.num_agents + r.num_enemies
        for v in range(first, last):
            if s.living[i, v] and not (heals and r.kinds.traits[s.kind[i, v], HEALS] == 1):
                seen = _is_seen(r, s, i, a, v, r.kinds.legal[kind, s.kind[i, v]])
                masks[i, a, FIRST_TARGET + v - first] = seen


@subroutine
def observe(c, r, w, s, i, horizon, obs):
    """Write the observations of all agents; ``w`` says what they show. The dead see zeros."""
    for a in range(r.num_agents):
        for k in range(obs.shape[2]):
            obs[i, a, k] = 0.0
        if not s.living[i, a]:
            continue
        at = see_ground(c, w, s, i, a, obs)
        for k in range(r.num_enemies + r.num_agents):  # enemies come first
            v = k + r.num_agents if k < r.num_enemies else k - r.num_enemies
            if v != a:
                at = _see_unit(c, r, w, s, i, a, v, obs, at)
        if w.own_health:
            at = _write_health(r.kinds.stats, s, i, a, c.ally_shields, obs[i, a], at)
        if c.type_bits > 0:
            obs[i, a, at + r.kinds.traits[s.kind[i, a], TYPE]] = 1.0
        at += c.type_bits
        if w.timestep:
            obs[i, a, at] = s.time[i] / horizon
            at += 1
        rows, columns = c.terrain.shape
        obs[i, a, at] = 2.0 * s.x[i, a] / columns - 1.0
        obs[i, a, at + 1] = 2.0 * s.y[i, a] / rows - 1.0


@kernel
def _see_unit(c, r, w, s, i, a, v, obs, at):
    """Write what ``a`` sees of unit ``v`` from entry ``at`` on; return the entry behind it."""
    is_ally = v < r.num_agents
    shields = c.ally_shields if is_ally else c.enemy_shields
    end = at + 4 + c.type_bits
    if w.all_health:
        end += 2 if shields else 1
    if is_ally and w.last_action:
        end += c.choices
    sight = r.kinds.stats[s.kind[i, a], SIGHT]
    if s.living[i, v] and _is_seen(r, s, i, a, v, sight):
        obs[i, a, at] = 1.0 if is_ally else _is_target(r, s, i, a, v)
        dx, dy = s.x[i, v] - s.x[i, a], s.y[i, v] - s.y[i, a]
        obs[i, a, at + 1] = math.sqrt(dx * dx + dy * dy) / sight
        obs[i, a, at + 2] = dx / sight
        obs[i, a, at + 3] = dy / sight
        at += 4
        if w.all_health:
            at = _write_health(r.kinds.stats, s, i, v, shields, obs[i, a], at)
        if c.type_bits > 0:
            obs[i, a, at + _type(c, r, w, s, i, v)] = 1.0
        at += c.type_bits
        if is_ally and w.last_action and s.last[i, v] >= 0:
            obs[i, a, at + s.last[i, v]] = 1.0
    return end


@kernel
def _is_target(r, s, i, a, v):
    """Return the entry that says of an enemy in sight whether it can be attacked.

    For an agent that heals it is about the agent of the same number, as SMAC has it.
    """
    kind = s.kind[i, a]
    heals = r.kinds.traits[kind, HEALS] == 1
    u = v - r.num_agents if heals else v
    able = True
    if heals:
        able = u < r.num_agents and s.living[i, u] and r.kinds.traits[s.kind[i, u], HEALS] == 0
    return able and _is_seen(r, s, i, a, u, r.kinds.legal[kind, s.kind[i, u]])


@kernel
def _type(c, r, w, s, i, v):
    """Return the entry that stands for the kind of a unit; SMAC counts some backwards."""
    kind = r.kinds.traits[s.kind[i, v], TYPE]
    return c.type_bits - 1 - kind if w.reversed_types and v >= r.num_agents else kind


@kernel
def _write_health(stats, s, i, v, shields, out, at):
    kind = s.kind[i, v]
    out[at] = s.hp[i, v] / stats[kind, HP]
    if shields and stats[kind, SHIELD] > 0.0:
        out[at + 1] = s.shield[i, v] / stats[kind, SHIELD]
    return at + 2 if shields else at + 1


@subroutine
def write_state(c, r, w, s, i, horizon, out):
    """Write the global state: all units from the middle of the map, last actions, the time."""
    for k in range(out.shape[1]):
        out[i, k] = 0.0
    at = 0
    rows, columns = c.terrain.shape
    for v in range(r.num_agents + r.num_enemies):
        is_ally = v < r.num_agents
        shields = c.ally_shields if is_ally else c.enemy_shields
        end = at + (4 if is_ally else 3) + c.type_bits + (1 if shields else 0)
        if s.living[i, v]:
            kind = s.kind[i, v]
            out[i, at] = s.hp[i, v] / r.kinds.stats[kind, HP]
            if is_ally:
                at += 1
                if r.kinds.traits[kind, HEALS] == 1:
                    out[i, at] = s.energy[i, v] / r.kinds.stats[kind, ENERGY]
                else:
                    longest = r.kinds.stats[kind, COOLDOWN] + JITTER[1]
                    out[i, at] = s.cooldown[i, v] / longest
            out[i, at + 1] = s.x[i, v] / columns - 0.5
            out[i, at + 2] = s.y[i, v] / rows - 0.5
            at += 3
            if shields:
                if r.kinds.stats[kind, SHIELD] > 0.0:
                    out[i, at] = s.shield[i, v] / r.kinds.stats[kind, SHIELD]
                at += 1
            if c.type_bits > 0:
                out[i, at + _type(c, r, w, s, i, v)] = 1.0
        at = end
    if w.state_last_action:
        for a in range(r.num_agents):
            if s.last[i, a] >= 0:
                out[i, at + s.last[i, a]] = 1.0
            at += c.choices
    if w.state_timestep:
        out[i, at] = s.time[i] / horizon
