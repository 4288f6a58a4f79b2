"""The published evaluation: the page of its figures, and the bounds of its protocol."""

import runpy
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from scipy.optimize import minimize

from coopbench.playing.plan import game_of
from coopbench.protocol.loading import load_protocol
from studies.equilibria import stage_payoffs

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
