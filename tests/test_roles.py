"""Agents named by kind: every interface, groups by name, partners by role."""

from dataclasses import replace

import gymnasium
import numpy as np
import pettingzoo
import pytest
import toy_pennies
from pettingzoo.test import api_test, parallel_api_test

from coopbench_envs import Engine
from coopbench_envs.registration import register
from coopbench_envs.roles import members_of_roles, role_of

NAMES = ("stalker_0", "stalker_1", "zealot_2", "high_templar_3")
KINDS = replace(toy_pennies.SPEC, id="test/PenniesByKind-v0", agents=lambda p: NAMES)
PARAMETERS = {"num_agents": 4, "horizon": 15}


@pytest.fixture(autouse=True, scope="module")
def toys():
    register(KINDS)


def test_a_role_is_the_word_in_a_name():
    assert [role_of(name) for name in NAMES] == ["stalker", "stalker", "zealot", "high_templar"]
    assert role_of("blue_team") == "blue_team"  # no number
    assert members_of_roles(NAMES) == {"stalker": [0, 1], "zealot": [2], "high_templar": [3]}
    assert members_of_roles(("a_1", "b_1", "a_2")) == {"a": [0, 2], "b": [1]}


def test_other_interfaces():
    with pytest.raises(ValueError, match="0 to 3 \\(stalker_0, stalker_1, zealot_2"):
        gymnasium.make(KINDS.id, control="focal", ego=4, **PARAMETERS)
    parallel_api_test(pettingzoo.make("parallel", KINDS.id, **PARAMETERS), num_cycles=30)
    api_test(pettingzoo.make("aec", KINDS.id, **PARAMETERS), num_cycles=30)
    many = gymnasium.make_vec(KINDS.id, num_envs=3, **PARAMETERS)
    assert many.unwrapped.engine.agents == NAMES


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"agents": lambda p: ("a_0", "a_1", "a_0")}, r"test/Wrong-v0 names 'a_0' twice"),
        (
            {
                "observation_space": lambda p, a: gymnasium.spaces.Box(
                    0, 9, (p.num_agents + a,), np.float32
                )
            },
            r"vectors of one length; given \(3,\), \(4,\), \(5,\)",
        ),
    ],
)
def test_names_differ_and_observations_have_one_width(changes, message):
    register(replace(KINDS, id="test/Wrong-v0", **changes))
    with pytest.raises(ValueError, match=message):
        Engine("test/Wrong-v0")
