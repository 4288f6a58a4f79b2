"""What every learner of the registry promises: the same bits, and nothing done to others.

One learner stands for its family in the default tier; what all do before and after an update is
recorded in ``golden/trainings.json`` for every one of them.
"""

import hashlib
import json
import os
import random
from importlib.metadata import version

import numpy as np
import pytest
import toy_team
from builders import run_python
from team_training import PENNIES, TEAM, known, played, same, trained

from coopbench.baselines.game import Game
from coopbench.baselines.networks.kinds import read_policy
from coopbench.baselines.registry import learners, make_learner
from coopbench.provenance import machine
from coopbench_envs.arrays import pack, unpack

BOX, CHOICES = "coopbench/TrustDilemma-v1", PENNIES
PARAMETERS = {BOX: {"horizon": 7}, CHOICES: {}}
FAMILIES = ("ippo", "isac", "mappo", "maddpg", "qmix_shared", "qtran", "coma")
MEMORY = {"recurrent": True, "layers": "8", "history": 1}

_toys = known(toy_team)


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


def by_family(*cases):
    """Cases that begin with a learner's name; those of others than ``FAMILIES`` are slow."""
    slow = pytest.mark.slow("one learner stands for its family")
    return [pytest.param(*case, marks=[] if case[0] in FAMILIES else slow) for case in cases]


ALL = [(name, game) for name in learners() for game in games(name)]
EACH = by_family(*((name,) for name in learners()))
LARGE_STATE = {"layers": "16", "scale_rewards": True, "history": 2, "buffer_size": 300}
LARGE_STATE |= {"replay": 6, "target_every": 5, "anneal": 240}


def settings_of(name, **change):
    """Updates within 48 steps, and as much state as possible: memories that begin to forget."""
    entry = learners()[name]
    settings = entry.shortened(entry.params(), 48)._asdict()
    settings |= {"reward": "team"} if of_episodes(name) else {}
    settings |= {key: value for key, value in LARGE_STATE.items() if key in settings}
    if settings.get("recurrent") and "history" in settings:
        settings["history"] = 1  # a network that remembers gets the present observation alone
    return settings | change


def made(name, game, seed=5, **change):
    return make_learner(name, game, PARAMETERS.get(game, {}), seed, **settings_of(name, **change))


# -- the same bits --------------------------------------------------------------------------------


BITS = [(name, game, {}) for name, game in ALL]
BITS += [(name, game, MEMORY) for name, game in (("ippo", BOX), ("mappo", CHOICES))]
BITS += [("qtran", CHOICES, {"seat_terms": True, "condition": "relative"})]
BITS += [(name, CHOICES, {"optimizer": "rmsprop"}) for name in ("qmix_shared", "coma")]


@pytest.mark.parametrize(("name", "game", "change"), by_family(*BITS))
def test_the_same_seed_gives_the_same_bits_however_it_is_cut(name, game, change):
    """Alone, by turns with another one, in pieces, and saved and loaded within a rollout."""
    whole, pieces = made(name, game, **change), made(name, game, **change)
    other, resumed = made(name, game, 6, **change), made(name, game, **change)
    whole.learn(120)
    for steps in (31, 70, 120):
        pieces.learn(steps)
        other.learn(steps)
        if steps == 70:
            saved = unpack(pack(pieces.save()))
            resumed.load(saved)
            assert same(resumed.save(), saved)
    resumed.learn(120)
    assert 100 < whole.steps <= 120
    expected = whole.save()
    assert same(pieces.save(), expected)
    assert same(resumed.save(), expected)
    assert not same(other.save(), expected)
    content = whole.policy().pack()
    assert resumed.policy().pack() == content
    assert read_policy(content).pack() == content


@pytest.mark.parametrize("name", FAMILIES)
def test_the_default_type_of_torch_changes_nothing(name, torch):
    usual, other = made(name, games(name)[-1]), None
    usual.learn(60)
    torch.set_default_dtype(torch.float64)
    try:
        other = made(name, games(name)[-1])
        other.learn(60)
        assert torch.get_default_dtype() is torch.float64
    finally:
        torch.set_default_dtype(torch.float32)
    assert same(other.save(), usual.save())
    assert other.policy().pack() == usual.policy().pack()


def course(name, game):
    """What a short training of a learner comes to: its reports, the sums and bits of its models."""
    learner = made(name, game)
    reports = [learner.learn(steps) for steps in (60, 120)]
    saved = learner.save()
    models = [saved[key] for key in sorted(saved) if key.startswith("model.")]
    bits = b"".join(array.tobytes() for array in (*models, saved["numbers"]))
    sums = [float(np.abs(array).sum()) for array in models]
    return {"reports": reports, "sums": sums, "bits": hashlib.sha256(bits).hexdigest()}


def calculator():
    """What the bits of a training may depend on, beside the code of this project."""
    import torch

    names = ("torch", "numpy", "stable-baselines3")
    versions = [f"{name} {version(name).partition('+')[0]}" for name in names]
    return ", ".join([machine()["cpu"], torch.backends.cpu.get_cpu_capability(), *versions])


def test_a_short_training_is_the_recorded_one(golden):
    """To the bit with the recorded kind of processor and versions, elsewhere nearly.

    With RECORD_TRAININGS in the environment the file is written anew. That needs a reason: the same
    seeds give the same bits.
    """
    file = golden / "trainings.json"
    courses = {f"{name} on {game}": course(name, game) for name, game in ALL}
    if "RECORD_TRAININGS" in os.environ:
        lines = [f"{json.dumps(case)}: {json.dumps(entry)}" for case, entry in courses.items()]
        content = f'{{"on": {json.dumps(calculator())},\n' + ",\n".join(lines) + "}\n"
        file.write_text(content, encoding="utf-8")
    recorded = json.loads(file.read_text(encoding="utf-8"))
    exact = recorded.pop("on") == calculator()
    assert courses.keys() == recorded.keys()
    for case, expected in recorded.items():
        for before, after in zip(expected["reports"], courses[case]["reports"], strict=True):
            assert after == pytest.approx(before, rel=1e-3, abs=1e-4), case
        np.testing.assert_allclose(courses[case]["sums"], expected["sums"], rtol=1e-3, err_msg=case)
        assert courses[case]["bits"] == expected["bits"] or not exact, case


@pytest.mark.parametrize("name", learners())
def test_a_game_that_cannot_be_learned_is_refused_with_learners_that_can(name):
    for game in {BOX, CHOICES}.difference(games(name)):
        with pytest.raises(ValueError, match=r"learners .*ippo.*mappo"):
            made(name, game)


@pytest.mark.parametrize(("name", "game"), by_family(*ALL))
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


@pytest.mark.parametrize("name", EACH)
def test_what_others_use_is_left_as_it_was(torch, name):
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


@pytest.mark.parametrize("name", EACH)
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
    fresh = made(name, game)
    numbers = {"numbers": saved["numbers"][:-1]}
    with pytest.raises(ValueError, match=rf"'{name}' on {game}: 'numbers' is .*; allowed: "):
        fresh.load(saved | numbers)
    with pytest.raises(ValueError, match=rf"'{name}' on {game}: 'numbers' is absent; allowed"):
        fresh.load({key: array for key, array in saved.items() if key != "numbers"})


LARGE = {"recurrent": True, "history": 1, "layers": "1024", "rollout": 798_000}
REFUSED = [
    *((name, games(name)[0], {"lanes": 6}, "asked for 5 steps.* 6 lanes") for name in FAMILIES),
    ("ippo", BOX, {"rollout": 50}, "rollout was 50 and lanes 6; allowed: a rollout that is a mul"),
    ("ippo", BOX, {"batch_size": 200}, "batch_size was 200 and rollout 48, which makes 48 rows"),
    ("ippo", BOX, {"layers": "8,8"}, "'layers' was '8,8'"),
    ("ippo", BOX, {"activation": "tan"}, "'activation'.*Did you mean 'tanh'"),
    ("ippo", BOX, LARGE, r"take [\d,]+ bytes; allowed: up to [\d,]+, thus a rollout of up to \d+"),
    ("ippo", BOX, {"rollout": 960_000, "history": 64}, "bytes; allowed: .* a rollout of up to"),
    ("ippo", BOX, MEMORY | {"layers": "8x16"}, "layers was '8x16' with recurrent=True"),
    ("mappo", BOX, MEMORY | {"history": 2}, "history was 2 with recurrent=True; allowed: 1"),
    ("mappo", BOX, MEMORY | {"layers": "8x16"}, "layers was '8x16' with recurrent=True"),
    ("mappo", BOX, {"rollout": 50}, "rollout was 50 and lanes 6; allowed: a rollout that is a mu"),
    ("mappo", BOX, {"critic": "stat"}, "'critic'.*Did you mean 'state'"),
    ("mappo", BOX, LARGE, "bytes; allowed: .* a rollout of up to"),
    ("maddpg", BOX, {"buffer_size": 10**8}, "bytes; allowed: up to .* a buffer_size of up to"),
    (
        "maddpg",
        BOX,
        {"buffer_size": 10},
        "buffer_size was 10, batch_size 256, and a step has 6 rows",
    ),
    ("maddpg", BOX, {"train_every": 20}, "train_every was 20 and lanes 6; allowed: a train_every"),
    ("isac", BOX, {"buffer_size": 10**8}, "bytes; allowed: up to .* a buffer_size of up to"),
    ("isac", BOX, {"buffer_size": 15}, "buffer_size was 15, batch_size 256, and a step has 6 rows"),
    ("isac", BOX, {"train_every": 20}, "train_every was 20 and lanes 6; allowed: a train_every"),
    ("isac", BOX, {"entropy": 0.0}, "entropy was 0.0 and adapt_entropy True"),
    ("isac", BOX, {"layers": "8,8"}, "'layers' was '8,8'"),
    ("vdn", CHOICES, {"reward": "own"}, "has its own reward; allowed: reward='team'"),
    ("qmix_shared", CHOICES, {"reward": "own"}, "has its own reward; allowed: reward='team'"),
    ("qmix", CHOICES, {"replay": 10**6}, "they take .* bytes in test/Pennies-v0; allowed: up to"),
    ("qmix", CHOICES, {"replay": 3, "batch_size": 4}, "replay was 3 and batch_size 4; allowed"),
    ("iql", CHOICES, {"optimizer": "RMSProp"}, "'optimizer'.*Did you mean 'rmsprop'"),
    ("iql", CHOICES, {"seat_number": False}, "allowed with 'iql_shared'"),
]


@pytest.mark.parametrize(("name", "game", "change", "message"), REFUSED)
def test_what_does_not_fit_together_is_refused(name, game, change, message):
    with pytest.raises(ValueError, match=message):
        made(name, game, **change).learn(5)


@pytest.mark.parametrize("name", EACH)
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
        "import sys; from coopbench.baselines.registry import entries, learners, summaries;"
        "assert len(learners()) >= 4; assert set(learners()) <= set(entries());"
        "assert 'ippo' in learners(); assert 'random' not in learners();"
        "assert list(summaries()) == list(learners()); assert 'torch' not in sys.modules"
    )
    run_python("-c", code)


@pytest.mark.parametrize("name", ["vdn_shared", "mappo_shared"])
def test_who_is_blind_does_the_same_whatever_is_observed(name):
    changes = settings_of(name, blind=True) | ({} if of_episodes(name) else MEMORY)
    game = {"rule": toy_team.CUE, "horizon": 4}
    policy = trained(name, 120, quick=changes, **game).policy()
    _, actions = played(policy, lanes=8, **game)
    assert (actions == actions[:, :1]).all()
    masks, seen = np.ones((8, 2, 3), np.bool_), np.random.default_rng(0).normal(0, 9, (8, 2, 5))
    memory = policy.initial(Game.at(TEAM, **game), np.arange(8))
    chosen, _ = policy.act(seen.astype(np.float32), memory, masks)
    assert (chosen == chosen[:1]).all()
