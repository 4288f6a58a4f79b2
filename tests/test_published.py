"""The published evaluation: its document, the page of its figures, and the bounds."""

import runpy
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from scipy.optimize import minimize

from coopbench.playing.plan import game_of
from coopbench.protocol.loading import load_protocol
from coopbench.theory import stage_payoffs

ROOT = Path(__file__).resolve().parent.parent
GAMES = (
    *("TrustDilemma", "PartnerHoldUp", "PlatformEcosystem", "DynamicPartnerSelection"),
    *("RecoveryRace", "SynergySearch", "SLCD", "RenaultNissan"),
)


@pytest.fixture(scope="module")
def published():
    return SimpleNamespace(**runpy.run_path(str(ROOT / "benchmarks" / "published.py")))


@pytest.mark.parametrize("game", ["CoalitionFormation", "LoyaltyTeam", "TeamProduction"])
def test_investing_everything_earns_what_was_published_to_the_unit(published, game):
    here = published.play(game, "constant:1.0", range(99, 101))
    assert round(float(here.total.mean())) == published.ORACLE[game]


def test_deterministic_policies_have_no_spread_where_deviations_are_published(published):
    lines = published.PAGE.read_text(encoding="utf-8").splitlines()
    for policy in ("constant:0.35", "constant:0.5", "tit_for_tat"):
        here = published.play("TrustDilemma", policy, range(20))
        assert here.total.min() == here.total.max()
        (row,) = (line for line in lines if line.startswith(f"| TrustDilemma | `{policy}` |"))
        assert f"{here.total[0]:,.0f} ± 0, {here.trust[0]:.2f}" in row


# Returns, summed over agents, of constant fractions at the default horizon of each environment.


def test_the_document():
    protocol = load_protocol("coopetition-published")
    tasks = protocol.groups["games"]
    games = [task.env.split("/")[1].removesuffix("-v0") for task in tasks]
    assert games == list(GAMES)
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


def test_bounds_are_what_no_play_exceeds():
    """The optimum of one step at full trust, found here by another search, times the horizon."""
    for task in load_protocol("coopetition-published").task:
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
