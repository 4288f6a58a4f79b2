"""Reference runs: training runs of a protocol's required learners that ship with this package.

They lie in ``baselines/results/PROTOCOL/runs/POLICY``, for every run

run-1000.json   whose run it is, the metadata of its cells, and how their columns are stored
run-1000.npz    episodes as columns (see ``rounding``), courses of the curve metric, checkpoints
run-1000/TASK   the trained policy as ``policy.npz``; TASK is the task that it was trained on

Returns are rounded to 65,534 steps of their range in the cell, metrics to 4,094; metrics that the
protocol does not report, and trajectories but for their digest, are left out.
"""

import hashlib
import json
from collections.abc import Iterable, Sequence
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import coopbench_envs
from coopbench.baselines.match import OWN
from coopbench.baselines.networks.kinds import read_policy
from coopbench.baselines.networks.policy import TrainedPolicy
from coopbench.baselines.registry import POLICY_FILE, parse_name
from coopbench.episodes.table import Cell, Episodes, Failure, Progress
from coopbench.episodes.trajectories import episode_metrics
from coopbench.protocol.schema import Protocol
from coopbench.protocol.task import Task
from coopbench.results.rounding import Packed, unpack_columns
from coopbench.results.store import Stored
from coopbench_envs.arrays import unpack

__all__ = [
    "CURVE",
    "METRIC",
    "OF_AGENTS",
    "RUNS",
    "SCHEMA",
    "TRAJECTORIES",
    "Reference",
    "not_included",
    "reference_folder",
    "reference_policy",
    "reference_runs",
    "runs_digest",
]

SCHEMA = 1
RUNS = "runs"  # folder of the runs in the folder of a protocol
METRIC, OF_AGENTS = "metric ", "agents "  # begin the names of columns
TRAJECTORIES = "trajectories"  # key of the digest of all trajectories of a cell
CURVE = "curve"  # key of the metric whose courses a cell holds
_WRITTEN = 12  # hex digits of a digest in a message

Cells = list[tuple[Cell, Stored]]


class Reference(NamedTuple):
    """Shipped training runs of one policy that are part of a report."""

    policy: str
    runs: tuple[int, ...]
    digest: str  # SHA-256 of their files


def reference_folder() -> Path:
    """Return the folder that holds one folder of results per protocol."""
    return Path(str(resources.files("coopbench.baselines"))) / "results"


def runs_digest(folder: Path) -> str:
    """Return the SHA-256, in hex digits, of the names and contents of a policy's files."""
    digest = hashlib.sha256()
    for file in sorted(path for path in folder.rglob("*") if path.is_file()):
        content = hashlib.sha256(file.read_bytes()).hexdigest()
        digest.update(f"{file.relative_to(folder).as_posix()} {content}\n".encode())
    return digest.hexdigest()


_digest = cache(runs_digest)  # files of a package do not change


def reference_runs(
    protocol: Protocol, policies: Iterable[str]
) -> tuple[tuple[Reference, ...], Cells, list[str]]:
    """Return the shipped runs of required learners that are not among the ``policies``.

    The cells hold no policies and no traces. The third value says which runs are left out, and why.
    """
    played = {parse_name(policy).kind for policy in policies}
    references, cells, notes = [], Cells(), list[str]()
    for folder in _folders(protocol):
        runs = [json.loads(file.read_bytes()) for file in sorted(folder.glob("run-*.json"))]
        if not runs:
            continue
        name, digest = runs[0]["policy"], runs[0]["digest"]
        if parse_name(name).kind not in protocol.report.learned:
            continue
        if digest != protocol.digest:
            notes.append(
                f"The shipped reference runs of {name} are left out: they were trained under "
                f"{runs[0]['protocol']} with the digest {digest[:_WRITTEN]}; this protocol has "
                f"{protocol.digest[:_WRITTEN]}."
            )
        elif parse_name(name).kind in played:
            notes.append(
                f"The shipped reference runs of {name} are left out: these results have their own."
            )
        elif lacking := _lacking(protocol, runs):
            notes.append(
                f"The shipped reference runs of {name} are left out: of what this protocol reports "
                f"they lack {', '.join(lacking)}."
            )
        else:
            for run in runs:
                cells += _run_cells(protocol, folder, run)
            seeds = tuple(run["run"] for run in runs)
            references.append(Reference(name, seeds, _digest(folder)))
    return tuple(references), cells, notes


def _lacking(protocol: Protocol, runs: Sequence[dict[str, Any]]) -> list[str]:
    """Name the metrics that a protocol reports and shipped runs do not hold.

    They hold those that were reported when they were shipped, which the digest does not cover.
    """
    charts = {chart.metric for chart in protocol.report.chart}
    lacking: set[str] = set()
    for task in protocol.task:
        measured = {*task.spec.metrics, *episode_metrics(task.spec)}
        shown, curve = (
            charts.union(protocol.report.metrics_of(task)) & measured,
            protocol.report.curve_of(task),
        )
        for cell in (run["cells"][task.id] for run in runs):
            if "failed" not in cell:
                lacking |= {name for name in shown if METRIC + name not in cell["columns"]}
                lacking |= set() if cell[CURVE] == curve else {f"the course of {curve}"}
    return sorted(lacking - {"length"})


def not_included(protocol: Protocol, policies: Iterable[str]) -> list[str]:
    """Say which shipped runs a report of these ``policies`` has, where no shipped runs are used."""
    shipped, _, _ = reference_runs(protocol, policies)
    return [
        f"{reference.policy} is left out: its runs ship with the package, and only the results "
        f"of folders are used. Reports of the protocol include it."
        for reference in shipped
    ]


def _folders(protocol: Protocol) -> list[Path]:
    """Return the folders of the policies that have shipped runs under the name of a protocol."""
    return sorted((reference_folder() / protocol.protocol.name / RUNS).glob("*/"))


def reference_policy(protocol: Protocol, cell: Cell) -> TrainedPolicy:
    """Return the trained policy of a shipped run.

    Raises ``FileNotFoundError`` if the run is not shipped.
    """
    folder = reference_folder() / protocol.protocol.name / RUNS / _slug(cell)
    run = json.loads((folder / f"run-{cell.run}.json").read_bytes())
    task = run["cells"][cell.task]["trained_on"]
    return read_policy((folder / f"run-{cell.run}" / task / POLICY_FILE).read_bytes())


def _slug(cell: Cell) -> str:
    """Return the name of the folder of a cell's policy."""
    return cell.folder.split("/")[1]


def _run_cells(protocol: Protocol, folder: Path, run: dict[str, Any]) -> Cells:
    """Return the cells of a shipped run."""
    arrays: dict[str, dict[str, np.ndarray]] = {}
    for name, values in unpack(folder / f"run-{run['run']}.npz").items():
        place, _, part = name.partition("/")
        arrays.setdefault(place, {})[part] = values
    cells = Cells()
    for task in protocol.task:
        cell, entry = Cell(task.id, run["policy"], run["run"]), run["cells"][task.id]
        if "failed" in entry:
            stored = Stored({}, None, None, Failure(cell, entry["failed"]))
        else:
            meta = run["common"] | entry["meta"] | {TRAJECTORIES: entry[TRAJECTORIES]}
            stored = _stored(protocol, task, cell, meta, entry, arrays)
        cells.append((cell, stored))
    return cells


def _stored(
    protocol: Protocol,
    task: Task,
    cell: Cell,
    meta: dict[str, Any],
    entry: dict[str, Any],
    arrays: dict[str, dict[str, np.ndarray]],
) -> Stored:
    """Return a cell of a shipped run as it would be read from a results folder."""
    parts, agents = arrays[task.id], tuple(meta["agents"])
    seeds = protocol.seeds_of(task)
    seats = task.seating(len(seeds), agents) == OWN
    columns = _columns(Packed.of(parts), entry["columns"], seats)
    block = Episodes(
        cell=cell,
        agents=agents,
        seeds=seeds,
        lengths=columns["length"].astype(np.int64),
        terminated=columns["terminated"].astype(np.bool_),
        seats=seats,
        returns=columns["returns"].reshape(seats.shape),
        metrics={
            name.removeprefix(METRIC): values
            for name, values in columns.items()
            if name.startswith(METRIC)
        },
        curves={protocol.report.curve_of(task): parts["curve"].astype(np.float64)},
        agent_metrics={
            name.removeprefix(OF_AGENTS): _seated(values, seats)
            for name, values in columns.items()
            if name.startswith(OF_AGENTS)
        },
        common_reward=coopbench_envs.spec(task.env).common_reward,
    )
    return Stored(meta, block, _progress(cell, parts), None)


def _columns(packed: Packed, forms: dict[str, int], seats: np.ndarray) -> dict[str, np.ndarray]:
    """Return the columns of a cell by name; metrics of agents are those of the policy's seats."""
    episodes, every, taken = len(seats), seats.size, int(seats.sum())
    sizes = [
        every if name == "returns" else taken if name.startswith(OF_AGENTS) else episodes
        for name in forms
    ]
    return dict(zip(forms, unpack_columns(packed, forms.values(), sizes), strict=True))


def _seated(values: np.ndarray, seats: np.ndarray) -> np.ndarray:
    """Return a metric of agents, (episodes, agents); nan in the seats of partners."""
    every = np.full(seats.shape, np.nan)
    every[seats] = values
    return every


def _progress(cell: Cell, parts: dict[str, np.ndarray]) -> Progress | None:
    """Return the checkpoints of a run; None for a task that it was not trained on."""
    if "steps" not in parts:
        return None
    names = [name for name in parts if name.startswith(METRIC)]
    return Progress(
        cell, parts["steps"], {name.removeprefix(METRIC): parts[name] for name in names}
    )
