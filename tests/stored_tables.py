"""Stored tables of reference results, read as tests of sentences about them need them."""

from importlib import import_module
from pathlib import Path

import pytest

DOCS = Path(__file__).resolve().parent.parent / "docs"


@pytest.fixture
def stored(monkeypatch):
    """The stored tables of the package."""
    monkeypatch.syspath_prepend(str(DOCS))
    return import_module("stored_results")


def shares(stored, name, metric, task, policy):
    """Mean of a metric in a stored table, as percentage."""
    (row,) = [
        row
        for row in stored.read(name, "estimates.csv")
        if (row["metric"], row["task"], row["policy"]) == (metric, task, policy)
    ]
    return 100 * float(row["mean"])


def ends_of_ranks(stored, name):
    """First and last rank of every policy of a stored table, by group and policy."""
    return {
        (row["group"], row["policy"]): (int(row["low"]), int(row["high"]))
        for row in stored.read(name, "ranks.csv")
    }


def scores_of(stored, name, metric):
    """Normalized mean of a metric in a stored table, by task and policy."""
    protocol = stored.protocol_of(name)
    return {
        (row["task"], row["policy"]): float(
            protocol.task_of(row["task"]).bounds.normalise(float(row["mean"]))
        )
        for row in stored.read(name, "estimates.csv")
        if row["metric"] == metric
    }


def verdicts_on(stored, name: str, policy: str) -> dict[str, dict[str, bool | None]]:
    """Return {task: {rival: whether the policy scores more}}, None where that is open."""
    verdicts: dict[str, dict[str, bool | None]] = {}
    for row in stored.read(name, "comparisons.csv"):
        if policy in (row["first"], row["second"]):
            rival = row["second"] if row["first"] == policy else row["first"]
            sign = 1.0 if row["first"] == policy else -1.0
            higher = sign * float(row["difference"]) > 0.0
            ahead = verdicts.setdefault(row["task"], {})
            ahead[rival] = higher if row["decided"] == "True" else None
    return verdicts


def prose(page: str) -> str:
    """Return a page of the folder docs with single blanks between its words."""
    return " ".join((DOCS / page).read_text(encoding="utf-8").split())
