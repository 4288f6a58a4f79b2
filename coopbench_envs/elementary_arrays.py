"""exp and log of NumPy arrays with the bits of ``elementary``, for metrics outside of kernels.

NumPy's own call a mathematical library, which rounds differently from one machine to the next.
"""

import math

import numpy as np

from coopbench_envs.elementary import (
    _EXP,
    _INTEGER,
    _LN2,
    _LN2_REST,
    _LOG,
    _LOG2_E,
)

__all__ = ["exponentials", "logarithms"]


def exponentials(x: np.ndarray) -> np.ndarray:
    """Return e**x for an array of any float64 numbers but nan."""
    x = np.clip(x, -746.0, 710.0)
    count = (x * _LOG2_E + _INTEGER) - _INTEGER
    r = (x - count * _LN2) - count * _LN2_REST
    q = r * r
    w = q * q
    first = (_EXP[0] + r * _EXP[1]) + q * (_EXP[2] + r * _EXP[3])
    second = (_EXP[4] + r * _EXP[5]) + q * (_EXP[6] + r * _EXP[7])
    third = (_EXP[8] + r * _EXP[9]) + q * _EXP[10]
    value = 1.0 + (r + q * (first + w * (second + w * third)))
    with np.errstate(over="ignore", under="ignore"):
        return np.asarray(np.ldexp(value, count.astype(np.int64)))


def logarithms(x: np.ndarray) -> np.ndarray:
    """Return the natural logarithms of an array of finite numbers >= 0: -inf at 0."""
    mantissa, exponent = np.frexp(x)
    below = mantissa < math.sqrt(0.5)
    e = exponent - below.astype(np.float64)
    f = np.where(below, 2.0 * mantissa, mantissa) - 1.0
    s = f / (2.0 + f)
    z = s * s
    w = z * z
    low = (_LOG[0] + z * _LOG[1]) + w * (_LOG[2] + z * _LOG[3])
    high = (_LOG[4] + z * _LOG[5]) + w * (_LOG[6] + z * _LOG[7])
    rest = z * (low + w * w * high)
    value = e * _LN2 - ((s * (f - rest) - e * _LN2_REST) - f)
    return np.where(x > 0.0, value, -math.inf)
