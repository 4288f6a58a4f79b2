"""exp, log, powers and cosine from + - * / and bits alone: the same on every machine.

A mathematical library rounds differently from one operating system, processor or version to the
next, so that an environment that calls it promises its bits for one machine only. These functions
are fixed sequences of operations that IEEE 754 defines to the bit.

An argument is reduced to a small one by multiples of ln 2 or pi / 2 that are stored in two or three
parts (Cody and Waite 1980, Software Manual for the Elementary Functions), of which the first have
so many zero bits that their products with a whole number are exact; a power series does the rest.
Powers carry about 100 bits of the logarithm, as unevaluated sums of two numbers (Dekker 1971,
Numerische Mathematik 18: 224-242). Errors are below 1 unit in the last place, of cosines below 2
where they are tiny; the tests compare with 200 bits.
"""

import math

import numpy as np

from coopbench_envs.core import routine

__all__ = ["cosine", "exponential", "logarithm", "power", "two_to"]

LOG2_E = 1.4426950408889634
# ln 2 in parts of 42, 42 and 53 bits: products with a binary exponent (11 bits) are exact.
LN2, LN2_REST, _LN2_LAST = 0.6931471805598903, 5.49792301870721e-14, 1.1612227229362532e-26
_PER_QUARTER = 2 / math.pi
# pi / 2 in parts of 33, 33 and 53 bits: products with up to 2**20 quarter turns are exact.
_QUARTER, _QUARTER_REST, _QUARTER_LAST = (
    1.5707963267341256,
    6.077100506303966e-11,
    2.02226624879595e-21,
)
_ROOT_HALF = 0x3FE6A09E667F3BCD  # bits of sqrt(1 / 2)
LOG = (
    0.6666666666666666,
    0.4000000000000088,
    0.28571428570803603,
    0.22222222391715343,
    0.1818179563998063,
    0.15386239711097155,
    0.13268772916844226,
    0.13086628467536549,
)
EXP = (
    0.5,
    0.1666666666666667,
    0.04166666666666667,
    0.008333333333326084,
    0.0013888888888883711,
    0.0001984126987500228,
    2.480158732567746e-05,
    2.755725517000089e-06,
    2.755727347871858e-07,
    2.5105312729622103e-08,
    2.09147553258932e-09,
)
INTEGER = 6755399441055744.0  # 1.5 * 2**52: adding it rounds to a whole number
_INTEGER_BITS = 0x4338000000000000  # its bits
_THIRD_LOW = 1.850371707708594e-17  # 1 / 3 less its nearest number
_SPLIT = 134217729.0  # 2**27 + 1
_LARGEST, _SMALLEST_NORMAL = 1.7976931348623157e308, 2.2250738585072014e-308
_TWO_54 = 18014398509481984.0


@routine
def exponential(x):
    """Return e**x, for any x."""
    return _exponential(x, 0.0)


@routine
def logarithm(x):
    """Return the natural logarithm of x: -inf at 0, nan below."""
    if not 0.0 < x <= _LARGEST:
        if x == 0.0:
            return -math.inf
        return x if x > 0.0 else math.nan  # infinity, or nothing that has one
    e, m = _parts(x)
    f = m - 1.0  # exact; -.293 <= f <= .414
    s = f / (2.0 + f)
    z = s * s
    # log(1 + f) = 2 artanh(s) = 2 s + s rest, and 2 s = f - s f. The rest is z times the polynomial
    # through its values at the eight Chebyshev nodes of [0, .0294], to a relative 2**-63.
    w = z * z
    low = (LOG[0] + z * LOG[1]) + w * (LOG[2] + z * LOG[3])
    high = (LOG[4] + z * LOG[5]) + w * (LOG[6] + z * LOG[7])
    rest = z * (low + w * w * high)
    return e * LN2 - ((s * (f - rest) - e * LN2_REST) - f)


@routine
def power(x, y):
    """Return x**y for x >= 0: nan below, 1 for y = 0 and for x = 1, and x for y = 1."""
    if y == 0.0 or x == 1.0:
        return 1.0
    if y == 1.0 and x >= 0.0:
        return x
    if not (x >= 0.0 and abs(y) <= math.inf):  # negative, or nan
        return math.nan
    if x == 0.0 or x > _LARGEST:
        return math.inf if (x == 0.0) == (y < 0.0) else 0.0
    high, low = _long_logarithm(x)
    if not abs(y * high) < 800.0:
        return math.inf if (y > 0.0) == (high > 0.0) else 0.0
    product, rest = _product(y, high)
    return _exponential(product, rest + y * low)


@routine
def cosine(x):
    """Return the cosine of an angle in radians, for up to 2**20 quarter turns; nan beyond."""
    if not abs(x) < 1.6e6:
        return math.nan
    n = math.floor(x * _PER_QUARTER + 0.5)
    # x - n pi / 2 as an unevaluated sum: the first difference is exact
    first, rest = x - n * _QUARTER, n * _QUARTER_REST
    high = first - rest
    low = ((first - high) - rest) - n * _QUARTER_LAST
    r = high + low
    low = (high - r) + low
    q = r * r
    quarter = n - 4.0 * math.floor(0.25 * n)
    if quarter == 0.0 or quarter == 2.0:
        series = 1 / 479001600 - q * (1 / 87178291200 - q * (1 / 20922789888000))
        series = 1 / 24 - q * (1 / 720 - q * (1 / 40320 - q * (1 / 3628800 - q * series)))
        half = 0.5 * q
        whole = 1.0 - half
        value = whole + (((1.0 - whole) - half) + (q * (q * series) - r * low))
        return value if quarter == 0.0 else -value
    series = 1 / 6227020800 - q * (1 / 1307674368000 - q * (1 / 355687428096000))
    series = 1 / 120 - q * (1 / 5040 - q * (1 / 362880 - q * (1 / 39916800 - q * series)))
    value = r + (low - r * q * (1 / 6 - q * series))
    return -value if quarter == 1.0 else value


@routine
def _exponential(x, low):
    """Return e**(x + low) for a ``low`` of at most an ulp of x or so."""
    if abs(x) < 708.0:
        n, value = _reduced(x, low)
        return value * two_to(n)
    if x != x:
        return x
    n, value = _reduced(min(max(x, -746.0), 710.0), low)
    half = n >> 1  # in two steps: the first factor is exact, the second overflows or rounds
    return value * two_to(half) * two_to(n - half)


@routine
def _reduced(x, low):
    """Return n and e**(x + low) / 2**n, which is within a factor of sqrt(2) of 1; |x| < 1000."""
    shifted = x * LOG2_E + INTEGER  # has n in its last bits
    n = np.float64(shifted).view(np.int64) - _INTEGER_BITS
    count = shifted - INTEGER
    r = (x - count * LN2) - (count * LN2_REST - low)  # |r| <= ln(2) / 2
    # (e**r - 1 - r) / r**2 is the polynomial through its values at the eleven Chebyshev nodes, to
    # 2**-62. Its terms come in pairs: short chains of operations run side by side.
    q = r * r
    w = q * q
    first = (EXP[0] + r * EXP[1]) + q * (EXP[2] + r * EXP[3])
    second = (EXP[4] + r * EXP[5]) + q * (EXP[6] + r * EXP[7])
    third = (EXP[8] + r * EXP[9]) + q * EXP[10]
    return n, 1.0 + (r + q * (first + w * (second + w * third)))


@routine
def two_to(n):
    """Return 2**n for a whole number n in [-1022, 1023]."""
    return np.int64((n + 1023) << 52).view(np.float64)


@routine
def _parts(x):
    """Return e and m with x = 2**e m and m within a factor of sqrt(2) of 1; x is positive."""
    e = 0.0
    if x < _SMALLEST_NORMAL:
        x, e = x * _TWO_54, -54.0
    # Exponents begin at sqrt(1 / 2): subtracting its bits makes that a matter of one shift.
    bits = np.float64(x).view(np.int64)
    shift = (bits - _ROOT_HALF) >> 52
    return e + np.float64(shift), np.int64(bits - (shift << 52)).view(np.float64)


@routine
def _product(a, b):
    """Return a * b as the rounded product and what it lacks (Dekker 1971)."""
    product = a * b
    left, right = _SPLIT * a, _SPLIT * b
    a_high, b_high = left - (left - a), right - (right - b)
    a_low, b_low = a - a_high, b - b_high
    rest = ((a_high * b_high - product) + a_high * b_low + a_low * b_high) + a_low * b_low
    return product, rest


@routine
def _long_logarithm(x):
    """Return the logarithm of a positive number as a sum of two, to about 100 bits."""
    e, m = _parts(x)
    f = m - 1.0
    whole = 2.0 + f
    whole_low = f - (whole - 2.0)
    # s = f / (2 + f) and z = s s, each with what it lacks
    s = f / whole
    product, rest = _product(s, whole)
    s_low = (((f - product) - rest) - s * whole_low) / whole
    z, z_low = _product(s, s)
    z_low += 2.0 * s * s_low
    # 2 artanh(s) / (2 s) - 1 = z / 3 + z**2 / 5 + ..., of which only z / 3 needs more than 53 bits
    tail = 1 / 17 + z * (1 / 19 + z * (1 / 21 + z * (1 / 23 + z * (1 / 25))))
    tail = 1 / 9 + z * (1 / 11 + z * (1 / 13 + z * (1 / 15 + z * tail)))
    tail = z * z * (1 / 5 + z * (1 / 7 + z * tail))
    third, third_low = _product(z, 1 / 3)
    third_low += z * _THIRD_LOW + z_low / 3.0
    more = third + tail
    more_low = (third - more) + tail + third_low
    # log(m) = 2 s + 2 s more
    part, part_low = _product(2.0 * s, more)
    part_low += 2.0 * s * more_low + 2.0 * s_low * more
    high = 2.0 * s + part
    low = (2.0 * s - high) + part + (part_low + 2.0 * s_low)
    # + e ln 2; the products are exact
    first, second = e * LN2, e * LN2_REST
    total = first + high
    error = (first - total) + high if abs(first) >= abs(high) else (high - total) + first
    low += error + (second + e * _LN2_LAST)
    result = total + low
    return result, (total - result) + low
