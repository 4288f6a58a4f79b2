"""Import of results in marl-eval JSON, read strictly.

The JSON is that of Gorsane et al. 2022, "Towards a Standardised Performance Evaluation Protocol
for Cooperative MARL", as their public package marl-eval reads it: environment, task, algorithm,
run, then evaluations with a ``step_count``, and ``absolute_metrics``; every metric is a list of
values. docs/exchange.md says what is refused, and why.
"""

import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from coopbench.episodes.names import one_line
from coopbench.exchange.runs import ABSOLUTE, Names, Run, read_import

_BESIDE = ("step_count", "elapsed_time")  # stand among the metrics of an evaluation, but are none


def read_marl_eval(path: Path, absolute: str = "unknown") -> tuple[Run, ...]:
    """Read the runs of a marl-eval JSON file, with names as they are spelled there.

    ``absolute`` says what the file's absolute metrics are, a key of ``ABSOLUTE``.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: the file is too large, is not JSON of this form, or contradicts itself or
            ``absolute``; the message names environment, task, algorithm, run and evaluation.
    """
    checks, read = _Checks(), list[Run]()
    for environment, tasks in checks.some(_json(path), "environment", str(path)).items():
        where = f"{path}: {environment}"
        runs = tuple(_runs(checks, tasks, environment, where))
        if not any(run.absolute for run in runs):
            raise ValueError(
                f"{where} holds no run with absolute_metrics; there is nothing to use."
            )
        _check_kind(runs, absolute, where)
        read += runs
    return tuple(read)


class _Object(list[Any]):
    """Members of a JSON object in the order of the file, repeated ones too, with clean names."""

    def __init__(self, members: Iterable[tuple[str, Any]]) -> None:
        super().__init__((one_line(name), member) for name, member in members)


def _json(path: Path) -> Any:
    content = read_import(path)
    try:
        return json.loads(content, object_pairs_hook=_Object)
    except RecursionError:
        raise ValueError(f"{path} is nested too deeply; allowed: seven levels.") from None
    except ValueError as error:
        raise ValueError(f"{path} is not JSON: {error}.") from None


class _Checks:
    """What a file has said so far, so that contradictions are noticed."""

    def __init__(self) -> None:
        self._names = Names("rename it in the file, or spell both alike if they are one")
        self._first: dict[tuple[str, ...], tuple[str, str]] = {}

    def members(self, value: Any, kind: str, where: str) -> dict[str, Any]:
        """Return the members of a JSON object; raise if one is repeated."""
        if not isinstance(value, _Object):
            raise ValueError(f"{where} is {_shown(value)}; allowed: an object with a {kind} each.")
        members: dict[str, Any] = {}
        for name, member in value:
            self._names.check(kind, name, where)
            if name in members:
                raise ValueError(f"{where} has the {kind} {name!r} twice; remove one.")
            members[name] = member
        return members

    def some(self, value: Any, kind: str, where: str) -> dict[str, Any]:
        """Return the members of a JSON object that must not be empty."""
        members = self.members(value, kind, where)
        if not members:
            raise ValueError(f"{where} has no {kind}; remove it from the file, or add one.")
        return members

    def same(self, key: tuple[str, ...], value: str, where: str) -> None:
        """Raise if ``value`` differs from the first value with the same key."""
        place, other = self._first.setdefault(key, (where, value))
        if other != value:
            raise ValueError(f"{where} has {value}, {place} has {other}; allowed: the same.")


def _runs(checks: _Checks, tasks: Any, environment: str, where: str) -> Iterator[Run]:
    for task, algorithms in checks.some(tasks, "task", where).items():
        of_task = f"{where} / {task}"
        for algorithm, runs in checks.some(algorithms, "algorithm", of_task).items():
            of_algorithm = f"{of_task} / {algorithm}"
            for name, parts in checks.some(runs, "run", of_algorithm).items():
                reader = _RunReader(checks, environment, task, f"{of_algorithm} / {name}")
                yield Run(environment, task, algorithm, name, *reader.read(parts))


@dataclass(frozen=True)
class _RunReader:
    """Reads a run, and checks it against the runs that were read before."""

    checks: _Checks
    environment: str
    task: str
    where: str

    def read(self, parts: Any) -> tuple[np.ndarray, dict[str, np.ndarray], dict[str, np.ndarray]]:
        """Return steps, metrics and absolute metrics, as in ``Run``."""
        members = self.checks.members(parts, "evaluation", self.where)
        final = [name for name in members if "absolute" in name.lower()]
        if len(final) > 1:
            raise ValueError(
                f"{self.where} has {', '.join(final)}; allowed: one with 'absolute' in its name."
            )
        steps: list[int] = []
        rows, absolute = [], {}
        for name in members:
            entry = self.checks.members(members[name], "metric", f"{self.where} / {name}")
            if name not in final:
                steps.append(_step_count(entry, steps, f"{self.where} / {name}"))
                # A policy that is not trained has one evaluation, which repeats its absolute
                # metrics and has as many values as they have.
                untrained = len(members) == 2 and len(final) == 1 and steps == [0]
                part = "evaluation without training" if untrained else "evaluation"
                rows.append(self._lists(entry, name, part))
            elif entry:
                absolute = self._lists(entry, name, "absolute")
        metrics = {name: np.array([row[name] for row in rows]) for name in (rows or [{}])[0]}
        return np.array(steps, np.int64), metrics, absolute

    def _lists(self, entry: Mapping[str, Any], name: str, part: str) -> dict[str, np.ndarray]:
        """Return the values of every metric; raise if other parts have other metrics or counts."""
        where, checks = f"{self.where} / {name}", self.checks
        metrics = [metric for metric in entry if metric not in _BESIDE]
        if not metrics:
            raise ValueError(f"{where} has no metric; allowed: lists of numbers by name.")
        kind = "absolute" if part == "absolute" else "evaluation"
        checks.same((self.environment, kind), f"the metrics {', '.join(sorted(metrics))}", where)
        samples = {metric: _numbers(entry[metric], f"{where} / {metric}") for metric in metrics}
        for metric, sample in samples.items():
            key = self.environment, self.task, part, metric
            checks.same(key, f"{len(sample)} values of {metric}", where)
        return samples


def _step_count(entry: Mapping[str, Any], before: Sequence[int], where: str) -> int:
    count = entry.get("step_count")
    if type(count) is not int or not 0 <= count < 1 << 63:
        raise ValueError(f"{where}: step_count is {_shown(count)}; allowed: a whole number >= 0.")
    if before and count <= before[-1]:
        raise ValueError(
            f"{where}: step_count is {count} after {before[-1]}; allowed: one that rises from "
            f"evaluation to evaluation."
        )
    return count


def _numbers(values: Any, where: str) -> np.ndarray:
    if isinstance(values, _Object) or not isinstance(values, list) or not values:
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
    if isinstance(value, _Object):
        return "an object"
    if isinstance(value, list):
        return "an empty list" if not value else "a list"
    if value is None:
        return "missing or null"
    text = repr(value) if not isinstance(value, int) or abs(value) < 1 << 64 else "a huge number"
    return text if len(text) <= 40 else text[:40] + "..."


def _check_kind(runs: Sequence[Run], absolute: str, where: str) -> None:
    """Raise if the absolute metrics cannot be what they are said to be."""
    tested = [run for run in runs if run.absolute and len(run.steps) > 1]
    highest = [_is_highest(run) for run in tested]
    if absolute == "max_episode" and not all(highest):
        run = tested[highest.index(False)]
        raise ValueError(
            f"{where} / {run.task} / {run.algorithm} / {run.name}: the absolute metrics are not "
            f"the highest values of the evaluations, so they are no 'max_episode'. {_KINDS}"
        )
    if absolute == "best_checkpoint" and tested and all(highest):
        raise ValueError(
            f"{where}: the absolute metrics of all runs are the highest single values of their "
            f"evaluations: that is 'max_episode', not 'best_checkpoint'. {_KINDS}"
        )


_KINDS = f"Allowed kinds: {', '.join(ABSOLUTE)}."


def _is_highest(run: Run) -> bool:
    """Return whether every absolute metric is one value, the highest of all evaluations."""
    return all(
        len(sample) == 1 and name in run.metrics and sample[0] == run.metrics[name].max()
        for name, sample in run.absolute.items()
    )
