"""exp, log, powers and cosine of + - * / alone: accurate, and the same bits everywhere."""

import math

import mpmath
import numba
import numpy as np
import pytest
from mpmath import mpf

from coopbench_envs import elementary, elementary_arrays
from coopbench_envs.core import integer, streams

rng = np.random.default_rng(20)
SIZE = 1000
SMALL = rng.normal(0.0, 1e-8, 100)
EXPONENTS = (rng.uniform(-708.0, 709.7, SIZE), rng.uniform(-1.0, 1.0, SIZE), SMALL)
POSITIVE = (
    np.exp(rng.uniform(-740.0, 709.0, SIZE)),  # subnormal numbers, too
    rng.uniform(0.5, 2.0, SIZE),
    1.0 + SMALL,
)
ANGLES = (
    rng.uniform(-7.0, 7.0, SIZE),
    rng.uniform(-1e6, 1e6, SIZE),
    np.arange(1.0, 40.0) * math.pi / 2.0,
)
BASES = np.exp(rng.uniform(-300.0, 300.0, SIZE)), rng.uniform(0.9, 1.1, SIZE)
POWERS = rng.uniform(-2.0, 2.0, SIZE), rng.uniform(-3000.0, 3000.0, SIZE)
CASES = {
    "exponential": (mpmath.exp, [np.concatenate(EXPONENTS)]),
    "logarithm": (mpmath.log, [np.concatenate(POSITIVE)]),
    "cosine": (mpmath.cos, [np.concatenate(ANGLES)]),
    "power": (lambda x, y: x**y, [np.concatenate(BASES), np.concatenate(POWERS)]),
}


def compiled(name):
    function = getattr(elementary, name)
    if name == "power":
        return numba.vectorize(["f8(f8, f8)"])(lambda x, y: function(x, y))
    return numba.vectorize(["f8(f8)"])(lambda x: function(x))


@pytest.fixture(scope="module", params=CASES)
def case(request):
    exact, arguments = CASES[request.param]
    with np.errstate(all="ignore"):
        values = compiled(request.param)(*arguments)
    return request.param, exact, arguments, values


def test_errors_are_below_one_unit_in_the_last_place(case):
    name, exact, arguments, values = case
    with mpmath.workprec(200):
        for *numbers, value in zip(
            *(column.tolist() for column in arguments), values.tolist(), strict=True
        ):
            error = abs(mpf(value) - exact(*map(mpf, numbers)))
            assert error < math.ulp(value), f"{name}{tuple(numbers)}"


def test_python_computes_the_same_bits(case):
    name, _, arguments, values = case
    function = getattr(elementary, name)
    for *numbers, value in zip(
        *(column[::10].tolist() for column in arguments), values[::10], strict=True
    ):
        assert function(*numbers) == value


@pytest.mark.parametrize("kind", ["python", "compiled"])
def test_ends_of_the_scale(kind):
    made = {
        name: getattr(elementary, name) if kind == "python" else compiled(name) for name in CASES
    }
    inf, nan = math.inf, math.nan
    expected = {
        "exponential": {(inf,): inf, (-inf,): 0.0, (nan,): nan, (709.79,): inf, (-745.2,): 0.0}
        | {(0.0,): 1.0, (-745.1,): 5e-324, (1e308,): inf},
        "logarithm": {(0.0,): -inf, (-1.0,): nan, (inf,): inf, (-inf,): nan}
        | {(nan,): nan, (1.0,): 0.0},
        "cosine": {(0.0,): 1.0, (inf,): nan, (nan,): nan, (2e6,): nan},
        "power": {
            (0.0, 0.0): 1.0,
            (0.0, 2.0): 0.0,
            (0.0, -2.0): inf,
            (2.0, inf): inf,
            (2.0, -inf): 0.0,
        }
        | {(0.5, inf): 0.0, (inf, 2.0): inf, (inf, -2.0): 0.0, (1.0, nan): 1.0, (nan, 1.0): nan}
        | {
            (-2.0, 2.0): nan,
            (5.0, 1e308): inf,
            (5e-324, 0.5): 2.2227587494850775e-162,
            (0.3, 1.0): 0.3,
        },
    }
    with np.errstate(all="ignore"):
        for name, values in expected.items():
            for arguments, value in values.items():
                np.testing.assert_equal(float(made[name](*arguments)), value, f"{name}{arguments}")


@pytest.mark.parametrize("name", ["exponential", "logarithm"])
def test_functions_of_arrays_have_the_same_bits(name):
    _, (arguments,) = CASES[name]
    ends = [0.0, 5e-324, 1.0, 745.2, np.finfo(np.float64).max, 0.5**0.5]
    ends += [] if name == "logarithm" else [-745.2, -np.inf, np.inf, -0.0]
    numbers = np.concatenate([arguments, ends])
    with np.errstate(all="ignore"):
        expected = compiled(name)(numbers)
    values = getattr(elementary_arrays, f"{name}s")(numbers)
    np.testing.assert_array_equal(values, expected)


def test_every_one_of_n_choices_is_drawn():
    states = streams(np.arange(1, dtype=np.uint64), 0)
    assert {int(integer(states, 0, 3)) for _ in range(100)} == {0, 1, 2}
