"""Measured speed: runs of probes, and the stored tables."""

import importlib
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).resolve().parent.parent / "benchmarks"


@pytest.fixture
def scripts(monkeypatch):
    """Return the modules of the benchmarks."""
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    return {name: importlib.import_module(name) for name in ("probes", "speed")}


def test_medians_are_those_of_runs_in_turns(scripts, monkeypatch):
    probes = scripts["probes"]
    order, rates = [], {"a": iter([10.0, 40.0, 20.0]), "b": iter([5.0, 10.0, 1.0])}

    def measure(probe):
        order.append(probe.script)
        return probes.Measured(next(rates[probe.script]), {"b": "1"})

    monkeypatch.setattr(probes, "measure", measure)
    first, second = (probes.Probe(Path("python"), name) for name in "ab")
    pair = probes.compare(first, second, 3)
    assert order == ["b", "a"] * 3
    assert pair == (20.0, 5.0, 4.0, {"b": "1"})


def test_a_table_is_read_as_it_was_stored_and_others_stay(scripts, tmp_path):
    speed = scripts["speed"]
    table = speed.Table(["what", "rate"], [["steps", 123456.0], ["none", None]], "a machine")
    speed.record("one", table, tmp_path / "made" / "speed.json")
    speed.record("two", table, tmp_path / "made" / "speed.json")
    assert speed.stored(tmp_path / "made" / "speed.json") == {"one": table, "two": table}
    assert "| steps | 123 k |" in str(table)
    assert "| none | - |" in str(table)
    assert str(table).endswith("\n\na machine")
