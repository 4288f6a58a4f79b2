"""Measured speed: runs of probes, comparisons with other packages, and the stored tables."""

import importlib
import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).resolve().parent.parent / "benchmarks"


@pytest.fixture
def scripts(monkeypatch):
    """Return the modules of the benchmarks."""
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    return {name: importlib.import_module(name) for name in ("probes", "speed", "peers")}


@pytest.fixture
def peers(scripts, monkeypatch, tmp_path):
    """Return ``peers`` with a folder of scripts of its own: name -> code."""
    monkeypatch.setattr(scripts["probes"], "SCRIPTS", tmp_path)
    codes = {
        "ours": 'print(\'{"steps": 600, "seconds": 2.0, "versions": {"coopbench": "1"}}\')',
        "fine": "print('noise'); "
        'print(\'{"steps": 100, "seconds": 2.0, "versions": {"fine": "2.1"}}\')',
        "fails": "raise ValueError('no such map')",
        "silent": "pass",
        "garbled": "print('steps: 3')",
    }
    for name, code in codes.items():
        (tmp_path / f"{name}.py").write_text(code, encoding="utf-8")
    python = tmp_path / "installed" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.symlink_to(sys.executable)
    return scripts["peers"]


def row(peers, tmp_path, script, peer="installed"):
    comparison = peers.Comparison(peer, "Peer", "steps", (f"{script}.py",), ("ours.py",))
    (only,) = peers.rows((comparison,), 1, tmp_path)
    return only


def test_a_row_has_both_rates_their_ratio_and_the_version(peers, tmp_path):
    assert row(peers, tmp_path, "fine") == ["steps", "Peer (fine 2.1)", 300.0, 50.0, 6.0]
    missing = row(peers, tmp_path, "fine", "lacking")
    assert missing == ["steps", "Peer: not installed", None, None, None]


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        ("fails", "ValueError: no such map"),
        ("silent", "printed nothing"),
        ("garbled", "printed 'steps: 3' instead of its result"),
    ],
)
def test_a_failing_peer_is_shown_and_ends_nothing(peers, tmp_path, capsys, script, reason):
    comparisons = tuple(
        peers.Comparison("installed", "Peer", "steps", (f"{name}.py",), ("ours.py",))
        for name in (script, "fine")
    )
    first, second = peers.rows(comparisons, 1, tmp_path)
    assert first == ["steps", "Peer: failed", None, None, None]
    assert second[-1] == 6.0
    assert reason in capsys.readouterr().err


def test_a_probe_that_hangs_is_ended(scripts, monkeypatch, tmp_path):
    probes = scripts["probes"]
    monkeypatch.setattr(probes, "SCRIPTS", tmp_path)
    (tmp_path / "hangs.py").write_text("while True: pass", encoding="utf-8")
    with pytest.raises(probes.ProbeError, match=r"not finished after 0\.2 s"):
        probes.measure(probes.Probe(Path(sys.executable), "hangs.py"), limit=0.2)


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
