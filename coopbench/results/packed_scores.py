"""Packed scores: what the shipped runs of a learner have scored, so that nobody has to play them.

The file lies next to the packed runs in ``baselines/trained``. It is an npz of numbers:

header          JSON as bytes: schema, digest of the protocol, and the metadata of every cell, as
                its results folder would hold them
TASK/score      (runs, episodes) float32, the score of the protocol
TASK/lengths    (runs, episodes) int32, steps played
TASK/terminated (runs, episodes) bool
TASK/stratum    (runs, episodes) float32, where the environment has one; see ``EnvSpec.stratum``
TASK/steps      (checkpoints,) int64, of the trainings on the task
TASK/progress   (runs, checkpoints, episodes) float32, the score of their selection episodes

Runs are in the order of their cells. Scores are rounded to single precision; of other metrics there
is nothing. A results folder does not copy scores: ``shipped.json`` names the learners, and the
SHA-256 of their files. Who has other files can neither report on the folder nor verify it.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import coopbench_envs
from coopbench.baselines.match import OWN
from coopbench.baselines.registry import parse_name
from coopbench.episodes.grouping import grouped
from coopbench.episodes.metrics import values
from coopbench.episodes.table import Cell, Episodes, Failure, Progress
from coopbench.errors import DamagedResultError, OtherProtocolError
from coopbench.files import UNREADABLE, digest_of, parsed, read_bounded, write_bytes, write_text
from coopbench.playing.plan import game_of
from coopbench.protocol.schema import Protocol
from coopbench.protocol.task import Task
from coopbench.protocol.variants import whole_of
from coopbench.results.folder import LEFT_OUT, of_one_code, stored_cells
from coopbench.results.manifest import SHIPPED
from coopbench.results.packed_runs import SUFFIX as RUNS
from coopbench.results.packed_runs import digest_of_shipped, shipped_file, stored_trainings
from coopbench.results.store import Stored
from coopbench_envs.arrays import pack, unpack

SUFFIX = ".scores.npz"  # ends the name of a file of packed scores
_SCHEMA = 1
_LENGTH = "length"  # the metric that is known, besides the score
_ARRAYS = ("score", "lengths", "terminated", "stratum", "steps", "progress")
_DROPPED = ("arrays", "sha256", "recorded")  # metadata of files that are not packed


def shipped_scores(protocol: str, learner: str) -> Path:
    """Return where the scores of a learner's runs lie that ship with this package."""
    return shipped_file(protocol, learner).with_name(f"{learner}{SUFFIX}")


# --- the file -------------------------------------------------------------------------------------


def pack_scores(protocol: Protocol, cells: Iterable[tuple[Cell, Stored]], runs: Path) -> Path:
    """Write the scores of packed ``runs`` to a file next to theirs, and return it.

    ``cells`` hold what these runs have played. Raises ``ValueError`` unless each of them has played
    all tasks of the protocol, or failed.
    """
    arrays, metas = dict[str, np.ndarray](), list[dict[str, Any]]()
    by_task: dict[str, list[tuple[Cell, Stored]]] = {task.id: [] for task in protocol.task}
    for cell, stored in sorted(cells, key=lambda pair: pair[0].run or 0):
        by_task[cell.task].append((cell, stored))
    seeds = {task: [cell.run for cell, _ in own] for task, own in by_task.items()}
    if any(own != seeds[protocol.task[0].id] for own in seeds.values()):
        raise ValueError(f"Some runs of {runs.name} have not played all tasks: {seeds}.")
    packed = {"packed": digest_of(runs.read_bytes())}
    for task in protocol.task:
        results = [stored for _, stored in by_task[task.id]]
        metas += [_meta(stored.meta, packed) for stored in results]
        blocks = [stored.episodes for stored in results if stored.episodes is not None]
        courses = [stored.progress for stored in results if stored.progress is not None]
        if blocks:
            arrays |= arrays_of(protocol, task, blocks)
        if courses:
            progress = [course.metrics[protocol.report.score] for course in courses]
            arrays[f"{task.id}/steps"] = courses[0].steps
            arrays[f"{task.id}/progress"] = np.array(progress, np.float32)
    header = {"schema": _SCHEMA, "digest": protocol.digest, "cells": metas}
    arrays["header"] = np.frombuffer(json.dumps(header).encode(), np.uint8)
    file = runs.with_name(runs.name.removesuffix(RUNS) + SUFFIX)
    write_bytes(file, pack(arrays))
    return file


def _meta(meta: Mapping[str, Any], packed: Mapping[str, str]) -> dict[str, Any]:
    """Return the metadata of a cell as those of a run from a file with this digest."""
    kept = {name: value for name, value in meta.items() if name not in _DROPPED}
    return kept if meta["status"] == "failed" else kept | {"training": meta["training"] | packed}


def arrays_of(protocol: Protocol, task: Task, blocks: Sequence[Episodes]) -> dict[str, np.ndarray]:
    """Return the arrays of the episodes of all runs on a task."""
    stratum = coopbench_envs.spec(task.env).stratum
    score = protocol.report.score
    arrays = {
        "score": np.array([values(block, score) for block in blocks], np.float32),
        "lengths": np.array([block.lengths for block in blocks], np.int32),
        "terminated": np.array([block.terminated for block in blocks]),
    }
    if stratum:
        arrays["stratum"] = np.array([block.metrics[stratum] for block in blocks], np.float32)
    return {f"{task.id}/{name}": numbers for name, numbers in arrays.items()}


def read_scores(protocol: Protocol, learner: str) -> list[tuple[Cell, Stored]]:
    """Return the cells of the shipped runs of a learner on the tasks of a protocol, with scores.

    ``protocol`` is the one of this package, or a choice of its tasks. All metrics but the score and
    the length are undefined, and nothing is traced. The list is empty if no scores ship.

    Raises ``OtherProtocolError`` if this package's scores are of another protocol.
    """
    file = shipped_scores(protocol.protocol.name, learner)
    if not file.is_file():
        return []
    arrays = unpack(file.read_bytes())
    header = parsed(arrays.pop("header").tobytes())
    if header["digest"] not in (protocol.digest, whole_of(protocol).digest):
        raise OtherProtocolError(
            f"they have played another protocol (digest {header['digest'][:12]}; {protocol.name} "
            f"has {protocol.digest[:12]})"
        )
    by_task = grouped((meta["task"], meta) for meta in header["cells"])
    return [
        pair for task in protocol.task for pair in _cells(protocol, task, by_task[task.id], arrays)
    ]


def _cells(
    protocol: Protocol,
    task: Task,
    metas: Sequence[Mapping[str, Any]],
    arrays: Mapping[str, np.ndarray],
) -> Iterator[tuple[Cell, Stored]]:
    """Yield the cells of all runs on a task, in the order of the file."""
    own = {name: arrays[f"{task.id}/{name}"] for name in _ARRAYS if f"{task.id}/{name}" in arrays}
    score, agents, k = protocol.report.score, game_of(task).agents, 0
    seeds = protocol.seeds_of(task)
    seats = task.seating(len(seeds), agents) == OWN
    undefined = np.broadcast_to(np.nan, len(seeds))
    others = {name: undefined for name in protocol.report.metrics_of(task) if name != _LENGTH}
    stratum = coopbench_envs.spec(task.env).stratum
    for meta in metas:
        cell = Cell(task.id, meta["policy"], meta["run"])
        if meta["status"] == "failed":
            yield cell, Stored(dict(meta), None, None, Failure(cell, str(meta["reason"])))
            continue
        known = {score: own["score"][k].astype(np.float64)}
        if stratum:
            known[stratum] = own["stratum"][k].astype(np.float64)
        block = Episodes(
            cell=cell,
            agents=agents,
            seeds=seeds,
            lengths=own["lengths"][k].astype(np.int64),
            terminated=own["terminated"][k],
            seats=seats,
            returns=np.broadcast_to(np.nan, seats.shape),
            metrics=others | known,
            curves={},
            common_reward=task.spec.common_reward,
            outside=meta.get("outside", 0),
            drawn=meta.get("drawn", True),
            scores_alone=True,
        )
        progress = None
        if meta["chosen_step"] is not None:
            course = own["progress"][k].astype(np.float64)
            progress = Progress(cell, own["steps"], {"return": course, score: course})
        yield cell, Stored(dict(meta), block, progress, None)
        k += 1


def with_scores(
    protocol: Protocol, learners: Sequence[str], out: str | Path | None
) -> tuple[dict[str, list[tuple[Cell, Stored]]], tuple[str, ...]]:
    """Return the shipped scores of those learners that have some, with notes on them.

    A learner of which a results folder ``out`` holds cells plays the rest of them instead.
    """
    scored, notes = dict[str, list[tuple[Cell, Stored]]](), list[str]()
    for learner in learners:
        if any(True for _ in stored_trainings(out, learner)):
            continue
        try:
            cells = read_scores(protocol, learner)
        except OtherProtocolError as error:
            notes.append(f"The shipped scores of {learner} are left out: {error}.")
            continue
        if cells:
            scored[learner] = cells
            notes.append(_not_played(learner, cells))
    return scored, tuple(notes)


def _not_played(learner: str, cells: Sequence[tuple[Cell, Stored]]) -> str:
    """Say which scores of a learner ship, and what they lack."""
    seeds = ", ".join(map(str, sorted({cell.run for cell, _ in cells if cell.run is not None})))
    return (
        f"Scores of {learner} ship with coopbench and were not played here: runs {seeds}. "
        f"Its other metrics are missing; --play-shipped plays them."
    )


# --- the name in a results folder -----------------------------------------------------------------


def write_reference(root: Path, protocol: Protocol, learners: Iterable[str]) -> None:
    """Write which learners' shipped scores belong to a results folder; none: remove the file."""
    sums = {
        name: digest_of_shipped(shipped_scores(protocol.protocol.name, name)) for name in learners
    }
    if sums:
        content = {"schema": _SCHEMA, "scores": dict(sorted(sums.items()))}
        write_text(root / SHIPPED, json.dumps(content, indent=1) + "\n")
    else:
        (root / SHIPPED).unlink(missing_ok=True)


def referenced(root: Path, protocol: Protocol) -> list[str]:
    """Return the learners whose shipped scores belong to a results folder.

    Raises ``DamagedResultError`` if that cannot be read, or if these are not the scores of this
    package.
    """
    if not (root / SHIPPED).exists():
        return []
    content = read_bounded(root / SHIPPED)
    try:
        stored = parsed(content)
        if stored["schema"] != _SCHEMA:
            raise ValueError(f"its schema is {stored['schema']!r} instead of {_SCHEMA}")
        sums = dict(stored["scores"])
    except UNREADABLE as error:
        raise DamagedResultError(f"{root / SHIPPED} cannot be read ({error}).") from None
    for learner, stated in sums.items():
        if learner not in protocol.report.learned or stated != digest_of_shipped(
            shipped_scores(protocol.protocol.name, learner)
        ):
            raise DamagedResultError(
                f"{root / SHIPPED} names scores that this version of coopbench does not have. "
                f"Evaluate into a new folder, or read this one with the version that wrote it."
            )
    return list(sums)


def reported_cells(root: Path, protocol: Protocol, notes: list[str]) -> list[tuple[Cell, Stored]]:
    """Return the cells of a results folder that a report has, and its shipped scores.

    Notes name those that are left out; see ``stored_cells`` and ``of_one_code``.
    """
    cells = of_one_code(list(stored_cells(root, protocol, notes)), notes)
    return [*cells, *noted_scores(cells, root, protocol, notes)]


def noted_scores(
    cells: Iterable[tuple[Cell, Stored]], root: Path, protocol: Protocol, notes: list[str]
) -> list[tuple[Cell, Stored]]:
    """Return ``scores_beside`` in one list; say in ``notes`` whose they are, or why none is."""
    try:
        scored = scores_beside(cells, root, protocol)
    except (DamagedResultError, OtherProtocolError) as error:
        notes.append(f"{LEFT_OUT}{error}")
        return []
    notes += [_not_played(learner, pairs) for learner, pairs in scored.items()]
    return [pair for pairs in scored.values() for pair in pairs]


def scores_beside(
    cells: Iterable[tuple[Cell, Stored]], root: Path, protocol: Protocol
) -> dict[str, list[tuple[Cell, Stored]]]:
    """Return the shipped scores that belong to a folder, by learner, but of those with own cells.

    Raises ``DamagedResultError`` as ``referenced`` does, and ``OtherProtocolError`` as
    ``read_scores`` does.
    """
    own = {parse_name(cell.policy).kind for cell, _ in cells}
    learners = [learner for learner in referenced(root, protocol) if learner not in own]
    return {learner: read_scores(protocol, learner) for learner in learners}
