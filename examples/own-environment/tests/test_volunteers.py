"""The environment through the interfaces that its users have."""

import gymnasium
import numpy as np
from pettingzoo.test import parallel_api_test
from volunteers.environment import ACT, WAIT

import coopbench
import coopbench_envs
from coopbench_envs.shells.parallel_env import ParallelEnv

ENV = "example/Volunteers-v0"


def test_one_volunteer_pays_for_all():
    env = ParallelEnv(ENV, horizon=3)
    env.reset(seed=0)
    actions = dict.fromkeys(env.agents, WAIT) | {env.agents[0]: ACT}
    rewards = env.step(actions)[1]
    assert list(rewards.values()) == [1.0, 2.0, 2.0]


def test_it_is_registered_without_an_import_of_the_package():
    assert ENV in coopbench_envs.ids()
    assert gymnasium.make(ENV, horizon=3).reset(seed=0)[0] is not None
    parallel_api_test(ParallelEnv(ENV, horizon=3), num_cycles=20)


def test_a_report_has_its_metric():
    report = coopbench.evaluate(ENV, ["random"])
    rates = [row.mean for row in report.estimates if row.metric == "help_rate"]
    assert len(rates) == 1
    assert 0.5 < np.mean(rates) < 1.0
