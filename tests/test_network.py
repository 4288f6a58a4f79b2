"""Networks as policies: what comes out, that it is the same everywhere, and what files may hold."""

import dataclasses
import hashlib
import itertools
import json

import numpy as np
import pytest
from builders import outputs_of
from hypothesis import given, settings
from hypothesis import strategies as st

from coopbench.baselines import registry
from coopbench.baselines.game import Game
from coopbench.baselines.learner import LearnerEntry
from coopbench.baselines.match import Match
from coopbench.baselines.networks.kinds import read_policy
from coopbench.baselines.networks.network import (
    ACTIVATIONS,
    GRU,
    LINEAR,
    Layer,
    Network,
    NetworkPolicy,
    perceptron,
)
from coopbench.baselines.networks.policy import HEADS
from coopbench.baselines.player import Player
from coopbench.baselines.registry import make_policy
from coopbench_envs.arrays import of_weights, pack, unpack
from coopbench_envs.engine import Engine

TRUST, PENNIES = "coopbench/TrustDilemma-v1", "test/Pennies-v0"
FACTS = {"environment": TRUST, "learner": "ippo", "seed": 7, "steps": 100}


def around(models, agents, features, head, activation, rng):
    """What networks of both kinds have: one model for all seats with their number, or for each."""
    return {
        "seats": np.zeros(agents, np.int64) if models == 1 else np.arange(agents),
        "centre": rng.normal(size=features).astype(np.float32),
        "scale": rng.uniform(0.5, 2.0, features).astype(np.float32),
        "identity": models == 1,
        "activation": activation,
        "head": head,
    }


def network(
    *,
    agents=2,
    features=7,
    hidden=(16, 5),
    outputs=1,
    models=None,
    activation="tanh",
    head="clip",
    seed=0,
    spread=1.0,
):
    """A perceptron of random numbers."""
    rng, models = np.random.default_rng(seed), models or agents
    sizes = [features + agents * (models == 1), *hidden, outputs]
    pairs = list(itertools.pairwise(sizes))
    return Network(
        layers=perceptron(
            [rng.normal(0, spread, (models, a, b)).astype(np.float32) for a, b in pairs],
            [rng.normal(0, spread, (models, b)).astype(np.float32) for _, b in pairs],
        ),
        **around(models, agents, features, head, activation, rng),
    )


def recurrent(*, agents=3, features=3, hidden=16, actions=3, models=1, head="argmax", spread=0.3):
    """A network with memory of random numbers: linear, GRU, linear."""
    rng = np.random.default_rng(hidden)
    inputs, gates = features + actions + agents * (models == 1), 3 * hidden

    def layer(kind, *shapes):
        parts = (rng.normal(0, spread, (models, *s)).astype(np.float32) for s in shapes)
        return Layer(kind, *parts)

    return Network(
        layers=(
            layer(LINEAR, (inputs, 8), (8,)),
            layer(GRU, (8, gates), (gates,), (hidden, gates), (gates,)),
            layer(LINEAR, (hidden, actions), (actions,)),
        ),
        last_action=True,
        **around(models, agents, features, head, "relu", rng),
    )


def policy(net=None, env=TRUST, learner="ippo"):
    facts = FACTS | {"environment": env, "learner": learner}
    return NetworkPolicy(net or network(), facts | {"hyperparameters": {"gamma": 0.99}})


def textbook(net, observations):
    """The same in float64, with numpy's own functions and another order of sums."""
    hidden = {"tanh": np.tanh, "relu": lambda x: np.maximum(x, 0.0)}[net.activation]
    last = {"clip": lambda x: np.clip(x, -1, 1), "tanh": np.tanh, "argmax": lambda x: x}[net.head]
    rows = []
    for seat, model in enumerate(net.seats):
        x = (observations[:, seat].astype(np.float64) - net.centre) * net.scale
        if net.identity:
            x = np.concatenate([x, np.tile(np.eye(len(net.seats))[seat], (len(x), 1))], axis=1)
        for k, layer in enumerate(net.layers):
            x = x @ layer.weights[model].astype(np.float64) + layer.biases[model]
            x = (last if k == len(net.layers) - 1 else hidden)(x)
        rows.append(x)
    return np.stack(rows, axis=1)


# -- perceptrons ----------------------------------------------------------------------------------


@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("head", HEADS)
@pytest.mark.parametrize("models", [1, 3])
def test_outputs_are_those_of_the_textbook(activation, head, models):
    net = network(agents=3, models=models, outputs=4, activation=activation, head=head, spread=0.4)
    observations = np.random.default_rng(1).normal(0, 3, (20, 3, 7)).astype(np.float32)
    expected = textbook(net, observations)
    assert np.ptp(expected) > 0.5
    size = 1.0 + np.abs(expected).max()
    np.testing.assert_allclose(outputs_of(net, observations), expected, atol=3e-6 * size)


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 2**32 - 1), st.floats(0.01, 30.0))
def test_the_hyperbolic_tangent_is_right_everywhere(seed, spread):
    observations = np.random.default_rng(seed).normal(size=(4, 2, 7)).astype(np.float32)
    out, raw = (
        outputs_of(network(hidden=(), outputs=6, head=head, seed=seed, spread=spread), observations)
        for head in ("tanh", "argmax")
    )
    np.testing.assert_allclose(out, np.tanh(raw.astype(np.float64)), atol=4e-7)
    assert (np.abs(out) <= 1.0).all()


def test_actions_cover_the_range_of_each_seat():
    game = Game.at("coopbench/PartnerHoldUp-v0")
    features = max(part.stop for part in game.layout.values())
    for bias, share in ((-9.0, 0.0), (0.5, 0.75), (9.0, 1.0)):
        net = network(features=features, hidden=(), spread=0.0)
        net.layers[0].biases[:] = bias
        playing = policy(net, game.env_id)
        memory = playing.initial(game, np.zeros(5, np.uint64))
        actions, _ = playing.act(np.zeros((5, 2, features), np.float32), memory, None)
        expected = game.low + share * (game.high - game.low)
        assert np.array_equal(actions, np.broadcast_to(expected, actions.shape))


def test_choices_are_legal_whatever_the_network_prefers():
    engine = Engine(PENNIES, 64)
    net = network(agents=3, features=3, hidden=(), outputs=3, head="argmax", spread=0.0)
    net.layers[0].biases[:] = [-3.0, -2.0, -1.0]  # flip, else give, else wait
    player = Player(policy(net, PENNIES), Game.of(engine))
    match, chosen = Match(engine, [player]), set()
    match.begin(np.arange(64, dtype=np.uint64))
    masks = engine.control.masks.astype(np.bool_)
    for actions in match.steps():
        expected = np.where(masks[:, :, 2], 2, np.where(masks[:, :, 1], 1, 0))
        assert np.array_equal(actions, expected)
        chosen |= set(actions.ravel().tolist())
        masks = engine.control.masks.astype(np.bool_)
    assert chosen == {0, 1, 2}
    assert not engine.control.invalid.any()
    with pytest.raises(ValueError, match="chooses among the legal actions of test/Pennies-v0"):
        player.act(engine.control.obs)


def test_what_was_seen_before_enters_lane_by_lane():
    net = dataclasses.replace(network(features=21, hidden=(9,)), history=3)
    playing, game = policy(net), Game.at(TRUST)
    seen = np.random.default_rng(3).random((5, 6, 2, 7)).astype(np.float32)  # step, lane
    begun = np.array([0, 0, 2, 1, 0, 3])  # the step at which a lane's episode begins anew
    player = Player(playing, game)
    everywhere = np.ones(6, np.bool_)
    player.begin(np.arange(6, dtype=np.uint64), np.zeros(6, np.int64), everywhere)
    for step, observations in enumerate(seen):
        fresh = (begun == step) & (step > 0)
        if fresh.any():
            player.begin(np.arange(6, dtype=np.uint64), np.ones(6, np.int64), fresh)
        actions = player.act(observations)
        for lane in range(6):
            first = begun[lane] if begun[lane] <= step else 0
            latest = [seen[max(step - back, first), lane] for back in range(3)]
            expected = textbook(net, np.concatenate(latest, axis=1)[None])[0]
            np.testing.assert_allclose(actions[lane], (expected + 1) / 2, atol=1e-5)
    assert read_policy(playing.pack()).network.history == 3
    assert playing.check(game) is None


# -- networks with memory -------------------------------------------------------------------------


def by_torch(net, frames, choices):
    """Outputs (steps, lanes, agents, actions) of the same network by torch's own GRU cell."""
    import torch

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
            entered = x @ torch.tensor(first.weights[model]) + torch.tensor(first.biases[model])
            with torch.no_grad():
                hidden = cell(torch.relu(entered), hidden)
                y = hidden @ torch.tensor(last.weights[model]) + torch.tensor(last.biases[model])
            outputs.append(y.numpy())
        columns.append(np.stack(outputs))
    return np.stack(columns, axis=2)


def played(net, frames):
    """Outputs and choices of a network over steps, as a policy plays it."""
    acting = policy(net, PENNIES)
    memory = acting.initial(Game.at(PENNIES), np.zeros(frames.shape[1], np.uint64))
    outputs, choices = [], []
    for seen in frames:
        outputs.append(net.step(net.inputs(seen[:, :, None], memory.last), memory.hidden)[0])
        actions, memory = acting.act(seen, memory, None)
        choices.append(np.eye(net.actions, dtype=np.float32)[actions])
    return np.stack(outputs), np.stack(choices)


@pytest.mark.parametrize(("models", "hidden", "steps"), [(1, 64, 200), (3, 16, 20)])
def test_outputs_over_many_steps_are_those_of_torch(torch, models, hidden, steps):
    net = recurrent(hidden=hidden, models=models)
    frames = np.random.default_rng(1).normal(0, 2, (steps, 4, 3, 3)).astype(np.float32)
    outputs, choices = played(net, frames)
    expected = by_torch(net, frames, choices)
    assert np.ptp(expected) > 1.0
    np.testing.assert_allclose(outputs, expected, atol=1e-5)
    assert len(np.unique(choices.argmax(axis=-1))) > 1


def test_what_is_remembered_is_not_written_to():
    net = recurrent()
    hidden, last = np.zeros((2, 3, 16), np.float32), np.zeros((2, 3, 3), np.float32)
    _, later = net.step(net.inputs(np.ones((2, 3, 1, 3), np.float32), last), hidden)
    assert not hidden.any()
    assert later.all()
    assert (np.abs(later) < 1.0).all()


def test_numbers_of_an_action_enter_as_they_left_the_network():
    net, game = recurrent(agents=2, features=7, actions=1, head="tanh"), Game.at(TRUST)
    acting = policy(net)
    memory = acting.initial(game, np.zeros(3, np.uint64))
    seen = np.random.default_rng(4).random((3, 2, 7)).astype(np.float32)
    actions, after = acting.act(seen, memory, None)
    outputs, _ = net.step(net.inputs(seen[:, :, None], memory.last), memory.hidden)
    assert np.array_equal(after.last, outputs)
    share = (outputs.astype(np.float64) + 1) / 2
    np.testing.assert_array_equal(actions, game.low + share * (game.high - game.low))
    with pytest.raises(ValueError, match="environment 'test/Pennies-v0' instead of"):
        policy(net, PENNIES).check(game)


# -- the same bits, and files ---------------------------------------------------------------------


@pytest.mark.parametrize("lanes", [1, 7])
def test_bits_do_not_depend_on_the_lanes_beside(lanes):
    frames = np.random.default_rng(3).normal(0, 2, (12, 64, 3, 3)).astype(np.float32)
    few = np.ascontiguousarray(frames[:, :lanes])
    net = recurrent(hidden=33)
    assert np.array_equal(played(net, frames)[0][:, :lanes], played(net, few)[0])
    net = network(agents=3, features=3, hidden=(33, 7), outputs=3)
    assert np.array_equal(outputs_of(net, frames[0])[:lanes], outputs_of(net, few[0]))


@pytest.mark.parametrize(
    ("net", "form"),
    [
        (network(models=1, activation="relu", head="tanh"), {"format": 1}),
        (recurrent(), {"format": 2, "layers": ["linear", "gru", "linear"]}),
    ],
)
def test_files_hold_the_policy_bit_for_bit(net, form):
    before = policy(net)
    content = before.pack()
    after = read_policy(content)
    assert after.pack() == content
    assert (after.facts, after.hyperparameters) == (before.facts, {"gamma": 0.99})
    header = json.loads(unpack(content)["header"].tobytes())
    assert header.items() >= form.items()
    assert ("kind" in header) == (form["format"] == 2)  # the first files named none


@pytest.mark.parametrize("net", [network(models=2), recurrent()])
def test_rounded_networks_need_half_the_space_and_no_bit_more(net):
    rounded = net.rounded()
    whole, half = policy(net).pack(), policy(rounded).pack()
    assert unpack(whole)["weights.0"].dtype == np.float32
    assert unpack(half)["weights.0"].dtype == np.float16
    assert read_policy(half).pack() == half
    again = read_policy(half).network
    assert np.array_equal(again._flat()[0], rounded._flat()[0])
    assert again._flat()[0].dtype == np.float32
    np.testing.assert_allclose(rounded._flat()[0], net._flat()[0], rtol=2**-11, atol=2**-25)
    assert not np.array_equal(rounded._flat()[0], net._flat()[0])


@pytest.mark.parametrize(("beyond", "rounds"), [(65504.0, True), (65536.0, False)])
def test_a_network_beyond_half_precision_stays_as_it_is(beyond, rounds):
    net = network()
    net.layers[-1].biases[-1, -1] = beyond
    assert np.array_equal(net.rounded()._flat()[0], net._flat()[0]) != rounds
    assert net.rounded().layers[-1].biases[-1, -1] == np.float32(beyond)
    assert np.array_equal(read_policy(policy(net).pack()).network._flat()[0], net._flat()[0])


def test_frozen_policies_are_named_by_enough_of_their_digest(tmp_path):
    content = policy().pack()
    (tmp_path / "policy.npz").write_bytes(content)
    game, digest = Game.at(TRUST), hashlib.sha256(content).hexdigest()
    assert make_policy(f"frozen:{digest[:12]},{tmp_path}", game).pack() == content
    for wrong in (digest[:11], 12 * "0", digest[:12] + "x"):
        with pytest.raises(ValueError, match=r"Allowed: the first 12 or more digits of it"):
            make_policy(f"frozen:{wrong},{tmp_path}", game)


def broken(before=None, /, **changes):
    """The file of a policy with some of its header or arrays changed, or without one (None)."""
    arrays = unpack(policy(before).pack())
    header = json.loads(arrays["header"].tobytes())
    for name, value in changes.items():
        array = ".".join(name.rsplit("_", 1)) if name[-1].isdigit() else name
        if name in header or name == "more":
            header[name] = value
        elif value is None:
            del arrays[array]
        else:
            arrays[array] = value
    arrays["header"] = np.frombuffer(json.dumps(header).encode(), np.uint8)
    return pack(arrays, limit=of_weights)


def gated(**changes):
    return broken(recurrent(features=5, actions=4), **changes)


def zeros(*shape):
    return np.broadcast_to(np.float32(0), shape)


def remembering(history):
    """A policy that looks back so far: playing it takes that much memory in every lane."""
    wide = {"centre": zeros(8 * history), "scale": np.ones(8 * history, np.float32)}
    return broken(**wide, weights_0=zeros(2, 7 * history, 16), history=history)


def wide(hidden):
    """A GRU of many numbers that are all zero, which packs into a small file."""
    gates = {"weights_0": (12, 3 * hidden), "memory_weights_0": (1, 3 * hidden)}
    gates |= {"biases_0": (3 * hidden,), "memory_biases_0": (3 * hidden,)}
    gates |= {"weights_1": (hidden, 4), "biases_1": (4,)}
    absent = dict.fromkeys(("weights_2", "biases_2", "memory_weights_1", "memory_biases_1"))
    arrays = {name: zeros(1, *shape) for name, shape in gates.items()}
    return gated(layers=["gru", "linear"], **arrays, **absent)


NAN = np.full((2, 7, 16), np.nan, np.float32)
REFUSED = {
    "not a zip file": (b"nothing",),
    "Unknown kind of network 'percetron'": (gated(kind="percetron", format=1),),
    "it states steps 'many'": (broken(steps="many"),),
    "it is not a policy": (pack({"header": np.frombuffer(b"[1]", np.uint8)}), gated(kind=["gru"])),
    "not a policy": (pack({"weights.0": np.zeros(3)}), broken(history=np.inf)),
    "it has the format '2'; this version reads 1": (broken(format=2),),
    "it has the format '1'; this version reads 2": (gated(format=1),),
    "this version reads 1": (gated(kind="perceptron"),),
    "it states": (broken(more=1), broken(hyperparameters=[]), gated(more=1)),
    "hyperparameter layers '16x6', and its network has hidden layers of 16x5": (
        broken(hyperparameters={"layers": "16x6"}),
    ),
    "hidden 16, and its network has hidden layers of 8x16": (
        gated(hyperparameters={"hidden": 16}),
    ),
    "recurrent True, and its network has no memory": (broken(hyperparameters={"recurrent": True}),),
    "history 2, .* a history of 1": (broken(hyperparameters={"history": 2, "layers": "16x5"}),),
    "activation 'relu', .* 'tanh'": (broken(hyperparameters={"activation": "relu"}),),
    "its layers are": (
        gated(layers=["linear", "lstm", "linear"]),
        gated(layers="gru"),
        gated(layers=[["gru"]]),
    ),
    "it holds the arrays": (
        broken(biases_1=None),
        gated(layers=["linear", "linear", "linear"]),
        gated(layers=["linear", "gru"]),
        gated(layers=[]),
        gated(memory_weights_1=None),
        gated(extra=np.zeros(1)),
    ),
    "do not fit together": (
        broken(activation="exec"),
        broken(weights_1=zeros(2, 3, 5)),
        broken(seats=np.array([0, 2])),
        broken(scale=np.ones(8, np.float32)),
        broken(history=3),
        remembering(65),
        broken(weights_0=zeros(10**12, 7, 0), biases_0=zeros(10**12, 0)),
        gated(activation="exec"),
        gated(memory_weights_1=zeros(1, 16, 47)),
        gated(memory_weights_1=zeros(1, 15, 48)),
        gated(memory_biases_1=zeros(1, 49)),
        gated(weights_1=zeros(1, 8, 47)),
        gated(weights_1=zeros(8, 48)),
        gated(weights_0=zeros(12, 8)),
        gated(weights_2=zeros(16)),
        gated(weights_2=zeros(1, 16, 0), biases_2=zeros(1, 0)),
        gated(identity=False),
        gated(last_action=False),
        gated(seats=np.array([0, 1, 0])),
        gated(seats=np.array([0, -1, 0])),
        gated(centre=zeros(6)),
        gated(centre=zeros(1, 5), scale=zeros(1, 5)),
        wide(4100),
    ),
    "weights of layer 0 .* finite": (broken(weights_0=NAN),),
    "biases of layer 0 .* float32; given float64": (broken(biases_0=np.zeros((2, 16))),),
}


@pytest.mark.parametrize("words", REFUSED)
def test_files_of_strangers_are_refused(words):
    for content in REFUSED[words]:
        with pytest.raises(ValueError, match=words):
            read_policy(content)


@pytest.fixture
def ippo(monkeypatch):
    """A learner of that name, whatever there is in the package."""
    entry = LearnerEntry("ippo", None, "learns", "on_policy", registry.Params)
    monkeypatch.setattr(registry, "_learners", lambda: {"ippo": entry})


def test_a_folder_is_a_policy(ippo, tmp_path):
    place = tmp_path / "with, comma = 1"
    place.mkdir()
    (place / "policy.npz").write_bytes(policy().pack())
    game = Game.at(TRUST, horizon=5)
    assert make_policy(f"ippo:{place}", game).pack() == policy().pack()
    assert Player(f"ippo:{place}", game).label == f"ippo:{place}"


def test_folders_that_are_no_policy(ippo, tmp_path):
    game, run = Game.at(TRUST), tmp_path / "a" / "ippo" / "run-3"
    with pytest.raises(ValueError, match="has to be trained: name the folder of a run"):
        make_policy("ippo", game)
    with pytest.raises(ValueError, match=r"there is no .*policy\.npz\. Allowed: the folder"):
        make_policy(f"ippo:{tmp_path}", game)
    run.mkdir(parents=True)
    (run / "policy.npz").write_bytes(b"PK")
    with pytest.raises(ValueError, match=r"it holds runs: name one, for instance ippo:.*run-3\."):
        make_policy(f"ippo:{tmp_path}", game)
    with pytest.raises(ValueError, match=r"policy\.npz cannot be read"):
        make_policy(f"ippo:{run}", game)
    (run / "policy.npz").write_bytes(policy(learner="isac").pack())
    with pytest.raises(ValueError, match="was trained by 'isac'; name it 'isac:"):
        make_policy(f"ippo:{run}", game)
    (run / "policy.npz").write_bytes(policy().pack())
    with pytest.raises(ValueError, match="features 7 instead of 11, actions 1 instead of 2"):
        make_policy(f"ippo:{run}", Game.at("coopbench/PartnerHoldUp-v1"))
