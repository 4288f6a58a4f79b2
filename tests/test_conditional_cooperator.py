"""The conditional cooperator: what it does in good and bad times, to whom, and by what it knows."""

import numpy as np
import pytest

from coopbench.baselines.game import Game
from coopbench.baselines.player import Player
from coopbench.baselines.registry import make_policy
from coopbench_envs import Engine
from coopbench_envs.engine import DISABLED

PLAIN = {"shock": (0.0, 0.0), "noise": (0.0, 0.0), "persistence": (1.0, 1.0)}


def _begun(env_id, lanes, policy="conditional_cooperator", **parameters):
    engine = Engine(env_id, lanes, **parameters)
    player = Player(policy, Game.of(engine))
    engine.reset(np.arange(lanes, dtype=np.uint64))
    control = engine.control
    player.begin(control.seed, control.episode, np.ones(lanes, np.bool_))
    return engine, player


def test_it_invests_in_good_times_alone():
    engine, player = _begun("TrustDilemma-v1", 64, "conditional_cooperator:0.7")
    good = engine.state.good.copy()
    assert 10 < good.sum() < 54
    actions = player.act(engine.control.obs)
    np.testing.assert_array_equal(actions[:, :, 0], 0.7 * np.repeat(good[:, None], 2, axis=1))


def test_it_stops_below_half_of_its_first_trust_and_forgives_above():
    engine, player = _begun("TrustDilemma-v1", 1, initial_trust=(0.8, 0.8), **PLAIN)
    engine.reset(np.zeros(1, np.uint64), state={"good": True, "productivity": 1.8})
    part = engine.layout["trust_in_others"].index
    observations = engine.control.obs.copy()
    played = []
    for trust in (0.8, 0.41, 0.39, 0.41):
        observations[:, 0, part] = trust
        played.append(player.act(observations)[0, :, 0].tolist())
    assert played == [[1.0, 1.0], [1.0, 1.0], [0.0, 1.0], [1.0, 1.0]]


@pytest.mark.parametrize(("name", "worth"), [("high", 1.8), ("low", 0.2)])
def test_it_finds_a_hidden_type_out(name, worth):
    """Three probes, then what was received says whether a unit is worth more than a unit."""
    fixed = {"high": (1.8, 1.8), "low": (0.2, 0.2), "shock": (0.0, 0.0), "noise": (0.0, 0.0)}
    engine, player = _begun("SynergySearch-v1", 1, initial_trust=(0.8, 0.8), **fixed)
    engine.reset(np.zeros(1, np.uint64), state={"good": name == "high", "productivity": worth})
    played = []
    for _ in range(6):
        actions = player.act(engine.control.obs)
        played.append(float(actions[0, 0, 0]))
        engine.step(actions, DISABLED)
    assert played[:3] == [0.5] * 3
    assert played[3:] == [1.0 if name == "high" else 0.0] * 3


def test_what_it_needs_is_named():
    with pytest.raises(ValueError, match=r"conditional_cooperator.*TrustDilemma-v0.*income"):
        make_policy("conditional_cooperator", Game.of(Engine("TrustDilemma-v0")))
