"""What games are worth: equilibria against recorded values, best play against known returns."""

import importlib
import json
from functools import cache

import numpy as np
import pytest
from golden_folders import unpacked

from coopbench_envs import Engine
from coopbench_envs.engine import DISABLED
from studies import equilibria as theory
from studies.equilibria import best_play, stage

# The function of the same name hides the module from an import statement.
deviations = importlib.import_module("studies.equilibria.exploitability")

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


@pytest.mark.parametrize("env_id", SOLVED)
def test_first_order_conditions(env_id):
    """theta / (1 + a) + gamma g K / (n a) = 1 with what each solution cares for as K."""
    parameters = FIXED.get(env_id, {})
    c, n = _constants(env_id, **parameters), len(_constants(env_id).endowment)
    for profile, care in (
        (theory.static_nash(env_id, **parameters), c.alpha),
        (theory.coopetitive_equilibrium(env_id, **parameters), c.alpha + c.dependence @ c.alpha),
        (theory.social_optimum(env_id, **parameters), 1.0),
    ):
        a = profile.actions
        shared = stage.synergy_weight(c) * np.exp(np.log(a).mean())
        np.testing.assert_allclose(c.theta / (1 + a) + shared * care / (n * a), 1.0, atol=1e-5)


def test_mean_weight_stands_for_a_hidden_one():
    hidden = theory.static_nash("SynergySearch-v0")
    mean = theory.static_nash("SynergySearch-v0", gamma_range=(0.55, 0.55))
    np.testing.assert_allclose(hidden.actions, mean.actions)


def test_trust_scales_the_weights():
    env_id = "PartnerHoldUp-v0"
    nobody = theory.coopetitive_equilibrium(env_id, trust=np.zeros((2, 2)))
    full = theory.coopetitive_equilibrium(env_id, trust=np.ones((2, 2)))
    np.testing.assert_array_equal(nobody.actions, theory.static_nash(env_id).actions)
    np.testing.assert_array_equal(full.actions, theory.coopetitive_equilibrium(env_id).actions)
    half = theory.coopetitive_equilibrium(env_id, trust=np.full((2, 2), 0.5))
    assert (nobody.actions < half.actions).all()
    assert (half.actions < full.actions).all()


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


def test_too_few_sweeps_are_reported():
    profile = theory.static_nash("PartnerHoldUp-v0", sweeps=1)
    assert not profile.converged
    assert profile.sweeps == 1


# -- whole episodes ------------------------------------------------------------------------------


@pytest.mark.parametrize(("env_id", "published"), CONSTANTS.items())
def test_best_constants_are_the_known_ones(env_id, published):
    constant = _constant(env_id)
    best = constant.returns.argmax()
    assert (constant.grid[best].round(6), round(constant.returns[best])) == published
    assert constant.value >= constant.returns[best]
    assert abs(constant.fraction - constant.grid[best]) <= 0.01
    np.testing.assert_allclose(constant.actions, constant.fraction * _constants(env_id).endowment)


def test_profiles_are_never_worse_and_differ_where_agents_do():
    common = _constant("PartnerHoldUp-v0")
    constant = theory.best_constant("PartnerHoldUp-v0", profile=True)
    assert constant.value == common.value
    assert constant.profile_value > common.value
    assert constant.profile[0] < constant.profile[1]
    assert _played("PartnerHoldUp-v0", constant.profile[None]) == constant.profile_value


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


def test_open_loop_per_agent_and_for_any_horizon():
    free = theory.best_open_loop("PartnerHoldUp-v0", iterations=20, per_agent=True)
    assert not np.array_equal(free.fractions[:, 0], free.fractions[:, 1])
    assert free.value > free.constant.value
    short = theory.best_open_loop("TrustDilemma-v0", iterations=4, horizon=1)
    assert short.fractions.shape == (1, 2)
    for steps in range(1, 70):
        for piece in best_play._partitions(steps):
            assert piece[0] == 0
            assert set(np.diff(piece)) <= {0, 1}


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


def test_a_search_of_nothing_better_gains_nothing():
    """Of the policy's own fraction and defection, neither beats the policy."""
    narrow = theory.Search(levels=2, switch_levels=2, switch_times=(), policies=("constant:0.4",))
    result = theory.exploitability("TrustDilemma-v0", "constant:0.4", search=narrow)
    assert (result.deviation, result.gain, result.victims_loss) == ("the policy", 0.0, 0.0)
    assert result.tried == 3


def test_exploitability_per_seat_with_random_victims(monkeypatch):
    """Batches of any size, and every deviation on the same episodes."""
    first = theory.exploitability("PartnerHoldUp-v0", "random", seat=1, episodes=3, seed=5)
    monkeypatch.setattr(deviations, "_LANE_BYTES", 20_000)
    again = theory.exploitability("PartnerHoldUp-v0", "random", seat=1, episodes=3, seed=5)
    assert first.gain > 0
    assert first.deviation == again.deviation
    np.testing.assert_array_equal(first.returns, again.returns)
    np.testing.assert_array_equal(first.base, again.base)


def test_switches_happen_when_they_say():
    assert deviations._sequence((0.4, 0.1, 0.75), 4).tolist() == [0.4, 0.4, 0.4, 0.1]
    assert deviations._worded((0.4, 0.1, 0.75), 4) == "0.4, then 0.1 from step 3"
    assert deviations._worded((np.nan, 0.0, 0.5), 4) == "the policy, then 0 from step 2"
    assert deviations._worded((0.2, 0.2, 0.0), 4) == "constant 0.2"


# -- bad input -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: theory.static_nash("TrustDilema-v0"), "Did you mean 'coopbench/TrustDilemma-v0'"),
        (lambda: theory.static_nash("Routing-v0"), "coopbench/Routing-v0: only coopetition games"),
        (
            lambda: theory.static_nash("TrustDilemma-v1"),
            "no alpha, theta.*coopbench certify",
        ),
        (lambda: theory.static_nash("TrustDilemma-v0", start=2), r"start was 2; allowed.*\[0, 1\]"),
        (lambda: theory.static_nash("TrustDilemma-v0", weights=np.ones(2)), r"shape \(2, 2\)"),
        (lambda: theory.static_nash("TrustDilemma-v0", weights=np.eye(2)), "zero diagonal"),
        (lambda: theory.static_nash("TrustDilemma-v0", weights="D"), "weights was 'D'; allowed"),
        (lambda: theory.efficiency("TrustDilemma-v0", ["1", "much"]), "actions was .*much"),
        (
            lambda: theory.coopetitive_equilibrium("TrustDilemma-v0", trust=np.full((2, 2), 3)),
            r"trust must lie in \[0, 1\]; given values from 3 to 3",
        ),
        (lambda: theory.efficiency("TrustDilemma-v0", [1, 2, 3]), r"\(\.\.\., 2\), one per agent"),
        (lambda: theory.efficiency("TrustDilemma-v0", [1, 101]), r"in \[0, endowment\].*101"),
        (lambda: theory.efficiency("TrustDilemma-v0", [[1, 2]]), "one vector"),
        (lambda: theory.best_constant("TrustDilemma-v0", grid=1), r"grid was 1; allowed.*\[2, "),
        (lambda: theory.best_constant("TrustDilemma-v0", seed=-1), "seed was -1"),
        (
            lambda: theory.best_open_loop("TrustDilemma-v0", population=8, elite=9),
            r"elite was 9; allowed: a number in \[1, 8\]",
        ),
        (lambda: theory.exploitability("TrustDilemma-v0", "tit_for_tot"), "Did you mean"),
        (
            lambda: theory.exploitability("TrustDilemma-v0", "random", seat=2),
            r"seat was 2.*\[0, 1\]",
        ),
        (lambda: theory.Search(levels=1.5), "levels was 1.5; allowed: an integer"),
        (lambda: theory.Search(switch_times=(1.5,)), "switch_times was 1.5"),
    ],
)
def test_bad_input_is_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_unknown_parameters_are_named():
    with pytest.raises(TypeError, match="Unknown parameter 'horizont'"):
        theory.social_optimum("TrustDilemma-v0", horizont=3)
