"""Contacts: overlapping discs push each other apart with a force that grows with the overlap.

In contact the force is a softplus of the overlap; without contact it is exactly zero. Everything is
computed from + - * / and sqrt instead of the machine's exp and log, which differ in the last bit
from one machine to the next.
"""

import math

import numpy as np

from coopbench_envs.core import routine
from coopbench_envs.elementary import two_to
from coopbench_envs.pathfinding.maps.common import ABSENT

# Columns of ``State.body``. Of an agent that moves together with others, they hold what substeps
# need, side by side in memory; of one that has moved alone, X to ANGLE hold where it was before.
X, Y, VX, VY, ANGLE, FROM_X, FROM_Y, PUSH_X, PUSH_Y, RAD = range(10)
COLUMNS = 10
BATCH = 8  # contacts, or substeps of one agent, that are computed at once, as vectors
CLOSE = 1.000001  # times the sum of radii: apart beyond that, whatever the rounding
_LOG2_E = 1.4426950408889634
_LN2_HIGH, _LN2_LOW = 0.6931471803691238, 1.9082149292705877e-10  # ln 2 in two parts
_NEGLIGIBLE = 38.0  # 38 + log(1 + exp(-38)) rounds to 38


@routine
def softplus(x):
    """Return log(1 + exp(x)) for x >= 0, to 14 digits."""
    if x > _NEGLIGIBLE:
        return x
    y = exp_minus(x)
    z = y / (2.0 + y)  # log(1 + y) = 2 artanh(y / (2 + y)), and z <= 1/3
    q = z * z
    if q < 1e-4:  # a large overlap: three terms are enough
        return x + 2.0 * z * (1.0 + q * (1 / 3 + q * (1 / 5 + q * (1 / 7))))
    total = 1 / 21 + q * (1 / 23 + q * (1 / 25 + q * (1 / 27 + q * (1 / 29))))
    total = 1 / 11 + q * (1 / 13 + q * (1 / 15 + q * (1 / 17 + q * (1 / 19 + q * total))))
    total = 1.0 + q * (1 / 3 + q * (1 / 5 + q * (1 / 7 + q * (1 / 9 + q * total))))
    return x + 2.0 * z * total


@routine
def exp_minus(x):
    """Return exp(-x) for 0 <= x <= 38, computed as 2**-n times a short power series."""
    n = int(x * _LOG2_E + 0.5)
    r = (n * _LN2_HIGH - x) + n * _LN2_LOW  # |r| <= ln(2) / 2
    q = r * r
    even = 1.0 + q * (1 / 2 + q * (1 / 24 + q * (1 / 720 + q * (1 / 40320 + q * (1 / 3628800)))))
    odd = 1.0 + q * (1 / 6 + q * (1 / 120 + q * (1 / 5040 + q * (1 / 362880 + q * (1 / 39916800)))))
    return (even + r * odd) * two_to(-n)  # exact


@routine
def apart(one, other, i, a):
    """Return the distance between agent ``a``'s entries in two arrays (lanes, agents, 2)."""
    dx = one[i, a, 0] - other[i, a, 0]
    dy = one[i, a, 1] - other[i, a, 1]
    return math.sqrt(dx * dx + dy * dy)


@routine
def push_apart(c, s, i):
    """Add the forces of all contacts to ``body``; mark agents that hit an agent or a wall.

    Forces are added in the order of objects (agents, then landmarks), whichever list of possible
    contacts there is: an object out of reach adds nothing, so a longer list gives the same bits.
    All forces are zero before: code that moves an agent by its force sets that to zero again.
    """
    n, objects = c.num_agents, c.num_agents + c.map.num_landmarks
    a, o, k, last = np.int64(0), np.int64(0), 0, s.touches[i]
    if s.crowded[i]:
        last = n * c.map.num_landmarks + n * (n - 1) // 2
    while k < last:
        count = 0
        while k < last and count < s.contact_x.shape[1]:
            if s.crowded[i]:  # all pairs, in the same order
                o += 1
                if o == objects:
                    a += 1
                    o = a + 1
                if o >= n and s.landmark_pos[i, o - n, 0] == ABSENT:  # in no bin, either
                    k += 1
                    continue
            else:
                a, o = np.int64(s.touch_agent[i, k]), np.int64(s.touch[i, k])
            count += approach(c, s, i, np.uint64(a), np.uint64(o), count)
            k += 1
        if count > 0:
            press(c, s, i)
            for contact in range(count):
                push_both(c, s, i, contact)


@routine
def approach(c, s, i, a, o, k):
    """Put agent ``a`` and object ``o`` into place ``k`` of the batch; return whether it may stay.

    It may not if the two are apart. There is no branch for that: it would be predicted wrongly.
    """
    body, landmarks = s.body, s.landmark_pos
    x, y, rad = body[i, a, X], body[i, a, Y], body[i, a, RAD]
    if o < c.num_agents:
        dx, dy, reach = x - body[i, o, X], y - body[i, o, Y], rad + body[i, o, RAD]
    else:
        w = o - np.uint64(c.num_agents)
        dx, dy, reach = x - landmarks[i, w, 0], y - landmarks[i, w, 1], rad + c.map.landmark_rad
    s.contact_agent[i, k], s.contact_object[i, k] = a, o
    s.contact_x[i, k], s.contact_y[i, k], s.contact_reach[i, k] = dx, dy, reach
    return dx * dx + dy * dy <= CLOSE * CLOSE * reach * reach


@routine
def press(c, s, i):
    """Compute the forces of a batch: all places of it, since a fixed number runs as vectors."""
    for k in range(s.contact_x.shape[1]):
        dx, dy, reach = s.contact_x[i, k], s.contact_y[i, k], s.contact_reach[i, k]
        distance = math.sqrt(dx * dx + dy * dy)
        depth = max(reach - distance, 0.0)  # of what is not in contact nothing is used
        overlap = c.rules.contact_margin * softplus(depth / c.rules.contact_margin)
        # Without a distance there is no direction.
        push = c.rules.contact_force * overlap / max(distance, 1e-8)
        s.contact_push[i, k] = push if distance <= reach else -1.0


@routine
def push_both(c, s, i, k):
    """Add the force of contact ``k`` of the batch to the agent, and its opposite to the other."""
    a, o, push = s.contact_agent[i, k], s.contact_object[i, k], s.contact_push[i, k]
    if push < 0.0:
        return
    push_x, push_y = push * s.contact_x[i, k], push * s.contact_y[i, k]
    s.body[i, a, PUSH_X] += push_x
    s.body[i, a, PUSH_Y] += push_y
    if o < c.num_agents:
        s.hit_agent[i, a], s.hit_agent[i, o] = True, True
        s.body[i, o, PUSH_X] -= push_x
        s.body[i, o, PUSH_Y] -= push_y
    else:
        s.hit_wall[i, a] = True
