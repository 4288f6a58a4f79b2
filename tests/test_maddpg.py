"""MADDPG: known optima and values, what its critics see, the same bits, what is refused."""

import numpy as np
import pytest
import toy_pair
import toy_squad
import toy_team

from coopbench.baselines.game import Game
from coopbench.baselines.learners.experience import RowOptions, Rows
from coopbench.baselines.networks.kinds import read_policy
from coopbench.baselines.registry import make_learner
from coopbench.errors import Diverged
from coopbench_envs import Engine, registration
from coopbench_envs.engine import DISABLED

torch = pytest.importorskip("torch")

PAIR, TEAM, SQUAD = toy_pair.SPEC.id, toy_team.SPEC.id, toy_squad.SPEC.id
TRUST = "coopbench/TrustDilemma-v1"
BOTH = ("maddpg", "maddpg_shared")
QUICK = {"lanes": 16, "train_every": 16, "updates": 1, "batch_size": 128, "warmup": 500}
QUICK |= {"learning_rate": 3e-3, "layers": "32x32", "tau": 0.05}
SMALL = {"lanes": 8, "train_every": 16, "batch_size": 16, "warmup": 40, "layers": "8"}
SMALL |= {"buffer_size": 200}


@pytest.fixture(autouse=True, scope="module")
def _toys():
    """Make the toys known to the tests of this file alone."""
    with pytest.MonkeyPatch.context() as patch:
        for toy in (toy_pair, toy_team, toy_squad):
            patch.setitem(registration._modules, toy.SPEC.id, toy.__name__)
            patch.setitem(registration._specs, toy.SPEC.id, toy.SPEC)
        yield


def trained(name, steps, changes=None, env=TEAM, **game):
    learner = make_learner(name, env, game, 0, **(QUICK | (changes or {})))
    learner.learn(steps)
    return learner


def played(policy, lanes=16, env=TEAM, **game):
    """Mean return, and the actions of every step, of seeds that no training has."""
    engine, seeds, actions = Engine(env, lanes, **game), np.arange(lanes, dtype=np.uint64), []
    engine.reset(seeds)
    memory = policy.initial(Game.of(engine), seeds)
    while not engine.control.done.all():
        masks = engine.control.masks != 0 if engine.discrete else None
        chosen, memory = policy.act(engine.control.obs, memory, masks)
        actions.append(chosen.copy())
        engine.step(chosen, DISABLED)
    assert not engine.control.invalid.any()
    return engine.control.returns[:, 0].mean(), np.array(actions)


# -- games with known answers ---------------------------------------------------------------------


@pytest.mark.parametrize("name", BOTH)
def test_the_best_pair_of_actions_is_found(name):
    changes = {"anneal": 16 * 1000, "regularisation": 0.0}
    learner = trained(name, 16 * 1000, changes, env=PAIR)
    _, actions = played(learner.policy(), env=PAIR)
    best = np.array(toy_pair.BEST)[:, None]
    np.testing.assert_allclose(actions[0, 0] / 2.0, best, atol=0.02)


@pytest.mark.parametrize("name", BOTH)
def test_a_monotone_matrix_is_solved(name):
    learner = trained(name, 16 * 500, matrix=1)
    assert played(learner.policy(), matrix=1)[0] == 9.0


def test_nobody_takes_an_illegal_choice_that_would_be_the_best():
    learner = trained("maddpg", 16 * 500, matrix=1, limited=1)
    reached, actions = played(learner.policy(), matrix=1, limited=1)
    assert reached == 4.0
    assert (actions == 1).all()
    assert not learner._replay._ring["actions"][: len(learner._replay), :, 2].any()


@pytest.mark.parametrize("time_limit", ["terminal", "bootstrap"])
def test_the_worth_of_an_episode_that_time_ends_is_known(time_limit):
    """Rewards of 1 for three steps with gamma 0.5: 1.75, and 2 if they would go on for ever."""
    game = {"rule": toy_team.PAY, "horizon": 3}
    changes = {"gamma": 0.5, "time_limit": time_limit, "scale_rewards": False}
    learner = trained("maddpg_shared", 16 * 600, changes, **game)
    batch = learner._replay.sample(500)
    first = batch.inputs[:, 0, 4] == 0.0
    model = learner._models[0]
    with torch.no_grad():
        values = model.values(batch.inputs, batch.actions[:, None].expand(-1, 2, -1, -1))[first]
    worth = 1.75 if time_limit == "terminal" else 2.0
    np.testing.assert_allclose(values.numpy(), worth, atol=0.1)


def test_what_the_team_earns_later_counts_for_a_member_that_has_fallen():
    """Member 1 falls after its first step; half of its random choices pay 1 two steps later.

    Nobody sees which ones, so that both are worth the same at first: 0.9**2 / 2.
    """
    game = {"rule": toy_team.FALL, "horizon": 3}
    changes = {"gamma": 0.9, "exploration": 1.0, "scale_rewards": False}
    learner = trained("maddpg", 16 * 500, changes, **game)
    batch = learner._replay.sample(500)
    first = batch.acted[:, 1]
    with torch.no_grad():
        values = learner._models[1].values(batch.inputs, batch.actions[:, None])[first]
    np.testing.assert_allclose(values.mean(), 0.405, atol=0.05)


# -- parts ----------------------------------------------------------------------------------------


def test_what_everybody_did_is_known_in_units_of_each_seat():
    rows = Rows("coopbench/RenaultNissan-v1", {}, 0, 3, RowOptions(shared=False, scaled=False))
    for action in (-1.0, 0.5, 3.0):
        rows.step([np.full((3, rows.outputs), action, np.float32)] * rows.agents)
        np.testing.assert_allclose(rows.played(), min(action, 1.0), atol=1e-6)
    options = RowOptions(False, False, partners=("tit_for_tat",), share=1.0)
    rows = Rows(TRUST, {}, 0, 4, options)
    learning = rows.learning()
    rows.step([np.full((4, 1), 0.25, np.float32)] * 2)
    np.testing.assert_allclose(rows.played()[learning], 0.25, atol=1e-6)
    assert (rows.played()[~learning] != 0.25).all()


def test_rows_of_the_dead_teach_critics_alone():
    learner = make_learner("maddpg_shared", SQUAD, {}, 0, **SMALL)
    learner.learn(8 * 20)
    batch = learner._replay.sample(400)
    assert batch.taught.all()
    assert not batch.acted.all()
    assert not batch.actions[~batch.acted].any()
    np.testing.assert_array_equal(batch.actions[batch.acted].sum(1), 1.0)
    assert not batch.inputs[~batch.acted].any()


def test_choices_are_one_hot_and_have_the_gradient_of_a_softmax():
    learner = make_learner("maddpg", TEAM, {}, 0, **SMALL)
    model = learner._models[0]
    outputs = torch.tensor([[1.0, 2.0, 3.0]], requires_grad=True)
    legal = torch.tensor([[True, True, False]])
    actions = model.actions(outputs, legal, noise=False)
    np.testing.assert_allclose(actions.detach(), [[0.0, 1.0, 0.0]], atol=1e-6)
    (gradient,) = torch.autograd.grad(actions[0, 1], outputs)
    share = 1.0 / (1.0 + np.exp(-1.0))
    slope = share * (1.0 - share)
    np.testing.assert_allclose(gradient, [[-slope, slope, 0.0]], rtol=1e-5)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        rows = outputs.detach().expand(20_000, 3)
        drawn = model.actions(rows, legal.expand(20_000, 3), noise=True).mean(0)
    np.testing.assert_allclose(drawn, [1.0 - share, share, 0.0], atol=0.01)


# -- the same bits, and what is refused -----------------------------------------------------------


@pytest.mark.parametrize(("name", "env"), [("maddpg", SQUAD), ("maddpg_shared", PAIR)])
def test_a_training_that_goes_on_from_its_state_has_the_same_bits(name, env):
    """The ring has been overwritten once, and lanes are in the middle of their episodes."""
    whole, stopped = (make_learner(name, env, {"horizon": 7}, 3, **SMALL) for _ in range(2))
    whole.learn(600)
    stopped.learn(8 * 43)
    resumed = make_learner(name, env, {"horizon": 7}, 3, **SMALL)
    resumed.load(stopped.save())
    resumed.learn(600)
    a, b = whole.save(), resumed.save()
    assert a.keys() == b.keys()
    assert all(np.array_equal(a[name], b[name]) for name in a)
    content = whole.policy().pack()
    assert resumed.policy().pack() == content
    assert read_policy(content).pack() == content


def test_games_and_numbers_that_do_not_fit_are_refused():
    wrong = {
        r"buffer_size was 100000000: so many steps of test/Team-v0 take [\d,]+ bytes; allowed: up "
        r"to [\d,]+, thus a buffer_size of up to \d+": {"buffer_size": 100_000_000},
        "buffer_size was 10, batch_size 16 and lanes 8; allowed": {"buffer_size": 10},
        "train_every was 20 and lanes 8; allowed: a train_every that is": {"train_every": 20},
    }
    for message, change in wrong.items():
        with pytest.raises(ValueError, match=message):
            make_learner("maddpg", TEAM, {}, 0, **SMALL | change)
    learner = make_learner("maddpg", TEAM, {}, 0, **SMALL)
    learner.learn(80)
    for change in ({"gamma": 0.5}, {"layers": "4"}):
        with pytest.raises(ValueError, match="The saved state does not fit 'maddpg'"):
            make_learner("maddpg", TEAM, {}, 0, **SMALL | change).load(learner.save())
    with pytest.raises(ValueError, match="does not fit"):
        make_learner("maddpg", TEAM, {}, 0, **SMALL).load(
            learner.save() | {"replay.added": np.array(3)}
        )


@pytest.mark.parametrize("env", [TEAM, PAIR])
@pytest.mark.parametrize("network", ["actor", "critic"])
def test_divergence_is_told(env, network):
    learner = make_learner("maddpg", env, {}, 0, **SMALL)
    learner.learn(80)
    with torch.no_grad():
        learner._models[0].networks[network].layers[-1].bias[0] = torch.inf
    with pytest.raises(Diverged, match=f"{network}.* is not finite"):
        learner.learn(400)
