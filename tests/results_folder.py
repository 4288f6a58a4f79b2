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
from coopbench.files import write_text
from coopbench.playing.contestants import Checkpoints, Failed, TrainedRuns
from coopbench.report.serialise import as_json
from coopbench.results.manifest import write_manifest
from coopbench.results.protocol_file import read_protocol
from coopbench.workflows.verification import verify
from coopbench_envs.arrays import pack, unpack

Change: TypeAlias = Callable[[dict[str, Any]], object]  # of what is stored of an episode
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
    report = coopbench.evaluate(file, ["random", TrainedRuns("learner", runs)], folder)
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


def edit_arrays(cell: str, change: Callable[[dict[str, np.ndarray]], object]) -> Edit:
    """Return an edit of the numbers of a cell; series are under ARRAY/NAME."""

    def edit(root: Path) -> None:
        file, names = root / cell / "episodes.npz", meta_of(root, cell)["arrays"]
        arrays = unpack(file)
        series = {f"{a}/{n}": (a, k) for a in names for k, n in enumerate(names[a])}
        views = arrays | {key: arrays[array][k] for key, (array, k) in series.items()}
        change(views)
        file.write_bytes(pack({n: v for n, v in views.items() if n not in series}))

    return edit


def edit_row(cell: str, number: int, change: Change) -> Edit:
    """Return an edit of what is stored of one episode of a cell."""

    def edited(views: dict[str, np.ndarray]) -> None:
        row: dict[str, Any] = {
            "seed": views["seeds"][number].item(),
            "length": views["lengths"][number].item(),
            "seats": views["seats"][number].tolist(),
            "trajectory": views["trajectories"][number].tobytes().hex(),
            "returns": views["returns"][number].tolist(),
            "metrics": {
                name.removeprefix("metrics/"): values[number].item()
                for name, values in views.items()
                if name.startswith("metrics/")
            },
        }
        change(row)
        views["seeds"][number], views["lengths"][number] = row["seed"], row["length"]
        views["seats"][number], views["returns"][number] = row["seats"], row["returns"]
        views["trajectories"][number] = list(bytes.fromhex(row["trajectory"]))
        for name, value in row["metrics"].items():
            views[f"metrics/{name}"][number] = value

    return edit_arrays(cell, edited)


def add(place: str, key: Any, amount: float) -> Change:
    """Return a change of one number of an episode."""

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
