"""The audit's tables of the version 1 games: scores and returns as the certificates hold them."""

import runpy
from pathlib import Path

import pytest

from coopbench.certificates import load_certificate
from coopbench.protocol.loading import load_protocol

ROOT = Path(__file__).resolve().parent.parent
GAME = "coopbench/TrustDilemma-v1"


@pytest.fixture(scope="module")
def audit():
    return runpy.run_path(str(ROOT / "studies" / "validity" / "games.py"))


@pytest.fixture(scope="module")
def certificates():
    return {GAME: load_certificate(GAME)}


def _cells(rows):
    """Rows as dictionaries by the names of the columns, by task."""
    head = next(rows)
    return {row[0].strip("`"): dict(zip(head, row, strict=True)) for row in rows}


def test_scores_run_from_the_lower_bound_to_the_upper_one(audit, certificates):
    rows = _cells(audit["score_rows"](certificates))
    tasks = [task.id for task in load_protocol("coopetition-standard").task if task.env == GAME]
    assert list(rows) == tasks
    for task, row in rows.items():
        assert row["optimum"] == "1.00"
        # In self-play defection is the lower bound, beside partners the best blind rule.
        lowest, other = ("blind", "defect") if "." in task else ("defect", "blind")
        assert row[lowest] == "0.00"
        name = {"defect": "always_defect", "blind": "blind"}[other]
        expected = certificates[GAME].score(task, name)
        assert float(row[other]) == pytest.approx(expected, abs=0.006)
        assert bool(row["Bayesian"]) == ("." in task)


def test_counts_on_the_page_of_validity_are_those_of_the_certificates():
    """What the page says of all tasks beside partners."""
    page = " ".join((ROOT / "docs/validity.md").read_text(encoding="utf-8").split())
    tasks = [task for task in load_protocol("coopetition-standard").task if task.partners]
    certificates = {task.id: load_certificate(task.env) for task in tasks}
    defecting = [c.score(name, "always_defect") for name, c in certificates.items()]
    scripts = [c.score(name, "script") for name, c in certificates.items()]
    rules = [c.score(name, "memory") for name, c in certificates.items()]
    at_zero = sum(score > -0.035 for score in defecting)
    better = sum(script > rule for script, rule in zip(scripts, rules, strict=True))
    assert f"in {at_zero} of the {len(tasks)} tasks with partners `always_defect` is" in page
    assert f"In {better} of the {len(tasks)} tasks with partners the best script earns" in page
    widths = [100 * (task.bounds.high / task.bounds.low - 1.0) for task in tasks]
    assert f"earn {min(widths):.0f} to {max(widths):.0f} % more" in page
