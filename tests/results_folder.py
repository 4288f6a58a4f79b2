"""One small results folder for the tests of what reads results, and the edits of a forger."""

import hashlib
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, TypeAlias

import builders
import numpy as np
import pytest

import coopbench
from coopbench.errors import ProtocolError
from coopbench.files import gunzipped, gzipped, write_text
from coopbench.playing.contestants import Checkpoints, Failed, Models
from coopbench.report.serialise import as_json
from coopbench.results.manifest import write_manifest
from coopbench.results.protocol_file import read_protocol
from coopbench.workflows.verification import verify

Change: TypeAlias = Callable[[dict[str, Any]], object]  # of a line of the results of a cell
Edit: TypeAlias = Callable[[Path], None]  # of a results folder
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
    try:
        digest = read_protocol(root).digest
    except ProtocolError:
        digest = hashlib.sha256((root / "protocol.json").read_bytes()).hexdigest()
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


def edit_row(cell: str, number: int, change: Change) -> Edit:
    """Return an edit of one line of the results of a cell."""

    def edit(root: Path) -> None:
        file = root / cell / "results.jsonl.gz"
        rows = [json.loads(line) for line in gunzipped(file.read_bytes()).splitlines()]
        change(rows[number])
        file.write_bytes(gzipped("".join(json.dumps(row) + "\n" for row in rows).encode()))

    return edit


def add(place: str, key: Any, amount: float) -> Change:
    """Return a change of one number of a line."""

    def change(row: dict[str, Any]) -> None:
        row[place][key] += amount

    return change


def remove_actions(cell: str) -> Edit:
    """Return an edit that removes the actions of a policy that the verifier does not have."""

    def edit(root: Path) -> None:
        meta = meta_of(root, cell)
        del meta["sha256"]["actions.npz"]
        meta_of(root, cell, sha256=meta["sha256"])
        (root / cell / "actions.npz").unlink()

    return edit


def failing(root: Path) -> list[str]:
    """Return the names of what does not hold."""
    return [check.what for check in verify(root).checks if not check.holds]
