"""Import of results in marl-eval JSON, read strictly.

The JSON is that of Gorsane et al. 2022, "Towards a Standardised Performance Evaluation Protocol
for Cooperative MARL", as their public package marl-eval reads it: environment, task, algorithm,
run, then evaluations with a ``step_count``, and ``absolute_metrics``; every metric is a list of
values. docs/exchange.md says what is refused, what is left out, and why.
"""

import json
import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from coopbench.episodes.names import one_line
from coopbench.exchange.runs import ABSOLUTE, Names, Options, Reading, Run, read_import
from coopbench_envs.parameters import named

_NO_METRICS = ("step_count", "elapsed_time")  # further keys of an evaluation


def read_marl_eval(path: Path, options: Options) -> Reading:
    """Read the runs of a marl-eval JSON file, with names as they are spelled there.

    Evaluations without the score, with another number of values than most of their task, and
    metrics that some evaluation of an environment lacks are left out, and listed.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: the file is too large, is not JSON of this form, or contradicts itself or
            ``options.absolute``; the message names environment, task, algorithm, run and
            evaluation.
    """
    checks, read, left_out = _Checks(), list[Run](), list[str]()
    measured = dict[str, None]()
    for environment, tasks in checks.some(_json(path), "environment", str(path)).items():
        where = f"{path}: {environment}"
        found = list(_runs(checks, tasks, environment, where))
        if not any(part.final for run in found for part in run.parts):
            raise ValueError(
                f"{where} holds no run with absolute_metrics; there is nothing to use."
            )
        names = dict.fromkeys(name for run in found for part in run.parts for name in part.samples)
        measured |= names
        if options.metric not in names:
            left_out.append(f"{where} has no {options.metric}")
            continue
        runs, notes = _comparable(found, options.metric, where)
        _check_kind(runs, options.absolute, where)
        read += runs
        left_out += notes
    named("metric", options.metric, measured, str(path))
    return Reading(tuple(read), tuple(left_out))


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
        self._names = Names()

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


class _Part(NamedTuple):
    """An evaluation, or the absolute metrics of a run."""

    name: str
    final: bool
    kind: str  # parts of a task of one kind have equally many values
    step: int  # of training; of the absolute metrics 0
    samples: dict[str, np.ndarray]  # metric -> (values,)


class _FoundRun(NamedTuple):
    """A run as the file holds it."""

    environment: str
    task: str
    algorithm: str
    name: str
    parts: tuple[_Part, ...]


def _runs(checks: _Checks, tasks: Any, environment: str, where: str) -> Iterator[_FoundRun]:
    for task, algorithms in checks.some(tasks, "task", where).items():
        of_task = f"{where} / {task}"
        for algorithm, runs in checks.some(algorithms, "algorithm", of_task).items():
            of_algorithm = f"{of_task} / {algorithm}"
            for name, parts in checks.some(runs, "run", of_algorithm).items():
                found = tuple(_parts(checks, parts, f"{of_algorithm} / {name}"))
                yield _FoundRun(environment, task, algorithm, name, found)


def _parts(checks: _Checks, parts: Any, where: str) -> Iterator[_Part]:
    """Yield the evaluations of a run, and its absolute metrics if there are any."""
    members = checks.members(parts, "evaluation", where)
    final = [name for name in members if "absolute" in name.lower()]
    if len(final) > 1:
        raise ValueError(
            f"{where} has {', '.join(final)}; allowed: one with 'absolute' in its name."
        )
    steps: list[int] = []
    for name in members:
        place = f"{where} / {name}"
        entry = checks.members(members[name], "metric", place)
        if name in final:
            if entry:
                yield _Part(name, True, "absolute", 0, _samples(entry, place))
            continue
        steps.append(_step_count(entry, steps, place))
        # A policy that is not trained has one evaluation, which repeats its absolute metrics and
        # has as many values as they have.
        untrained = len(members) == 2 and len(final) == 1 and steps == [0]
        kind = "untrained" if untrained else "evaluation"
        yield _Part(name, False, kind, steps[-1], _samples(entry, place))


def _samples(entry: Mapping[str, Any], where: str) -> dict[str, np.ndarray]:
    metrics = [metric for metric in entry if metric not in _NO_METRICS]
    if not metrics:
        raise ValueError(f"{where} has no metric; allowed: lists of numbers by name.")
    return {metric: _numbers(entry[metric], f"{where} / {metric}") for metric in metrics}


def _comparable(
    found: Sequence[_FoundRun], score: str, where: str
) -> tuple[tuple[Run, ...], list[str]]:
    """Return the runs of one environment with equal metrics and numbers of values.

    Returns also what was left out for that, a line each.
    """
    measured = {name for run in found for part in run.parts for name in part.samples}
    scored = [part for run in found for part in run.parts if score in part.samples]
    shared = {name for name in measured if all(name in part.samples for part in scored)}
    counts = defaultdict[tuple[str, str, str], Counter[int]](Counter)
    for run in found:
        for part in run.parts:
            for name in shared & set(part.samples):
                counts[run.task, part.kind, name][len(part.samples[name])] += 1
    usual = {key: numbers.most_common(1)[0][0] for key, numbers in counts.items()}
    notes = [f"{where}: some evaluations lack {name}" for name in sorted(measured - shared)]
    runs = []
    for run in found:
        kept = []
        for part in run.parts:
            place = f"{where} / {run.task} / {run.algorithm} / {run.name} / {part.name}"
            reason = _unlike(part, run.task, score, shared, usual)
            if reason:
                notes.append(f"{place} {reason}")
            else:
                kept.append(part)
        rows = [part for part in kept if not part.final]
        final = [part for part in kept if part.final]
        steps = np.array([part.step for part in rows], np.int64)
        names = [name for name in run.parts[0].samples if name in shared] if kept else []
        metrics = {name: np.array([part.samples[name] for part in rows]) for name in names}
        absolute = {name: final[0].samples[name] for name in names} if final else {}
        labels = run.environment, run.task, run.algorithm, run.name
        runs.append(Run(*labels, steps, metrics if rows else {}, absolute))
    return tuple(runs), notes


def _unlike(
    part: _Part,
    task: str,
    score: str,
    shared: set[str],
    usual: Mapping[tuple[str, str, str], int],
) -> str:
    """Return what a part lacks, or has another number of than most of its task; empty: nothing."""
    if score not in part.samples:
        return f"lacks {score}"
    for name in sorted(shared):
        count, most = len(part.samples[name]), usual[task, part.kind, name]
        if count != most:
            return f"has {count} values of {name}, most have {most}"
    return ""


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
