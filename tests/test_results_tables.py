"""Tables of the page of results: read from stored reports, whose decisions alone are bold."""

import csv
import dataclasses
import sys
from pathlib import Path

import pytest

from coopbench.analysis.comparisons import Comparison

DOCS = Path(__file__).resolve().parent.parent / "docs"
COLUMNS = [field.name for field in dataclasses.fields(Comparison)]


@pytest.fixture
def tables(monkeypatch, tmp_path):
    """The module, and a folder in place of the stored results."""
    monkeypatch.syspath_prepend(str(DOCS))
    sys.modules.pop("results_tables", None)
    import results_tables

    monkeypatch.setattr(results_tables, "RESULTS", tmp_path)
    (tmp_path / "mine").mkdir()
    return results_tables, tmp_path / "mine"


def write(file, columns, *rows):
    with file.open("w", newline="", encoding="utf-8") as opened:
        writer = csv.DictWriter(opened, columns, restval="")
        writer.writeheader()
        writer.writerows(rows)


@pytest.mark.parametrize("old", [False, True])
def test_only_decisions_of_the_present_rule_are_bold(tables, old):
    module, folder = tables
    policies = [{"policy": name, "unit": "runs"} for name in ("a", "b", "c")]
    write(folder / "estimates.csv", ["policy", "unit"], *policies)
    row = {"task": "one", "unit": "runs", "low": 1.0, "high": 3.0, "difference": 2.0}
    pairs = [("a", "b", True), ("a", "c", False)]
    rows = [row | {"first": x, "second": y, "shown": shown} for x, y, shown in pairs]
    columns = [*COLUMNS, "p_protocol"] if old else COLUMNS
    write(folder / "comparisons.csv", columns, *rows)
    text = module.differences("mine")
    assert ("**+2.00 [+1.00," in text) == (not old)
    assert ("an earlier rule of decision" in text) == old
    assert text.count("+2.00") == 2
    assert "| — |" in text  # b and c have not been compared
