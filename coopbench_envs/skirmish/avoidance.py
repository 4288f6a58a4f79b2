"""Collision avoidance: the permitted velocities of a unit as half-planes, and the best of them.

Optimal reciprocal collision avoidance (van den Berg et al. 2011) with a horizon of one second, with
the peculiarities of the NumPy version of SMAClite, which the results depend on: see ``wall_lines``.
A line is a row of four numbers, point and direction; permitted is what lies to its left.
"""

import math

from coopbench_envs.core import routine, subroutine

__all__ = ["best_velocity", "unit_line", "wall_lines"]

_PARALLEL = 1e-5  # determinants below are of parallel lines
_TICKS = 16.0  # per second: units that overlap part within one tick


@routine
def unit_line(lines, k, dx, dy, distance, radius, vx, vy, other_vx, other_vy, share):
    """Write line ``k``: what a neighbour at (dx, dy) leaves of the velocities of a unit.

    ``radius`` is the sum of both radii; ``share`` how much of the evasion is this unit's own.
    """
    rvx, rvy = vx - other_vx, vy - other_vy
    d2, r2 = distance * distance, radius * radius
    if d2 > r2:
        wx, wy = rvx - dx, rvy - dy
        w2 = wx * wx + wy * wy
        dot = wx * dx + wy * dy
        if dot < 0.0 and dot * dot > r2 * w2:
            w = math.sqrt(w2)
            nx, ny = wx / w, wy / w
            lx, ly = ny, -nx
            ux, uy = (radius - w) * nx, (radius - w) * ny
        else:
            leg = math.sqrt(d2 - r2)
            if dx * wy - dy * wx > 0.0:
                lx, ly = (dx * leg - dy * radius) / d2, (dx * radius + dy * leg) / d2
            else:
                lx, ly = (-dx * leg - dy * radius) / d2, (dx * radius - dy * leg) / d2
            dot = rvx * lx + rvy * ly
            ux, uy = dot * lx - rvx, dot * ly - rvy
    else:
        wx, wy = rvx - _TICKS * dx, rvy - _TICKS * dy
        w = math.sqrt(wx * wx + wy * wy)
        nx, ny = wx / w, wy / w
        lx, ly = ny, -nx
        ux, uy = (radius * _TICKS - w) * nx, (radius * _TICKS - w) * ny
    _write(lines, k, vx + share * ux, vy + share * uy, lx, ly)


@routine
def _write(lines, k, x, y, dx, dy):
    lines[k, 0], lines[k, 1], lines[k, 2], lines[k, 3] = x, y, dx, dy


@subroutine
def _is_covered(lines, count, ax, ay, bx, by, radius):
    """Return whether an earlier line already forbids what the edge from a to b would forbid."""
    for k in range(count):
        px, py, dx, dy = lines[k, 0], lines[k, 1], lines[k, 2], lines[k, 3]
        first = (ax - px) * dy - (ay - py) * dx - radius
        second = (bx - px) * dy - (by - py) * dx - radius
        if first >= -_PARALLEL and second >= -_PARALLEL:
            return True
    return False


@subroutine
def wall_lines(lines, walls, chosen, first, last, x, y, vx, vy, radius, reach):
    """Write the lines of all walls within ``reach`` of a unit; return how many there are.

    Only walls ``chosen[first]`` to ``chosen[last - 1]`` can be.

    The vector that shifts a line by the radius is added as one number to both coordinates, and the
    legs of an edge that the unit overlaps are NaN, for which every comparison is false: units
    therefore sink into walls along x.
    """
    count = 0
    for k in range(first, last):
        w = chosen[k]
        dx = max(0.0, abs(x - (walls[w, 0] + 0.5 * walls[w, 2])) - 0.5 * walls[w, 2])
        dy = max(0.0, abs(y - (walls[w, 1] + 0.5 * walls[w, 3])) - 0.5 * walls[w, 3])
        if dx > reach or dy > reach or (dx + dy > reach and dx * dx + dy * dy > reach * reach):
            continue
        for edge in range(4):
            if edge % 2 == 0:
                faces = y < walls[w, 1] if edge == 0 else y > walls[w, 1] + walls[w, 3]
            else:
                faces = x < walls[w, 0] if edge == 3 else x > walls[w, 0] + walls[w, 2]
            if faces and _edge_line(lines, count, walls, w, edge, x, y, vx, vy, radius):
                count += 1
    return count


@routine
def _corner(walls, w, edge):
    """Return where an edge of a wall begins, relative to the map; edges run counterclockwise."""
    x = walls[w, 0] + (walls[w, 2] if edge == 1 or edge == 2 else 0.0)
    y = walls[w, 1] + (walls[w, 3] if edge >= 2 else 0.0)
    return x, y


@routine
def _direction(edge):
    x = 1.0 if edge == 0 else -1.0 if edge == 2 else 0.0
    y = 1.0 if edge == 1 else -1.0 if edge == 3 else 0.0
    return x, y


@routine
def _leg(x, y, length, radius, square):
    """Return the direction of the leg to the left of a corner; to the right if radius < 0."""
    return (x * length - y * radius) / square, (x * radius + y * length) / square


@subroutine
def _edge_line(lines, k, walls, w, edge, x, y, vx, vy, radius):
    """Write line ``k`` for an edge that faces the unit; return whether it forbids anything."""
    after = (edge + 1) % 4
    ax, ay = _corner(walls, w, edge)
    bx, by = _corner(walls, w, after)
    ax, ay, bx, by = ax - x, ay - y, bx - x, by - y
    ex, ey = bx - ax, by - ay
    if _is_covered(lines, k, ax, ay, bx, by, radius):
        return False
    a2, b2, r2 = ax * ax + ay * ay, bx * bx + by * by, radius * radius
    s = -(ax * ex + ay * ey) / (ex * ex + ey * ey)
    fx, fy = -ax - s * ex, -ay - s * ey
    line2 = fx * fx + fy * fy
    adx, ady = _direction(edge)
    bdx, bdy = _direction(after)
    if s < 0.0 and a2 < r2:
        length = math.sqrt(a2)
        _write(lines, k, 0.0, 0.0, -ay / length, ax / length)
        return True
    if s > 1.0 and b2 <= r2:
        if bx * bdy - by * bdx < 0.0:
            return False
        length = math.sqrt(b2)
        _write(lines, k, 0.0, 0.0, -by / length, bx / length)
        return True
    if 0.0 < s < 1.0 and line2 <= r2:
        _write(lines, k, 0.0, 0.0, -adx, -ady)
        return True
    one = line2 <= r2 and (s < 0.0 or s > 1.0)  # seen from its end: both legs at one corner
    if one and s < 0.0:
        bx, by, b2, bdx, bdy = ax, ay, a2, adx, ady
    elif one:
        ax, ay, a2, adx, ady = bx, by, b2, bdx, bdy
    return _cone_line(
        lines, k, ax, ay, adx, ady, bx, by, bdx, bdy, one, (edge + 3) % 4, vx, vy, radius
    )


@subroutine
def _cone_line(lines, k, ax, ay, adx, ady, bx, by, bdx, bdy, one, before, vx, vy, radius):
    """Write line ``k`` for the edge from a to b at a distance; return whether it forbids anything.

    (adx, ady) and (bdx, bdy) are the directions of the edges that begin at a and b, ``one`` says
    that a and b are the same corner, and ``before`` is the edge that ends at the first corner.
    """
    a2, b2, r2 = ax * ax + ay * ay, bx * bx + by * by, radius * radius
    left_x, left_y = _leg(ax, ay, _root(a2 - r2), radius, a2)
    right_x, right_y = _leg(bx, by, _root(b2 - r2), -radius, b2)
    nx, ny = _direction(before)
    left_foreign = left_x * -ny + left_y * nx >= 0.0
    if left_foreign:
        left_x, left_y = -nx, -ny
    right_foreign = right_x * bdy - right_y * bdx <= 0.0
    if right_foreign:
        right_x, right_y = bdx, bdy
    cx, cy = bx - ax, by - ay
    t = 0.5 if one else ((vx - ax) * cx + (vy - ay) * cy) / (cx * cx + cy * cy)
    t_left = (vx - ax) * left_x + (vy - ay) * left_y
    t_right = (vx - bx) * right_x + (vy - by) * right_y
    if (t < 0.0 and t_left < 0.0) or (one and t_left < 0.0 and t_right < 0.0):
        _round_line(lines, k, ax, ay, vx, vy, radius)
        return True
    if t > 1.0 and t_right < 0.0:
        _round_line(lines, k, bx, by, vx, vy, radius)
        return True
    to_edge = math.inf
    if not (t < 0.0 or t > 1.0 or one):
        to_edge = _square(vx - (ax + t * cx), vy - (ay + t * cy))
    to_left = math.inf
    if not t_left < 0.0:
        to_left = _square(vx - (ax + t_left * left_x), vy - (ay + t_left * left_y))
    to_right = math.inf
    if not t_right < 0.0:
        to_right = _square(vx - (bx + t_right * right_x), vy - (by + t_right * right_y))
    if to_edge <= to_left and to_edge <= to_right:
        _write(lines, k, ax + radius * ady, ay + radius * ady, -adx, -ady)
        return True
    if to_left <= to_right:
        shift = -radius * left_y
        _write(lines, k, ax + shift, ay + shift, left_x, left_y)
        return not left_foreign
    shift = radius * right_y
    _write(lines, k, bx + shift, by + shift, -right_x, -right_y)
    return not right_foreign


@routine
def _root(x):
    return math.sqrt(x) if x >= 0.0 else math.nan


@routine
def _square(x, y):
    return x * x + y * y


@subroutine
def _round_line(lines, k, x, y, vx, vy, radius):
    """Write line ``k``: the tangent to the disc around a corner that is nearest to a velocity."""
    wx, wy = vx - x, vy - y
    length = math.sqrt(wx * wx + wy * wy)
    wx, wy = wx / length, wy / length
    _write(lines, k, x + radius * wx, y + radius * wy, wy, -wx)


@routine
def best_velocity(lines, count, fixed, spare, speed, wx, wy):
    """Return the permitted velocity of length up to ``speed`` that is nearest to (wx, wy).

    If the ``count`` lines permit none, the first ``fixed`` of them hold and the others are violated
    as little as possible. ``spare`` has room for as many lines.
    """
    done, x, y = _nearest(lines, count, speed, wx, wy, False)
    if done < count:
        x, y = _least_violation(lines, count, fixed, spare, done, speed, x, y)
    if not (x - x == 0.0 and y - y == 0.0):
        return 0.0, 0.0
    return x, y


@subroutine
def _on_line(lines, k, speed, wx, wy, farthest):
    """Return whether line ``k`` has a permitted velocity, and the best one.

    Best is the one nearest to (wx, wy), or with ``farthest`` the one farthest in that direction.
    """
    px, py, dx, dy = lines[k, 0], lines[k, 1], lines[k, 2], lines[k, 3]
    dot = px * dx + py * dy
    discriminant = dot * dot + speed * speed - (px * px + py * py)
    if discriminant < 0.0:
        return False, 0.0, 0.0
    root = math.sqrt(discriminant)
    low, high = -dot - root, -dot + root
    for j in range(k):
        ox, oy = lines[j, 2], lines[j, 3]
        denominator = dx * oy - dy * ox
        numerator = ox * (py - lines[j, 1]) - oy * (px - lines[j, 0])
        if abs(denominator) < _PARALLEL:
            if numerator < 0.0:
                return False, 0.0, 0.0
            continue
        t = numerator / denominator
        if denominator >= 0.0:
            if t < high:
                high = t
        elif t > low:
            low = t
        if low > high:
            return False, 0.0, 0.0
    if farthest:
        t = high if wx * dx + wy * dy > 0.0 else low
    else:
        t = dx * (wx - px) + dy * (wy - py)
        if t < low:
            t = low
        elif t > high:
            t = high
    return True, px + t * dx, py + t * dy


@subroutine
def _nearest(lines, count, speed, wx, wy, farthest):
    """Return how many lines can be kept, one after the other, and the best velocity for these."""
    x, y = wx, wy
    if farthest:
        x, y = wx * speed, wy * speed
    elif wx * wx + wy * wy > speed * speed:
        length = math.sqrt(wx * wx + wy * wy)
        x, y = wx / length * speed, wy / length * speed
    for k in range(count):
        if lines[k, 2] * (lines[k, 1] - y) - lines[k, 3] * (lines[k, 0] - x) <= 0.0:
            continue
        fits, new_x, new_y = _on_line(lines, k, speed, wx, wy, farthest)
        if not fits:
            return k, x, y
        x, y = new_x, new_y
    return count, x, y


@subroutine
def _least_violation(lines, count, fixed, spare, begin, speed, x, y):
    """Return the velocity that violates the lines from ``begin`` on as little as possible."""
    distance = 0.0
    for k in range(fixed):
        _write(spare, k, lines[k, 0], lines[k, 1], lines[k, 2], lines[k, 3])
    for k in range(begin, count):
        px, py, dx, dy = lines[k, 0], lines[k, 1], lines[k, 2], lines[k, 3]
        if dx * (py - y) - dy * (px - x) <= distance:
            continue
        n = fixed
        for j in range(fixed, k):
            ox, oy = lines[j, 2], lines[j, 3]
            determinant = dx * oy - dy * ox
            if abs(determinant) <= _PARALLEL:
                if dx * ox + dy * oy > 0.0:
                    continue
                qx, qy = 0.5 * (px + lines[j, 0]), 0.5 * (py + lines[j, 1])
            else:
                share = (ox * (py - lines[j, 1]) - oy * (px - lines[j, 0])) / determinant
                qx, qy = px + share * dx, py + share * dy
            lx, ly = ox - dx, oy - dy
            length = math.sqrt(lx * lx + ly * ly)
            _write(spare, n, qx, qy, lx / length, ly / length)
            n += 1
        done, new_x, new_y = _nearest(spare, n, speed, -dy, dx, True)
        if done >= n:
            x, y = new_x, new_y
        distance = dx * (py - y) - dy * (px - x)
    return x, y
