"""exp and log of NumPy arrays with the bits of ``elementary``, for metrics outside of kernels.

NumPy's own call a mathematical library, which rounds differently from one machine to the next.
"""

import math

import numpy as np

from coopbench_envs.elementary import EXP, INTEGER, LN2, LN2_REST, LOG, LOG2_E

__all__ = ["exponentials", "logarithms"]


def exponentials(x: np.ndarray) -> np.ndarray:
    """Return e**x for an array of any float64 numbers but nan."""
    x = np.clip(x, -746.0, 710.0)
    count = (x * LOG2_E + INTEGER) - INTEGER
    r = (x - count * LN2) - count * LN2_REST
    q = r * r
    w = q * q
    first = (EXP[0] + r * EXP[1]) + q * (EXP[2] + r * EXP[3])
    second = (EXP[4] + r * EXP[5]) + q * (EXP[6] + r * EXP[7])
    third = (EXP[8] + r * EXP[9]) + q * EXP[10]
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
    low = (LOG[0] + z * LOG[1]) + w * (LOG[2] + z * LOG[3])
    high = (LOG[4] + z * LOG[5]) + w * (LOG[6] + z * LOG[7])
    rest = z * (low + w * w * high)
    value = e * LN2 - ((s * (f - rest) - e * LN2_REST) - f)
    return np.where(x > 0.0, value, -math.inf)
