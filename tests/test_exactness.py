"""Kernels use operations alone that IEEE 754 defines to the bit: on every processor and GPU."""

import math
from dataclasses import replace
from math import exp as exponential

import builders
import numpy as np
import pytest
from numpy import tanh

import coopbench_envs
from coopbench.analysis import environments
from coopbench.describe import describe_environment
from coopbench.episodes.table import Cell
from coopbench_envs import compiling, registration
from coopbench_envs.core import kernel
from coopbench_envs.drivers import driver
from coopbench_envs.exactness import library_calls
from coopbench_envs.states import array, state

PUBLISHED = [name for name in coopbench_envs.ids() if name.startswith("coopbench/")]


@pytest.mark.parametrize("env_id", PUBLISHED)
def test_kernels_call_no_function_of_a_mathematical_library(env_id):
    """exp, log, powers and cosine come from ``coopbench_envs.elementary``."""
    assert "| On other processors and GPUs | the same bits |" in describe_environment(env_id)


@kernel
def _inner(x):
    return np.sqrt(x) ** 2.5


def _outer(x):
    return math.exp(_inner(x)) + math.floor(x) ** 2


def _doubled(x):
    return 2**x


def _cubed(x):
    return math.hypot(x**3, x**2)


def test_the_functions_of_a_library_are_noticed():
    assert library_calls(_outer) == {"math.exp", "**"}
    assert library_calls(_doubled) == {"**"}
    assert library_calls(_cubed) == {"math.hypot", "**"}


@kernel
def _by_name(x, n):
    return exponential(x) + tanh(x)


def _of(function):
    @kernel
    def closed(x, n):
        return function(x)

    return closed


@kernel
def _nested(x, n):
    inner = lambda y: np.linalg.norm(y) ** 2 + sum(math.sin(z) for z in y)  # noqa: E731
    return inner(x)


@kernel
def _phased(x, n):
    inner = lambda y: y * 1j  # noqa: E731
    return abs(inner(x))


@kernel
def _through_a_closure(x, n):
    def inner():
        return _by_name(x, n)

    return inner()


@kernel
def _given(x, n, function=math.log):
    return function(x)


@kernel
def _one_of(x, n):
    return TABLE[0](x)


TABLE = (math.cosh, _by_name)
WAVES = np.array([1.0, 1j])
# Each way to read a function of a library -> what is found.
FORMS = {
    "name": (_by_name, {"math.exp", "numpy.tanh"}),
    "closure": (_of(math.log), {"math.log"}),
    "closure of kernels": (_of(_inner), {"**"}),
    "nested": (_nested, {"math.sin", "numpy.linalg.norm"}),
    "nested closure": (_through_a_closure, {"math.exp", "numpy.tanh"}),
    "default": (_given, {"math.log"}),
    "table": (_one_of, {"math.cosh", "math.exp", "numpy.tanh"}),
    "pow": (kernel(lambda x, n: pow(x, n)), {"pow"}),
    "power": (kernel(lambda x, n: x**n), {"**"}),
    "in place": (kernel(lambda x, n: [x := x**3]), {"**"}),
    "product": (kernel(lambda x, n: x @ n), {"@"}),
    "method": (kernel(lambda x, n: x[0].dot(n) + x.sum()), {".dot"}),
    "deviation": (kernel(lambda x, n: x.std() + x.mean()), {".std"}),
    "places": (kernel(lambda x, n: round(x, n)), {"round"}),
    "complex number": (kernel(lambda x, n: abs(x + 2j)), {"abs of complex numbers"}),
    "complex type": (kernel(lambda x, n: abs(complex(x, n))), {"abs of complex numbers"}),
    "complex array": (kernel(lambda x, n: abs(WAVES[n])), {"abs of complex numbers"}),
    "nested complex": (_phased, {"abs of complex numbers"}),
    "real part": (kernel(lambda x, n: (x + 2j).real), set()),
    "exact": (kernel(lambda x, n: abs(min(x, n)) ** 2 + np.float64(int(x))), set()),
}


@pytest.mark.parametrize("form", FORMS)
def test_a_function_of_a_library_is_noticed_however_it_is_read(form, monkeypatch):
    function, expected = FORMS[form]
    assert library_calls(function) == expected
    monkeypatch.setitem(_rewarding.py_func.__globals__, "_reward", function)
    shown = _shown(monkeypatch, coopbench_envs.spec("TrustDilemma-v1").kernels)
    names = ", ".join(f"`{name}`" for name in sorted(expected))
    promise = f"equal to 1e-9 per step; kernels call {names}" if names else "the same bits"
    assert f"{promise} |" in shown


def test_absolute_values_are_inexact_where_a_state_is_complex():
    kernels = coopbench_envs.spec("TrustDilemma-v1").kernels
    for dtype, expected in ((np.float64, set()), (np.complex64, {"abs of complex numbers"})):
        kind = state(__name__, waves=array("amplitudes", dtype=dtype))
        step = kernel(lambda p, s, i: abs(s.waves[i]))
        assert library_calls(kernels._replace(state=kind, step=step)) == expected


_reward = None


@kernel
def _rewarding(p, s, i, rng, actions, rewards, terminated):
    rewards[i, 0] = _reward(actions[i, 0, 0], 2)


def _shown(monkeypatch, kernels):
    """What `show` prints of TrustDilemma-v1 with rewards of the function ``_reward``."""
    spec = coopbench_envs.spec("TrustDilemma-v1")
    rough = replace(spec, kernels=kernels._replace(step=_rewarding))
    monkeypatch.setitem(registration._specs, spec.id, rough)
    compiling.bound.cache_clear()
    return describe_environment(spec.id)


def test_published_drivers_call_none():
    kernels = coopbench_envs.spec("TrustDilemma-v1").kernels
    assert library_calls(driver(kernels, False, False)) == set()


def test_a_report_says_what_is_promised_where_that_is_not_the_same_bits(monkeypatch):
    env_id, code = "coopbench/TrustDilemma-v1", {"game.py": 64 * "0"}
    monkeypatch.setattr(environments, "added", lambda: {env_id})
    protocol = builders.protocol_of(
        tasks=[builders.make_task(), builders.make_task("two", horizon=9)]
    )
    block = builders.make_block(Cell("dilemma", "a"), np.zeros((2, 2)), environment={"code": code})
    exact = list(environments.environment_notes(protocol, [block]))
    monkeypatch.setitem(_rewarding.py_func.__globals__, "_reward", _of(math.exp))
    _shown(monkeypatch, coopbench_envs.spec(env_id).kernels)
    (note,) = set(environments.environment_notes(protocol, [block])) - set(exact)
    promise = "equal to 1e-9 per step; kernels call math.exp"
    assert note == f"{env_id} on other processors and GPUs: {promise}."
