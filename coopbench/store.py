"""Store: one folder per cell, data only; a cell is finished when its meta.json says so and fits.

meta.json       schema, protocol digest, versions, platform, checksums; written last
results.jsonl   one line per episode
curves.npz      mean course of every metric over an episode
trace.npz       checksum of every step; actions and rewards of the recorded episodes
progress.npz    training runs with checkpoints: their steps, and every metric of their episodes
"""

import hashlib
import json
import os
import platform
from collections.abc import Mapping
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from coopbench.arrays import LIMIT, pack, unpack
from coopbench.episodes import Cell, Episodes, Failure, Played, Progress, Trace
from coopbench.protocol import Protocol

__all__ = [
    "DamagedResultError",
    "OtherProtocolError",
    "Stored",
    "cell_of",
    "describe",
    "read",
    "write",
    "write_bytes",
    "write_failure",
    "write_text",
]

SCHEMA = 3


class DamagedResultError(Exception):
    """A result that cannot be used; the message names the file and what is wrong with it."""


class OtherProtocolError(ValueError):
    """A results folder that belongs to another protocol."""


class Stored(NamedTuple):
    """What a results folder holds of a cell: episodes, or the failure of a training run."""

    meta: dict[str, Any]
    episodes: Episodes | None
    progress: Progress | None
    failure: Failure | None


def describe(protocol: Protocol, played: Played, plays: str | None) -> dict[str, Any]:
    """Return the metadata of a cell that has just been played.

    ``plays`` is the name of the policy that played, None for an object.
    """
    episodes, progress = played.episodes, played.progress
    return _meta(protocol, episodes.cell, "finished") | {
        "agents": list(episodes.agents),
        "episodes": len(episodes),
        "recorded": [] if episodes.trace is None else list(episodes.trace.recorded),
        "plays": plays,
        "chosen_step": None if progress is None else int(progress.steps[progress.best]),
        "seconds": played.seconds,
    }


def write(root: Path, played: Played, meta: dict[str, Any]) -> None:
    """Write a finished cell with its metadata below ``root``.

    At any moment a crash leaves the old cell, the new one or an unfinished one.
    """
    cell, progress, trace = played.episodes.cell, played.progress, played.episodes.trace
    if trace is None:
        raise ValueError(f"{cell} was not played here: it has no trace to be verified by.")
    files = {
        "results.jsonl": _lines(played.episodes, trace),
        "curves.npz": pack(played.episodes.curves),
        "trace.npz": pack(_traced(trace)),
    }
    if progress is not None:
        files["progress.npz"] = pack({"steps": progress.steps, **progress.metrics})
    _write(root, cell, meta, files)


def write_failure(root: Path, protocol: Protocol, failure: Failure) -> None:
    """Write down below ``root`` that a training run failed."""
    cell = failure.cell
    _write(root, cell, _meta(protocol, cell, "failed") | {"reason": failure.reason}, {})


def read(root: Path, protocol: Protocol, cell: Cell) -> Stored | None:
    """Return what is there of a cell, or None if it has not been finished.

    Raises:
        DamagedResultError: the files do not fit together; the cell must be played again.
        OtherProtocolError: the folder holds results of another protocol, or of another cell.
    """
    folder = root / cell.folder
    if not (folder / "meta.json").is_file():
        return None
    meta = _read_meta(folder / "meta.json")
    if meta.get("digest") != protocol.digest:
        raise OtherProtocolError(
            f"{folder} holds results of protocol {meta.get('protocol')!r} with digest "
            f"{str(meta.get('digest'))[:12]}; this is {protocol.name!r} with digest "
            f"{protocol.digest[:12]}. Choose another folder."
        )
    if (meta.get("task"), meta.get("policy"), meta.get("run")) != (
        cell.task,
        cell.policy,
        cell.run,
    ):
        raise DamagedResultError(f"{folder / 'meta.json'} describes another cell than its folder.")
    try:
        if meta["status"] == "failed":
            return Stored(meta, None, None, Failure(cell, str(meta["reason"])))
        contents = {name: _checked(folder / name, meta) for name in _files(meta)}
        return Stored(meta, _parsed(cell, meta, contents), _progress(cell, contents), None)
    except (KeyError, TypeError, ValueError, OSError) as error:
        raise DamagedResultError(f"{folder}: cannot be read ({error}).") from None


def cell_of(path: Path) -> Cell:
    """Return the cell that a ``meta.json`` describes, or raise ``DamagedResultError``."""
    meta = _read_meta(path)
    run = meta.get("run")
    if not isinstance(meta.get("task"), str) or not isinstance(meta.get("policy"), str):
        raise DamagedResultError(f"{path} does not name its task and policy.")
    return Cell(meta["task"], meta["policy"], run if isinstance(run, int) else None)


def versions() -> dict[str, str]:
    """Versions of what a result depends on."""
    names = ("coopbench", "numpy", "numba", "gymnasium", "pettingzoo", "scipy")
    return {"python": platform.python_version()} | {name: version(name) for name in names}


def write_text(path: Path, text: str) -> None:
    """Write a text file in UTF-8, like ``write_bytes``."""
    write_bytes(path, text.encode())


def write_bytes(path: Path, content: bytes) -> None:
    """Write a file by way of a temporary name, so that it is never half there."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        temporary.write_bytes(content)
        os.replace(temporary, path)
    except BaseException as error:
        temporary.unlink(missing_ok=True)
        if isinstance(error, OSError):  # a full disk names no file
            error.filename = str(path)
        raise


def _meta(protocol: Protocol, cell: Cell, status: str) -> dict[str, Any]:
    return {
        "schema": SCHEMA,
        "status": status,
        "protocol": protocol.name,
        "digest": protocol.digest,
        "task": cell.task,
        "policy": cell.policy,
        "run": cell.run,
        "versions": versions(),
        "platform": platform.platform(),
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
    }


def _write(root: Path, cell: Cell, meta: dict[str, Any], files: Mapping[str, bytes]) -> None:
    """Write the files of a cell, its metadata last."""
    folder = root / cell.folder
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "meta.json").unlink(missing_ok=True)
    for name, content in files.items():
        write_bytes(folder / name, content)
    sums = {name: hashlib.sha256(content).hexdigest() for name, content in files.items()}
    text = json.dumps(meta | {"sha256": sums}, indent=2) + "\n"
    write_text(folder / "meta.json", text)


def _lines(episodes: Episodes, trace: Trace) -> bytes:
    rows = []
    for k in range(len(episodes)):
        row = {
            "episode": k,
            "seed": int(episodes.seeds[k]),
            "length": int(episodes.lengths[k]),
            "terminated": bool(episodes.terminated[k]),
            "seats": episodes.seats[k].tolist(),
            "trajectory": trace.episodes[k],
            "returns": episodes.returns[k].tolist(),
            "metrics": {name: float(values[k]) for name, values in episodes.metrics.items()},
            "agent_metrics": {
                n: values[k].tolist() for n, values in episodes.agent_metrics.items()
            },
        }
        rows.append(json.dumps(row) + "\n")
    return "".join(rows).encode()


def _traced(trace: Trace) -> dict[str, np.ndarray]:
    arrays = {"steps": trace.steps}
    for k, (actions, rewards) in trace.recorded.items():
        arrays |= {f"actions.{k}": actions, f"rewards.{k}": rewards}
    return arrays


def _read_meta(path: Path) -> dict[str, Any]:
    try:
        meta = json.loads(_bounded(path))
    except ValueError as error:
        raise DamagedResultError(f"{path} is not JSON: {error}") from None
    if not isinstance(meta, dict) or meta.get("schema") != SCHEMA:
        raise DamagedResultError(f"{path} does not have schema {SCHEMA}.")
    return meta


def _bounded(path: Path) -> bytes:
    try:
        if path.stat().st_size > LIMIT:
            raise DamagedResultError(f"{path} is larger than {LIMIT} bytes.")
        return path.read_bytes()
    except FileNotFoundError:
        raise DamagedResultError(f"{path} is missing.") from None


def _checked(path: Path, meta: dict[str, Any]) -> bytes:
    content = _bounded(path)
    expected = (meta.get("sha256") or {}).get(path.name)
    if hashlib.sha256(content).hexdigest() != expected:
        raise DamagedResultError(f"{path} was changed after it was written (its checksum differs).")
    return content


def _files(meta: dict[str, Any]) -> list[str]:
    """Names of the files of a finished cell."""
    always = ["results.jsonl", "curves.npz", "trace.npz"]
    return always if meta["chosen_step"] is None else [*always, "progress.npz"]


def _parsed(cell: Cell, meta: dict[str, Any], contents: dict[str, bytes]) -> Episodes:
    rows = [json.loads(line) for line in contents["results.jsonl"].splitlines()]
    if len(rows) != meta["episodes"]:
        raise ValueError(f"{len(rows)} episodes instead of {meta['episodes']}")
    trace = unpack(contents["trace.npz"])
    return Episodes(
        cell=cell,
        agents=tuple(meta["agents"]),
        seeds=np.array([row["seed"] for row in rows], np.uint64),
        lengths=np.array([row["length"] for row in rows], np.int64),
        terminated=np.array([row["terminated"] for row in rows], np.bool_),
        seats=np.array([row["seats"] for row in rows], np.bool_),
        returns=np.array([row["returns"] for row in rows], np.float64),
        metrics=_columns(rows, "metrics"),
        curves=unpack(contents["curves.npz"]),
        agent_metrics=_columns(rows, "agent_metrics"),
        trace=Trace(
            tuple(row["trajectory"] for row in rows),
            trace["steps"],
            {k: (trace[f"actions.{k}"], trace[f"rewards.{k}"]) for k in meta["recorded"]},
        ),
    )


def _progress(cell: Cell, contents: Mapping[str, bytes]) -> Progress | None:
    if "progress.npz" not in contents:
        return None
    arrays = unpack(contents["progress.npz"])
    found = Progress(cell, arrays.pop("steps"), arrays)
    shapes = {values.shape[:1] for values in arrays.values()}
    if "return" not in arrays or shapes != {found.steps.shape}:
        raise ValueError("the checkpoints of progress.npz do not fit its metrics")
    return found


def _columns(rows: list[dict[str, Any]], key: str) -> dict[str, np.ndarray]:
    """Arrays over episodes from the dictionaries that all rows have under ``key``."""
    return {name: np.array([row[key][name] for row in rows], np.float64) for name in rows[0][key]}
