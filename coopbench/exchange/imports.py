"""Imports: results of other programs as a report, through the analysis of our own results.

A file is read into runs; these become a protocol, whose tasks cannot be played here, and a table of
episodes. Every run counts as having played episodes of its own.
"""

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from coopbench.episodes.metrics import COMMON
from coopbench.episodes.table import Cell, Episodes, EpisodeTable, Progress
from coopbench.exchange.marl_eval_import import read_marl_eval
from coopbench.exchange.runs import ABSOLUTE, Run
from coopbench.exchange.scores_csv import read_scores_csv
from coopbench.protocol.schema import Protocol
from coopbench.report.report import Report
from coopbench_envs.parameters import named, unknown

SCALES = ("minmax", "given")  # of scores, see ``import_results``
# Readers by the ending of the file: (path, kind of absolute metric) -> runs.
IMPORTERS: dict[str, Callable[[Path, str], Sequence[Run]]] = {
    ".json": read_marl_eval,
    ".csv": read_scores_csv,
}
_ORIGIN = "These results were made elsewhere: no episode was played again, and nothing is verified."
_MOVING = (
    "0 and 1 of normalised scores are the lowest and highest value of each task in this file: they "
    "move when an algorithm is added, so scores of two files cannot be compared."
)


def import_results(
    path: str | Path, metric: str = "return", absolute: str = "unknown", scale: str = "minmax"
) -> Report:
    """Read a file of another program, and analyse it like results of this package.

    ``metric`` is the score that is compared and aggregated. ``absolute`` says what the file's
    absolute metrics are, a key of ``ABSOLUTE``. With the ``scale`` "minmax" 0 and 1 are the lowest
    and highest value of each task, (x - lowest) / (highest - lowest + 1e-6) over all algorithms,
    runs and evaluations (Gorsane et al. 2022); with "given" the file's scores are normalised
    already. Environments are groups of tasks.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: for an unknown ending, option or metric, a file that its reader refuses, and a
            task on which nothing varies.
    """
    file = Path(path)
    named("scale", scale, dict.fromkeys(SCALES))
    named("kind of absolute metric", absolute, ABSOLUTE)
    reader = named("ending of a file to import", file.suffix.lower(), IMPORTERS)
    runs = reader(file, absolute)
    for environment in dict.fromkeys(run.environment for run in runs):
        members = [run for run in runs if run.environment == environment]
        names = dict.fromkeys(name for run in members for name in run.absolute)
        if metric not in names:
            where = f"the absolute metrics of {environment}"
            raise ValueError(unknown("metric", metric, names, where))
    if scale == "minmax":
        _check_ranges(runs, metric)
    notes = [_ORIGIN, f"Absolute metrics are {ABSOLUTE[absolute]} ({absolute})."]
    notes += [_MOVING] if scale == "minmax" else []
    return Report(*_converted(runs, metric, scale, file.name), tuple(notes))


def _check_ranges(runs: Iterable[Run], metric: str) -> None:
    """Raise ``ValueError`` for a task on which all values of a metric are equal."""
    values: dict[tuple[str, str], list[np.ndarray]] = {}
    for run in runs:
        parts = [part[metric].ravel() for part in (run.metrics, run.absolute) if metric in part]
        values.setdefault((run.environment, run.task), []).extend(parts)
    for (environment, task), parts in values.items():
        whole = np.concatenate([*parts, np.empty(0)])
        if whole.size and np.ptp(whole) == 0.0:
            raise ValueError(
                f"{environment} / {task}: every {metric} is {whole[0]}, so there is no range to "
                f"normalise by. Remove the task, or use the values as they are."
            )


def _converted(
    runs: Sequence[Run], metric: str, scale: str, source: str
) -> tuple[Protocol, EpisodeTable]:
    """Return the protocol that describes some runs, and the table of their episodes."""
    ids, numbers, fixed = _task_ids(runs), _run_numbers(runs), _fixed(runs)
    learned = sorted({number for (_, name, _), number in numbers.items() if name not in fixed})
    first = max(learned, default=-1) + 1  # seed of the evaluation; its values have none in the file
    blocks, progress, counts = [], [], dict[str, int]()
    for run in runs:
        task = ids[run.environment, run.task]
        number = numbers[run.environment, run.algorithm, run.name]
        cell = Cell(task, run.algorithm, None if run.algorithm in fixed else number)
        if run.absolute:
            blocks.append(_episodes(cell, run.absolute, first))
            counts[task] = max(counts.get(task, 1), len(blocks[-1]))
        if cell.run is not None and len(run.steps):
            values = _filled(run.metrics, len(run.steps))
            progress.append(Progress(cell, run.steps, values))
    seeds = {
        "training": learned,
        "evaluation": {"first": first, "count": max(counts.values())},
    }
    protocol = _protocol(runs, ids, counts, metric, scale, source, seeds)
    return protocol, EpisodeTable(tuple(blocks), tuple(progress), own_episodes=True)


def _protocol(
    runs: Sequence[Run],
    ids: Mapping[tuple[str, str], str],
    counts: Mapping[str, int],
    metric: str,
    scale: str,
    source: str,
    seeds: Mapping[str, Any],
) -> Protocol:
    """Return a protocol with the tasks of some runs; ``counts`` are the episodes of each task."""
    environments = dict.fromkeys(environment for environment, _ in ids)
    measured: dict[str, dict[str, None]] = {environment: {} for environment in environments}
    for run in runs:
        measured[run.environment] |= dict.fromkeys(map(_metric_name, run.absolute))
    first, *others = measured.values()
    shared = [name for name in first if all(name in names for names in others)]
    score = _metric_name(metric)
    tasks = [
        {
            "id": task_id,
            "group": _slug(environment) if len(environments) > 1 else "",
            "env": f"imported:{_slug(environment)}",
            "parameters": {"task": name},
            "info": [metric for metric in measured[environment] if metric != "return"],
            "metrics": [known for known in measured[environment] if known not in shared],
            "episodes": counts.get(task_id, 1),
            "bounds": {"low": 0.0, "high": 1.0},
        }
        for (environment, name), task_id in ids.items()
    ]
    content: dict[str, Any] = {
        "protocol": {"name": "imported", "version": 1, "description": f"Results of {source}."},
        "seeds": seeds,
        "report": {
            "score": score,
            "metrics": [score, *(name for name in shared if name != score)],
            "curve": score,
            "comparison": "welch",
            **({"normalisation": "minmax"} if scale == "minmax" else {}),
        },
        "task": tasks,
    }
    return Protocol.model_validate(content, strict=False)


def _episodes(cell: Cell, metrics: Mapping[str, np.ndarray], first: int) -> Episodes:
    """Return the values of a run as the episodes of a cell, with one agent for the team.

    Their seeds rise from ``first``.
    """
    filled = _filled({name: column[None] for name, column in metrics.items()}, 1)
    values = {name: rows[0] for name, rows in filled.items()}
    returns = values.pop("return")
    count = len(returns)
    return Episodes(
        cell=cell,
        agents=("team",),
        seeds=np.arange(first, first + count, dtype=np.uint64),
        lengths=np.zeros(count, np.int64),
        terminated=np.ones(count, np.bool_),
        seats=np.ones((count, 1), np.bool_),
        returns=returns[:, None],
        metrics=values,
        curves={},
        common_reward=True,
    )


def _filled(metrics: Mapping[str, np.ndarray], rows: int) -> dict[str, np.ndarray]:
    """Return metrics (rows, values) with equally many values, by their names in a table.

    A single value stands for all; values that are missing, and a missing return, are nan.
    """
    width = max((values.shape[1] for values in metrics.values()), default=1)
    filled = {"return": np.full((rows, width), math.nan)}
    for name, values in metrics.items():
        lacking = width - values.shape[1]
        whole = np.pad(values, ((0, 0), (0, lacking)), constant_values=math.nan)
        single = np.broadcast_to(values, (rows, width)) if values.shape[1] == 1 else whole
        filled[_metric_name(name)] = np.array(single)
    return filled


def _metric_name(name: str) -> str:
    """Return the name of a metric in a table: never one that is computed from other columns."""
    plain = re.sub(r"[\s:]+", "-", name)[:55]
    return f"file_{plain}" if plain in COMMON and plain != "return" else plain


def _task_ids(runs: Iterable[Run]) -> dict[tuple[str, str], str]:
    """Return an id of every task, {(environment, task): id}."""
    places = list(dict.fromkeys((run.environment, run.task) for run in runs))
    several = len({environment for environment, _ in places}) > 1
    ids: dict[tuple[str, str], str] = {}
    for environment, task in places:
        stem = _slug(f"{environment}-{task}" if several else task)
        taken = [name for name in ids.values() if re.fullmatch(rf"{re.escape(stem)}(-\d+)?", name)]
        ids[environment, task] = f"{stem}-{len(taken) + 1}" if taken else stem
    return ids


def _slug(name: str) -> str:
    """Return a name as an id of a task or a group can be spelled."""
    slug = re.sub(r"[^a-z0-9_-]+", "-", name.lower()).strip("-_")
    return f"task-{slug}".strip("-") if slug in ("", "plots") else slug


def _run_numbers(runs: Iterable[Run]) -> dict[tuple[str, str, str], int]:
    """Return a number of every run, {(environment, algorithm, name): number}.

    It ends the run's name if the names of all runs of the algorithm end in different numbers;
    otherwise runs are counted.
    """
    names: dict[tuple[str, str], dict[str, None]] = {}
    for run in runs:
        names.setdefault((run.environment, run.algorithm), {})[run.name] = None
    numbers = {}
    for (environment, algorithm), members in names.items():
        ends = [re.search(r"(\d{1,9})$", name) for name in members]
        read = [int(end[1]) for end in ends if end is not None]
        chosen = read if len(set(read)) == len(members) else range(len(members))
        for name, number in zip(members, chosen, strict=True):
            numbers[environment, algorithm, name] = number
    return numbers


def _fixed(runs: Iterable[Run]) -> set[str]:
    """Return the algorithms that were not trained: one run each, evaluated at step 0 alone."""
    trained, names = set(), dict[str, set[str]]()
    for run in runs:
        names.setdefault(run.algorithm, set()).add(run.name)
        if run.steps.tolist() != [0]:
            trained.add(run.algorithm)
    return {name for name, members in names.items() if len(members) == 1} - trained
