"""Shipping: put finished training runs of a results folder into the form of reference runs."""

import hashlib
import json
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from coopbench.baselines.registry import POLICY_FILE, parse_name
from coopbench.episodes.table import Cell, Episodes, Progress
from coopbench.files import write_bytes, write_text
from coopbench.protocol.schema import Protocol
from coopbench.protocol.task import Task
from coopbench.results import store
from coopbench.results.protocol_file import read_protocol
from coopbench.results.reference import CURVE, METRIC, OF_AGENTS, RUNS, SCHEMA, TRAJECTORIES
from coopbench.results.rounding import COARSE, FINE, pack_columns
from coopbench.results.store import Stored
from coopbench_envs.arrays import pack

__all__ = ["ship", "trajectories_digest"]

# Metadata that the other files of a run say, or that hold for files that are not shipped.
_LEFT_OUT = (
    "schema", "status", "protocol", "digest", "task", "policy", "run", "recorded", "sha256"
)  # fmt: skip


def ship(source: Path, target: Path, learner: str) -> dict[str, tuple[int, ...]]:
    """Write the finished runs of a learner as reference runs below ``target``.

    ``source`` is a results folder, ``target`` the folder of its protocol. A run is finished if it
    has played every task, or failed on it. Runs of these policies that ``target`` holds are
    replaced. Returns the runs by policy.

    Raises ``ValueError`` if there is no finished run, ``DamagedResultError`` for damaged cells.
    """
    protocol = read_protocol(source)
    runs: dict[tuple[str, int], dict[str, Stored]] = {}
    for file in source.glob(f"*/{learner}*/run-*/meta.json"):
        cell = store.cell_of(file)
        stored = store.read(source, protocol, cell)
        if stored is not None and cell.run is not None and parse_name(cell.policy).kind == learner:
            runs.setdefault((cell.policy, cell.run), {})[cell.task] = stored
    finished = {key: run for key, run in runs.items() if len(run) == len(protocol.task)}
    if not finished:
        raise ValueError(f"{source} holds no run of {learner} on all tasks.")
    written: dict[str, tuple[int, ...]] = {}
    for (policy, seed), run in sorted(finished.items()):
        folder = target / RUNS / Cell("", policy).folder.strip("/")
        if policy not in written and folder.exists():
            shutil.rmtree(folder)
        _write(folder, protocol, Cell("", policy, seed), run)
        written[policy] = (*written.get(policy, ()), seed)
    return written


def _write(folder: Path, protocol: Protocol, key: Cell, run: Mapping[str, Stored]) -> None:
    """Write the files of one run; ``key`` names its policy and its seed."""
    arrays: dict[str, np.ndarray] = {}
    cells: dict[str, dict[str, Any]] = {}
    for task in protocol.task:
        stored = run[task.id]
        if stored.episodes is None or stored.policy is None:
            reason = stored.failure.reason if stored.failure is not None else "no policy is stored"
            cells[task.id] = {"failed": reason}
            continue
        home = task.trained_on or task.id
        file = folder / f"run-{key.run}" / home / POLICY_FILE
        file.parent.mkdir(parents=True, exist_ok=True)
        if file.exists() and file.read_bytes() != stored.policy.pack():
            raise ValueError(f"{task.id} was not played by the policy that was trained on {home}.")
        write_bytes(file, stored.policy.pack())
        parts, forms = _cell(protocol, task, stored.episodes)
        if stored.progress is not None:
            parts |= _checkpoints(protocol, stored.progress)
        arrays |= {f"{task.id}/{name}": values for name, values in parts.items()}
        cells[task.id] = {
            "meta": {k: v for k, v in stored.meta.items() if k not in _LEFT_OUT},
            "trained_on": home,
            "columns": forms,
            CURVE: protocol.report.curve_of(task),
            TRAJECTORIES: trajectories_digest(stored.episodes),
        }
    content = {
        "schema": SCHEMA,
        "protocol": protocol.name,
        "digest": protocol.digest,
        "policy": key.policy,
        "run": key.run,
        "common": _common(cells),
        "cells": cells,
    }
    folder.mkdir(parents=True, exist_ok=True)
    write_bytes(folder / f"run-{key.run}.npz", pack(arrays))
    write_text(folder / f"run-{key.run}.json", json.dumps(content, indent=1) + "\n")


def _cell(
    protocol: Protocol, task: Task, block: Episodes
) -> tuple[dict[str, np.ndarray], dict[str, int]]:
    """Return the arrays of a cell, and the form of every column."""
    columns = dict(_columns(protocol, task, block))
    packed, forms = pack_columns(columns.values())
    curve = block.curves[protocol.report.curve_of(task)].astype(np.float32)
    return packed._asdict() | {"curve": curve}, dict(zip(columns, forms, strict=True))


def _columns(
    protocol: Protocol, task: Task, block: Episodes
) -> Iterator[tuple[str, tuple[np.ndarray, int]]]:
    """Yield what a report needs of the episodes of a cell: {name: (values, steps)}."""
    yield "length", (block.lengths, FINE)
    yield "terminated", (block.terminated, FINE)
    yield "returns", (block.returns, FINE)
    reported = {
        *protocol.report.metrics_of(task),
        *(chart.metric for chart in protocol.report.chart),
    }
    for name in block.metrics:
        if name in reported - {"length"}:
            yield METRIC + name, (block.metrics[name], COARSE)
    for name, values in block.agent_metrics.items():
        yield OF_AGENTS + name, (values[block.seats], COARSE)


def _checkpoints(protocol: Protocol, progress: Progress) -> dict[str, np.ndarray]:
    """Return the checkpoints of a run, with the metrics by which they are compared."""
    beside = () if protocol.score_beside is None else (protocol.score_beside,)
    names = dict.fromkeys(("return", protocol.report.score, *beside))
    return {"steps": progress.steps} | {METRIC + name: progress.metrics[name] for name in names}


def trajectories_digest(block: Episodes) -> str:
    """Return the SHA-256, in hex digits, of the trajectories of all episodes of a cell."""
    if block.trace is None:
        raise ValueError(f"{block.cell} has no trajectories.")
    return hashlib.sha256("\n".join(block.trace.episodes).encode()).hexdigest()


def _common(cells: Mapping[str, dict[str, Any]]) -> dict[str, Any]:
    """Take the metadata that all cells share out of theirs and return them."""
    metas = [cell["meta"] for cell in cells.values() if "meta" in cell]
    first = metas[0] if metas else {}
    shared = {k: v for k, v in first.items() if all(k in m and m[k] == v for m in metas)}
    for meta in metas:
        for name in shared:
            del meta[name]
    return shared
