"""Certificates: the figures on the pages are those of the code, and hold what is asked."""

import dataclasses
import json

import numpy as np
import pytest

import coopbench_envs
from coopbench.baselines.game import Game
from coopbench.baselines.registry import make_policy
from coopbench.theory import (
    Criterion,
    certificates,
    certify,
    load_certificate,
    price_of_anarchy,
    solve,
)
from coopbench_envs import Engine

VERSION_1 = [i for i in coopbench_envs.ids() if i.endswith("-v1") and coopbench_envs.spec(i).trace]


@pytest.mark.parametrize("name", [env_id.split("/")[1] for env_id in VERSION_1])
def test_certificate_is_met_and_computed_again(name):
    """Everything but the searches is measured anew; what they found is judged again."""
    stored = load_certificate(name)
    again = certify(name, stored=stored)
    assert stored.met, stored.table()
    assert again.best_reactive == stored.best_reactive
    assert again.policies == pytest.approx(stored.policies, rel=1e-6)
    assert again.figures == pytest.approx(stored.figures, rel=1e-6, abs=1e-9)


def test_certificate_search_finds_the_same_again():
    stored, again = load_certificate("TrustDilemma-v1"), certify("TrustDilemma-v1")
    assert again.best_constant == stored.best_constant
    np.testing.assert_allclose(again.open_loop, stored.open_loop, atol=1e-9)
    assert json.loads(again.to_json()).keys() == json.loads(stored.to_json()).keys()


def test_published_dilemma_fails_where_it_is_known_to():
    certificate = certify("TrustDilemma-v0")
    failed = {
        criterion.name.split(",")[0] for criterion in certificate.criteria if not criterion.met
    }
    assert failed == {
        "price of anarchy of a step at full trust",
        "best constant",
        "best fixed sequence",
        "standard deviation of returns over seeds",
    }
    assert not certificate.met
    # The finest constant, in steps of 0.0001, returns 46849 over 100 steps.
    assert certificate.policies["best_constant"] == pytest.approx(468.49, rel=2e-3)


def test_stage_of_the_dilemma_is_the_linear_public_good():
    """Price of anarchy (1 + high) / 2 and temptation 1 - high / 2, by hand."""
    fixed = {"high": (1.8, 1.8), "low": (0.2, 0.2), "shock": (0.0, 0.0)}
    stage = solve("TrustDilemma-v1", **fixed)
    assert stage.roles == ("firm",)
    assert stage.price_of_anarchy == pytest.approx(1.4)
    np.testing.assert_allclose(stage.temptation, [[0.0], [0.1]], atol=1e-12)
    np.testing.assert_array_equal(stage.nash, np.zeros((2, 1, 1)))
    np.testing.assert_array_equal(stage.optimum[:, 0, 0], [0.0, 1.0])


def test_stage_without_trust_is_worth_what_is_received():
    """With dependence 0.5 and no trust half of every share is lost: 0.9 a unit, not worth it."""
    fixed = {"high": (1.8, 1.8), "low": (0.2, 0.2), "shock": (0.0, 0.0), "dependence": (0.5, 0.5)}
    assert solve("TrustDilemma-v1", trust=0.0, **fixed).price_of_anarchy == 1.0
    half = solve("TrustDilemma-v1", trust=0.5, **fixed)
    assert half.price_of_anarchy == pytest.approx(0.5 * (1.0 + 1.8 * 0.75))


def test_stage_agrees_with_the_formulas_of_the_published_game():
    stage = solve("TrustDilemma-v0", levels=101)
    assert stage.price_of_anarchy == pytest.approx(price_of_anarchy("TrustDilemma-v0"), abs=5e-4)
    assert stage.optimum_welfare == pytest.approx(298.4, abs=0.05)


def test_policies_play_what_the_certificate_says():
    game = Game.of(Engine("TrustDilemma-v1"))
    stored = load_certificate("TrustDilemma-v1")
    observations = np.zeros((3, 2, 9), np.float32)
    constant, _ = make_policy("best_constant", game).act(observations, None)
    np.testing.assert_array_equal(constant, np.full((3, 2, 1), stored.best_constant["firm"][0]))
    policy = make_policy("open_loop", game)
    memory = np.array([0, 7, 10_000])
    actions, after = policy.act(observations, memory)
    np.testing.assert_array_equal(
        actions[:, 1, 0], [stored.open_loop[0], stored.open_loop[7], stored.open_loop[-1]]
    )
    np.testing.assert_array_equal(after, memory + 1)


@pytest.mark.parametrize("agents", [2, 3, 64])
def test_policies_play_what_the_certificate_says_at_other_sizes(agents):
    """Wishes grow with the number of agents and stay customary; investments are the role's."""
    game = Game.at("DynamicPartnerSelection-v1", num_agents=agents)
    stored = load_certificate("DynamicPartnerSelection-v1")
    observations = np.zeros((1, agents, 5 * agents), np.float32)
    for name, invested in (
        ("best_constant", stored.best_constant["partner"][0]),
        ("open_loop", stored.open_loop[0]),
    ):
        policy = make_policy(name, game)
        memory = policy.initial(game, np.zeros(1, np.uint64))
        actions, _ = policy.act(observations, memory)
        np.testing.assert_array_equal(actions[0, :, 0], invested)
        np.testing.assert_array_equal(actions[0, :, 1:], np.full((agents, agents - 1), 0.5))


@pytest.mark.parametrize("name", ["best_constant", "open_loop"])
def test_policies_without_a_certificate_say_so(name):
    with pytest.raises(ValueError, match=r"cannot play.*no certificate.*TrustDilemma-v1"):
        make_policy(name, Game.of(Engine("TrustDilemma-v0")))


def test_a_missed_criterion_shows():
    stored = load_certificate("TrustDilemma-v1")
    missed = Criterion("gain", -0.1, 0.0, True, False)
    other = dataclasses.replace(stored, criteria=(*stored.criteria, missed))
    assert not other.met
    assert "| gain | -0.100 | > 0 | **no** |" in other.table()
    assert certificates._criteria(stored.figures) == stored.criteria


def test_errors_name_what_is_wrong():
    with pytest.raises(ValueError, match="Routing-v0"):
        certify("Routing-v0")
    for name, wrong in (("trust", 2), ("levels", 1), ("situations", 0)):
        with pytest.raises(ValueError, match=f"{name} was {wrong}; allowed"):
            solve("TrustDilemma-v1", **{name: wrong})
