"""The published evaluation: its document, returns measured with its own code, and the bounds."""

import numpy as np
import pytest
from scipy.optimize import minimize

import coopbench
from coopbench.playing.plan import game_of
from coopbench.protocol.loading import ad_hoc, load_protocol
from coopbench.theory import stage_payoffs

# Returns, summed over agents, of constant fractions at the default horizon of each environment.
RETURNS = {
    "TrustDilemma": (947, 46267, 43648),
    "PartnerHoldUp": (39511, 45858, 42640),
    "PlatformEcosystem": (148367, 143478, 131326),
    "DynamicPartnerSelection": (79627, 107314, 94021),
    "RecoveryRace": (50222, 59508, 55563),
    "SynergySearch": (29348, 42139, 39136),
    "SLCD": (50946, 49870, 46827),
    "RenaultNissan": (46448, 45685, 43171),
}


@pytest.mark.parametrize("name", RETURNS)
def test_constant_returns(name):
    parameters = {"gamma_range": [0.55, 0.55]} if name == "SynergySearch" else {}
    protocol = ad_hoc(f"{name}-v0", episodes=2, **parameters)
    fractions = [f"constant:{fraction}" for fraction in (0.35, 0.5, 0.75)]
    report = coopbench.evaluate(protocol, fractions)
    horizon = game_of(protocol.task[0]).constants.horizon
    for block, expected in zip(report.episodes, RETURNS[name], strict=True):
        np.testing.assert_allclose(block.returns.sum(axis=1), expected, rtol=0.0, atol=1.0)
        early = (name, block.cell.policy) == ("TrustDilemma", "constant:0.35")
        assert (block.lengths == (3 if early else horizon)).all()


def test_the_document():
    protocol = load_protocol("coopetition-published")
    tasks = protocol.groups["games"]
    games = [task.env.split("/")[1].removesuffix("-v0") for task in tasks]
    assert games == list(RETURNS)
    counts = {game: protocol.episodes(t) for game, t in zip(games, tasks, strict=True)}
    large = {"PlatformEcosystem", "DynamicPartnerSelection"}
    assert counts == {game: 50 if game in large else 100 for game in games}
    horizons = {g: t.parameters["horizon"] for g, t in zip(games, tasks, strict=True)}
    assert horizons == dict.fromkeys(games, 100) | {"SLCD": 40, "RenaultNissan": 60}
    assert protocol.seeds_of(protocol.task[0]).tolist() == list(range(100))
    fixed = ("random", "constant:0.35", "constant:0.5", "constant:0.75", "tit_for_tat")
    assert (protocol.report.baselines, protocol.report.learned) == (fixed, ("ippo",))
    assert not any(task.partners for task in protocol.task)
    assert protocol.trained_tasks == tasks
    (budget,) = protocol.training.budgets.values()
    assert (budget.interval, protocol.training.episodes) == (10_000, 10)
    assert protocol.seeds.selection.count == 10  # for learning curves:
    assert protocol.training.evaluates == "last"  # the policy at the end is evaluated
    assert (protocol.report.comparison, protocol.report.effect) == ("welch", "cohens_d")
    varied = {task.varies for task in protocol.groups["sensitivity"]}
    assert varied == {"slcd", "renault-nissan"}
    assert (protocol.training.runs, protocol.seeds.training) == (5, (100, 101, 102, 103, 104))


@pytest.mark.parametrize("name", ["coopetition-published"])
def test_bounds_are_what_no_play_exceeds(name):
    """The optimum of one step at full trust, found here by another search, times the horizon."""
    for task in load_protocol(name).task:
        c = game_of(task).constants
        if hasattr(c, "gamma_high"):
            c = c._replace(gamma_low=c.gamma_high)
        weights = 1.0 + np.asarray(c.dependence).sum(axis=0)
        endowment = np.asarray(c.endowment)

        def loss(share, c=c, weights=weights, endowment=endowment):
            return -float(weights @ stage_payoffs(c, share * endowment))

        limits = [(1e-6, 1.0)] * len(endowment)
        best = minimize(loss, np.full(len(endowment), 0.3), method="SLSQP", bounds=limits)
        optimum = -best.fun * c.horizon
        assert task.bounds.low == 0.0
        assert optimum <= task.bounds.high <= optimum + 1.0, task.id
