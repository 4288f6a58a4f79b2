"""COMA: what a choice is credited with, games with known answers, and who learns."""

import numpy as np
import pytest
import toy_team
from team_training import TEAM, played

from coopbench.baselines.registry import make_learner

torch = pytest.importorskip("torch")

from coopbench.baselines.learners.coma import advantages, probabilities  # noqa: E402
from coopbench.baselines.learners.torch_tools import torch_apart, torch_seed  # noqa: E402

pytestmark = pytest.mark.usefixtures("team_toy")
MONOTONE = 1
QUICK = {"lanes": 8, "batch_size": 8, "hidden": 16, "critic_hidden": 32, "learning_rate": 5e-3}
QUICK |= {"critic_rate": 5e-3, "epsilon": 0.05, "epsilon_steps": 2000}


def learned(name, steps, seed=0, credit="critic", **game):
    learner = make_learner(name, TEAM, game, seed, **QUICK, credit=credit)
    learner.learn(steps)
    return learner


def chosen(batch):
    """The choices of every place of a batch, (places, agents); 0 in the last ones."""
    choices = torch.zeros(batch.legal.shape[:2], dtype=torch.int64)
    choices[batch.before] = batch.actions
    return choices


def test_the_advantage_is_the_value_minus_the_expectation_over_the_own_policy():
    """Choice by choice, with a given critic and policy, and in numpy."""
    learner = learned("coma_shared", 400, rule=toy_team.TWO_STEPS, horizon=4)
    batch = learner._episodes.latest(6)
    critic, legal = learner._algorithm.critic, batch.legal[batch.before]
    with torch.no_grad():
        values = critic(critic.inputs(batch, chosen(batch)))[batch.before].double()
    outputs = torch.tensor(np.random.default_rng(0).normal(0, 2, legal.shape))
    policy = probabilities(outputs, legal, 0.1)
    credit = advantages(values, policy, batch.actions)
    assert credit.abs().max() > 1e-3
    for step, seat in np.ndindex(*batch.actions.shape):
        choices = np.flatnonzero(legal[step, seat])
        weights = np.exp(outputs[step, seat].numpy()[choices])
        weights = 0.9 * weights / weights.sum() + 0.1 / len(choices)
        value = values[step, seat].numpy()
        by_hand = value[int(batch.actions[step, seat])] - weights @ value[choices]
        assert float(credit[step, seat]) == pytest.approx(by_hand, abs=1e-6)


def test_a_seat_is_valued_beside_the_choices_of_others_alone():
    """Another choice of its own changes nothing that the critic gets for it at that step."""
    learner = learned("coma", 400, rule=toy_team.TWO_STEPS, horizon=4)
    batch = learner._episodes.latest(6)
    inputs, first = learner._algorithm.critic.inputs, range(batch.counts[0])
    other = chosen(batch)
    other[first, 0] = (other[first, 0] + 1) % 3
    before, after = inputs(batch, chosen(batch))[first], inputs(batch, other)[first]
    assert torch.equal(before[:, 0], after[:, 0])
    assert not torch.equal(before[:, 1], after[:, 1])


@pytest.mark.parametrize(
    ("name", "credit"), [("coma", "critic"), ("coma_shared", "critic"), ("coma_shared", "return")]
)
@pytest.mark.parametrize(("limited", "worth"), [(0, 9.0), (1, 4.0)])
def test_a_monotone_matrix_is_solved_without_illegal_choices(name, credit, limited, worth):
    learner = learned(name, 3000, credit=credit, matrix=MONOTONE, limited=limited)
    reached, actions = played(learner.policy(), matrix=MONOTONE, limited=limited)
    assert reached == worth
    assert actions.max() < 3 - limited
    episodes = learner._episodes
    assert episodes.batch(np.arange(len(episodes))).actions.max() < 3 - limited


@pytest.mark.parametrize("credit", ["critic", "return"])
def test_what_the_team_earns_later_reaches_a_member_that_has_fallen(credit):
    """Member 1 falls after its first step; its choice 1 pays 1 two steps later."""
    game = {"rule": toy_team.FALL, "horizon": 3}
    reached, actions = played(learned("coma_shared", 9000, credit=credit, **game).policy(), **game)
    assert reached == 1.0
    assert (actions[0, :, 1] == 1).all()


def test_the_dead_train_no_actor():
    """Whatever they observe: their only choice has probability 1, so that nothing is ascended."""
    game = {"rule": toy_team.FALL, "horizon": 3}
    results = []
    for noise in (0.0, 1.0):
        learner = learned("coma", 400, **game)
        batch = learner._episodes.latest(6)
        dead = batch.legal[:, 1].sum(1) == 1
        assert 0 < dead.sum() < len(dead)
        batch.inputs[dead, 1] += noise
        with torch_apart(torch_seed(0)):
            # The critic sees the dead, so it is held fixed here.
            learner._algorithm._learn_critic = lambda b, outputs: (
                torch.ones_like(outputs[b.before]).cumsum(2),
                torch.ones(b.actions.shape),
                0.0,
            )
            learner._algorithm.update(batch)
        results.append(learner.policy().pack())
    assert results[0] == results[1]


@pytest.mark.parametrize(
    ("credit", "entropy", "learns"),
    [("critic", 0.0, False), ("critic", 0.1, True), ("return", 0.0, True)],
)
def test_of_a_critic_that_values_nothing_returns_and_the_bonus_alone_teach(credit, entropy, learns):
    """Its credit is 0 for every choice; that of returns is then the target itself."""
    settings = QUICK | {"credit": credit, "entropy": entropy}
    learner = make_learner("coma_shared", TEAM, {"matrix": MONOTONE}, 0, **settings)
    learner.learn(400)
    before, batch = learner.policy().pack(), learner._episodes.latest(6)
    algorithm = learner._algorithm
    algorithm._actors.state.clear()  # steps from earlier gradients would go on
    algorithm._learn_critic = lambda b, outputs: (
        torch.zeros_like(outputs[b.before]),
        b.rewards,
        0.0,
    )
    algorithm.update(batch)
    learner._network = learner._acting()
    assert (learner.policy().pack() != before) == learns


@pytest.mark.parametrize(("time_limit", "worth"), [("terminal", 1.0), ("bootstrap", 2.0)])
def test_the_worth_of_an_episode_that_time_ends_is_known(time_limit, worth):
    """A reward of 1 in the last step with gamma 0.5: 1, and 2 if it would go on for ever."""
    game = {"rule": toy_team.PAY, "horizon": 3}
    settings = QUICK | {"gamma": 0.5, "time_limit": time_limit, "target_every": 10}
    learner = make_learner("coma_shared", TEAM, game, 0, **settings)
    learner.learn(9000)
    batch, critic = learner._episodes.latest(6), learner._algorithm.critic
    with torch.no_grad():
        values = critic(critic.inputs(batch, chosen(batch)))[batch.before]
    last = values[-6:].gather(2, batch.actions[-6:].unsqueeze(2))
    np.testing.assert_allclose(last, worth, atol=0.1)
