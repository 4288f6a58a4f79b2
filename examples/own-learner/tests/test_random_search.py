"""What a learner promises, on a short game: the same bits, a policy as data, and some progress."""

import numpy as np
import pytest

import coopbench
from coopbench.baselines.game import Game
from coopbench.baselines.networks.kinds import read_policy
from coopbench.baselines.registry import make_learner

ENV, PARAMETERS = "coopbench/TrustDilemma-v1", {"horizon": 7}


def made(seed=5, **hyperparameters):
    settings = {"rollout": 112, "noise": 0.3, "rate": 1.0} | hyperparameters
    return make_learner("random_search", ENV, PARAMETERS, seed, **settings)


def same(a, b):
    return a.keys() == b.keys() and all(np.array_equal(a[name], b[name]) for name in a)


def test_it_is_registered_with_its_hyperparameters():
    assert "random_search" in coopbench.learners()
    with pytest.raises(ValueError, match=r"noise.*was 0.*allowed"):
        made(noise=0.0)
    with pytest.raises(ValueError, match="rollout was 15 and lanes 8; allowed"):
        made(rollout=15)


def test_training_resumes_with_the_same_bits():
    whole, other = made(), made(seed=6)
    whole.learn(300)
    other.learn(300)
    begun, resumed = made(), made()
    begun.learn(100)
    resumed.load(begun.save())
    resumed.learn(300)
    assert same(resumed.save(), whole.save())
    assert not same(other.save(), whole.save())


def test_the_state_of_another_training_is_refused():
    with pytest.raises(ValueError, match="it is of random_search"):
        made(seed=6).load(made().save())


def test_a_policy_is_data_that_plays_the_game():
    learner = made()
    learner.learn(112)
    policy = read_policy(learner.policy().pack())
    policy.check(Game.at(ENV, **PARAMETERS))
    assert policy.facts["steps"] == 112
    assert np.any(policy.network.layers[0].weights != 0.0)


@pytest.mark.parametrize("seed", [5, 6])
def test_returns_rise(seed):
    learner = made(seed)
    first = learner.learn(1120)["episode_return"]
    learner.learn(10_080)
    assert learner.learn(11_200)["episode_return"] > first + 0.1
