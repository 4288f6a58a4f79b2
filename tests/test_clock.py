"""A clock that jumps: results say so where they tell times, and nowhere else."""

import itertools
import json
import time
from datetime import UTC, datetime

import builders
import pytest
from test_training import trial, with_steady

import coopbench
from coopbench import provenance
from coopbench.baselines import registry

JUMPS = (0.0, 1e9, -2e9, 0.5, 0.0, -1e5, 3e9)  # seconds
OF_TIME = ("created", "seconds", "evaluation_seconds", "steps_per_second")


def mine(observations):
    return observations[..., :1] * 0.5


class Wild(datetime):
    """A calendar whose days follow the jumps."""

    @classmethod
    def now(cls, tz=None):
        return datetime.fromtimestamp(1.7e9 + time.time() % 1e9, tz or UTC)


@pytest.fixture
def jumps(monkeypatch):
    """Return a function that makes every clock jump forwards and backwards from then on."""

    def begin():
        for name in ("time", "monotonic", "perf_counter"):
            way = itertools.accumulate(itertools.cycle(JUMPS), initial=1e6)
            monkeypatch.setattr(time, name, lambda way=way: next(way))
        monkeypatch.setattr(provenance, "datetime", Wild)

    return begin


def timeless(value):
    """Return metadata without what tells times, nor digests of files that do."""
    if isinstance(value, dict):
        return {key: timeless(part) for key, part in value.items() if key not in OF_TIME}
    return value


def results(root):
    """Return all results below a folder: the content of files, metadata without times."""
    contents = {}
    for file in sorted(root.glob("*/**/*")):
        if file.name == "meta.json":
            contents[file.relative_to(root)] = timeless(json.loads(file.read_bytes()))
        elif file.suffix in (".gz", ".npz") and "training" not in file.parts:
            contents[file.relative_to(root)] = file.read_bytes()
    return contents


def seconds(root):
    """Return all durations that the metadata below a folder tell."""
    metas = [json.loads(file.read_bytes()) for file in root.glob("*/**/meta.json")]
    training = [meta["training"] for meta in metas if meta.get("training")]
    own = [meta["seconds"] for meta in metas]
    return own + [part[name] for part in training for name in OF_TIME[1:]]


def test_a_clock_that_jumps_changes_no_result(tmp_path, jumps):
    protocol = builders.small_protocol(tmp_path, first=100, count=4)
    honest, wild = tmp_path / "honest", tmp_path / "wild"
    first = coopbench.evaluate(protocol, ["random", mine], honest)
    jumps()
    second = coopbench.evaluate(protocol, ["random", mine], wild)
    assert results(wild) == results(honest)
    assert len(results(wild)) == 2 * 2 + 1  # actions of the function, too
    assert all(value >= 0.0 for value in seconds(wild))
    assert second.estimates == first.estimates
    second.save(wild)
    assert coopbench.verify(wild).identical
    kept = coopbench.evaluate(protocol, ["random"], wild)  # resumed
    assert results(wild) == results(honest)
    assert kept.deviations == first.deviations


def test_a_clock_that_jumps_changes_no_training(tmp_path, jumps, monkeypatch):
    monkeypatch.setattr(registry, "_learners", with_steady)
    protocol = coopbench.load_protocol(trial(tmp_path))
    honest, wild = tmp_path / "honest", tmp_path / "wild"
    coopbench.train(protocol, "steady", honest, tasks=["trust"])
    jumps()
    coopbench.train(protocol, "steady", wild, tasks=["trust"])
    assert results(wild) == results(honest)
    assert any(file.name == "policy.npz" for file in results(wild))
    assert all(value >= 0.0 for value in seconds(wild))
    assert coopbench.verify(wild).holds
