"""SAC: what is remembered and learned, and what is refused."""

import numpy as np
import pytest
import toy_echo
import toy_lift
from team_training import known, parts_of, same

from coopbench.baselines.learner import Training
from coopbench.baselines.learners.isac import ISAC, Params
from coopbench.baselines.registry import make_learner
from coopbench.errors import Diverged
from coopbench_envs.foreign_names import permit

ECHO, LIFT = toy_echo.SPEC.id, toy_lift.SPEC.id
SMALL = {"lanes": 4, "warmup": 40, "train_every": 8, "updates": 1, "batch_size": 16}
SMALL |= {"layers": "16", "buffer_size": 150}
QUICK = {"lanes": 8, "warmup": 80, "train_every": 16, "updates": 4, "batch_size": 64}
QUICK |= {"layers": "32", "learning_rate": 1e-2, "tau": 0.05, "gamma": 0.5}
_toys = known(toy_echo, toy_lift)


def _remembered(learner):
    """Seen, done, seen next, terminated and reward of every model's rows."""
    columns = []
    for model in learner._models:
        cuts = np.cumsum(model._columns)[:-1]
        columns.append(np.split(model.replay.save()["rows"], cuts, axis=1))
    return columns


# -- what is remembered --------------------------------------------------------------------------


@pytest.mark.parametrize("time_limit", ["bootstrap", "terminal"])
def test_the_end_of_time_has_a_future_and_the_end_of_an_agent_has_none(time_limit):
    """Carrier 0 lives two steps, carrier 1 four, and time is over after three.

    A row that is terminated has no value after it. With "terminal" time is an end like others.
    """
    game = {"lives": 2, "horizon": 3}
    settings = SMALL | {"scale_observations": False, "time_limit": time_limit}
    learner = make_learner("isac", LIFT, game, 0, **settings)
    learner.learn(4 * 6)  # two episodes in each lane
    first, second = _remembered(learner)
    for (seen, done, following, terminated, rewards), lived in ((first, 2), (second, 3)):
        times = np.repeat(np.tile(np.arange(lived), 2), 4)
        np.testing.assert_array_equal(seen[:, 0], times)
        alive = slice(None) if lived == 3 else times == 0
        # The last observation of an episode, not the first of the next one.
        np.testing.assert_array_equal(following[alive, 0], times[alive] + 1)
        shares = (done[:, 0] + 1) / 2
        np.testing.assert_allclose(following[alive, 1], shares[alive], rtol=1e-6)
        ended = times == lived - 1 if time_limit == "terminal" or lived == 2 else False
        np.testing.assert_array_equal(terminated[:, 0], ended)
        assert len(rewards) == len(times)
    # While both live, what one gets from the other follows from the actions of both.
    both = second[0][:, 0] < 2
    x, y = (first[1][:, 0] + 1) / 2, (second[1][both, 0] + 1) / 2
    np.testing.assert_allclose(first[4][:, 0], (x + y) / 2 - (x - y) ** 2, atol=1e-5)


def test_an_agent_that_leaves_while_others_play_on_has_no_future():
    """The left one is truncated after two of four steps."""
    leaving = "python:toy_foreign:Leaving"
    permit(leaving)
    learner = make_learner("isac", leaving, {}, 0, **SMALL)
    learner.learn(4 * 8)
    ends = [terminated[:, 0].tolist() for _, _, _, terminated, _ in _remembered(learner)]
    assert ends == [([0.0] * 4 + [1.0] * 4) * 2, [0.0] * 32]


def test_a_shared_memory_holds_the_rows_of_the_living_and_who_they_are():
    learner = make_learner("isac_shared", LIFT, {"lives": 2, "horizon": 3}, 0, **SMALL)
    learner.learn(4 * 6)
    ((seen, _, _, _, _),) = _remembered(learner)
    np.testing.assert_array_equal(seen[:, 2:].sum(axis=0), [4 * 4, 4 * 6])
    assert (seen[:, 2:].sum(axis=1) == 1.0).all()


def test_a_full_memory_forgets_the_oldest():
    learner = make_learner("isac", LIFT, {"horizon": 1000}, 0, scale_observations=False, **SMALL)
    learner.learn(4 * 60)
    for seen, *_ in _remembered(learner):
        assert len(seen) == 150
        counts = np.bincount(seen[:, 0].astype(int), minlength=60)
        np.testing.assert_array_equal(counts, [0] * 22 + [2] + [4] * 37)  # 150 = 2 + 37 * 4


# -- what is learned -----------------------------------------------------------------------------


def test_entropy_is_held_at_what_is_wanted(torch):
    """Nothing to earn: the worth of entropy falls from high and rises from low."""
    game = {"weight": 0.0}
    for begin, rises in ((1e-3, True), (10.0, False)):
        learner = make_learner("isac", ECHO, game, 0, entropy=begin, **QUICK)
        if rises:  # actions of hardly any spread; else they have about log(2) nats, more than -1
            with torch.no_grad():
                learner._models[0].model.actor.log_std.weight.zero_()
                learner._models[0].model.actor.log_std.bias.fill_(-5.0)
        coefficient = learner.learn(160)["entropy_coefficient"]
        assert coefficient > begin if rises else coefficient < begin
    fixed = make_learner("isac", ECHO, game, 0, entropy=0.5, adapt_entropy=False, **QUICK)
    assert fixed.learn(160)["entropy_coefficient"] == 0.5


def test_the_unit_of_rewards_does_not_matter_if_they_are_scaled():
    """A factor of 2**20 leaves all bits as they are; without scaling it does not."""
    for scaled in (True, False):
        models = []
        for worth in (1.0, 2.0**20):
            learner = make_learner("isac", LIFT, {"worth": worth}, 3, scale_rewards=scaled, **SMALL)
            learner.learn(80)
            saved = learner.save()
            models.append({k: saved[k] for k in saved if k.startswith("model")})
        assert same(*models) == scaled


# -- what is left --------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "activation"), [("isac", "relu"), ("isac_shared", "tanh")])
def test_the_policy_does_what_torch_would_do(name, activation):
    settings = SMALL | {"layers": "16x8", "activation": activation, "learning_rate": 0.01}
    learner = make_learner(name, "coopbench/TrustDilemma-v0", {}, 0, **settings)
    learner.learn(120)
    for model, inputs, _, outputs in parts_of(learner, steps=120):
        expected, _ = model.model.predict(inputs, deterministic=True)
        np.testing.assert_allclose(outputs, expected, atol=1e-5)
        assert np.ptp(expected) > 0.0


# -- what is refused -----------------------------------------------------------------------------


def test_training_that_comes_to_no_numbers_is_reported(torch):
    # Rewards that are too large for the numbers of a network.
    learner = make_learner("isac", LIFT, {"worth": 1e30}, 0, **SMALL | {"scale_rewards": False})
    with pytest.raises(Diverged, match=r"'isac' on test/Lift-v0 .* step 48: The critic_loss is n"):
        learner.learn(1000)
    params = Params(**SMALL)._replace(learning_rate=1e30)
    with pytest.raises(Diverged, match=r"is not finite"):
        ISAC(Training("isac", LIFT, {}, 0, params)).learn(400)
    learner = make_learner("isac_shared", LIFT, {}, 0, **SMALL)
    learner.learn(80)
    with torch.no_grad():
        learner._models[0].model.critic_target.qf0[0].weight[0, 0] = np.nan
    # Its losses are still those of the last update.
    learner._models[0].model.train = lambda *_: None
    with pytest.raises(Diverged, match=r"step 88: The parameter .* is not finite"):
        learner.learn(200)
