"""Results of earlier revisions: they verify as identical, and point estimates remain.

Their intervals, aggregates, tests and ranks are those of that revision: intervals over runs alone,
interquartile means pooled over episodes or runs. What is compared is what has kept its meaning:
every episode, every mean on a task, counts, final medians, and means and medians over tasks.
"""

import csv
import gzip
import io
import json
import re
import zipfile

import pytest

import coopbench
from coopbench.provenance import versions
from coopbench.report.serialise import columns_as_csv, tables_as_csv
from coopbench.results.manifest import results_digest
from coopbench.results.protocol_file import read_protocol

SAME = ("episodes", "final_medians")  # tables of which every number remains
# Columns by which a row is known, columns that remain, and rows of which they do.
MEANS = {
    "estimates": (("task", "policy", "metric"), ("count", "mean", "std", "unit")),
    "agents": (("task", "policy", "agent", "metric"), ("count", "mean", "std", "unit")),
    "models": (("task", "policy", "metric"), ("count", "mean", "std", "low", "high", "unit")),
    "comparisons": (("task", "first", "second"), ("difference", "hedges_g")),
    "improvements": (("group", "first", "second"), ("estimate", "tasks", "count", "unit")),
    "profiles": (("group", "policy", "threshold"), ("estimate", "unit")),
    "aggregates": (("group", "policy", "statistic"), ("estimate", "tasks", "count", "unit")),
}
OVER_TASKS = ("mean", "median")  # statistics of aggregates that were over task means already


def _unpacked(file, folder):
    """Unpack a recorded results folder."""
    with zipfile.ZipFile(file) as packed:
        packed.extractall(folder)


@pytest.fixture(scope="module")
def recorded(golden, tmp_path_factory):
    """The recorded results folder, with its compressed files unpacked."""
    folder = tmp_path_factory.mktemp("recorded") / "results"
    _unpacked(golden / "results-0.1.0.zip", folder)
    for file in folder.glob("*.gz"):
        file.with_suffix("").write_bytes(gzip.decompress(file.read_bytes()))
        file.unlink()
    return folder


@pytest.fixture(scope="module")
def report(recorded):
    first = read_protocol(recorded).report.baselines  # the order of that revision
    return coopbench.load_report(recorded, first)


def test_recorded_results_verify_as_identical(golden, tmp_path):
    folder = tmp_path / "results"
    _unpacked(golden / "results-0.1.0-packed.zip", folder)
    result = coopbench.verify(folder)
    reasons = [check for check in result.checks if check.verdict not in ("identical", "failed run")]
    assert result.holds, reasons
    if _same_versions(folder):
        assert result.identical, reasons
    assert len(result.cells) == 20
    assert {check.how for check in result.cells} == {"all episodes played again"}


def test_digests_and_protocol_are_the_recorded_ones(recorded):
    manifest = json.loads((recorded / "manifest.json").read_text())
    protocol = read_protocol(recorded)
    assert protocol.digest == manifest["protocol"]
    assert coopbench.load_protocol(recorded / "recorded.toml").digest == manifest["protocol"]
    assert results_digest(recorded, protocol) == manifest["results"]


def test_every_episode_and_every_point_estimate_is_the_recorded_one(recorded, report):
    tables = tables_as_csv(report) | {"episodes": columns_as_csv(report.episodes.columns())}
    files = {file.stem: file.read_text(encoding="utf-8") for file in recorded.glob("*.csv")}
    assert files.keys() <= tables.keys()
    for name in SAME:
        if _same_versions(recorded):
            assert tables[name] == files[name], name
        else:
            assert _numbers(tables[name]) == pytest.approx(_numbers(files[name]), 1e-6, 1e-9), name
    for name, (keys, columns) in MEANS.items():
        old, new = (_columns(content[name], keys, columns) for content in (files, tables))
        if name == "aggregates":
            old, new = ({k: v for k, v in t.items() if k[2] in OVER_TASKS} for t in (old, new))
        assert len(old) > 0 or name == "models"
        assert list(old) == list(new), name
        for key, values in old.items():
            for one, two in zip(values, new[key], strict=True):
                assert one == two or one == pytest.approx(two, 1e-6, 1e-9), (name, key)


def _columns(content, keys, columns):
    """Some columns of a CSV file by the values of others; numbers as numbers."""
    rows = {}
    for row in csv.DictReader(io.StringIO(content)):
        values = [row[column] for column in columns]
        rows[tuple(row[key] for key in keys)] = [
            float(value) if re.fullmatch(r"-?[0-9.]+(e[-+]?[0-9]+)?", value) else value
            for value in values
        ]
    return rows


def _same_versions(folder):
    """Whether numbers are computed by the same libraries as in the recorded results."""
    stored = json.loads(next(folder.rglob("meta.json")).read_text(encoding="utf-8"))["versions"]
    here = versions()
    return all(here[name] == stored[name] for name in ("numpy", "numba", "scipy"))


def _numbers(content):
    """All numbers of a CSV file, by line and column."""
    numbers = {}
    for line, row in enumerate(csv.DictReader(io.StringIO(content))):
        for column, value in row.items():
            try:
                numbers[line, column] = float(value)
            except ValueError:
                continue
    return numbers
