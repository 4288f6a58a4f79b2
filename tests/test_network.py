"""Networks as policies: what comes out, that it is the same everywhere, and what files may hold."""

import dataclasses
import itertools
import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coopbench.baselines import registry
from coopbench.baselines.game import Game
from coopbench.baselines.learner import LearnerEntry
from coopbench.baselines.match import Match
from coopbench.baselines.networks.kinds import read_policy
from coopbench.baselines.networks.perceptron import ACTIVATIONS, Network, NetworkPolicy
from coopbench.baselines.networks.policy import HEADS
from coopbench.baselines.player import Player
from coopbench.baselines.registry import make_policy
from coopbench_envs.arrays import pack, unpack
from coopbench_envs.engine import Engine

TRUST = "coopbench/TrustDilemma-v1"


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
    """A network of random numbers; one model for all seats with their number, or one for each."""
    rng = np.random.default_rng(seed)
    models = models or agents
    identity = models == 1
    sizes = [features + agents * identity, *hidden, outputs]
    pairs = list(itertools.pairwise(sizes))
    return Network(
        seats=np.zeros(agents, np.int64) if models == 1 else np.arange(agents),
        weights=tuple(rng.normal(0, spread, (models, a, b)).astype(np.float32) for a, b in pairs),
        biases=tuple(rng.normal(0, spread, (models, b)).astype(np.float32) for _, b in pairs),
        centre=rng.normal(size=features).astype(np.float32),
        scale=rng.uniform(0.5, 2.0, features).astype(np.float32),
        identity=identity,
        activation=activation,
        head=head,
    )


def policy(net=None, env=TRUST, learner="ippo"):
    facts = {"environment": env, "learner": learner, "seed": 7, "steps": 100}
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
        for k, (weights, biases) in enumerate(zip(net.weights, net.biases, strict=True)):
            x = x @ weights[model].astype(np.float64) + biases[model]
            x = (last if k == len(net.weights) - 1 else hidden)(x)
        rows.append(x)
    return np.stack(rows, axis=1)


@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("head", HEADS)
@pytest.mark.parametrize("models", [1, 3])
def test_outputs_are_those_of_the_textbook(activation, head, models):
    perceptron = network(
        agents=3, models=models, outputs=4, activation=activation, head=head, spread=0.4
    )
    observations = np.random.default_rng(1).normal(0, 3, (20, 3, 7)).astype(np.float32)
    expected = textbook(perceptron, observations)
    assert np.ptp(expected) > 0.5
    size = 1.0 + np.abs(expected).max()
    np.testing.assert_allclose(perceptron.outputs(observations), expected, atol=3e-6 * size)


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 2**32 - 1), st.floats(0.01, 30.0))
def test_the_hyperbolic_tangent_is_right_everywhere(seed, spread):
    squashed = network(hidden=(), outputs=6, head="tanh", seed=seed, spread=spread)
    observations = np.random.default_rng(seed).normal(size=(4, 2, 7)).astype(np.float32)
    raw = network(hidden=(), outputs=6, head="argmax", seed=seed, spread=spread)
    inputs = raw.outputs(observations).astype(np.float64)
    out = squashed.outputs(observations)
    np.testing.assert_allclose(out, np.tanh(inputs), atol=4e-7)
    assert (np.abs(out) <= 1.0).all()


@given(st.integers(0, 2**32 - 1), st.integers(1, 12))
@settings(max_examples=30, deadline=None)
def test_a_row_does_not_depend_on_those_beside_it(seed, lanes):
    perceptron = network(hidden=(33, 7), outputs=3)
    observations = np.random.default_rng(seed).normal(size=(lanes, 2, 7)).astype(np.float32)
    together = perceptron.outputs(observations)
    for k in range(lanes):
        assert np.array_equal(perceptron.outputs(observations[k : k + 1])[0], together[k])


def test_actions_cover_the_range_of_each_seat():
    game = Game.at("coopbench/PartnerHoldUp-v0")
    features = max(part.stop for part in game.layout.values())
    for bias, share in ((-9.0, 0.0), (0.5, 0.75), (9.0, 1.0)):
        perceptron = network(features=features, hidden=(), spread=0.0)
        perceptron.biases[0][:] = bias
        actions, _ = policy(perceptron, game.env_id).act(
            np.zeros((5, 2, features), np.float32),
            policy(perceptron, game.env_id).initial(game, np.zeros(5, np.uint64)),
            None,
        )
        expected = game.low + share * (game.high - game.low)
        assert np.array_equal(actions, np.broadcast_to(expected, actions.shape))


def test_choices_are_legal_whatever_the_network_prefers():
    engine = Engine("test/Pennies-v0", 64)
    perceptron = network(agents=3, features=3, hidden=(), outputs=3, head="argmax", spread=0.0)
    perceptron.biases[0][:] = [0.0, 1.0, 2.0]  # flip, else give, else wait
    player = Player(policy(perceptron, "test/Pennies-v0"), Game.of(engine))
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


def test_files_hold_the_policy_bit_for_bit():
    before = policy(network(models=1, activation="relu", head="tanh"))
    content = before.pack()
    after = read_policy(content)
    assert after.pack() == content
    assert after.facts == before.facts
    assert after.hyperparameters == {"gamma": 0.99}
    observations = np.random.default_rng(2).normal(size=(6, 2, 7)).astype(np.float32)
    same = after.network.outputs(observations), before.network.outputs(observations)
    assert np.array_equal(*same)


def broken(**changes):
    arrays = unpack(policy().pack())
    header = json.loads(arrays["header"].tobytes())
    for name, value in changes.items():
        if name in header or name == "more":
            header[name] = value
        elif value is None:
            del arrays[name.replace("_", ".")]
        else:
            arrays[name.replace("_", ".")] = value
    arrays["header"] = np.frombuffer(json.dumps(header).encode(), np.uint8)
    return pack(arrays)


def remembering(history):
    """A policy that looks back so far: playing it takes that much memory in every lane."""
    wide = {"centre": np.zeros(8 * history, np.float32), "scale": np.ones(8 * history, np.float32)}
    return broken(**wide, weights_0=np.zeros((2, 7 * history, 16), np.float32), history=history)


def empty(models):
    """A policy with so many models that hold nothing."""
    none = {"weights_0": (models, 7, 0), "biases_0": (models, 0)}
    return broken(**{name: np.broadcast_to(np.float32(0), s) for name, s in none.items()})


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"nothing", "not a zip file"),
        (pack({"weights.0": np.zeros(3)}), "not a policy"),
        (broken(format=2), "it has the format '2'; this version reads 1"),
        (broken(more=1), "it states"),
        (broken(hyperparameters=[]), "it states"),
        (broken(activation="exec"), "do not fit together"),
        (broken(biases_1=None), "not a policy"),
        (broken(weights_1=np.zeros((2, 3, 5), np.float32)), "do not fit together"),
        (broken(weights_0=np.full((2, 7, 16), np.nan, np.float32)), "weights of layer 0 .* finite"),
        (broken(biases_0=np.zeros((2, 16))), "biases of layer 0 .* float32; given float64"),
        (broken(seats=np.array([0, 2])), "do not fit together"),
        (broken(scale=np.ones(8, np.float32)), "do not fit together"),
        (broken(history=float("inf")), "not a policy"),
        (broken(history=3), "do not fit together"),
        (remembering(65), "do not fit together"),
        (empty(10**12), "do not fit together"),
    ],
)
def test_files_of_strangers_are_refused(content, words):
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
    loaded = make_policy(f"ippo:{place}", game)
    assert loaded.pack() == policy().pack()
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


def test_what_was_seen_before_enters_lane_by_lane():
    perceptron = network(features=21, hidden=(9,))
    perceptron = dataclasses.replace(perceptron, history=3)
    playing = policy(perceptron)
    game = Game.at(TRUST)
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
            expected = textbook(perceptron, np.concatenate(latest, axis=1)[None])[0]
            np.testing.assert_allclose(actions[lane], (expected + 1) / 2, atol=1e-5)
    assert read_policy(playing.pack()).network.history == 3
    assert playing.check(game) is None
