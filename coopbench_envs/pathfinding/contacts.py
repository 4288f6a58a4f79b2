"""Contacts: overlapping discs push each other apart with a force that grows with the overlap.

In contact the force is a softplus of the overlap; without contact it is exactly zero. Everything is
computed from + - * / and sqrt instead of the machine's exp and log, which differ in the last bit
from one machine to the next.
"""

import math

import numpy as np

from coopbench_envs.core import routine
from coopbench_envs.elementary import two_to

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
    """Sum the forces of all contacts into ``force``; mark agents that hit an agent or a wall.

    Forces are added in the order of objects (agents, then landmarks), whichever list of possible
    contacts there is: an object out of reach adds nothing, so a longer list gives the same bits.
    All forces are zero before: whoever moves an agent by its force sets that to zero again.
    """
    if s.crowded[i]:
        for a in range(c.num_agents):
            for o in range(a + 1, c.num_agents + c.num_landmarks):
                touch(c, s, i, a, o)
    else:
        for k in range(s.touches[i]):
            touch(c, s, i, np.int64(s.touch_agent[i, k]), np.int64(s.touch[i, k]))


@routine
def touch(c, s, i, a, o):
    """Push agent ``a`` away from object ``o``, and an agent ``o`` back, if they are in contact."""
    n, pos, landmarks, rad, force = c.num_agents, s.agent_pos, s.landmark_pos, s.agent_rad, s.force
    if o < n:
        dx = pos[i, a, 0] - pos[i, o, 0]
        dy = pos[i, a, 1] - pos[i, o, 1]
        contact = rad[i, a] + rad[i, o]
    else:
        dx = pos[i, a, 0] - landmarks[i, o - n, 0]
        dy = pos[i, a, 1] - landmarks[i, o - n, 1]
        contact = rad[i, a] + c.landmark_rad
    distance = math.sqrt(dx * dx + dy * dy)
    if distance > contact:
        return
    overlap = c.contact_margin * softplus((contact - distance) / c.contact_margin)
    push = c.contact_force * overlap / max(distance, 1e-8)  # coinciding centres have no direction
    force[i, a, 0] += push * dx
    force[i, a, 1] += push * dy
    if o < n:
        s.hit_agent[i, a] = True
        s.hit_agent[i, o] = True
        force[i, o, 0] -= push * dx
        force[i, o, 1] -= push * dy
    else:
        s.hit_wall[i, a] = True
