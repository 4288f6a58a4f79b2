"""Store: one folder per cell, data only; a cell is finished when its meta.json says so and fits.

meta.json       schema, protocol digest, versions, platform, checksums; written last
results.jsonl   one line per episode
curves.npz      mean course of every metric over an episode
"""

import hashlib
import io
import json
import os
import platform
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from coopbench.episodes import Cell, Episodes
from coopbench.protocol import Protocol

__all__ = [
    "DamagedResultError",
    "OtherProtocolError",
    "cell_of",
    "read",
    "write",
    "write_bytes",
    "write_text",
]

SCHEMA = 2
_LIMIT = 1 << 30  # bytes; a larger file is not one of ours


class DamagedResultError(Exception):
    """A result that cannot be used; the message names the file and what is wrong with it."""


class OtherProtocolError(ValueError):
    """A results folder that belongs to another protocol."""


def write(root: Path, protocol: Protocol, episodes: Episodes, extra: dict[str, Any]) -> None:
    """Write a finished cell below ``root``; at any moment a crash leaves old, new or unfinished."""
    folder = root / episodes.cell.folder
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "meta.json").unlink(missing_ok=True)
    files = {"results.jsonl": _lines(episodes), "curves.npz": _archive(episodes.curves)}
    for name, content in files.items():
        write_bytes(folder / name, content)
    cell = episodes.cell
    meta = {
        "schema": SCHEMA,
        "status": "finished",
        "protocol": protocol.name,
        "digest": protocol.digest,
        "task": cell.task,
        "policy": cell.policy,
        "run": cell.run,
        "agents": list(episodes.agents),
        "episodes": len(episodes),
        "sha256": {name: hashlib.sha256(content).hexdigest() for name, content in files.items()},
        "versions": versions(),
        "platform": platform.platform(),
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
    }
    write_bytes(folder / "meta.json", (json.dumps(meta | extra, indent=2) + "\n").encode())


def read(root: Path, protocol: Protocol, cell: Cell) -> tuple[Episodes, dict[str, Any]] | None:
    """Return a finished cell and its metadata, or None if it has not been finished.

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
    contents = {name: _checked(folder / name, meta) for name in ("results.jsonl", "curves.npz")}
    try:
        return _parsed(cell, meta, contents), meta
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


def _lines(episodes: Episodes) -> bytes:
    rows = []
    for k in range(len(episodes)):
        row = {
            "episode": k,
            "seed": int(episodes.seeds[k]),
            "length": int(episodes.lengths[k]),
            "terminated": bool(episodes.terminated[k]),
            "seats": episodes.seats[k].tolist(),
            "returns": episodes.returns[k].tolist(),
            "metrics": {name: float(values[k]) for name, values in episodes.metrics.items()},
            "agent_metrics": {
                n: values[k].tolist() for n, values in episodes.agent_metrics.items()
            },
        }
        rows.append(json.dumps(row) + "\n")
    return "".join(rows).encode()


def _archive(arrays: dict[str, np.ndarray]) -> bytes:
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)  # type: ignore[arg-type]
    return buffer.getvalue()


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
        if path.stat().st_size > _LIMIT:
            raise DamagedResultError(f"{path} is larger than {_LIMIT} bytes.")
        return path.read_bytes()
    except FileNotFoundError:
        raise DamagedResultError(f"{path} is missing.") from None


def _checked(path: Path, meta: dict[str, Any]) -> bytes:
    content = _bounded(path)
    expected = (meta.get("sha256") or {}).get(path.name)
    if hashlib.sha256(content).hexdigest() != expected:
        raise DamagedResultError(f"{path} was changed after it was written (its checksum differs).")
    return content


def _parsed(cell: Cell, meta: dict[str, Any], contents: dict[str, bytes]) -> Episodes:
    rows = [json.loads(line) for line in contents["results.jsonl"].splitlines()]
    if len(rows) != meta["episodes"]:
        raise ValueError(f"{len(rows)} episodes instead of {meta['episodes']}")
    with np.load(io.BytesIO(contents["curves.npz"]), allow_pickle=False) as archive:
        curves = {name: archive[name] for name in archive.files}
    return Episodes(
        cell=cell,
        agents=tuple(meta["agents"]),
        seeds=np.array([row["seed"] for row in rows], np.uint64),
        lengths=np.array([row["length"] for row in rows], np.int64),
        terminated=np.array([row["terminated"] for row in rows], np.bool_),
        seats=np.array([row["seats"] for row in rows], np.bool_),
        returns=np.array([row["returns"] for row in rows], np.float64),
        metrics=_columns(rows, "metrics"),
        curves=curves,
        agent_metrics=_columns(rows, "agent_metrics"),
    )


def _columns(rows: list[dict[str, Any]], key: str) -> dict[str, np.ndarray]:
    """Arrays over episodes from the dictionaries that all rows have under ``key``."""
    return {name: np.array([row[key][name] for row in rows], np.float64) for name in rows[0][key]}
