"""What every learner of the registry promises: the same bits, and nothing done to others."""

import random
import subprocess
import sys

import numpy as np
import pytest

from coopbench.baselines.game import Game
from coopbench.baselines.networks.kinds import read_policy
from coopbench.baselines.registry import learners, make_learner
from coopbench_envs.arrays import pack, unpack

torch = pytest.importorskip("torch")

BOX, CHOICES = "coopbench/TrustDilemma-v1", "test/Pennies-v0"
PARAMETERS = {BOX: {"horizon": 7}, CHOICES: {}}


def fields(name):
    """The names of a learner's hyperparameters."""
    return learners()[name].params._fields


def of_episodes(name):
    """Whether a learner learns from whole episodes, thus choices, and by default one value."""
    return "stored" in fields(name)


def games(name):
    """The games that a learner can learn: soft actor-critic has no choices."""
    if of_episodes(name):
        return (CHOICES,)
    return (BOX,) if "adapt_entropy" in fields(name) else (BOX, CHOICES)


CASES = [(name, game) for name in learners() for game in games(name)]


LARGE_STATE = {"layers": "16", "scale_rewards": True, "history": 2, "buffer_size": 300}


def settings_of(name, **change):
    """Updates within 48 steps, and as much state as possible: a buffer that begins to forget."""
    entry = learners()[name]
    settings = entry.shortened(entry.params(), 48)._asdict()
    settings |= {"reward": "team"} if of_episodes(name) else {}
    return settings | {key: value for key, value in LARGE_STATE.items() if key in settings} | change


def made(name, game, seed=5, **change):
    return make_learner(name, game, PARAMETERS[game], seed, **settings_of(name, **change))


def same(a, b):
    return a.keys() == b.keys() and all(np.array_equal(a[name], b[name]) for name in a)


@pytest.mark.parametrize(("name", "game"), CASES)
def test_the_same_seed_gives_the_same_bits_however_it_is_cut(name, game):
    """Alone, by turns with another one, in pieces, and saved and loaded at any step."""
    whole = made(name, game)
    whole.learn(250)
    expected = whole.save()
    assert 200 < whole.steps <= 250
    pieces, other = made(name, game), made(name, game, 6)
    for steps in (30, 31, 150, 250):
        pieces.learn(steps)
        other.learn(steps)
    assert same(pieces.save(), expected)
    assert not same(other.save(), expected)
    resumed = made(name, game)
    for steps in (30, 100, 170):
        resumed.learn(steps)
        saved = unpack(pack(resumed.save()))
        resumed = made(name, game)
        resumed.load(saved)
        assert same(resumed.save(), saved)
    resumed.learn(250)
    assert same(resumed.save(), expected)
    assert resumed.policy().pack() == whole.policy().pack()


@pytest.mark.parametrize("name", learners())
def test_a_game_that_cannot_be_learned_is_refused_with_learners_that_can(name):
    for game in {BOX, CHOICES}.difference(games(name)):
        with pytest.raises(ValueError, match=r"learners of these are .*ippo.*mappo"):
            made(name, game)


@pytest.mark.parametrize(("name", "game"), CASES)
def test_a_policy_is_a_copy_that_says_where_it_comes_from(name, game):
    learner = made(name, game)
    before = learner.policy()
    content = before.pack()
    report = learner.learn(100)
    assert all(np.isfinite(value) for value in report.values())
    assert before.pack() == content
    policy = learner.policy()
    assert policy.pack() != content
    assert policy.check(Game.at(game, **PARAMETERS[game])) is None
    assert policy.facts["steps"] == learner.steps
    assert (policy.name, policy.facts["seed"]) == (name, 5)
    assert policy.hyperparameters.items() <= settings_of(name).items()
    assert read_policy(policy.pack()).pack() == policy.pack()


@pytest.mark.parametrize("name", learners())
def test_what_others_use_is_left_as_it_was(name):
    torch.manual_seed(1)
    torch.set_num_threads(2)
    np.random.seed(2)
    random.seed(3)
    before = torch.get_rng_state(), np.random.get_state()[1].copy(), random.getstate()
    made(name, games(name)[0]).learn(100)
    assert torch.equal(torch.get_rng_state(), before[0])
    np.testing.assert_array_equal(np.random.get_state()[1], before[1])
    assert random.getstate() == before[2]
    assert torch.get_num_threads() == 2
    torch.set_num_threads(1)


@pytest.mark.parametrize("name", learners())
def test_another_training_is_not_taken_over(name):
    game = games(name)[0]
    begun = made(name, game)
    begun.learn(100)
    saved = begun.save()
    longer = make_learner(name, game, {"horizon": 8}, 5, **begun.policy().hyperparameters)
    kind = learners()[name].kind
    twins = (n for n, entry in learners().items() if entry.kind == kind and game in games(n))
    twin = next(n for n in twins if n != name)
    for other in (longer, made(twin, game), made(name, games(name)[0], 1)):
        before = other.save()
        with pytest.raises(ValueError, match=rf"it is of {name} on {game}.*; allowed: "):
            other.load(saved)
        assert same(other.save(), before)
    fresh = made(name, games(name)[0])
    with pytest.raises(ValueError, match=rf"'{name}' on {game}: 'numbers' is absent; allowed"):
        fresh.load({key: array for key, array in saved.items() if key != "numbers"})


@pytest.mark.parametrize("name", learners())
def test_a_step_of_all_lanes_has_to_fit_in(name):
    with pytest.raises(ValueError, match=r"asked for 5 steps, but one step of its 6 lanes counts"):
        made(name, games(name)[0], lanes=6).learn(5)


@pytest.mark.parametrize("name", learners())
@pytest.mark.parametrize("change", [{}, {"warmup": 24}, {"warmup": 25}])
def test_nothing_is_learned_before_the_first_update(name, change):
    entry = learners()[name]
    change = {key: value for key, value in change.items() if key in entry.params._fields}
    change |= {"batch_size": 4} if of_episodes(name) else {}
    learner = made(name, games(name)[0], **change)
    settings = learner.policy().hyperparameters
    first = entry.first_update(entry.params(**settings))

    def learned():
        return {k: v for k, v in learner.save().items() if k.startswith("model.")}

    begun = learned()
    learner.learn(first - settings["lanes"])
    assert same(learned(), begun)
    enough = 12 * first if of_episodes(name) else first  # an episode has 12 steps, at most
    learner.learn(enough)
    assert learner.steps == enough
    assert not same(learned(), begun)


def test_learners_are_found_without_torch():
    code = (
        "import sys; from coopbench.baselines.registry import learners;"
        "assert len(learners()) >= 4; assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
