"""Tables of scores that were made elsewhere: CSV files with named columns.

A row is a run, an episode of a run, or an evaluation along its training.
"""

import csv
import io
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from coopbench.episodes.names import one_line
from coopbench.exchange.curves import Curve, runs_of, whole_step
from coopbench.exchange.runs import LABELS, Options, Reading, Run, read_import
from coopbench_envs.parameters import named


class _Table(NamedTuple):
    """A file, with the columns that hold labels, steps and episodes."""

    path: Path
    header: list[str]
    rows: list[tuple[int, dict[str, str]]]  # line, and fields by name
    columns: Mapping[str, str]  # {"algorithm", "task", "run", and maybe "step" or "episode": name}

    def labels(self, where: str, row: Mapping[str, str]) -> tuple[str, str, str]:
        """Return algorithm, task and run of a row; raise if one is empty.

        Episodes without a run are those of a policy that was not trained.
        """
        named_by = LABELS[:2] if "episode" in self.columns else LABELS
        empty = [name for name in named_by if not row[self.columns[name]]]
        if empty:
            raise ValueError(f"{where}: {self.columns[empty[0]]} is empty; name it.")
        algorithm, task, run = (row[self.columns[name]] for name in LABELS)
        return algorithm, task, run


def read_table(path: Path, options: Options) -> Reading:
    """Read a CSV file with the columns ``algorithm``, ``task``, ``run`` and one for each metric.

    ``options.columns`` gives these columns other names. A row is one run: what it scored at the end
    of its training, or over its evaluation episodes. With a column ``episode`` it is an episode of
    a run, as in the episodes that this package exports. With a column ``step`` it is an evaluation,
    of which the score alone is read; rows with the same step are its episodes, and the last
    evaluation is the score of the run. Columns other than the score that do not hold numbers are
    left out, and listed.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: for a file that is too large or damaged, for a run that stands twice, and for an
            algorithm with episodes of runs and others without a run; the message names the line.
    """
    table = _read(path, options)
    if "episode" in table.columns:
        _check_units(table)
    if "step" in table.columns:
        return runs_of(_curves(table, options.metric), one_line(path.stem), options.metric)
    metrics, left_out = _metrics(table, options.metric)
    values: dict[tuple[str, str, str], list[list[float]]] = {}
    for line, row in table.rows:
        where = f"{path}, line {line}"
        labels = table.labels(where, row)
        numbers = [_score(where, name, row[name]) for name in metrics]
        if labels in values and "episode" not in table.columns:
            raise ValueError(
                f"{where}: this run of {labels[0]!r} on {labels[1]!r} stands twice; name the "
                f"column that tells its rows apart with --columns step=NAME or episode=NAME."
            )
        values.setdefault(labels, []).append(numbers)
    runs = []
    for (algorithm, task, run), rows in values.items():
        scores = dict(zip(metrics, np.array(rows).T, strict=True))
        along = {} if run else {name: sample[None] for name, sample in scores.items()}
        steps = np.zeros(len(along) and 1, np.int64)
        place = one_line(path.stem), task, algorithm, run or "0"
        runs.append(Run(*place, steps, along, scores))
    return Reading(tuple(runs), tuple(left_out))


def _read(path: Path, options: Options) -> _Table:
    """Return the table in a file; raise for a damaged one, and for columns that it lacks."""
    try:
        reader = csv.reader(io.StringIO(read_import(path).decode("utf-8-sig")), strict=True)
        header = [one_line(name.strip()) for name in next(reader, [])]
        lines = [
            (reader.line_num, [one_line(text.strip()) for text in row]) for row in reader if row
        ]
    except (UnicodeDecodeError, csv.Error) as error:
        raise ValueError(f"{path} cannot be read as CSV in UTF-8: {error}.") from None
    columns = {label: options.columns.get(label, label) for label in LABELS}
    if "algorithm" not in {*options.columns, *header} and "policy" in header:
        columns["algorithm"] = "policy"  # in the episodes that this package exports
    for label in ("step", "episode"):
        if label in options.columns or label in header:
            columns[label] = options.columns.get(label, label)
    for label, name in options.columns.items():
        named("column", name, dict.fromkeys(header), f"{path}, for {label}")
    if not set(columns.values()) < set(header) or len(set(header)) < len(header):
        raise ValueError(
            f"{path}: the first line is no header of scores; allowed: each column once, "
            f"{', '.join(columns.values())} and one or more metrics, for instance return. Name "
            f"other columns with --columns, for instance algorithm=algo,task=env,run=seed."
        )
    if not lines:
        raise ValueError(f"{path} has a header and no scores.")
    for line, row in lines:
        if len(row) != len(header):
            raise ValueError(
                f"{path}, line {line} has {len(row)} fields; allowed: {len(header)}, as the header."
            )
    metrics = {name: None for name in header if name not in columns.values()}
    named("metric", options.metric, metrics, str(path))
    rows = [(line, dict(zip(header, row, strict=True))) for line, row in lines]
    return _Table(path, header, rows, columns)


def _check_units(table: _Table) -> None:
    """Raise for an algorithm that has a run in some rows and none in others."""
    column, first_rows = table.columns["run"], dict[str, tuple[int, bool]]()
    for line, row in table.rows:
        algorithm, trained = row[table.columns["algorithm"]], bool(row[column])
        first, other = first_rows.setdefault(algorithm, (line, trained))
        if trained != other:
            raise ValueError(
                f"{table.path}, line {line}: {algorithm!r} has {'a' if trained else 'no'} {column} "
                f"here and {'a' if other else 'no'} {column} in line {first}; a policy that was "
                f"not trained and training runs cannot be pooled. Give every line a {column}, or "
                f"use two names."
            )


def _metrics(table: _Table, score: str) -> tuple[list[str], list[str]]:
    """Return the columns with numbers, the score among them, and what was left out."""
    names = [name for name in table.header if name not in table.columns.values()]
    odd = [
        name
        for name in names
        if name != score and (not name or any(_number(row[name]) is None for _, row in table.rows))
    ]
    left_out = [f"the column {name!r}, which does not hold numbers alone" for name in odd]
    return [name for name in names if name not in odd], left_out


def _curves(table: _Table, score: str) -> list[Curve]:
    """Return the evaluations of every run; rows in which the score is empty have none."""
    found: dict[tuple[str, str, str], dict[int, list[float]]] = {}
    for line, row in table.rows:
        where = f"{table.path}, line {line}"
        evaluations = found.setdefault(table.labels(where, row), {})
        if row[score]:
            step = _score(where, table.columns["step"], row[table.columns["step"]])
            values = evaluations.setdefault(whole_step(step, where), [])
            values.append(_score(where, score, row[score]))
    return [
        Curve(*labels, np.array(sorted(rows), np.int64), _samples(rows))
        for labels, rows in found.items()
    ]


def _samples(rows: Mapping[int, Sequence[float]]) -> tuple[np.ndarray, ...]:
    return tuple(np.array(rows[step]) for step in sorted(rows))


def _score(where: str, name: str, text: str) -> float:
    """Return the number in a field."""
    value = _number(text)
    if value is None:
        raise ValueError(f"{where}, column {name!r} was {text[:40]!r}; allowed: a finite number.")
    return value


def _number(text: str) -> float | None:
    """Return the finite number that a text is, or None."""
    try:
        value = float(text)
    except ValueError:
        return None
    return None if "_" in text or not math.isfinite(value) else value
