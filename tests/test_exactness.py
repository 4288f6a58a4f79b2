"""Kernels use operations alone that IEEE 754 defines to the bit: on every processor and GPU."""

import dis
import math
import types

import numpy as np
import pytest

import coopbench_envs
from coopbench_envs.core import kernel
from coopbench_envs.drivers import driver
from coopbench_envs.engine import Engine

PUBLISHED = [name for name in coopbench_envs.ids() if name.startswith("coopbench/")]
# Square roots, whole numbers, signs and scaling by powers of two are exact or correctly rounded.
# Of numpy's functions, engines on a GPU know these two.
EXACT = {*(f"math.{name}" for name in ("sqrt", "floor", "ceil", "ldexp", "copysign"))}
EXACT |= {"numpy.sqrt", "numpy.floor"}


def used(function, reached=None):
    """Yield what a driver and the functions that it calls take from math and numpy."""
    reached = set() if reached is None else reached
    plain = getattr(function, "py_func", function)
    if not isinstance(plain, types.FunctionType) or plain in reached:
        return
    reached.add(plain)
    value, constant = None, None
    for code in dis.get_instructions(plain.__code__):
        if code.opname == "LOAD_GLOBAL":
            value = plain.__globals__.get(code.argval)
            yield from used(value, reached)
        elif code.opname in ("LOAD_ATTR", "LOAD_METHOD") and isinstance(value, types.ModuleType):
            name = f"{value.__name__}.{code.argval}"
            value = getattr(value, code.argval)
            if value.__class__.__name__ in ("ufunc", "builtin_function_or_method"):
                yield name
            yield from used(value, reached)
        elif code.opname == "LOAD_CONST":
            constant = code.argval
        elif code.opname == "BINARY_OP" and code.argrepr in ("**", "**=") and constant != 2:
            yield "**"


@pytest.mark.parametrize("env_id", PUBLISHED)
def test_kernels_call_no_function_of_a_mathematical_library(env_id):
    """exp, log, powers and cosine come from ``coopbench_envs.elementary``."""
    engine = Engine(env_id)
    names = set(used(driver(engine.spec.kernels, engine.discrete, engine.spec.common_reward)))
    assert names <= EXACT, names - EXACT


@kernel
def _inner(x):
    return np.sqrt(x) ** 2.5


def _outer(x):
    return math.exp(_inner(x)) + math.floor(x) ** 2


def test_the_functions_of_a_library_are_noticed():
    assert set(used(_outer)) == {"math.exp", "numpy.sqrt", "**", "math.floor"}
    kernels = coopbench_envs.spec("Routing-v1").kernels
    assert "math.sqrt" in set(used(driver(kernels, False, False)))
