"""One small results folder for the tests of what reads results, and the edits of a forger."""

import hashlib
import json
import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import builders
import numpy as np
import pytest

import coopbench
from coopbench.files import write_text
from coopbench.playing.models import Checkpoints, Failed, Models
from coopbench.report.data import as_json
from coopbench.results.manifest import write_manifest
from coopbench.workflows.verification import verify

FIXED, LEARNED, BESIDE = "dilemma/random", "dilemma/learner/run-50", "partners/learner/run-50"


class Learner:
    """Invests a share of what it has that grows with what it observes."""

    def __init__(self, share: float) -> None:
        self.share = share

    def act(self, observations: np.ndarray) -> np.ndarray:
        return self.share * (1.0 + observations[..., :1] % 1.0)


@pytest.fixture(scope="session")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Results of a fixed policy, a run with checkpoints and a failed one; read only."""
    place = tmp_path_factory.mktemp("source")
    beside = builders.make_task("partners", horizon=7, high=1000, partners=["tit_for_tat"])
    file = builders.protocol_file(
        place,
        tasks=[builders.make_task(high=1000), beside],
        selection=(100, 3),
        metrics=["return", "final_trust", "length"],
    )
    runs = {50: Checkpoints({10: Learner(0.1), 20: Learner(0.4)}), 51: Failed("out of memory")}
    folder = place / "results"
    report = coopbench.evaluate(file, ["random", Models("learner", runs)], folder)
    write_text(folder / "report.json", as_json(report))
    return folder


@pytest.fixture
def root(source: Path, tmp_path: Path) -> Path:
    """A copy of the results folder for one test."""
    return Path(shutil.copytree(source, tmp_path / "copy"))


def sign(root: Path) -> None:
    """Do what a forger does: make all digests fit the files that are there."""
    protocol = json.loads((root / "protocol.json").read_bytes())
    text = json.dumps(protocol, sort_keys=True, separators=(",", ":"))
    digest = hashlib.sha256(text.encode()).hexdigest()
    for file in root.glob("*/**/meta.json"):
        try:
            meta = json.loads(file.read_bytes())
            sums = {name: _sum(file.parent / name) or old for name, old in meta["sha256"].items()}
        except (ValueError, RecursionError, TypeError, KeyError, AttributeError):
            continue
        file.write_text(json.dumps(meta | {"sha256": sums, "digest": digest}, indent=2) + "\n")
    write_manifest(root, SimpleNamespace(digest=digest))  # type: ignore[arg-type]


def _sum(file: Path) -> str | None:
    """Return the digest of a file; None of what metadata name but nobody can read."""
    try:
        return hashlib.sha256(file.read_bytes()).hexdigest()
    except OSError:
        return None


def meta_of(root: Path, cell: str, **changes: Any) -> dict[str, Any]:
    """Change the metadata of a cell; return what they were."""
    return builders.edit_meta(root / cell, **changes)


def failing(root: Path) -> list[str]:
    """Return the names of what does not hold."""
    return [check.what for check in verify(root).checks if not check.holds]
