"""Angles: sine, cosine and heading from + - * / and sqrt, bit-identical on every machine."""

import math

import numpy as np

from coopbench_envs.core import routine

_PER_QUARTER = 2 / math.pi
_QUARTER_HIGH, _QUARTER_LOW = 1.5707963267341256, 6.077100506506192e-11  # pi / 2 in two parts
_NO_TURN = 3.14159  # surely less than pi, whatever the rounding


@routine
def sine_cosine(angle):
    """Return sine and cosine of an angle in radians to 15 digits, for some turns at most.

    Without branches: loops over angles run as vectors.
    """
    n = np.floor(angle * _PER_QUARTER + 0.5)
    r = (angle - n * _QUARTER_HIGH) - n * _QUARTER_LOW  # |r| <= pi / 4
    q = r * r
    sine = 1 / 39916800 - q * (1 / 6227020800 - q * (1 / 1307674368000))
    sine = 1.0 - q * (1 / 6 - q * (1 / 120 - q * (1 / 5040 - q * (1 / 362880 - q * sine))))
    cosine = 1 / 479001600 - q * (1 / 87178291200 - q * (1 / 20922789888000))
    cosine = 1 / 720 - q * (1 / 40320 - q * (1 / 3628800 - q * cosine))
    sine, cosine = r * sine, 1.0 - q * (1 / 2 - q * (1 / 24 - q * cosine))
    quarter = n - 4.0 * np.floor(0.25 * n)
    is_odd = (quarter == 1.0) | (quarter == 3.0)
    up = cosine if is_odd else sine
    along = sine if is_odd else cosine
    up = -up if quarter >= 2.0 else up
    along = -along if (quarter == 1.0) | (quarter == 2.0) else along
    return up, along


@routine
def heading(dx, dy):
    """Return the angle of a direction in [-pi, pi] to 15 digits; 0 for the zero vector."""
    across, up = abs(dx), abs(dy)
    if not max(across, up) > 0.0:
        return 0.0
    t = min(across, up) / max(across, up)
    for _ in range(2):  # each halves the angle: t <= tan(pi / 16)
        t = t / (1.0 + math.sqrt(1.0 + t * t))
    total = 0.0
    for k in range(23, 0, -2):  # series of the arc tangent, from its smallest term
        total = 1.0 / k - total * t * t
    angle = 4.0 * t * total
    if up > across:
        angle = 0.5 * math.pi - angle
    if dx < 0.0:
        angle = math.pi - angle
    return -angle if dy < 0.0 else angle


@routine
def wrapped(angle):
    """Return the angle of the same direction in [-pi, pi)."""
    if -math.pi <= angle < _NO_TURN:  # the same bits without the division
        return angle
    turns = np.floor((angle + math.pi) / (2.0 * math.pi))
    angle -= 2.0 * math.pi * turns
    return angle if -math.pi <= angle < math.pi else -math.pi
