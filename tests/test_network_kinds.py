"""A second kind of network: trained, stored, verified and played like the one that is shipped."""

from typing import Annotated, NamedTuple

import numpy as np
import pytest
from builders import make_task, trial

import coopbench
from coopbench.baselines import registry
from coopbench.baselines.game import Game
from coopbench.baselines.learner import LearnerEntry
from coopbench.baselines.networks import kinds
from coopbench.baselines.networks.policy import Content, Shape, actions_of, check_game, content_of
from coopbench.baselines.registry import make_policy
from coopbench.episodes.table import Cell
from coopbench.errors import DamagedResultError
from coopbench.results import store
from coopbench_envs.parameters import between

TRUST = "coopbench/TrustDilemma-v1"


class LeakyPolicy:
    """Acts on a leaky sum of everything that it has seen: its memory is a hidden state."""

    uses_masks = True

    def __init__(self, facts, decay, weights):
        self.facts, self.decay, self.weights = dict(facts), decay, weights
        self.name = facts["learner"]

    @property
    def hyperparameters(self):
        return dict(self.facts["hyperparameters"])

    def check(self, game):
        shape = Shape(self.facts["environment"], None, len(self.weights), 1, False)
        check_game(self.name, shape, game)

    def initial(self, game, seeds):
        self.check(game)
        lanes = len(seeds)
        bounds = (np.broadcast_to(b, (lanes, *b.shape)) for b in (game.low, game.high))
        return (np.zeros((lanes, len(game.agents)), np.float32), *bounds)

    def act(self, observations, memory, masks):
        hidden, low, high = memory
        hidden = self.decay * hidden + (observations * self.weights).sum(axis=2)
        outputs = np.clip(hidden, -1.0, 1.0)[:, :, None]
        return actions_of(outputs, "clip", (low, high), masks), (hidden, low, high)

    def pack(self):
        arrays = {"weights": self.weights}
        return content_of("leaky", Content(self.facts, {"decay": self.decay}, arrays))

    @classmethod
    def read(cls, content):
        weights = content.arrays["weights"]
        if weights.ndim != 1 or not np.isfinite(weights).all():
            raise ValueError("its weights are not a row of finite numbers")
        return cls(content.facts, float(content.settings["decay"]), weights)


class Params(NamedTuple):
    decay: Annotated[float, between(0, 1, "how much of the hidden state is left")] = 0.5


class Leaky:
    """A learner whose policies are of that kind; its weights grow with the steps."""

    def __init__(self, training):
        self._game = Game.at(training.env_id, **training.parameters)
        self._seed, self._params, self.steps = training.seed, training.params, 0

    def learn(self, steps):
        self.steps = steps
        return {"loss": 1.0 / steps}

    def policy(self):
        facts = {"environment": self._game.env_id, "learner": "leaky", "seed": self._seed}
        facts |= {"steps": self.steps, "hyperparameters": self._params._asdict()}
        features = max(part.stop for part in self._game.layout.values())
        weights = np.full(features, 0.01 * self.steps, np.float32)
        return LeakyPolicy(facts, self._params.decay, weights)

    def save(self):
        return {"steps": np.array(self.steps)}

    def load(self, arrays):
        self.steps = int(arrays["steps"])


LEAKY = LearnerEntry("leaky", Leaky, "learns to sum up", "on_policy", Params)


@pytest.fixture(autouse=True)
def leaky(monkeypatch):
    monkeypatch.setattr(registry, "_learners", lambda: {"leaky": LEAKY})
    monkeypatch.setitem(kinds.KINDS, "leaky", LeakyPolicy.read)


@pytest.fixture
def protocol(tmp_path):
    return trial(tmp_path, make_task("trust", high=8), steps=60, interval=20)


def test_it_is_trained_stored_verified_and_played(protocol, tmp_path):
    out = tmp_path / "out"
    coopbench.train(protocol, "leaky", out)
    cell = Cell("trust", "leaky", 5)
    stored = store.read(out, protocol, cell)
    assert isinstance(stored.policy, LeakyPolicy)
    content = (out / cell.folder / "policy.npz").read_bytes()
    assert kinds.read_policy(content).pack() == content
    verification = coopbench.verify(out)
    assert verification.holds, str(verification)
    assert {check.how for check in verification.checks if check.played} == {
        "all episodes played again"
    }
    name = f"leaky:{out / cell.folder}"
    again = coopbench.evaluate(protocol, [name], tmp_path / "again").episodes.of("trust", name)
    assert again.trace.episodes == stored.episodes.trace.episodes
    assert (tmp_path / "again" / again.cell.folder / "policy.npz").read_bytes() == content
    assert coopbench.verify(tmp_path / "again").holds


def test_a_kind_that_is_not_installed_is_named_with_the_file(protocol, tmp_path, monkeypatch):
    coopbench.train(protocol, "leaky", tmp_path)
    cell = Cell("trust", "leaky", 5)
    monkeypatch.delitem(kinds.KINDS, "leaky")
    remedy = (
        r"Unknown kind of network 'leaky'\. Known: .*perceptron, recurrent\. Install the package"
    )
    with pytest.raises(DamagedResultError, match=rf"run-5: cannot be read .*{remedy}"):
        store.read(tmp_path, protocol, cell)
    with pytest.raises(ValueError, match=rf"run-5/policy\.npz cannot be read \({remedy}"):
        make_policy(f"leaky:{tmp_path / cell.folder}", Game.at(TRUST))
    broken = [check for check in coopbench.verify(tmp_path).checks if not check.holds]
    assert "trust/leaky/run-5" in {check.what for check in broken}
