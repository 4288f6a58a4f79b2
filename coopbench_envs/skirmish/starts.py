"""Drawn starts of version 1: half of them reflected, half surrounded, or near the published ones.

Shifted starts differ from all of these: reflected with the allies on another side than the left,
surrounded by groups on the axes, not the diagonals, or a bit farther from the published places.
Units stand on ground and clear of each other; one for which no such place is drawn within some
tries keeps the last place on ground.
"""

import math
from typing import NamedTuple

import numpy as np

from coopbench_envs.core import integer, kernel, subroutine, uniform
from coopbench_envs.skirmish.army import RADIUS
from coopbench_envs.skirmish.paths import is_ground

__all__ = ["FIXED", "NEAR", "SPREAD", "Starts", "muster_drawn", "starts_of"]

FIXED, SPREAD, NEAR = range(3)  # as published; reflected or surrounded; near the published places
_TRIES = 50
_AROUND = 4.0  # cells from the published place
_BEYOND = 6.0  # the same for shifted starts, which are not within _AROUND
_GAP = 1.0  # cells between the middle of the map and the nearest unit of a reflected start
_CLOSE = 2.0  # cells along each axis between the units in the middle and those around
_MOST_GROUPS = 4


class Starts(NamedTuple):
    """How the places of an episode are drawn."""

    mode: int
    left: float  # the ground lies within these
    right: float
    bottom: float
    top: float
    crowd: float  # cells along an axis that the square root of the number of units takes
    shifted: bool  # draw what is not drawn otherwise


def starts_of(terrain: np.ndarray, mode: int, max_radius: float, *, shifted: bool) -> Starts:
    """Return how places are drawn on the ground of a map."""
    rows, columns = np.nonzero(terrain)
    return Starts(
        mode=mode,
        left=float(columns.min()),
        right=float(columns.max() + 1),
        bottom=float(rows.min()),
        top=float(rows.max() + 1),
        crowd=1.5 * max_radius,
        shifted=shifted,
    )


@subroutine
def muster_drawn(d, c, s, i, rng):
    """Place the units of lane ``i``, which are there in full health, and set where they march."""
    if d.mode == NEAR:
        for u in range(c.num_agents + c.num_enemies):
            _settle_near(d, c, s, i, rng, u)
    elif d.mode == SPREAD:
        if uniform(rng, i) < 0.5:
            _reflect(d, c, s, i, rng)
        else:
            _surround(d, c, s, i, rng)
    _set_marches(d, c, s, i)


@kernel
def _set_marches(d, c, s, i):
    """Let each side march to the middle of the other's start, or as the map says, and face it."""
    for side in range(2):
        begin = c.num_agents if side == 0 else 0
        end = c.num_agents + c.num_enemies if side == 0 else c.num_agents
        x, y = 0.0, 0.0
        for u in range(begin, end):
            x += s.x[i, u]
            y += s.y[i, u]
        s.march[i, side, 0], s.march[i, side, 1] = x / (end - begin), y / (end - begin)
    if d.mode == FIXED:
        rows, columns = c.ground.walkable.shape
        s.march[i, 0, 0], s.march[i, 0, 1] = columns - c.march_x, rows - c.march_y
        s.march[i, 1, 0], s.march[i, 1, 1] = c.march_x, c.march_y
    for u in range(c.num_agents + c.num_enemies):
        side = 0 if u < c.num_agents else 1
        dx, dy = s.march[i, side, 0] - s.x[i, u], s.march[i, side, 1] - s.y[i, u]
        length = math.sqrt(dx * dx + dy * dy)
        if length == 0.0:
            dx, length = 1.0, 1.0
        s.face_x[i, u], s.face_y[i, u] = dx / length, dy / length


@kernel
def _is_clear(c, s, i, u):
    """Return whether unit ``u`` overlaps none of those before it."""
    clear = True
    kind = s.kind[i, u]
    for v in range(u):
        dx, dy = s.x[i, v] - s.x[i, u], s.y[i, v] - s.y[i, u]
        both = c.kinds.stats[kind, RADIUS] + c.kinds.stats[s.kind[i, v], RADIUS]
        if c.kinds.layer[kind] == c.kinds.layer[s.kind[i, v]] and dx * dx + dy * dy < both * both:
            clear = False
    return clear


@kernel
def _try(c, s, i, u, x, y):
    """Place unit ``u`` at (x, y) if that is ground; return whether it stands there and is clear."""
    stands = is_ground(c.ground.walkable, x, y)
    if stands:
        s.x[i, u], s.y[i, u] = x, y
        stands = _is_clear(c, s, i, u)
    return stands


@subroutine
def _settle(d, c, s, i, rng, u, x, y, half_width, half_height):
    """Draw a place for unit ``u`` in the rectangle around (x, y)."""
    for _ in range(_TRIES):
        px = x + (2.0 * uniform(rng, i) - 1.0) * half_width
        py = y + (2.0 * uniform(rng, i) - 1.0) * half_height
        if _try(c, s, i, u, px, py):
            break


@subroutine
def _settle_near(d, c, s, i, rng, u):
    """Draw a place for unit ``u`` around its published one; shifted: not too near to it."""
    most = _BEYOND if d.shifted else _AROUND
    for _ in range(_TRIES):
        dx = (2.0 * uniform(rng, i) - 1.0) * most
        dy = (2.0 * uniform(rng, i) - 1.0) * most
        far = not d.shifted or max(abs(dx), abs(dy)) > _AROUND
        if far and _try(c, s, i, u, c.start[u, 0] + dx, c.start[u, 1] + dy):
            break


@kernel
def _reflect(d, c, s, i, rng):
    """Draw the allies on the left; enemies are their images, and those beyond on the right.

    Shifted: the allies are on the right, at the bottom or at the top.
    """
    side = 1 + integer(rng, i, 3) if d.shifted else 0  # left, right, bottom, top
    across = side < 2
    x, y = 0.5 * (d.left + d.right), 0.5 * (d.bottom + d.top)
    half_width, half_height = 0.5 * (d.right - d.left), 0.5 * (d.top - d.bottom)
    away_x, away_y = 0.0, 0.0
    if across:
        half_width = 0.5 * half_width - 0.5 * _GAP
        away_x = half_width - x + d.left if side == 0 else d.right - half_width - x
    else:
        half_height = 0.5 * half_height - 0.5 * _GAP
        away_y = half_height - y + d.bottom if side == 2 else d.top - half_height - y
    for a in range(c.num_agents):
        _settle(d, c, s, i, rng, a, x + away_x, y + away_y, half_width, half_height)
    for k in range(c.num_enemies):
        u = c.num_agents + k
        mirrored = k < c.num_agents
        if mirrored:
            image_x = d.left + d.right - s.x[i, k] if across else s.x[i, k]
            image_y = s.y[i, k] if across else d.bottom + d.top - s.y[i, k]
            mirrored = _try(c, s, i, u, image_x, image_y)
        if not mirrored:
            _settle(d, c, s, i, rng, u, x - away_x, y - away_y, half_width, half_height)


@kernel
def _surround(d, c, s, i, rng):
    """Draw one side in the middle, and the other in 1 to 4 groups on different diagonals.

    Shifted: the groups are to the right, to the left, above and below.
    Which side is in the middle is drawn, too: to be surrounded is a disadvantage.
    """
    x, y = 0.5 * (d.left + d.right), 0.5 * (d.bottom + d.top)
    allies_inside = uniform(rng, i) < 0.5
    inside = c.num_agents if allies_inside else c.num_enemies
    inner = d.crowd * math.sqrt(inside)
    groups = 1 + integer(rng, i, _MOST_GROUPS)
    turn = integer(rng, i, _MOST_GROUPS)
    farthest = min(0.5 * (d.right - d.left), 0.5 * (d.top - d.bottom)) - 1.0
    nearest = min(inner + _CLOSE, farthest)
    outer = d.crowd * math.sqrt((c.num_agents + c.num_enemies - inside) / groups)
    # One number gives the distances of all groups, so that none has to be kept.
    shares = uniform(rng, i)
    for u in range(c.num_agents + c.num_enemies):
        gx, gy, half = x, y, inner
        if (u < c.num_agents) != allies_inside:
            diagonal = (turn + integer(rng, i, groups)) % _MOST_GROUPS
            share = shares + 0.37 * diagonal
            away = nearest + (share - math.floor(share)) * (farthest - nearest)
            if d.shifted:
                sign = 1.0 if diagonal % 2 == 0 else -1.0
                gx, gy = (x + sign * away, y) if diagonal < 2 else (x, y + sign * away)
            else:
                gx = x + (away if diagonal % 2 == 0 else -away)
                gy = y + (away if diagonal < 2 else -away)
            half = outer
        _settle(d, c, s, i, rng, u, gx, gy, half, half)
