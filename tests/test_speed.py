"""Measured speed: runs of probes, and the stored tables."""

import importlib
import subprocess
import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).resolve().parent.parent / "benchmarks"


@pytest.fixture
def scripts(monkeypatch):
    """Return the modules of the benchmarks."""
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    return {name: importlib.import_module(name) for name in ("probes", "speed", "waits")}


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


def test_waits_are_measured_in_turns(scripts, monkeypatch, capsys, tmp_path):
    waits, order = scripts["waits"], []
    for folder in ("coopbench/cli", "coopbench_envs", "baselines", "protocols"):
        (tmp_path / folder).mkdir(parents=True)
    figures = iter([4.0, 3.0, 6.0, 2.0])

    def figure(name, packages):
        found = ("coopbench/cli", "coopbench/baselines", "coopbench/protocols", "coopbench_envs")
        order.append((name, *((packages / folder).resolve() for folder in found)))
        return next(figures)

    monkeypatch.setattr(waits, "figure", figure)
    command = ["waits.py", "CartPole", "--against", str(tmp_path), "--rounds", "2"]
    monkeypatch.setattr(sys, "argv", command)
    waits.main()
    folders = ("coopbench/cli", "baselines", "protocols", "coopbench_envs")
    sides = [[root / folder for folder in folders] for root in (tmp_path.resolve(), waits.ROOT)]
    assert order == [("CartPole", *side) for side in sides] * 2
    assert "| CartPole | µs | 4 | 2 | 2 |" in capsys.readouterr().out
    assert all((row.within is None) != (row.of is None) for row in waits.ROWS.values())


def test_what_a_process_took_is_that_of_its_children_too(scripts, tmp_path):
    waits = scripts["waits"]
    load = "import time\nwhile time.process_time() < 0.3: pass\nprint(bytes(50_000_000)[0])"
    child = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {load!r}])"
    done = waits.spent(["-c", child], BENCHMARKS.parent, str(tmp_path))
    assert done.printed == "0\n"
    assert 0.3 < done.seconds < 3.0
    assert done.megabytes > 50
    assert waits.each(lambda: sum(range(1000)), 10) < 0.5 * waits.each(lambda: sum(range(1000)))
    with pytest.raises(subprocess.CalledProcessError):
        waits.spent(["-c", "raise SystemExit(2)"], BENCHMARKS.parent, str(tmp_path))


def test_a_table_is_read_as_it_was_stored_and_others_stay(scripts, tmp_path):
    speed = scripts["speed"]
    table = speed.Table(["what", "rate"], [["steps", 123456.0], ["none", None]], "a machine")
    speed.record("one", table, tmp_path / "made" / "speed.json")
    speed.record("two", table, tmp_path / "made" / "speed.json")
    assert speed.stored(tmp_path / "made" / "speed.json") == {"one": table, "two": table}
    assert "| steps | 123 k |" in str(table)
    assert "| none | - |" in str(table)
    assert str(table).endswith("\n\na machine")
