"""The game through the interfaces that its users have."""

from pathlib import Path

import numpy as np
from foraging.environment import EAST, LIFT, SPEC, STAY
from foraging.nearest import nearest
from pettingzoo.test import parallel_api_test

import coopbench_envs
from coopbench.protocol.loading import load_protocol
from coopbench_envs.check import check_environment
from coopbench_envs.shells.parallel_env import ParallelEnv

PLACES = {"place": [[0, 0], [0, 2], [4, 4]], "food_place": [[0, 1], [7, 7]]}
STATE = PLACES | {"level": [1, 2, 1], "food": [3, 1], "total": 4}


def test_the_check_finds_no_fault():
    coopbench_envs.register(SPEC)
    assert check_environment(SPEC.id) == []
    parallel_api_test(ParallelEnv(SPEC.id, horizon=5), num_cycles=20)


def test_food_is_lifted_by_enough_agents_beside_it():
    env = ParallelEnv(SPEC.id, num_agents=3, size=8)
    env.reset(seed=1, options={"state": {k: np.array(v) for k, v in STATE.items()}})
    alone = env.step({"forager_0": STAY, "forager_1": LIFT, "forager_2": LIFT})[1]
    assert sum(alone.values()) == 0.0
    rewards = env.step({"forager_0": LIFT, "forager_1": LIFT, "forager_2": LIFT})[1]
    assert list(rewards.values()) == [0.25, 0.5, 0.0]


def test_the_script_walks_to_food_and_lifts_it():
    env = ParallelEnv(SPEC.id, num_agents=1, foods=1)
    state = {"place": [[2, 0]], "food_place": [[2, 2]], "level": [1], "food": [1], "total": 1}
    options = {"state": {name: np.array(value) for name, value in state.items()}}
    seen, chosen, paid = env.reset(seed=1, options=options)[0], [], 0.0
    while not paid and len(chosen) < 5:
        ((action,),), _ = nearest.act(seen["forager_0"][None, None], np.array([5]))
        seen, rewards, *_ = env.step({"forager_0": action})
        chosen, paid = [*chosen, action], rewards["forager_0"]
    assert (chosen, paid) == ([EAST, LIFT], 1.0)


def test_the_protocol_names_it():
    protocol = load_protocol(Path(__file__).resolve().parent.parent / "foraging.toml")
    assert protocol.task[0].env == SPEC.id
