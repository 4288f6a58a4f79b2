"""Results of an earlier revision: they verify as identical and give the same report."""

import csv
import gzip
import io
import json
import shutil

import pytest

import coopbench
from coopbench.provenance import versions
from coopbench.report.data import as_csv, as_json, tables_as_csv
from coopbench.results.folder import protocol_of
from coopbench.results.manifest import results_digest

# Of report.json: where and how it was made, and sentences, which may be worded in another way.
WORDS = ("versions", "notes", "checklist", "cards", "departures")


@pytest.fixture(scope="module")
def recorded(golden, tmp_path_factory):
    """The recorded results folder, with its compressed files unpacked."""
    folder = tmp_path_factory.mktemp("recorded") / "results"
    shutil.copytree(golden / "results-0.1.0", folder)
    for file in folder.glob("*.gz"):
        file.with_suffix("").write_bytes(gzip.decompress(file.read_bytes()))
        file.unlink()
    return folder


@pytest.fixture(scope="module")
def report(recorded):
    return coopbench.load_report(recorded)


def test_recorded_results_verify_as_identical(recorded):
    result = coopbench.verify(recorded)
    reasons = [check for check in result.checks if check.verdict not in ("identical", "failed run")]
    assert result.holds, reasons
    if _same_versions(recorded):
        assert result.identical, reasons
    assert len(result.cells) == 15
    assert {check.how for check in result.cells} == {"all episodes played again"}


def test_digests_and_protocol_are_the_recorded_ones(recorded):
    manifest = json.loads((recorded / "manifest.json").read_text())
    protocol = protocol_of(recorded)
    assert protocol.digest == manifest["protocol"]
    assert coopbench.load_protocol(recorded / "recorded.toml").digest == manifest["protocol"]
    assert results_digest(recorded, protocol) == manifest["results"]


def test_every_table_of_the_report_is_the_recorded_one(recorded, report):
    tables = tables_as_csv(report) | {"episodes": as_csv(report.episodes.rows())}
    files = {file.stem: file.read_text(encoding="utf-8") for file in recorded.glob("*.csv")}
    assert files.keys() == tables.keys()
    for name, content in files.items():
        if _same_versions(recorded):
            assert tables[name] == content, name
        else:
            assert _numbers(tables[name]) == pytest.approx(_numbers(content), 1e-6, 1e-9), name


def test_the_report_as_json_is_the_recorded_one(recorded, report):
    stored = json.loads((recorded / "report.json").read_text(encoding="utf-8"))
    again = json.loads(as_json(report))
    assert list(again) == list(stored)
    assert len(again["departures"]) == len(stored["departures"])
    if _same_versions(recorded):
        assert {k: v for k, v in again.items() if k not in WORDS} == {
            k: v for k, v in stored.items() if k not in WORDS
        }


def _same_versions(folder):
    """Whether numbers are computed by the same libraries as in the recorded results."""
    stored = json.loads((folder / "report.json").read_text(encoding="utf-8"))["versions"]
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
