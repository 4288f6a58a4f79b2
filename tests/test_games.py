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


def _played(env_id, fractions, seed=0):
    """Summed return of fractions (steps, agents), stepped one by one."""
    engine = Engine(env_id)
    engine.reset(np.array([seed]))
    step = 0
    while not engine.control.done.all():
        row = fractions[min(step, len(fractions) - 1)] * engine.constants.endowment
        engine.step(row[None, :, None], DISABLED)
        step += 1
    return float(engine.control.returns.sum())


def test_open_loop_is_no_worse_than_the_constant_and_depends_on_its_seed_alone():
    env_id, small = "TrustDilemma-v0", {"iterations": 15, "population": 32, "elite": 4}
    first, again, other = (theory.best_open_loop(env_id, seed=seed, **small) for seed in (3, 3, 4))
    assert first.history[0] == first.constant.value == _constant(env_id).value
    assert (np.diff(first.history) >= 0).all()
    assert first.value > first.constant.value
    assert len(first.history) == 16
    assert _played(env_id, first.fractions) == first.value
    np.testing.assert_array_equal(first.fractions, again.fractions)
    np.testing.assert_array_equal(first.history, again.history)
    assert not np.array_equal(first.fractions, other.fractions)


def test_exploiting_defectors_and_constants():
    alone = theory.exploitability("TrustDilemma-v0", "always_defect")
    assert alone.base.tolist() == pytest.approx([317.9087, 317.9087], abs=1e-3)
    assert alone.gain > 10_000  # a partner that is read as honest keeps the game alive
    assert alone.victims_loss < 0  # which the defector gains by as well
    best = _constant("TrustDilemma-v0")
    against = theory.exploitability("TrustDilemma-v0", f"constant:{best.fraction}")
    assert against.base.sum() == pytest.approx(best.value)
    # Else the constant were not the best for both.
    assert against.victims_loss > against.gain > 0
    assert against.returns[0] - against.base[0] == pytest.approx(against.gain)
    assert against.losses.tolist() == [against.victims_loss]
