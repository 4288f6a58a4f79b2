"""Imports: results of other programs as a report, through the analysis of our own results.

What is read becomes runs; these become a protocol, whose tasks cannot be played here, and a table
of episodes. Every run counts as having played episodes of its own.
"""

import math
import re
from collections import Counter, defaultdict
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from pydantic import ValidationError

from coopbench.episodes.metrics import COMMON
from coopbench.episodes.names import check_case, check_foreign_name, one_line
from coopbench.episodes.table import COLUMNS, Cell, Episodes, EpisodeTable, Progress
from coopbench.exchange.comparable import comparable, early_ends, kind_of, scale_of
from coopbench.exchange.long_form import PLACES, read_csv, read_frame
from coopbench.exchange.marl_eval_import import read_marl_eval, read_marl_eval_folder
from coopbench.exchange.runs import (
    LABELS,
    Options,
    Reading,
    Run,
    Samples,
    check_distinct,
    untrained,
    visible,
)
from coopbench.exchange.tensorboard_import import FILES, read_events
from coopbench.protocol.messages import explained
from coopbench.protocol.schema import Protocol
from coopbench.protocol.task import LONGEST
from coopbench.report.report import Report
from coopbench_envs.parameters import named

SCALES = ("minmax", "given")  # of scores, see ``import_results``
_Key = TypeVar("_Key")
_ORIGIN = "These results were made elsewhere: no episode was played again, and nothing is verified."
_LONGEST = LONGEST - 10  # characters of an id before a number
_SHOWN = 20  # lines of one kind of notes; of more only the number


def import_results(
    source: Any,
    metric: str = "return",
    scale: str = "minmax",
    *,
    columns: Mapping[str, str] | None = None,
    folders: str = Options.folders,
) -> Report:
    """Read results of another program, and analyse them like results of this package.

    ``source`` is a data frame of pandas in long form, or the path of a .csv file, of a .json file
    of marl-eval, or of a folder with .json files of marl-eval or event files of TensorBoard.
    ``metric`` is the score that is compared and aggregated. With the ``scale`` "minmax" 0 and 1 are
    the lowest and highest value of each task, (x - lowest) / (highest - lowest + 1e-6) over all
    algorithms, runs and evaluations (Gorsane et al. 2022), or the lowest and highest mean where
    logs are averaged; with "given" scores are normalized already.
    Environments are groups of tasks. ``columns`` of a table are {"algorithm", "task", "run", "step"
    or "episode": its name there}; ``folders`` is the pattern of the folders of TensorBoard. What
    cannot be compared with the rest is left out, and named in the report's notes.

    Raises:
        FileNotFoundError: there is no such file.
        TypeError: for a source that is neither a path nor a data frame of pandas.
        ValueError: for an unknown kind of file, option or metric, a file that its reader refuses,
            and if nothing is left.
    """
    named("scale", scale, dict.fromkeys(SCALES))
    for label in columns or {}:
        named("column", label, dict.fromkeys((*LABELS, *PLACES)))
    options = Options(metric, columns or {}, folders)
    if hasattr(source, "to_csv"):
        _check_options(options, "a data frame", is_table=True)
        place, reading = "data frame", read_frame(source, options)
    elif isinstance(source, (str, PathLike)):
        place, reading = str(source), _read(Path(source), options)
    else:
        raise TypeError(
            f"source was a {type(source).__name__}; allowed: a path, or a DataFrame of pandas "
            f"(polars: frame.to_pandas())."
        )
    _check(reading, metric, place)
    found, left_out, averaged = comparable(reading, metric, scale)
    runs = _as_wide(_judged(found, reading, left_out), metric, left_out)
    if not runs:
        reasons = "; ".join(left_out[:_SHOWN])
        raise ValueError(f"Nothing is left to compare: {reasons}.")
    names = _metric_names(runs, metric)
    left_out += [f"{old!r} is called {new}" for old, new in names.items() if old != new]
    renamed = [
        replace(
            run,
            evaluations=tuple(
                part._replace(samples=_renamed(part.samples, names)) for part in run.evaluations
            ),
            absolute=_renamed(run.absolute, names),
        )
        for run in runs
    ]
    notes = [_ORIGIN, kind_of(runs, reading.last, averaged)]
    notes += [scale_of(runs, averaged)] if scale == "minmax" else []
    fixed = _fixed(runs)
    left_out += _renumbered(runs, fixed)
    notes += _listed("Left out or changed", left_out)
    trained = [run for run in runs if run.algorithm not in fixed]
    notes += _listed("Judged early", early_ends(trained))
    content = _converted(renamed, names[metric], scale, one_line(Path(place).name))
    return Report(*content, tuple(notes))


def _read(place: Path, options: Options) -> Reading:
    """Read a file or a folder by its kind."""
    if not place.exists():
        raise FileNotFoundError(f"There is no file {place} to import.")
    is_folder, kind = place.is_dir(), place.suffix.lower()
    is_table = kind == ".csv" and not is_folder
    _check_options(options, str(place), is_table=is_table, has_logs=is_folder)
    if is_folder:
        return _read_folder(place, options)
    if is_table:
        return read_csv(place, options)
    if kind == ".json":
        return read_marl_eval(place)
    raise ValueError(
        f"{place} is of no kind that can be imported; allowed: .csv in long form, .json of "
        f"marl-eval, and folders with such .json files or with event files of TensorBoard. For "
        f"other programs, docs/exchange.md makes a data frame by their own readers."
    )


def _check_options(
    options: Options, source: str, *, is_table: bool = False, has_logs: bool = False
) -> None:
    """Raise ``ValueError`` for an option that goes with another kind of source."""
    if options.columns and not is_table:
        raise ValueError(
            f"columns go with a .csv file or a data frame, and {source} is neither; leave them out."
        )
    if options.folders != Options.folders and not has_logs:
        raise ValueError(
            f"folders are those of event files of TensorBoard, and {source} is not read for such "
            f"files; leave them out."
        )


def _read_folder(folder: Path, options: Options) -> Reading:
    """Read the .json files of marl-eval in a folder or, without any, its event files."""
    reading, events = read_marl_eval_folder(folder), any(visible(folder, FILES)[0])
    if not events and not reading.runs:
        reasons = "; ".join(reading.left_out[:_SHOWN]) or "it has neither"
        raise ValueError(
            f"{folder} has no .json file of marl-eval and no event file of TensorBoard: {reasons}."
        )
    if reading.runs:
        _check_options(options, str(folder))
    if not events:
        return reading
    if reading.runs:
        unread = "event files of TensorBoard, since .json files of marl-eval are there"
        return reading._replace(left_out=(*reading.left_out, unread))
    logs = read_events(folder, options)
    return logs._replace(left_out=(*reading.left_out, *logs.left_out))


def _check(reading: Reading, metric: str, place: str) -> None:
    """Raise for an unknown score, and for names that cannot be told apart, or pass for others."""
    found = dict.fromkeys(name for run in reading.runs for part in run.samples for name in part)
    named("metric", metric, found, place)
    advice = "rename it there, or spell both alike if they are one"
    check_case(f"{place}: the environments", (run.environment for run in reading.runs), advice)
    check_case(f"{place}: the tasks", (run.task for run in reading.runs), advice)
    check_case(f"{place}: the algorithms", (run.algorithm for run in reading.runs), advice)
    check_distinct(reading.runs)
    for name in dict.fromkeys(run.algorithm for run in reading.runs):
        check_foreign_name(name, f"an algorithm in {place}")


def _judged(runs: Sequence[Run], reading: Reading, notes: list[str]) -> list[Run]:
    """Return the runs of algorithms that have something to be judged by.

    Notes of all others that have been read come first. A report would have at most learning curves
    of these.
    """
    judged = {run.algorithm for run in runs if run.absolute}
    lost = dict.fromkeys(run.algorithm for run in reading.runs if run.algorithm not in judged)
    found = set() if reading.last else {run.algorithm for run in runs}
    notes[:0] = [
        f"{name}, {'whose runs have no absolute metrics' if name in found else 'all of its runs'}"
        for name in lost
    ]
    return [run for run in runs if run.algorithm in judged]


def _as_wide(runs: Sequence[Run], metric: str, notes: list[str]) -> list[Run]:
    """Return runs with no more values of a fixed policy than its score has, which are its episodes.

    Which values of a metric with more of them an episode has is not known: their mean is one value.
    """
    fixed, found = _fixed(runs), list[Run]()
    for run in runs:
        count = len(run.absolute[metric]) if run.algorithm in fixed and run.absolute else math.inf
        wider = {name: sample for name, sample in run.absolute.items() if len(sample) > count}
        notes += [
            f"{run.label} has {len(sample)} values of {name} and {count} of {metric}: the mean of "
            f"{name} counts as one value"
            for name, sample in wider.items()
        ]
        means = {name: sample.mean(keepdims=True) for name, sample in wider.items()}
        found.append(replace(run, absolute={**run.absolute, **means}))
    return found


def _listed(kind: str, texts: Sequence[str]) -> list[str]:
    """Return what a kind of notes is about as notes, of many the first."""
    shown = [f"{kind}: {text}." for text in texts[:_SHOWN]]
    more = len(texts) - _SHOWN
    return [*shown, f"{kind}: {more} more."] if more > 0 else shown


def _metric_names(runs: Sequence[Run], metric: str) -> dict[str, str]:
    """Return the names of all metrics in a table, the score's first.

    No name is that of another column, or of a metric which is computed from other columns.
    """
    found = dict.fromkeys(name for run in runs for part in run.samples for name in part)
    stems = {name: re.sub(r"[\s:]+", "-", name)[:55] for name in dict.fromkeys((metric, *found))}
    taken = {*COMMON, *COLUMNS} - {"return"}
    return _distinct({n: f"file_{stem}" if stem in taken else stem for n, stem in stems.items()})


def _renamed(samples: Samples, names: Mapping[str, str]) -> Samples:
    return {names[name]: values for name, values in samples.items()}


def _converted(
    runs: Sequence[Run], score: str, scale: str, source: str
) -> tuple[Protocol, EpisodeTable]:
    """Return the protocol that describes some runs, and the table of their episodes."""
    ids, fixed = _task_ids(runs), _fixed(runs)
    cells = [
        Cell(ids[r.environment, r.task], r.algorithm, None if r.algorithm in fixed else number)
        for r, number in zip(runs, _run_numbers(runs, fixed), strict=True)
    ]
    learned = sorted({cell.run for cell in cells if cell.run is not None})
    first = max(learned, default=-1) + 1  # seed of the evaluation; its values have none in the file
    blocks, progress, counts = [], [], dict[str, int]()
    for run, cell in zip(runs, cells, strict=True):
        if run.absolute:
            blocks.append(_episodes(cell, run.absolute, first))
            counts[cell.task] = max(counts.get(cell.task, 1), len(blocks[-1]))
        if cell.run is not None and run.evaluations:
            steps = np.array([part.step for part in run.evaluations], np.int64)
            values = _filled([part.samples for part in run.evaluations])
            progress.append(Progress(cell, steps, values))
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


def _episodes(cell: Cell, absolute: Samples, first: int) -> Episodes:
    """Return the absolute metrics of a run as the episodes of a cell, with one agent for the team.

    Their seeds rise from ``first``.
    """
    values = {name: rows[0] for name, rows in _filled([absolute]).items()}
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


def _filled(parts: Sequence[Samples]) -> dict[str, np.ndarray]:
    """Return the metrics of some parts of a run, (parts, values), with equally many values.

    Values that are missing, and a missing return, are nan.
    """
    stacked = {name: np.array([part[name] for part in parts]) for name in parts[0]}
    width = max((values.shape[1] for values in stacked.values()), default=1)
    filled = {name: np.full((len(parts), width), math.nan) for name in ("return", *stacked)}
    for name, values in stacked.items():
        filled[name][:, : values.shape[1]] = values
    return filled


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


def _run_numbers(runs: Sequence[Run], fixed: Container[str]) -> list[int]:
    """Return a number of every run: that which ends its name, if these are seeds; else a count.

    They are no seeds if two runs of an algorithm on a task share one, or if most of those of some
    algorithm on some task are not among those of the one with most runs: reports list runs that
    one algorithm has and another lacks, and names such as run-k3f7 end in digits by chance. Then
    names of an algorithm are counted or, if its tasks have other names, its runs on each task.
    Names of ``fixed`` algorithms do not matter.
    """
    places = [(run.environment, run.algorithm, run.task) for run in runs]
    ends = [re.search(r"(\d{1,9})$", run.name) for run in runs]
    read = [None if end is None else int(end[1]) for end in ends]
    trained = defaultdict[tuple[str, str, str], list[int | None]](list)
    for place, run, number in zip(places, runs, read, strict=True):
        if run.algorithm not in fixed:
            trained[place].append(number)
    most = max((set(numbers) for numbers in trained.values()), key=len, default=set[int | None]())
    if all(
        None not in numbers
        and len(set(numbers)) == len(numbers)
        and 2 * len(most.intersection(numbers)) >= len(numbers)
        for numbers in trained.values()
    ):
        return [number or 0 for number in read]
    names: dict[str, dict[tuple[str, str], dict[str, None]]] = {}  # by algorithm and task
    for run in runs:
        tasks = names.setdefault(run.algorithm, {})
        tasks.setdefault((run.environment, run.task), {})[run.name] = None
    counted = {algorithm: _counted(tasks) for algorithm, tasks in names.items()}
    return [counted[run.algorithm][run.environment, run.task][run.name] for run in runs]


def _counted(tasks: Mapping[_Key, Iterable[str]]) -> dict[_Key, dict[str, int]]:
    """Return a number of every name on every task: the same one if tasks share their names."""
    sets = {task: {*names} for task, names in tasks.items()}
    most = max(sets.values(), key=len)
    shared = all(2 * len(most & names) >= len(names) for names in sets.values())
    every = dict.fromkeys(name for names in tasks.values() for name in names)
    return {
        task: {name: k for k, name in enumerate(every if shared else names)}
        for task, names in tasks.items()
    }


def _renumbered(runs: Sequence[Run], fixed: Container[str]) -> list[str]:
    """Say which number the first run has whose name is no seed; nothing if all names are."""
    for run, number in zip(runs, _run_numbers(runs, fixed), strict=True):
        end = re.search(r"(\d{1,9})$", run.name)
        if run.algorithm not in fixed and (end is None or int(end[1]) != number):
            return [
                "names of runs, which end in no seeds that algorithms share, so that runs are "
                f"counted: {run.label} is run {number}"
            ]
    return []


def _fixed(runs: Sequence[Run]) -> set[str]:
    """Return the algorithms that were not trained, of one run: its values are episodes."""
    names: dict[str, set[str]] = {}
    for run in runs:
        names.setdefault(run.algorithm, set()).add(run.name)
    return {name for name in untrained(runs) if len(names[name]) == 1}
