"""Imports: results of other programs as a report, through the analysis of our own results.

A file is read into runs; these become a protocol, whose tasks cannot be played here, and a table of
episodes. Every run counts as having played episodes of its own.
"""

import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from pydantic import ValidationError

from coopbench.episodes.metrics import COMMON
from coopbench.episodes.names import one_line
from coopbench.episodes.table import Cell, Episodes, EpisodeTable, Progress
from coopbench.exchange.marl_eval_import import read_marl_eval
from coopbench.exchange.mlflow_import import has_mlflow, read_mlflow
from coopbench.exchange.runs import ABSOLUTE, LABELS, Names, Options, Reading, Run
from coopbench.exchange.sb3_import import (
    has_evaluations,
    has_monitors,
    read_evaluations,
    read_monitors,
)
from coopbench.exchange.table_import import read_table
from coopbench.exchange.tensorboard_import import has_events, read_events
from coopbench.exchange.wandb_import import is_wandb, read_wandb
from coopbench.protocol.messages import explained
from coopbench.protocol.schema import Protocol
from coopbench.protocol.task import LONGEST
from coopbench.report.report import Report
from coopbench_envs.parameters import named

SCALES = ("minmax", "given")  # of scores, see ``import_results``
Reader = Callable[[Path, Options], Reading]
_Key = TypeVar("_Key")
# Readers by how a file or a folder is recognised; the first that recognises it reads it.
IMPORTERS: tuple[tuple[Callable[[Path], bool], Reader], ...] = (
    (has_evaluations, read_evaluations),
    (has_monitors, read_monitors),
    (has_events, read_events),
    (has_mlflow, read_mlflow),
    (is_wandb, read_wandb),
    (lambda path: path.suffix.lower() == ".csv", read_table),
    (lambda path: path.suffix.lower() == ".json", read_marl_eval),
)
_KINDS = (
    ".json of marl-eval; .csv with named columns, of Weights & Biases, or monitor.csv of "
    "Stable-Baselines3; its evaluations.npz; event files of TensorBoard; folders with any of the "
    "last three, and mlruns of MLflow"
)
_ORIGIN = "These results were made elsewhere: no episode was played again, and nothing is verified."
_MOVING = (
    "0 and 1 of normalized scores are the lowest and highest value of each task in this file: they "
    "move when an algorithm is added, so scores of two files cannot be compared."
)
_LONGEST = LONGEST - 10  # characters of an id before a number
_SHOWN = 20  # lines about what was left out; of more only the number


def import_results(
    path: str | Path,
    metric: str = "return",
    absolute: str = "unknown",
    scale: str = "minmax",
    *,
    columns: Mapping[str, str] | None = None,
    names: str = "",
) -> Report:
    """Read a file or a folder of another program, and analyse it like results of this package.

    ``metric`` is the score that is compared and aggregated. ``absolute`` says what the file's
    absolute metrics are, a key of ``ABSOLUTE``. With the ``scale`` "minmax" 0 and 1 are the lowest
    and highest value of each task, (x - lowest) / (highest - lowest + 1e-6) over all algorithms,
    runs and evaluations (Gorsane et al. 2022); with "given" the file's scores are normalized
    already. Environments are groups of tasks. ``columns`` of a table are {"algorithm", "task",
    "run", "step" or "episode": name in the file}; ``names`` is a pattern of the names of runs or of
    their folders, such as "{task}__{algorithm}__{run}__*". What cannot be compared with the rest is
    left out, and named in the report's notes.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: for an unknown kind of file, option or metric, a file that its reader refuses,
            and if nothing is left.
    """
    place = Path(path)
    named("scale", scale, dict.fromkeys(SCALES))
    named("kind of absolute metric", absolute, ABSOLUTE)
    for label in columns or {}:
        named("column", label, dict.fromkeys((*LABELS, "step", "episode")))
    reading = _reader(place)(place, Options(metric, absolute, columns or {}, names))
    if reading.absolute and absolute not in ("unknown", reading.absolute):
        raise ValueError(
            f"{place} has no episodes of the kind {absolute!r}; its scores are "
            f"{ABSOLUTE[reading.absolute]} ({reading.absolute})."
        )
    kind = reading.absolute or absolute
    names_in_file = Names()
    for run in reading.runs:
        names_in_file.check_case("task", run.task, str(place))
        names_in_file.check_case("algorithm", run.algorithm, str(place))
    runs, left_out = _comparable(reading.runs, metric, scale)
    runs, score, renamed = _renamed(runs, metric)
    notes = [_ORIGIN, f"Absolute metrics are {ABSOLUTE[kind]} ({kind})."]
    notes += [_MOVING] if scale == "minmax" else []
    notes += _listed([*reading.left_out, *left_out, *renamed])
    return Report(*_converted(runs, score, scale, one_line(place.name)), tuple(notes))


def _reader(place: Path) -> Reader:
    if not place.exists():
        raise FileNotFoundError(f"There is no file {place} to import.")
    for recognises, reader in IMPORTERS:
        if recognises(place):
            return reader
    raise ValueError(f"{place} is of no kind that can be imported; allowed: {_KINDS}.")


def _listed(texts: Sequence[str]) -> list[str]:
    """Return what was left out as notes, of many the first."""
    shown = [f"Left out or changed: {text}." for text in texts[:_SHOWN]]
    more = len(texts) - _SHOWN
    return [*shown, f"Left out or changed: {more} more."] if more > 0 else shown


def _comparable(
    runs: Sequence[Run], metric: str, scale: str
) -> tuple[tuple[Run, ...], tuple[str, ...]]:
    """Return the runs that can be compared, and what was left out.

    Of each task these are the runs with the usual number of values; a task on which nothing varies
    has no scale.
    """
    counts: dict[tuple[str, str], Counter[int]] = {}
    for run in runs:
        if metric in run.absolute:
            place = run.environment, run.task
            counts.setdefault(place, Counter())[len(run.absolute[metric])] += 1
    usual = {place: numbers.most_common(1)[0][0] for place, numbers in counts.items()}
    constant = _constant(runs, metric) if scale == "minmax" else {}
    left_out = [
        f"{environment} / {task}, where every {metric} is {value:g} and gives no scale"
        for (environment, task), value in constant.items()
    ]
    kept = []
    for run in runs:
        place = run.environment, run.task
        if place in constant:
            continue
        count = len(run.absolute[metric]) if metric in run.absolute else usual.get(place, 0)
        if count == usual.get(place, 0) or (len(run.steps) == 1 and run.steps[0] == 0):
            kept.append(run)
            continue
        where = f"{run.environment} / {run.task} / {run.algorithm} / {run.name}"
        left_out.append(f"{where}, with {count} values of {metric}; most have {usual[place]}")
    if not any(run.absolute for run in kept):
        raise ValueError(
            f"Nothing is left to compare: {'; '.join(left_out[:_SHOWN]) or 'there are no scores'}."
        )
    return tuple(kept), tuple(left_out)


def _constant(runs: Iterable[Run], metric: str) -> dict[tuple[str, str], float]:
    """Return the tasks on which all values of a metric are equal, with that value."""
    values: dict[tuple[str, str], list[np.ndarray]] = {}
    for run in runs:
        parts = [part[metric].ravel() for part in (run.metrics, run.absolute) if metric in part]
        values.setdefault((run.environment, run.task), []).extend(parts)
    whole = {place: np.concatenate([*parts, np.empty(0)]) for place, parts in values.items()}
    return {
        place: float(sample[0])
        for place, sample in whole.items()
        if sample.size and np.ptp(sample) == 0.0
    }


def _renamed(runs: Sequence[Run], metric: str) -> tuple[tuple[Run, ...], str, list[str]]:
    """Return runs with names of metrics for a table, the score's, and what was numbered."""
    found = [name for run in runs for name in (*run.metrics, *run.absolute)]
    stems = {name: _metric_name(name) for name in dict.fromkeys((metric, *found))}
    names = _distinct(stems)
    holders = {name: holder for holder, name in names.items()}
    numbered = [
        f"the metric {name!r} is called {names[name]}, since {holders[stem]!r} is called {stem}"
        for name, stem in stems.items()
        if names[name] != stem
    ]
    renamed = [
        replace(
            run,
            metrics={names[name]: values for name, values in run.metrics.items()},
            absolute={names[name]: values for name, values in run.absolute.items()},
        )
        for run in runs
    ]
    return tuple(renamed), names[metric], numbered


def _converted(
    runs: Sequence[Run], score: str, scale: str, source: str
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
    protocol = _protocol(runs, ids, counts, score, scale, source, seeds)
    return protocol, EpisodeTable(tuple(blocks), tuple(progress), own_episodes=True)


def _protocol(
    runs: Sequence[Run],
    ids: Mapping[tuple[str, str], str],
    counts: Mapping[str, int],
    score: str,
    scale: str,
    source: str,
    seeds: Mapping[str, Any],
) -> Protocol:
    """Return a protocol with the tasks of some runs; ``counts`` are the episodes of each task."""
    groups = _distinct({environment: _slug(environment) for environment, _ in ids})
    measured: dict[str, dict[str, None]] = {environment: {} for environment in groups}
    for run in runs:
        measured[run.environment] |= dict.fromkeys(run.absolute)
    first, *others = measured.values()
    shared = [name for name in first if all(name in names for names in others)]
    tasks = [
        {
            "id": task_id,
            "group": groups[environment] if len(groups) > 1 else "",
            "env": f"imported:{groups[environment]}",
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
    try:
        return Protocol.model_validate(content, strict=False)
    except ValidationError as error:
        raise ValueError(f"{source} makes no valid protocol:\n{explained(error)}") from None


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
    """Return metrics (rows, values) with equally many values.

    A single value stands for all; values that are missing, and a missing return, are nan.
    """
    width = max((values.shape[1] for values in metrics.values()), default=1)
    filled = {"return": np.full((rows, width), math.nan)}
    for name, values in metrics.items():
        lacking = width - values.shape[1]
        whole = np.pad(values, ((0, 0), (0, lacking)), constant_values=math.nan)
        single = np.broadcast_to(values, (rows, width)) if values.shape[1] == 1 else whole
        filled[name] = np.array(single)
    return filled


def _metric_name(name: str) -> str:
    """Return the name of a metric in a table: never one that is computed from other columns."""
    plain = re.sub(r"[\s:]+", "-", name)[:55]
    return f"file_{plain}" if plain in COMMON and plain != "return" else plain


def _task_ids(runs: Iterable[Run]) -> dict[tuple[str, str], str]:
    """Return an id of every task, {(environment, task): id}."""
    places = dict.fromkeys((run.environment, run.task) for run in runs)
    several = len({environment for environment, _ in places}) > 1
    return _distinct({place: _slug("-".join(place) if several else place[1]) for place in places})


def _distinct(stems: Mapping[_Key, str]) -> dict[_Key, str]:
    """Return a name for every key: its stem or, where that is taken, with a number from 2."""
    taken, repeats = dict[str, _Key](), Counter[str]()
    for key, stem in stems.items():
        name = stem
        while name in taken:
            repeats[stem] += 1
            name = f"{stem}-{repeats[stem] + 1}"
        taken[name] = key
    return {key: name for name, key in taken.items()}


def _slug(name: str) -> str:
    """Return a name as an id of a task or a group can be spelled."""
    slug = re.sub(r"[^a-z0-9_-]+", "-", name.lower())[:_LONGEST].strip("-_")
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
