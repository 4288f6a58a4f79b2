"""Kernels merged into a compiled function, against the same function in Python."""

from typing import NamedTuple

import numba
import numpy as np
import pytest
import toy_squad
from hypothesis import given, settings
from hypothesis import strategies as st
from numba.core import compiler, ir

from coopbench_envs import core, drivers
from coopbench_envs.core import kernel, routine, subroutine
from coopbench_envs.errors import KernelError
from coopbench_envs.merging import Merging, _merge, _narrow, _read_fields_once, _reads


class Pair(NamedTuple):
    numbers: np.ndarray
    shift: int
    rng: np.ndarray


@kernel
def raised(x, n):
    """Assign to both parameters."""
    x += n
    n = 2 * x
    return x - n


@kernel
def clipped(x, low=-3, high=4):
    if x < low:
        return low
    if x > high:
        return high
    return x


@kernel
def halved(x, high):
    """Assign to a parameter where numba keeps one variable for it."""
    while x > high:
        x = x // 2
    return x


@kernel
def swapped(y, x):
    """Call with the names of the parameters the other way round."""
    return raised(x, y) - 3 * clipped(high=x, x=y)


@kernel
def largest(pair, last):
    best = pair.numbers[0]
    for k in range(last):
        if pair.numbers[k] < 0:
            continue
        if pair.numbers[k] > 100:
            break
        best = max(best, clipped(pair.numbers[k], high=50))
    return best


@kernel
def write(pair, k, value):
    pair.numbers[k] = value + pair.shift


@kernel
def moved(x, by):
    def shifted(y):
        return y + by

    return shifted(shifted(x))


@routine
def total(pair):
    result = 0
    for k in range(pair.numbers.shape[0]):
        result += clipped(pair.numbers[k])
    return result


@subroutine
def spread(pair):
    return pair.numbers.max() - pair.numbers.min()


@routine
def relayed(pair):
    return total(pair)


@routine
def shared(pair, by=1, more=0):
    """Pass the tuple on, by another name and to a kernel."""
    other = pair
    write(other, 0, total(other) + by)
    return total(pair) + more * pair.shift


@routine
def first_of(pair):
    """Use more of the tuple than its fields."""
    return pair[0][0]


def game(pair, x, y):
    kept = 0
    for k in range(3):
        if k > 0:
            x = raised(x, kept) + int(9.0 * core.uniform(pair.rng, 0))
        kept = x  # what the next round still needs
        y = swapped(x, y)
        x = swapped(y, x)
        x = clipped(raised(x, x), -30, 30)
        write(pair, k, x)
    copy = pair
    passed = shared(copy, more=x), shared(copy, 3), first_of(copy)
    return x, y, kept, largest(copy, pair.numbers.shape[0]), total(copy), *passed


compiled_game = numba.njit(pipeline_class=Merging, error_model="numpy")(game)
small = st.integers(-120, 120)


@settings(max_examples=50, deadline=None)
@given(st.lists(small, min_size=3, max_size=6), small, small, small)
def test_merged_kernels_do_what_python_does(numbers, shift, x, y):
    results = []
    for play in (game, compiled_game):
        pair = Pair(np.array(numbers), shift, np.zeros(1, np.uint64))
        results.append((*map(int, play(pair, x, y)), *pair.numbers.tolist()))
    assert results[0] == results[1]


def merged(function):
    caller = compiler.run_frontend(function)
    _merge(caller, {})
    _read_fields_once(caller)
    return caller


TOY = drivers.driver(toy_squad.SPEC.kernels, discrete=True, common=True).py_func


@pytest.mark.parametrize(("function", "tuples"), [(game, {"pair"}), (TOY, {"p", "s", "c"})])
def test_no_kernel_is_called_and_no_tuple_of_arrays_copied(function, tuples):
    caller = merged(function)
    assignments = [s for block in caller.blocks.values() for s in block.find_insts(ir.Assign)]
    definitions = {s.target.name: s.value for s in assignments}
    reads = []
    for statement in assignments:
        value = statement.value
        assert not (isinstance(value, ir.Var) and value.name in tuples)
        if isinstance(value, ir.Expr) and value.op == "call":
            called = getattr(definitions.get(value.func.name), "value", None)
            assert getattr(called, "targetoptions", {}).get("inline") != "always"
        if isinstance(value, ir.Expr) and value.op == "getattr" and value.value.name in tuples:
            reads.append((value.value.name, value.attr))
    assert len(reads) == len(set(reads)) > len(tuples)
    first = caller.blocks[min(caller.blocks)]
    assert all(any(s.value is definitions[f"{a}.{b}"] for s in first.body[:-1]) for a, b in reads)


def test_functions_that_are_called_are_passed_the_fields_that_they_read():
    read = [
        {name: tuple(fields) for name, fields in _reads(function.py_func).items()}
        for function in (total, relayed, shared, first_of)
    ]
    assert read[0] == read[1] == {"pair": ("numbers",)}
    assert read[2] == {"pair": ("numbers", "shift"), "by": (), "more": ()}
    assert read[3] == {"pair": ()}
    caller = merged(game)
    assert _narrow(caller)
    assignments = [s for block in caller.blocks.values() for s in block.find_insts(ir.Assign)]
    made = [
        s.value.value._fields
        for s in assignments
        if isinstance(s.value, ir.Global) and hasattr(s.value.value, "_fields")
    ]
    assert sorted(made) == [("numbers",), ("numbers", "shift"), ("numbers", "shift")]


def test_a_subroutine_is_called():
    blocks = merged(lambda pair: clipped(spread(pair))).blocks.values()
    made = {s.target.name: s.value for block in blocks for s in block.find_insts(ir.Assign)}
    calls = [v for v in made.values() if isinstance(v, ir.Expr) and v.op == "call"]
    called = [getattr(made.get(call.func.name), "value", None) for call in calls]
    assert spread in called
    assert clipped not in called


def test_a_kernel_may_define_functions():
    @numba.njit(pipeline_class=Merging)
    def play(x):
        return moved(x, 3) + moved(x, x)

    assert play(10) == 46


def test_what_a_kernel_assigns_to_its_parameter_stays_in_it():
    @numba.njit(pipeline_class=Merging)
    def play(x):
        return halved(x, 3), x

    assert play(20) == (2, 20)


def test_a_kernel_called_with_too_much_is_named():
    @numba.njit(pipeline_class=Merging)
    def play(x):
        return raised(x, x, x)

    with pytest.raises(KernelError, match=r"raised\(x, n\) .*too many positional arguments"):
        play(1)
