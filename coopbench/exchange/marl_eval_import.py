"""Import of results in marl-eval JSON, read strictly: a file, or a folder of them.

The JSON is that of Gorsane et al. 2022, "Towards a Standardised Performance Evaluation Protocol
for Cooperative MARL", as their public package marl-eval reads it: environment, task, algorithm,
run, then evaluations with a ``step_count``, and ``absolute_metrics``; every metric is a list of
values. Mava and BenchMARL write a file for each run.
"""

import json
import math
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from coopbench.episodes.names import one_line
from coopbench.exchange.runs import Evaluation, FoundRun, Reading, Samples, read_import, visible

_NO_METRICS = ("step_count", "elapsed_time")  # further keys of an evaluation


def read_marl_eval(file: Path) -> Reading:
    """Read the runs of a file, with names as they are spelled there.

    Raises ``FileNotFoundError`` if there is none, and ``ValueError`` if it is too large, is not
    JSON of this form, or contradicts itself; the message names environment, task, algorithm, run
    and evaluation.
    """
    return Reading(tuple(_runs(_json(file), str(file))))


def read_marl_eval_folder(folder: Path) -> Reading:
    """Read the runs of all .json files below a folder; others are left out and listed."""
    runs = list[FoundRun]()
    files, left_out = visible(folder, "*.json")
    for file in files:
        try:
            runs += read_marl_eval(file).runs
        except ValueError as error:
            left_out.append(str(error).removesuffix("."))
    return Reading(tuple(runs), tuple(left_out))


def _json(file: Path) -> Any:
    try:
        return json.loads(read_import(file), object_pairs_hook=_members_once)
    except RecursionError:
        raise ValueError(f"{file} is nested too deeply; allowed: seven levels.") from None
    except json.JSONDecodeError as error:
        raise ValueError(f"{file} is not JSON: {error}.") from None
    except ValueError as error:  # a repeated name, text that is not UTF-8, or a file's size
        raise ValueError(f"{file} cannot be read: {error}") from None


def _members_once(members: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    """Return the members of an object, with clean names; raise if one is repeated."""
    table: dict[str, Any] = {}
    for written, member in members:
        name = one_line(written)
        if name in table:
            raise ValueError(f"an object has {name!r} twice; remove one.")
        table[name] = member
    return table


def _runs(content: Any, file: str) -> Iterator[FoundRun]:
    for environment, tasks in _members(content, "environment", file):
        for task, algorithms in _members(tasks, "task", f"{file}: {environment}"):
            of_task = f"{file}: {environment} / {task}"
            for algorithm, runs in _members(algorithms, "algorithm", of_task):
                of_algorithm = f"{of_task} / {algorithm}"
                for name, parts in _members(runs, "run", of_algorithm):
                    found = _parts(parts, f"{of_algorithm} / {name}")
                    yield FoundRun(environment, task, algorithm, name, *found, file)


def _members(value: Any, kind: str, where: str) -> Iterable[tuple[str, Any]]:
    """Return the members of an object that has some."""
    if not isinstance(value, dict) or not value:
        raise ValueError(
            f"{where} is {_shown(value)}; in JSON of marl-eval it is an object with "
            f"{'an' if kind[0] in 'ae' else 'a'} {kind} each."
        )
    return value.items()


def _parts(value: Any, where: str) -> tuple[tuple[Evaluation, ...], Samples]:
    """Return the evaluations of a run, and its absolute metrics; empty if there are none."""
    parts = dict(_members(value, "evaluation", where))
    final = [name for name in parts if "absolute" in name.lower()]
    if len(final) > 1:
        raise ValueError(
            f"{where} has {', '.join(final)}; allowed: one with 'absolute' in its name."
        )
    evaluations: list[Evaluation] = []
    for name, entry in parts.items():
        if name not in final:
            place = f"{where} / {name}"
            samples = _samples(entry, place)
            step = _step_count(entry, evaluations, place)
            evaluations.append(Evaluation(step, samples))
    absolute = parts[final[0]] if final else {}
    return tuple(evaluations), absolute and _samples(absolute, f"{where} / {final[0]}")


def _samples(entry: Any, where: str) -> dict[str, np.ndarray]:
    samples = {
        name: _numbers(values, f"{where} / {name}")
        for name, values in _members(entry, "metric", where)
        if name not in _NO_METRICS
    }
    if not samples:
        raise ValueError(f"{where} has no metric; allowed: lists of numbers by name.")
    return samples


def _step_count(entry: dict[str, Any], before: list[Evaluation], where: str) -> int:
    count = entry.get("step_count")
    if type(count) is not int or not 0 <= count < 1 << 63:
        raise ValueError(f"{where}: step_count is {_shown(count)}; allowed: a whole number >= 0.")
    if before and count <= before[-1].step:
        raise ValueError(
            f"{where}: step_count is {count} after {before[-1].step}; allowed: one that rises from "
            f"evaluation to evaluation."
        )
    return count


def _numbers(values: Any, where: str) -> np.ndarray:
    if not isinstance(values, list) or not values:
        raise ValueError(f"{where} is {_shown(values)}; allowed: a list with at least one number.")
    for position, value in enumerate(values):
        if type(value) not in (int, float) or not _is_finite(value):
            raise ValueError(
                f"{where} has {_shown(value)} at position {position}; allowed: finite numbers."
            )
    return np.array(values, np.float64)


def _is_finite(value: float) -> bool:
    try:
        return math.isfinite(value)
    except OverflowError:  # an integer beyond all floats
        return False


def _shown(value: Any) -> str:
    """Describe a value of a file for an error message, shortened."""
    if isinstance(value, dict):
        return "an object" if value else "an empty object"
    if isinstance(value, list):
        return "a list" if value else "an empty list"
    if value is None:
        return "missing or null"
    text = repr(value) if not isinstance(value, int) or abs(value) < 1 << 64 else "a huge number"
    return text if len(text) <= 40 else text[:40] + "..."
