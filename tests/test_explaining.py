"""What is said of kernels that cannot be compiled."""

import types
from typing import NamedTuple

import numpy as np
import pytest

from coopbench_envs import drivers
from coopbench_envs.compiling import Compiled
from coopbench_envs.core import Kernels, kernel, routine, uniform
from coopbench_envs.errors import KernelError
from coopbench_envs.states import state


class State(NamedTuple):
    level: np.ndarray
    rng: np.ndarray


def unmarked(s, i):
    s.level[i] = 1.0


@kernel
def calls_unmarked(s, i):
    unmarked(s, i)


@kernel
def makes_array(s, i):
    s.level[i] = np.zeros(3)[0]


@kernel
def misspells(s, i):
    s.level[i] = s.levels[i]


@routine
def misspells_apart(s, i):
    return s.levels[i]


@kernel
def calls_misspelt(s, i):
    s.level[i] = misspells_apart(s, i)


@kernel
def draws(s, i):
    s.level[i] = s.rng.random()


@kernel
def reads_nothing(s, i):
    s.level[i] = missing  # noqa: F821


@kernel
def adds_text(s, i):
    s.level[i] = "level" + i


@kernel
def forgets(s, i):
    s.level[i] = uniform(s.rng)


def loop(s, lanes):
    for i in range(lanes):
        part(s, i)


part = None


def run(function):
    bound = types.FunctionType(loop.__code__, {"part": function, "range": range}, "loop")
    bound.__module__ = __name__
    Compiled(bound, "loop_of_a_test")(State(np.zeros(2), np.zeros(2, np.uint64)), 2)


FAULTS = {
    calls_unmarked: ("calls_unmarked", "`unmarked`, which is not marked", "@kernel"),
    makes_array: ("makes_array", "cannot allocate memory", "field of the state"),
    misspells: ("misspells", "`levels`, which State does not have", "Did you mean `level`?"),
    calls_misspelt: ("misspells_apart", "`levels`, which State does not", "Did you mean `level`?"),
    draws: ("draws", "`random`, which arrays do not have", "`uniform(rng, i)`"),
    reads_nothing: ("reads_nothing", "`missing` is not defined", "Define or import it"),
    adds_text: ("adds_text", "it calls `add` with arguments", "single numbers"),
}


@pytest.mark.parametrize("function", FAULTS, ids=lambda function: function.__name__)
def test_a_kernel_that_cannot_be_compiled_is_told_with_line_and_remedy(function):
    name, problem, remedy = FAULTS[function]
    with pytest.raises(KernelError) as caught:
        run(function)
    text = str(caught.value)
    place, _, reason = text.partition(", cannot be compiled: ")
    assert "\n" not in text
    assert len(text) < 400
    assert problem in reason
    assert remedy in reason
    guilty = globals()[name].py_func.__code__
    lines = [line for *_, line in guilty.co_lines()]
    told, _, line = place.rpartition(", line ")
    assert told == f"{name} in {__file__}"
    assert int(line) in lines[1:]


def test_a_missing_argument_is_told_with_the_function_that_wants_it():
    with pytest.raises(KernelError, match=r"uniform\(rng, i\) is called wrongly in .*: missing"):
        run(forgets)


def test_a_part_of_a_step_with_too_few_arguments_is_named():
    def step(c, s, i, rng, actions, rewards):
        pass

    kernels = Kernels(state(__name__), kernel(step), reads_nothing, reads_nothing)
    told = r"step in .* per lane, and takes 6 arguments; allowed: \(c, s, i, rng"
    with pytest.raises(KernelError, match=told):
        drivers.driver(kernels, discrete=True, common=False)
