"""Trained runs in ``benchmarks/results/runs``, from which the tables of learners are made."""

import runpy
import shutil
from pathlib import Path

import pytest

import coopbench
from coopbench.protocol.loading import load_protocol
from coopbench.results.manifest import read_manifest, results_digest, write_manifest
from coopbench.results.protocol_file import read_protocol

BENCHMARKS = Path(__file__).resolve().parent.parent / "benchmarks"
FOLDERS = sorted((BENCHMARKS / "results" / "runs").iterdir())


@pytest.fixture(scope="module")
def references():
    """The reference results that ``benchmarks/reference.py`` makes."""
    return runpy.run_path(str(BENCHMARKS / "reference.py"))["REFERENCES"]


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_kept_runs_belong_to_the_protocol_as_it_is(folder, references):
    protocol = read_protocol(folder)
    assert protocol.digest == load_protocol(references[folder.name].source).digest
    assert read_manifest(folder, protocol.digest).results == results_digest(folder, protocol)


@pytest.mark.slow("it plays whole protocols again")
@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_a_kept_run_plays_its_episodes_again(folder, tmp_path):
    run = next(folder.glob("*/*/run-*"))
    shutil.copytree(run, tmp_path / run.relative_to(folder))
    shutil.copy(folder / "protocol.json", tmp_path)
    write_manifest(tmp_path, read_protocol(folder))
    verdict = coopbench.verify(tmp_path)
    assert verdict.identical, str(verdict)
