"""The published evaluation: its figures, the bounds of its protocol, and what its games cost."""

import csv
import runpy
from pathlib import Path
from types import SimpleNamespace

import builders
import numpy as np
import pytest
from scipy.optimize import minimize

import coopbench
from coopbench.analysis.findings import Findings
from coopbench.episodes.table import Cell, EpisodeTable
from coopbench.playing.plan import game_of
from coopbench.protocol.loading import load_protocol
from coopbench.report.sections import anarchy
from coopbench.theory import price_of_anarchy, stage_payoffs
from studies.equilibria import best_constant, exploitability

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="module")
def published():
    return SimpleNamespace(**runpy.run_path(str(ROOT / "studies" / "published.py")))


@pytest.mark.parametrize("game", ["CoalitionFormation", "LoyaltyTeam", "TeamProduction"])
def test_investing_everything_earns_what_was_published_to_the_unit(published, game):
    here = published.play(game, "constant:1.0", range(99, 101))
    assert round(float(here.total.mean())) == published.ORACLE[game]


def test_bounds_are_what_no_play_exceeds():
    """The optimum of one step at full trust, found here by another search, times the horizon."""
    for task in load_protocol("coopetition-published").task:
        c, largest = game_of(task).constants, dict(task.parameters)
        if hasattr(c, "gamma_high"):
            largest["gamma_range"] = (c.gamma_high, c.gamma_high)
        weights = 1.0 + np.asarray(c.dependence).sum(axis=0)
        endowment = np.asarray(c.endowment)

        def loss(share, env=task.env, largest=largest, weights=weights, endowment=endowment):
            return -float(weights @ stage_payoffs(env, share * endowment, **largest))

        limits = [(1e-6, 1.0)] * len(endowment)
        best = minimize(loss, np.full(len(endowment), 0.3), method="SLSQP", bounds=limits)
        optimum = -best.fun * c.horizon
        assert task.bounds.low == 0.0
        assert optimum <= task.bounds.high <= optimum + 1.0, task.id


def test_a_report_shows_the_price_of_anarchy_of_the_parameters():
    protocol = load_protocol("coopetition-published")
    platform = next(task for task in protocol.task if task.id == "platform-ecosystem")
    block = builders.make_block(Cell(platform.id, "random", None), np.zeros((4, 5)))
    shown = {}
    for parameters in ({"horizon": 7}, {"num_developers": 3}, {"reward_type": "private"}):
        changed = platform.model_copy(update={"parameters": parameters})
        one = protocol.model_copy(update={"task": (changed,)})
        table = anarchy.anarchy_table(Findings(one, EpisodeTable((block,))))
        ((entries,),) = (group.rows for group in table.groups)
        shown[next(iter(parameters))] = [entry.text for entry in entries]
    texts = ["platform-ecosystem", "25.16, 24.68 x 4", "770.9", "28.41 x 5", "771.9", "1.0014"]
    assert shown["horizon"] == shown["reward_type"] == texts
    price = price_of_anarchy(platform.env, num_developers=3)
    assert float(shown["num_developers"][-1]) == pytest.approx(price, abs=6e-5)
    assert shown["num_developers"][1:-1] != texts[1:-1]
    meeting = next(task for task in load_protocol("coopetition-standard").task)
    block = builders.make_block(Cell(meeting.id, "random", None), np.zeros((4, 2)))
    other = protocol.model_copy(update={"task": (meeting,)})
    assert anarchy.anarchy_table(Findings(other, EpisodeTable((block,)))) is None


def test_a_report_without_an_equilibrium_has_no_price_of_anarchy(monkeypatch):
    """Of agents that choose between levels none is defined, and a search may find none."""
    reports = [
        coopbench.evaluate(
            "TrustDilemma-v0", ["random"], episodes=3, horizon=5, action_levels=levels
        )
        for levels in (5, None)
    ]
    assert [len(report.anarchy) for report in reports] == [0, 1]

    def fails(*_, **__):
        raise RuntimeError("No Nash equilibrium was found.")

    monkeypatch.setattr(anarchy.theory, "worst_nash", fails)
    lost = coopbench.evaluate("TrustDilemma-v0", ["random"], episodes=3, trust_building_rate=0.2)
    assert lost.anarchy == ()
    assert "Price of anarchy" not in str(lost)


def test_learners_are_compared_in_episodes_of_one_length(published):
    """The table of the benchmark page has ours where the protocol's episodes are as long."""
    alike = [task.id for task in published.alike()]
    assert alike == ["trust-dilemma", "partner-hold-up", "platform-ecosystem", "synergy-search"]
    text = (ROOT / "docs" / "published.md").read_text(encoding="utf-8")
    part = text.partition("<!-- played: begin benchmark -->")[2].partition("<!-- played: end")[0]
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in part.split("\n")[3:-1]]
    learned = {name for name, *_, ippo, isac, _ in rows if ippo and isac}
    assert learned == {name for name, *_, ippo, isac, _ in rows if ippo or isac}
    assert learned == {"TrustDilemma", "PartnerHoldUp", "PlatformEcosystem", "SynergySearch"}
    with (published.LEARNED / "estimates.csv").open(encoding="utf-8") as file:
        means = {
            (row["task"], row["policy"]): float(row["mean"])
            for row in csv.DictReader(file)
            if row["metric"] == "return"
        }
    shares = [
        means[task, "ippo"] / means[task, "constant:0.35"] for task in ("slcd", "renault-nissan")
    ]
    assert "earns {:.2f} and {:.2f} of what".format(*shares) in " ".join(text.split())


@pytest.mark.slow("searches constants and deviations in six games")
def test_the_page_of_game_theory_has_what_the_solvers_find():
    """Tables of whole episodes but the best sequences, whose search takes minutes."""
    text = (ROOT / "docs" / "games.md").read_text(encoding="utf-8")
    part = text.partition("## Whole episodes")[2].partition("## Certificates")[0]
    rows = [
        [cell.strip(" `") for cell in line.split("|")[1:-1]]
        for line in part.splitlines()
        if line.startswith("| ") and any(map(str.isdigit, line))
    ]
    constants = [row for row in rows if len(row) == 4]
    deviations = [row for row in rows if len(row) == 5]
    assert (len(constants), len(deviations)) == (6, 8)
    for game, *figures, _ in constants:
        found = best_constant(f"{game}-v0", profile=True)
        assert [f"{value:.0f}" for value in (found.value, found.profile_value)] == figures
    for policy, *figures in deviations:
        found = exploitability("TrustDilemma-v0", policy)
        values = [f"{value:.0f}" for value in (found.base[0], found.gain, found.losses[0])]
        assert figures == [values[0], found.deviation, *values[1:]]
