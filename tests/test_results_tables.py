"""Tables of the page of results: read from stored reports, nothing decided here."""

import csv
from importlib import import_module
from pathlib import Path

import pytest


@pytest.fixture
def tables(monkeypatch, tmp_path):
    """The module, with two policies and a learner of two runs in place of the stored results."""
    monkeypatch.syspath_prepend(str(Path(__file__).resolve().parent.parent / "docs"))
    results_tables = import_module("results_tables")
    monkeypatch.setattr(results_tables.stored, "RESULTS", tmp_path)
    monkeypatch.setattr(results_tables.stored, "source", lambda name: "marl-standard")
    (folder := tmp_path / "mine").mkdir()
    row = {"statistic": "mean", "unit": "episodes", "count": "99", "group": "one"}
    rows = [
        row | {"policy": "random", "estimate": "0.1", "low": "-0.1", "high": "0.3"},
        row | {"policy": "best", "estimate": "0.9", "low": "0.8", "high": "1.0"},
        row | {"policy": "learner", "estimate": "0.5", "unit": "runs", "count": "2"},
        row | {"policy": "best", "estimate": "0.7", "low": "0.6", "high": "0.8", "group": "two"},
        row | {"policy": "best", "estimate": "0.0", "statistic": "worst_task"},
    ]
    ranks = [
        {"group": "one", "policy": "best", "low": "1", "high": "2"},
        {"group": "one", "policy": "random", "low": "3", "high": "3"},
    ]
    means = [rows[0] | {"task": "slcd", "metric": "return", "mean": "7.5", "flag": ""}]
    for name, content in {"aggregates": rows, "ranks": ranks, "estimates": means}.items():
        with (folder / f"{name}.csv").open("w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, list(content[0]), restval="", extrasaction="ignore")
            writer.writeheader()
            writer.writerows(content)
    return results_tables


def test_groups_have_scores_intervals_and_ranks(tables):
    lines = tables.groups("mine").replace("\N{NO-BREAK SPACE}", " ").splitlines()
    assert lines[0] == "| Policy | `one` | `two` |"
    assert lines[2:] == [
        "| `best` | 0.90 [0.80, 1.00] (1 to 2) | 0.70 [0.60, 0.80] |",
        "| `learner`, 2 runs | 0.50 | — |",
        "| `random` | 0.10 [-0.10, 0.30] (3) | — |",
    ]


def test_shares_end_at_0_and_1_and_returns_stay_as_they_are(tables, monkeypatch):
    assert tables.leaders("mine", "one")[0] == "0.10 [-0.10,\N{NO-BREAK SPACE}0.30]"
    monkeypatch.setattr(tables.stored, "source", lambda name: "skirmish-small")
    assert tables.leaders("mine", "one")[0] == "0.10 [0.00,\N{NO-BREAK SPACE}0.30]"


def test_the_overview_tells_scripts_from_learners(tables):
    assert tables.leaders("mine", "one") == [
        "0.10 [-0.10,\N{NO-BREAK SPACE}0.30]",
        "`best` 0.90 [0.80,\N{NO-BREAK SPACE}1.00]",
        "`learner`, 2 runs 0.50",
    ]
    assert tables.leaders("mine", "two")[2] == "—"
    model = {"policy": "ippo_shared:caves", "unit": "runs", "count": "1"}
    assert tables.stored.titled("routing-medium", model).endswith("1 run at 0.02 of the budget")


def test_the_chart_names_policies_in_the_order_of_the_table(tables):
    pytest.importorskip("matplotlib")  # draws pages, and no report
    svg = tables.chart("mine")
    assert "0 and 1 are the bounds of a task" in svg
    places = [svg.index(f">{name}<") for name in ("best", "learner, 2 runs", "random")]
    assert places == sorted(places)


def test_steps_to_a_threshold_may_be_out_of_reach(tables):
    steps_text = import_module("results_pages").steps_text
    out_of_reach = {"steps": "", "steps_low": "70000.0", "steps_high": ""}
    assert steps_text(out_of_reach) == "not reached [70,000, not reached]"


def test_a_mean_over_some_of_the_episodes_states_their_share(tables):
    defined = import_module("results_pages").defined
    some = {"flag": "undefined in 979 of 1000 episodes; 3 runs", "mean": "0.5"}
    assert defined(some) == " (2.1 %)"
    assert defined(some | {"mean": ""}) == defined(some | {"flag": ""}) == ""
