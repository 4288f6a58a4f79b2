"""One step of a published game: recorded equilibria, first-order conditions, closed forms."""

import json

import numpy as np
import pytest
from golden_folders import unpacked

from coopbench import theory
from coopbench_envs import Engine
from coopbench_envs.engine import DISABLED

FIXED = {"SynergySearch-v0": {"gamma_range": (0.55, 0.55)}}
SOLVED = (
    "TrustDilemma-v0",
    "PartnerHoldUp-v0",
    "PlatformEcosystem-v0",
    "SynergySearch-v0",
    "GiftExchange-v0",
)
ANARCHY = {"TrustDilemma-v0": 1.0035, "PartnerHoldUp-v0": 1.0025, "PlatformEcosystem-v0": 1.0014}
OPTIMA = {"TrustDilemma-v0": 10 / 0.325 - 1, "PartnerHoldUp-v0": 20 / 0.7 - 1}


@pytest.mark.parametrize("env_id", ANARCHY)
def test_stage_payoffs_are_private_rewards(env_id):
    engine = Engine(env_id, 50, reward_type="private")
    endowment = engine.constants.endowment
    units = np.random.default_rng(0).uniform(0.0, endowment, (50, len(endowment)))
    units[:2] = 0.0  # no synergy
    units[1, 1:] = endowment[1:]
    engine.reset(np.arange(50))
    engine.step(units[:, :, None], DISABLED)
    expected = theory.stage_payoffs(env_id, units)
    np.testing.assert_allclose(engine.control.rewards, expected, rtol=1e-12)
    shaped = theory.stage_payoffs(env_id, units.reshape(5, 10, -1))
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
    np.testing.assert_allclose(
        profile.fractions * Engine(env_id).constants.endowment, profile.actions
    )


@pytest.mark.parametrize("env_id", SOLVED)
def test_inside_the_bounds_slopes_of_what_is_sought_are_0(env_id):
    """theta / (1 + a_i) + gamma g / (n a_i) K_i = 1, with K_i the shares that agent i counts."""
    parameters = FIXED.get(env_id, {})
    c, n = Engine(env_id, **parameters).constants, len(Engine(env_id).agents)
    gamma = c.gamma_low if parameters else c.gamma
    trust = np.full((n, n), 0.5)
    nash = theory.static_nash(env_id, **parameters)
    for profile, counted in (
        (nash, c.alpha),
        (
            theory.coopetitive_equilibrium(env_id, trust=trust, **parameters),
            c.alpha + 0.5 * c.dependence @ c.alpha,
        ),
        (theory.social_optimum(env_id, **parameters), np.ones(n)),
    ):
        units = profile.actions
        shared = np.exp(np.log(units).mean())
        slopes = c.theta / (1.0 + units) + gamma * shared / (n * units) * counted - 1.0
        np.testing.assert_allclose(slopes, 0.0, atol=1e-5)
    worst = theory.worst_nash(env_id, **parameters)
    np.testing.assert_allclose(worst.actions, nash.actions, atol=1e-3)


@pytest.mark.parametrize("env_id", ANARCHY)
def test_optimum_and_price_of_anarchy(env_id):
    optimum = theory.social_optimum(env_id)
    assert optimum.converged
    if env_id in OPTIMA:  # closed form where all invest the same
        np.testing.assert_allclose(optimum.actions, OPTIMA[env_id], atol=1e-4)
    assert theory.price_of_anarchy(env_id) == pytest.approx(ANARCHY[env_id], abs=6e-5)
    nash = theory.static_nash(env_id)
    share = nash.welfare / optimum.welfare
    assert share == pytest.approx(1 / theory.price_of_anarchy(env_id), abs=1e-8)
    draws = np.random.default_rng(0).uniform(0, 1, (3, len(nash.actions)))
    paid = theory.stage_payoffs(env_id, draws * Engine(env_id).constants.endowment)
    assert (paid.sum(axis=-1) < optimum.welfare).all()


GAME = "PartnerHoldUp-v0"  # endowments 120 and 80


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: theory.static_nash("TrustDilemma-v1"), "has no .*version 0 .*docs/games.md"),
        (lambda: theory.static_nash(GAME, start=1.5), r"start was 1\.5; allowed: .*\[0, 1\]"),
        (lambda: theory.static_nash(GAME, weights=np.eye(2)), "weights had the diagonal"),
        (lambda: theory.static_nash(GAME, weights=[1.0]), r"weights was .* shape \(2, 2\)"),
        (
            lambda: theory.coopetitive_equilibrium(GAME, trust=np.full((2, 2), 2.0)),
            r"trust was 2 to 2; allowed: \[0, 1\]",
        ),
        (lambda: theory.stage_payoffs(GAME, [1.0, 81.0]), r"1 to 81 units; allowed: .*120.*80"),
        (lambda: theory.stage_payoffs(GAME, [1.0, np.nan]), "actions was .*finite numbers"),
        (lambda: theory.stage_payoffs(GAME, "much"), r"actions was 'much'; allowed: .*\(2,\)"),
    ],
)
def test_what_has_no_step_is_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_the_worst_equilibrium_is_the_one_of_least_welfare_among_those_found(monkeypatch):
    found = {0.0: (5.0, True), 0.3: (2.0, True), 1.0: (1.0, False)}  # welfare and whether it is one

    def nash(env_id, *, start):
        welfare, converged = found[start]
        units = np.full(2, start)
        return theory.StageProfile(env_id, ("a", "b"), units, units, units, welfare, converged, 1)

    monkeypatch.setattr(theory, "static_nash", nash)
    assert theory.worst_nash("any").welfare == 2.0
    found.update({0.0: (5.0, False), 0.3: (2.0, False)})
    with pytest.raises(RuntimeError, match="No Nash equilibrium of any was found"):
        theory.worst_nash("any")
