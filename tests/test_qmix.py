"""IQL, VDN and QMIX: updates by hand, games with known answers, and what is refused."""

import tracemalloc

import numpy as np
import pytest
import toy_team
from builders import make_task, trial
from team_training import (
    MIXED,
    PENNIES,
    SMALL,
    TEAM,
    aims_by_hand,
    gradients_agree,
    known,
    of_choices,
    preferred,
    same,
    stepwise,
    trained,
)

import coopbench
from coopbench.baselines.learners import sequences
from coopbench.baselines.learners.episode_learner import falling_share, greedy
from coopbench.baselines.learners.gated import remember
from coopbench.baselines.learners.qmix import Monotone
from coopbench.baselines.learners.sequences import Batch, targets
from coopbench.baselines.learners.torch_tools import torch_apart, torch_seed
from coopbench.baselines.networks.kinds import read_policy
from coopbench.baselines.registry import make_learner, preset
from coopbench.episodes.table import Cell
from coopbench.errors import Diverged
from coopbench.report.sections.cards import cards
from coopbench.results import store
from coopbench.workflows.run_folder import RunFolder

BATTLE = "coopbench/Skirmish-v0"
FALL = {"rule": toy_team.FALL, "horizon": 3}
TWO_STEPS = {"rule": toy_team.TWO_STEPS, "horizon": 4}

_toys = known(toy_team)


# -- updates by hand ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "recurrent"), [("iql", True), ("vdn", True), ("qmix_shared", True), ("vdn", False)]
)
def test_an_update_follows_the_gradient_of_the_errors_to_double_q_targets(torch, name, recurrent):
    learner = trained(name, 4 * 60, changes=MIXED | {"recurrent": recurrent}, env=PENNIES)
    batch = learner._episodes.latest(6)
    groups = learner._rows.groups
    assert len(set(batch.counts)) > 2
    assert batch.terminated.sum() > 0
    outputs = stepwise(learner.models, groups, batch)[0]
    with torch.no_grad():
        best = preferred(outputs, batch.legal)
        later = of_choices(stepwise(learner.target_models, groups, batch)[0], best)
        aims = aims_by_hand(batch, learner.target_mixer(later, batch.state), 0.9, 0.6)
    chosen = of_choices(outputs[batch.before], batch.actions)
    errors = learner.mixer(chosen, batch.state[batch.before]) - aims
    loss = (errors**2).mean()
    modules = [*learner.models, learner.mixer]
    report = gradients_agree(modules, loss, lambda: learner.update(batch))
    assert report["loss"] == pytest.approx(float(loss.detach()), rel=1e-4)


@pytest.mark.parametrize("name", ["iql", "vdn_shared", "qmix", "qtran"])
def test_rmsprop_makes_the_steps_of_pymarl(torch, name):
    """The first one from moments of 0: lr g / (sqrt((1 - alpha) g^2) + eps)."""
    learner = trained(name, 4 * 2, changes=MIXED | {"optimizer": "rmsprop"}, env=PENNIES)
    model = learner.models[0]
    before = [one.detach().clone() for one in model.parameters()]
    while not learner.updates:
        learner.advance()
    assert learner.updates == 1
    for old, new in zip(before, model.parameters(), strict=True):
        step = learner._params.learning_rate * new.grad / (0.1 * new.grad.abs() + 1e-5)
        torch.testing.assert_close(new.detach(), old - step, rtol=1e-5, atol=1e-7)


def test_targets_by_hand(torch):
    """Two episodes of 3 and 2 steps; the second one is ended by time, the first by the game."""
    empty = torch.zeros(0)
    batch = Batch(
        *(empty,) * 4,
        rewards=torch.tensor([[1.0], [4.0], [2.0], [5.0], [3.0]]),
        terminated=torch.tensor([0.0, 0.0, 0.0, 0.0, 1.0]),
        counts=(2, 2, 2, 1),
    )
    following = torch.tensor([[10.0], [40.0], [20.0], [50.0], [30.0]])
    y2, z1 = 3.0, 5.0 + 0.5 * 50.0
    y1 = 2.0 + 0.5 * (0.75 * 20.0 + 0.25 * y2)
    y0 = 1.0 + 0.5 * (0.75 * 10.0 + 0.25 * y1)
    z0 = 4.0 + 0.5 * (0.75 * 40.0 + 0.25 * z1)
    result = targets(batch, following, 0.5, 0.25)[:, 0].numpy()
    np.testing.assert_allclose(result, [y0, z0, y1, z1, y2], rtol=1e-6)
    assert batch.before.tolist() == [0, 1, 2, 3, 4]
    assert range(7)[batch.after] == range(2, 7)


@pytest.mark.parametrize(("time_limit", "ended"), [("terminal", 1.0), ("bootstrap", 0.0)])
def test_an_end_by_time_alone_is_one_of_the_game_where_it_is_said(time_limit, ended):
    changes = SMALL | {"time_limit": time_limit}
    learner = trained("iql", 4 * 8, changes=changes, rule=toy_team.PAY, horizon=3)
    batch = learner._episodes.latest(4)
    assert batch.terminated.tolist() == [0.0] * 8 + [ended] * 4
    others = trained("iql", 4 * 8, changes=changes, **FALL)._episodes.latest(4)
    assert others.terminated.tolist() == [0.0] * 8 + [1.0] * 4


@pytest.mark.parametrize("counts", [(4, 4, 3, 1), (1,), (2, 2, 2)])
def test_the_unit_with_its_gradient_is_that_of_torch(torch, counts):
    with torch_apart(torch_seed(1)):
        unit = torch.nn.GRU(5, 3)
        inputs, weights = torch.randn(sum(counts), 5, requires_grad=True), torch.randn(3)
        packed = torch.nn.utils.rnn.PackedSequence(inputs, torch.tensor(counts))
        results = []
        for outputs in (unit(packed)[0].data, remember(unit, inputs, counts)):
            unit.zero_grad()
            inputs.grad = None
            (outputs * weights).sum().backward()
            gradients = [inputs.grad, *(parameter.grad for parameter in unit.parameters())]
            results.append([outputs.detach(), *(gradient.clone() for gradient in gradients)])
        for expected, result in zip(*results, strict=True):
            torch.testing.assert_close(result, expected, rtol=1e-4, atol=1e-5)
        with torch.no_grad():
            torch.testing.assert_close(remember(unit, inputs, counts), results[0][0])


def test_the_mixer_by_hand(torch):
    """Q = elu(q |W1(s)| + b1(s)) |W2(s)| + b2(s)."""
    with torch_apart(torch_seed(0)), torch.no_grad():
        mixer = Monotone(2, 3)
        values, state = torch.randn(5, 2), torch.randn(5, 3)
        part = {name: module(state).numpy() for name, module in mixer.named_children()}
        first = np.abs(part["weights1"]).reshape(5, 2, -1)
        hidden = np.einsum("ka,kaw->kw", values.numpy(), first) + part["biases1"]
        hidden = np.where(hidden > 0, hidden, np.expm1(hidden))
        expected = (hidden * np.abs(part["weights2"])).sum(1) + part["biases2"][:, 0]
        np.testing.assert_allclose(mixer(values, state)[:, 0], expected, rtol=1e-4, atol=1e-5)


def test_random_choices_are_legal_and_as_frequent_as_said():
    outputs = np.tile(np.array([3.0, 1.0, 2.0], np.float32), (4000, 1, 1))
    legal = np.tile([False, True, True], (4000, 1, 1))
    for share in (0.0, 0.4, 1.0):
        with torch_apart(torch_seed(0)):
            chosen = greedy(outputs, legal, share)
        assert (chosen == 0).sum() == 0
        assert (chosen == 1).mean() == pytest.approx(share / 2, abs=0.03)


def test_the_share_of_random_choices_falls_to_its_end():
    shares = [falling_share(steps, 1.0, 0.2, 100) for steps in (0, 50, 100, 300)]
    np.testing.assert_allclose(shares, [1.0, 0.6, 0.2, 0.2])


# -- how episodes are stored ----------------------------------------------------------------------


def test_episodes_of_different_lengths_are_stored_as_they_were_played():
    """Pennies ends early for some; what follows the last step is of the old episode."""
    learner = make_learner("iql", PENNIES, {}, 0, **(SMALL | {"replay": 200, "stored": "float16"}))
    learner.learn(4 * 60)
    episodes = learner._episodes
    count = len(episodes)
    batch, lengths = episodes.batch(np.arange(count)), episodes._lengths[:count]
    assert len(batch.inputs) == (lengths + 1).sum()
    assert len(batch.actions) == len(batch.before) == lengths.sum()
    np.testing.assert_array_equal(batch.counts, [(lengths >= t).sum() for t in range(13)])
    legal = batch.legal[batch.before].gather(2, batch.actions.unsqueeze(2)).squeeze(2)
    assert legal.all()
    last = batch.with_last_actions()[..., -3:]
    assert not last[: batch.counts[0]].any()
    np.testing.assert_array_equal(last[batch.after].argmax(2).numpy(), batch.actions.numpy())
    # The longest episode comes first, and its places are as they stand in the ring.
    slot, begins = np.argmax(lengths), np.cumsum((0, *batch.counts[:-1]))
    places = begins[: lengths[slot] + 1]
    block, stored = episodes._ring[slot]
    expected = block.arrays["inputs"][stored].astype(np.float32)
    np.testing.assert_array_equal(batch.inputs[places].numpy(), expected)
    np.testing.assert_array_equal(
        episodes.latest(3).rewards.sum(), episodes.batch(np.arange(count - 3, count)).rewards.sum()
    )


def test_what_is_stored_is_neither_padded_nor_copied(tmp_path):
    """Battles of up to 60 steps; writing and reading a state takes little more than it holds."""
    folder, battle = RunFolder(tmp_path), {"map": "3m"}
    settings = SMALL | {"lanes": 16, "replay": 500, "updates_per_episode": 1e-9}
    learner, resumed = (make_learner("iql", BATTLE, battle, 0, **settings) for _ in range(2))
    learner.learn(16 * 1200)
    episodes, state = learner._episodes, learner.save()
    assert len(episodes) == episodes.size == 500 < episodes.added
    stored = {name: array for name, array in state.items() if ".block." in name}
    longest = episodes.bytes_each * (episodes._lengths.max() + 1) / 61
    assert sum(array.nbytes for array in stored.values()) < 0.8 * 500 * longest
    size = sum(array.nbytes for array in state.values())
    tracemalloc.start()
    folder.write(state)
    assert tracemalloc.get_traced_memory()[1] < 0.2 * size
    tracemalloc.reset_peak()
    resumed.load(folder.read())
    held, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert held < 1.2 * size
    assert peak < 1.3 * size
    for one in (learner, resumed):
        one.learn(16 * 1600)
    assert same(learner.save(), resumed.save())


def test_without_memory_a_policy_knows_the_present_and_its_last_choice(torch):
    learner = make_learner("qmix_shared", TEAM, TWO_STEPS, 0, recurrent=False, **SMALL)
    learner.learn(400)
    policy = learner.policy()
    network, content = policy.network, policy.pack()
    assert [layer.kind for layer in network.layers] == ["linear"] * 3
    assert (network.hidden, network.last_action) == (0, True)
    assert read_policy(content).pack() == content
    assert policy.hyperparameters["recurrent"] is False
    (model,) = learner.models
    inputs = np.random.default_rng(0).normal(size=(5, 2, network.layers[0].inputs))
    inputs = inputs.astype(np.float32)
    outputs, hidden = learner.network().step(inputs, np.zeros((5, 2, 0), np.float32))
    assert hidden.shape == (5, 2, 0)
    expected = model(torch.from_numpy(inputs).flatten(0, 1))
    np.testing.assert_allclose(outputs, expected.detach().reshape(5, 2, -1), atol=1e-5)
    resumed = make_learner("qmix_shared", TEAM, TWO_STEPS, 0, recurrent=False, **SMALL)
    resumed.load(learner.save())
    for one in (learner, resumed):
        one.learn(600)
    assert same(learner.save(), resumed.save())


# -- what is refused ------------------------------------------------------------------------------


def test_a_replay_that_is_too_large_can_be_smaller(monkeypatch):
    large = SMALL | {"replay": 1000, "batch_size": 4}
    one = make_learner("vdn", TEAM, {}, 0, **large)._episodes.bytes_each
    monkeypatch.setattr(sequences, "LARGEST", one * (7 + SMALL["lanes"]) + 1)
    with pytest.raises(ValueError, match=r"a replay of up to 7 or fit_replay=True"):
        make_learner("vdn", TEAM, {}, 0, **large)
    learner = make_learner("vdn", TEAM, {}, 0, fit_replay=True, **large)
    learner.learn(100)
    assert len(learner._episodes) == learner._episodes.size == 7
    assert learner.updates > 0
    with pytest.raises(ValueError, match=r"allowed: up to [\d,]+. Take fewer lanes"):
        make_learner("vdn", TEAM, {}, 0, fit_replay=True, **(large | {"lanes": 64}))


@pytest.mark.parametrize("name", ["iql", "vdn", "qmix_shared", "qtran", "coma_shared"])
def test_published_settings_are_allowed_on_the_largest_map(name):
    """Its 5000 episodes would not fit into a saved state."""
    settings = preset("skirmish-published", name)
    assert settings
    make_learner(name, BATTLE, {"map": "27m_vs_30m"}, 0, **settings)


def test_states_of_other_trainings_are_refused():
    learner = make_learner("qmix_shared", TEAM, {}, 0, **SMALL)
    learner.learn(40)
    state = learner.save()
    parts = ("episodes.open_inputs", "episodes.block.0.inputs", "hidden")
    for name in (*parts, "mixer.biases1.bias"):
        with pytest.raises(ValueError, match=f"{name}' is absent"):
            make_learner("qmix_shared", TEAM, {}, 0, **SMALL).load(
                {key: array for key, array in state.items() if key != name}
            )
    ends = state["episodes.block.0.ends"]
    for change in (
        {"episodes.added": np.array(3)},
        {"episodes.block.0.ends": ends[:-1]},
        {"episodes.block.0.ends": ends[:0]},
        {"episodes.block.0.ends": ends * 10**9},
        {"episodes.block.0.ends": ends[::-1]},
    ):
        with pytest.raises(ValueError, match="The saved state does not fit"):
            make_learner("qmix_shared", TEAM, {}, 0, **SMALL).load(state | change)


def test_divergence_is_told(torch):
    learner = make_learner("vdn", TEAM, {}, 0, **SMALL)
    learner.learn(40)
    with torch.no_grad():
        learner.models[0].leave.bias[0] = torch.inf
    with pytest.raises(Diverged, match="The loss of a model or its gradient is not finite"):
        learner.learn(400)


# -- as everything else that is trained -----------------------------------------------------------


def test_a_run_is_trained_stored_and_verified(tmp_path, monkeypatch):
    """With fewer episodes than were asked for, which the results state."""
    one = make_learner("qmix_shared", TEAM, TWO_STEPS, 0, **SMALL)._episodes.bytes_each
    monkeypatch.setattr(sequences, "LARGEST", one * (20 + SMALL["lanes"]))
    task = make_task("two_steps", TEAM, parameters=TWO_STEPS)
    protocol = trial(tmp_path, task, steps=240, interval=80, curve="stage")
    settings = SMALL | {"replay": 30, "fit_replay": True}
    report = coopbench.train(protocol, "qmix_shared", tmp_path / "out", **settings)
    cell = Cell("two_steps", "qmix_shared", 5)
    stored = store.read(tmp_path / "out", protocol, cell)
    assert stored.policy.facts["hyperparameters"]["updates_per_episode"] == 0.5
    assert stored.policy.facts["hyperparameters"]["replay"] == 30
    assert stored.meta["training"]["reduced"] == {"replay": 20}
    card = cards(report)["qmix_shared"]
    assert card["Used instead"] == "replay = 20 on two_steps: more would take too much memory"
    assert coopbench.verify(tmp_path / "out").holds
