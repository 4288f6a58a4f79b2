"""Recurrent networks as policies: equal to torch's, the same bits everywhere, checked files."""

import json

import numpy as np
import pytest

from coopbench.baselines.game import Game
from coopbench.baselines.match import Match
from coopbench.baselines.networks.kinds import read_policy
from coopbench.baselines.networks.recurrent import (
    GRU,
    LINEAR,
    Layer,
    RecurrentNetwork,
    RecurrentPolicy,
)
from coopbench.baselines.player import Player
from coopbench_envs.arrays import of_weights, pack, unpack
from coopbench_envs.engine import DISABLED, Engine

PENNIES, TRUST = "test/Pennies-v0", "coopbench/TrustDilemma-v1"


def linear(rng, models, inputs, outputs, spread):
    shapes = (models, inputs, outputs), (models, outputs)
    return Layer(LINEAR, *(rng.normal(0, spread, s).astype(np.float32) for s in shapes))


def gru(rng, models, inputs, hidden, spread):
    outputs = 3 * hidden
    shapes = (models, inputs, outputs), (models, outputs), (models, hidden, outputs)
    parts = (rng.normal(0, spread, shape).astype(np.float32) for shape in (*shapes, shapes[1]))
    return Layer(GRU, *parts)


def network(*, agents=3, features=5, hidden=16, actions=4, models=1, head="argmax", spread=0.3):
    """A network of random numbers: linear, GRU, linear; with the number of the seat if shared."""
    rng = np.random.default_rng(hidden)
    identity = models == 1
    inputs = features + actions + agents * identity
    return RecurrentNetwork(
        seats=np.arange(agents) if models == agents else np.zeros(agents, np.int64),
        layers=(
            linear(rng, models, inputs, 8, spread),
            gru(rng, models, 8, hidden, spread),
            linear(rng, models, hidden, actions, spread),
        ),
        centre=rng.normal(size=features).astype(np.float32),
        scale=rng.uniform(0.5, 2.0, features).astype(np.float32),
        identity=identity,
        last_action=True,
        activation="relu",
        head=head,
    )


def policy(net, env=PENNIES):
    facts = {"environment": env, "learner": "qmix", "seed": 7, "steps": 100}
    return RecurrentPolicy(net, facts | {"hyperparameters": {"gamma": 0.99}})


def by_torch(net, frames, choices):
    """Outputs (steps, lanes, agents, actions) of the same network by torch's own GRU cell."""
    torch = pytest.importorskip("torch")
    first, middle, last = net.layers
    agents = frames.shape[2]
    columns = []
    for a, model in enumerate(net.seats):
        cell = torch.nn.GRUCell(middle.inputs, middle.hidden)
        cell.weight_ih.data = torch.tensor(middle.weights[model].T)
        cell.weight_hh.data = torch.tensor(middle.memory_weights[model].T)
        cell.bias_ih.data = torch.tensor(middle.biases[model])
        cell.bias_hh.data = torch.tensor(middle.memory_biases[model])
        hidden, outputs = torch.zeros(frames.shape[1], middle.hidden), []
        for t, seen in enumerate(frames[:, :, a]):
            parts = [(seen - net.centre) * net.scale]
            if net.identity:
                parts.append(np.tile(np.eye(agents, dtype=np.float32)[a], (len(seen), 1)))
            parts.append(choices[t - 1][:, a] if t else np.zeros_like(choices[0][:, a]))
            x = torch.tensor(np.concatenate(parts, axis=1))
            x = torch.relu(x @ torch.tensor(first.weights[model]) + torch.tensor(first.biases[0]))
            with torch.no_grad():
                hidden = cell(x, hidden)
                y = hidden @ torch.tensor(last.weights[model]) + torch.tensor(last.biases[model])
            outputs.append(y.numpy())
        columns.append(np.stack(outputs))
    return np.stack(columns, axis=2)


def played(net, frames):
    """Outputs and choices of a network over steps, as a policy plays it."""
    acting = policy(net)
    lanes, agents = frames.shape[1:3]
    memory = acting.initial(Game.at(PENNIES), np.zeros(lanes, np.uint64))
    outputs, choices = [], []
    for seen in frames:
        outputs.append(net.step(seen, memory.last, memory.hidden)[0])
        actions, memory = acting.act(seen, memory, None)
        assert actions.shape == (lanes, agents)
        choices.append(np.eye(net.actions, dtype=np.float32)[actions])
    return np.stack(outputs), np.stack(choices)


def test_outputs_over_200_steps_are_those_of_torch():
    net = network(features=3, actions=3, hidden=64)
    frames = np.random.default_rng(1).normal(0, 2, (200, 4, 3, 3)).astype(np.float32)
    outputs, choices = played(net, frames)
    expected = by_torch(net, frames, choices)
    assert np.ptp(expected) > 1.0
    np.testing.assert_allclose(outputs, expected, atol=1e-5)
    ordered = np.sort(expected, axis=-1)
    clear = ordered[..., -1] - ordered[..., -2] > 1e-4
    assert clear.mean() > 0.9
    same = outputs.argmax(axis=-1) == expected.argmax(axis=-1)
    assert same[clear].all()
    assert len(np.unique(choices.argmax(axis=-1))) > 1


def test_a_network_with_a_model_for_every_seat_is_that_of_torch():
    net = network(features=3, actions=3, models=3)
    for layer in net.layers[:1]:
        layer.biases[:] = layer.biases[0]  # ``by_torch`` reads those of one model
    frames = np.random.default_rng(2).normal(0, 2, (20, 2, 3, 3)).astype(np.float32)
    outputs, choices = played(net, frames)
    np.testing.assert_allclose(outputs, by_torch(net, frames, choices), atol=1e-5)


@pytest.mark.parametrize("lanes", [1, 7, 64])
def test_bits_do_not_depend_on_the_lanes_beside(lanes):
    net = network(features=3, actions=3, hidden=33)
    frames = np.random.default_rng(3).normal(0, 2, (12, 64, 3, 3)).astype(np.float32)
    together, _ = played(net, frames)
    alone, _ = played(net, np.ascontiguousarray(frames[:, :lanes]))
    assert np.array_equal(together[:, :lanes], alone)


def test_what_is_remembered_is_not_written_to():
    net = network()
    hidden, last = np.zeros((2, 3, 16), np.float32), np.zeros((2, 3, 4), np.float32)
    _, later = net.step(np.ones((2, 3, 5), np.float32), last, hidden)
    assert not hidden.any()
    assert later.all()
    assert (np.abs(later) < 1.0).all()


def test_episodes_are_the_same_alone_and_in_a_batch():
    def episodes(lanes, seeds):
        engine = Engine(PENNIES, lanes)
        match = Match(engine, [Player(policy(network(features=3, actions=3)), Game.of(engine))])
        match.begin(seeds)
        return np.stack([actions.copy() for actions in match.steps()])

    seeds = np.arange(16, dtype=np.uint64)
    together = episodes(16, seeds)
    for k in (0, 5, 15):
        alone = episodes(1, seeds[k : k + 1])
        assert np.array_equal(alone[:, 0], together[: len(alone), k])


def test_choices_are_legal_and_memory_begins_at_zero():
    engine, seeds = Engine(PENNIES, 32), np.arange(32, dtype=np.uint64)
    acting = policy(network(features=3, actions=3))
    engine.reset(seeds)
    memory = acting.initial(Game.of(engine), seeds)
    assert memory.hidden.shape == (32, 3, 16)
    assert not memory.hidden.any()
    assert not memory.last.any()
    while not engine.control.done.all():
        masks = engine.control.masks.astype(np.bool_)
        actions, memory = acting.act(engine.control.obs, memory, masks)
        living = engine.control.alive
        assert np.take_along_axis(masks, actions[:, :, None], axis=2)[:, :, 0][living].all()
        assert (memory.last.sum(axis=2) == 1.0).all()
        engine.step(actions, DISABLED)
    assert not engine.control.invalid.any()


def test_numbers_of_an_action_enter_as_they_left_the_network():
    net, game = network(agents=2, features=7, actions=1, head="tanh"), Game.at(TRUST)
    acting = policy(net, TRUST)
    memory = acting.initial(game, np.zeros(3, np.uint64))
    seen = np.random.default_rng(4).random((3, 2, 7)).astype(np.float32)
    actions, after = acting.act(seen, memory, None)
    outputs, _ = net.step(seen, memory.last, memory.hidden)
    assert np.array_equal(after.last, outputs)
    np.testing.assert_allclose(actions, game.low + (outputs + 1) / 2 * (game.high - game.low))
    with pytest.raises(ValueError, match="environment 'test/Pennies-v0' instead of"):
        policy(net).check(game)


def test_files_hold_the_policy_bit_for_bit():
    before = policy(network(features=3, actions=3))
    content = before.pack()
    after = read_policy(content)
    assert after.pack() == content
    assert after.facts == before.facts
    header = json.loads(unpack(content)["header"].tobytes())
    assert header["format"] == 2
    assert header["layers"] == ["linear", "gru", "linear"]
    frames = np.random.default_rng(5).normal(size=(4, 2, 3, 3)).astype(np.float32)
    assert np.array_equal(played(after.network, frames)[0], played(before.network, frames)[0])


def broken(**changes):
    """The file of a policy with some of its header or arrays changed, or without one (None)."""
    arrays = unpack(policy(network()).pack())
    header = json.loads(arrays["header"].tobytes())
    for name, value in changes.items():
        array = ".".join(name.rsplit("_", 1))
        if name in header or name == "more":
            header[name] = value
        elif value is None:
            del arrays[array]
        else:
            arrays[name if name in arrays else array] = value
    arrays["header"] = np.frombuffer(json.dumps(header).encode(), np.uint8)
    return pack(arrays, limit=of_weights)


def zeros(*shape):
    return np.broadcast_to(np.float32(0), shape)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (broken(format=1), "it has the format '1'; this version reads 2"),
        (broken(format=3), "it has the format '3'"),
        (broken(kind="perceptron"), "this version reads 1"),
        (broken(more=1), "it states"),
        (broken(layers=["linear", "lstm", "linear"]), "its layers are"),
        (broken(layers="gru"), "its layers are"),
        (broken(layers=[["gru"]]), "its layers are"),
        (broken(layers=["linear", "linear", "linear"]), "it holds the arrays"),
        (broken(layers=["linear", "gru"]), "it holds the arrays"),
        (broken(layers=[]), "it holds the arrays"),
        (broken(memory_weights_1=None), "it holds the arrays"),
        (broken(extra=np.zeros(1)), "it holds the arrays"),
        (broken(activation="exec"), "do not fit together"),
        (broken(memory_weights_1=zeros(1, 16, 47)), "do not fit together"),
        (broken(memory_weights_1=zeros(1, 15, 48)), "do not fit together"),
        (broken(memory_biases_1=zeros(1, 49)), "do not fit together"),
        (broken(weights_1=zeros(1, 8, 47)), "do not fit together"),
        (broken(weights_1=zeros(8, 48)), "do not fit together"),
        (broken(weights_0=zeros(12, 8)), "do not fit together"),
        (broken(weights_2=zeros(16)), "do not fit together"),
        (broken(weights_2=zeros(1, 16, 0), biases_2=zeros(1, 0)), "do not fit together"),
        (broken(identity=False), "do not fit together"),
        (broken(last_action=False), "do not fit together"),
        (broken(seats=np.array([0, 1, 0])), "do not fit together"),
        (broken(seats=np.array([0, -1, 0])), "do not fit together"),
        (broken(centre=zeros(6)), "do not fit together"),
        (broken(centre=zeros(1, 5), scale=zeros(1, 5)), "do not fit together"),
        (broken(biases_0=np.full((1, 8), np.nan, np.float32)), "The biases of layer 0 .* finite"),
        (
            broken(memory_biases_1=np.full((1, 48), np.inf, np.float32)),
            "memory_biases of layer 1 .* finite",
        ),
        (
            broken(memory_weights_1=np.zeros((1, 16, 48))),
            "memory_weights .* float32; given float64",
        ),
    ],
)
def test_files_of_strangers_are_refused(content, words):
    with pytest.raises(ValueError, match=words):
        read_policy(content)


def test_memory_of_a_file_is_bounded():
    """A GRU of many numbers that are all zero would pack into a small file."""
    wide = 4100
    content = broken(
        layers=["gru", "linear"],
        weights_0=zeros(1, 12, 3 * wide),
        biases_0=zeros(1, 3 * wide),
        memory_weights_0=zeros(1, 1, 3 * wide),
        memory_biases_0=zeros(1, 3 * wide),
        weights_1=zeros(1, wide, 4),
        biases_1=zeros(1, 4),
        weights_2=None,
        biases_2=None,
        memory_weights_1=None,
        memory_biases_1=None,
    )
    with pytest.raises(ValueError, match="do not fit together"):
        read_policy(content)
