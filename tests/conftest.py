"""What all tests share: the registry, with a discrete toy among the shipped environments."""

import sys
from pathlib import Path

import pytest

import coopbench_envs

sys.path.insert(0, str(Path(__file__).parent))
import toy_pennies

GOLDEN = Path(__file__).parent / "golden"

coopbench_envs.register(toy_pennies.SPEC)
IDS = coopbench_envs.ids()


@pytest.fixture(params=IDS, ids=lambda env_id: env_id.split("/")[1])
def env_id(request):
    return request.param


@pytest.fixture(scope="session")
def golden():
    return GOLDEN
