"""Kernels use operations alone that IEEE 754 defines to the bit: on every processor and GPU."""

import math
from dataclasses import replace

import numpy as np
import pytest

import coopbench_envs
from coopbench.describe import describe_environment
from coopbench_envs import registration
from coopbench_envs.core import kernel
from coopbench_envs.drivers import driver
from coopbench_envs.exactness import library_calls

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
def _rewarding(p, s, i, rng, actions, rewards, terminated):
    rewards[i, 0] = math.exp(actions[i, 0, 0])


def test_an_environment_that_calls_a_library_says_so(monkeypatch):
    spec = coopbench_envs.spec("TrustDilemma-v1")
    rough = replace(spec, kernels=spec.kernels._replace(step=_rewarding))
    monkeypatch.setitem(registration._specs, spec.id, rough)
    promise = "equal to 1e-9 per step; kernels call `math.exp`"
    assert f"| On other processors and GPUs | {promise} |" in describe_environment(spec.id)
    assert library_calls(driver(spec.kernels, False, False)) == set()
