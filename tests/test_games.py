"""What games are worth: equilibria against recorded values, best play against known returns."""

import json
from functools import cache

import numpy as np
import pytest
from golden_folders import unpacked

from coopbench_envs import Engine
from coopbench_envs.engine import DISABLED
from studies import equilibria as theory
from studies.equilibria import stage

# The function of the same name hides the module from an import statement.
FIXED = {"SynergySearch-v0": {"gamma_range": (0.55, 0.55)}}
SOLVED = (
    "TrustDilemma-v0",
    "PartnerHoldUp-v0",
    "PlatformEcosystem-v0",
    "SynergySearch-v0",
    "GiftExchange-v0",
)
# Published sweep on a grid of 0.01: best common fraction, its return summed over agents.
CONSTANTS = {
    "TrustDilemma-v0": (0.42, 46830),
    "PartnerHoldUp-v0": (0.37, 46972),
    "PlatformEcosystem-v0": (0.32, 148888),
}
ANARCHY = {"TrustDilemma-v0": 1.0035, "PartnerHoldUp-v0": 1.0025, "PlatformEcosystem-v0": 1.0014}
OPTIMA = {"TrustDilemma-v0": 10 / 0.325 - 1, "PartnerHoldUp-v0": 20 / 0.7 - 1}


def _constants(env_id, **parameters):
    return stage.game_and_constants(env_id, parameters)[1]


@cache
def _constant(env_id):
    return theory.best_constant(env_id)


# -- one step ------------------------------------------------------------------------------------


@pytest.mark.parametrize("env_id", CONSTANTS)
def test_stage_payoffs_are_private_rewards(env_id):
    engine = Engine(env_id, 50, reward_type="private")
    endowment = engine.constants.endowment
    units = np.random.default_rng(0).uniform(0.0, endowment, (50, len(endowment)))
    units[:2] = 0.0  # no synergy
    units[1, 1:] = endowment[1:]
    engine.reset(np.arange(50))
    engine.step(units[:, :, None], DISABLED)
    expected = theory.stage_payoffs(engine.constants, units)
    np.testing.assert_allclose(engine.control.rewards, expected, rtol=1e-12)
    shaped = theory.stage_payoffs(engine.constants, units.reshape(5, 10, -1))
    np.testing.assert_array_equal(shaped, expected.reshape(5, 10, -1))


@pytest.mark.parametrize("env_id", SOLVED)
@pytest.mark.parametrize("kind", ["nash", "coopetitive"])
def test_equilibria_match_the_recorded_ones(env_id, kind):
    table = json.loads((unpacked("coopetition") / "equilibria.json").read_text())["envs"]
    solve = theory.static_nash if kind == "nash" else theory.coopetitive_equilibrium
    profile, recorded = solve(env_id, **FIXED.get(env_id, {})), table[env_id][kind]
    np.testing.assert_allclose(profile.actions, recorded["actions"], atol=1e-3)
    np.testing.assert_allclose(profile.payoffs, recorded["private_payoffs"], atol=1e-3)
    assert profile.welfare == pytest.approx(recorded["welfare_private"], abs=1e-3)
    assert profile.converged
    endowment = _constants(env_id).endowment
    np.testing.assert_allclose(profile.fractions * endowment, profile.actions)


@pytest.mark.parametrize("env_id", ANARCHY)
def test_optimum_and_price_of_anarchy(env_id):
    optimum = theory.social_optimum(env_id)
    assert optimum.converged
    if env_id in OPTIMA:  # closed form where all invest the same
        np.testing.assert_allclose(optimum.actions, OPTIMA[env_id], atol=1e-4)
    assert theory.price_of_anarchy(env_id) == pytest.approx(ANARCHY[env_id], abs=6e-5)
    nash = theory.static_nash(env_id)
    share = theory.efficiency(env_id, nash.actions)
    assert share == pytest.approx(1 / theory.price_of_anarchy(env_id), abs=1e-8)
    assert theory.efficiency(env_id, optimum.actions) == pytest.approx(1.0, abs=1e-12)
    draws = np.random.default_rng(0).uniform(0, 1, (3, len(nash.actions)))
    for fractions in draws:
        assert theory.efficiency(env_id, fractions * _constants(env_id).endowment) < 1.0


# -- whole episodes ------------------------------------------------------------------------------


@pytest.mark.parametrize(("env_id", "published"), CONSTANTS.items())
def test_best_constants_are_the_known_ones(env_id, published):
    constant = _constant(env_id)
    best = constant.returns.argmax()
    assert (constant.grid[best].round(6), round(constant.returns[best])) == published
    assert constant.value >= constant.returns[best]
    assert abs(constant.fraction - constant.grid[best]) <= 0.01
    np.testing.assert_allclose(constant.actions, constant.fraction * _constants(env_id).endowment)
