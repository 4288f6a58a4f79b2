"""The page of published figures holds what the games play now."""

import importlib.util
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
SPEC = importlib.util.spec_from_file_location("published", ROOT / "benchmarks" / "published.py")
published = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(published)


@pytest.mark.parametrize("game", ["CoalitionFormation", "LoyaltyTeam", "TeamProduction"])
def test_investing_everything_earns_what_was_published_to_the_unit(game):
    here = published.play(game, "constant:1.0", range(99, 101))
    assert round(float(here.total.mean())) == published.ORACLE[game]


def test_deterministic_policies_have_no_spread_where_deviations_are_published():
    for policy in ("constant:0.35", "constant:0.5", "tit_for_tat"):
        here = published.play("TrustDilemma", policy, range(20))
        assert here.total.min() == here.total.max()
        row = next(
            line
            for line in published.PAGE.read_text(encoding="utf-8").splitlines()
            if line.startswith(f"| TrustDilemma | `{policy}` |")
        )
        assert f"{here.total[0]:,.0f} ± 0, {here.trust[0]:.2f}" in row
