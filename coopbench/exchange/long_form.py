"""Tables of scores in long form, from a data frame of pandas or a CSV file.

A row is a run, an episode of a run, or an evaluation along its training.
"""

import csv
import io
import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from coopbench.episodes.names import one_line
from coopbench.exchange.runs import LABELS, Evaluation, Options, Reading, Run, read_import
from coopbench_envs.parameters import named, nearest

PLACES = ("step", "episode")  # further columns that say where a row belongs
_SHOWN, _LONGEST = 10, 40  # columns that a message quotes, and characters of each


class _Table(NamedTuple):
    """Rows of text, with the columns that hold labels, steps and episodes."""

    place: str  # how messages call the table
    rows: list[tuple[str, dict[str, str]]]  # where a row stands, and its fields by column
    columns: Mapping[str, str]  # {"algorithm", "task", "run", and maybe "step", "episode": name}
    metrics: Sequence[str]  # the other columns that have a name: that of an index has none

    def labels(self, where: str, row: Mapping[str, str]) -> tuple[str, str, str]:
        """Return algorithm, task and run of a row; raise if one is empty.

        Episodes without a run are those of a policy that was not trained.
        """
        required = LABELS[:2] if "episode" in self.columns else LABELS
        empty = [name for name in required if not row[self.columns[name]]]
        if empty:
            raise ValueError(f"{where}: {self.columns[empty[0]]} is empty; name it.")
        algorithm, task, run = (row[self.columns[name]] for name in LABELS)
        # pandas writes the numbers of a column with gaps as floats.
        return algorithm, task, re.sub(r"^(\d+)\.0$", r"\1", run)


def read_frame(frame: Any, options: Options) -> Reading:
    """Read a data frame of pandas, without its index, as the CSV file that it would make."""
    return _reading("the data frame", frame.to_csv(index=False), "table", options)


def read_csv(file: Path, options: Options) -> Reading:
    """Read a CSV file with the columns ``algorithm``, ``task``, ``run`` and one for each metric.

    ``options.columns`` gives these columns other names. A row is one run: what it scored at the end
    of its training, or over its evaluation episodes. With a column ``episode`` it is an episode of
    a run. With a column ``step`` it is an evaluation, of which the score alone is read; rows with
    the same step are its episodes, and the last evaluation is the score of the run. Columns other
    than the score that do not hold numbers are left out, and listed; one without a name, as of an
    index, is not read.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: for a file that is too large or damaged, for a row that stands twice, and for an
            algorithm with episodes of runs and others without a run; the message names the line.
    """
    try:
        text = read_import(file).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValueError(f"{file} cannot be read as CSV in UTF-8: {error}.") from None
    return _reading(str(file), text, one_line(file.stem), options)


def _reading(place: str, text: str, environment: str, options: Options) -> Reading:
    table = _table(place, text, options)
    _check_units(table)
    _check_distinct(table)
    odd = [
        name for name in table.metrics if name != options.metric and not _is_numeric(table, name)
    ]
    left_out = [f"the column {name!r}, which does not hold numbers alone" for name in odd]
    steps = "step" in table.columns
    metrics = [options.metric] if steps else [n for n in table.metrics if n not in odd]
    found: dict[tuple[str, str, str], dict[int, list[list[float]]]] = {}
    unscored: dict[tuple[str, str, str], list[str]] = {}  # steps of rows that lack the score
    for where, row in table.rows:
        labels = table.labels(where, row)
        evaluations = found.setdefault(labels, {})
        if steps and not row[options.metric]:
            if all(_number(row[name]) is None for name in table.metrics):
                unscored.setdefault(labels, []).append(row[table.columns["step"]])
            continue  # otherwise a row about another metric
        values = [_score(where, name, row[name]) for name in metrics]
        evaluations.setdefault(_step(where, row, table) if steps else 0, []).append(values)
    runs = []
    for (algorithm, task, run), rows in found.items():
        if at := unscored.get((algorithm, task, run)):
            judged = f"its last value is at step {max(rows)}" if rows else "it has no value"
            left_out.append(
                f"rows without {options.metric} of {environment} / {task} / {algorithm} / {run}: "
                f"{len(at)}, the last at step {at[-1]}; {judged}"
            )
        parts = tuple(
            Evaluation(step, dict(zip(metrics, np.array(rows[step]).T, strict=True)))
            for step in sorted(rows)
        )
        absolute = {} if steps else parts[0].samples
        along = parts if steps or not run else ()  # an untrained policy is evaluated at step 0
        runs.append(Run(environment, task, algorithm, run or "0", along, absolute))
    left_out += _going_back(table) if steps else []
    return Reading(tuple(runs), tuple(left_out), last=steps)


def _table(place: str, text: str, options: Options) -> _Table:
    """Return the table in a text; raise for a damaged one, and for columns that it lacks."""
    try:
        reader = csv.reader(io.StringIO(text), strict=True)
        header = [one_line(name.strip()) for name in next(reader, [])]
        lines = [
            (f"{place}, line {reader.line_num}", [one_line(field.strip()) for field in row])
            for row in reader
            if row
        ]
    except csv.Error as error:
        raise ValueError(f"{place} cannot be read as CSV: {error}.") from None
    columns = {label: options.columns.get(label, label) for label in LABELS}
    if "algorithm" not in {*options.columns, *header} and "policy" in header:
        columns["algorithm"] = "policy"  # in the episodes of our own reports
    for label in PLACES:
        # A column that stands for another label, as in step=episode, is not taken for its own.
        if label in options.columns or label in {*header} - {*options.columns.values()}:
            columns[label] = options.columns.get(label, label)
    if not any((header, lines)):
        raise ValueError(
            f"{place} is empty; allowed: a line with the names of columns, and one for each run."
        )
    _check_header(place, header, columns)
    if not lines:
        raise ValueError(f"{place} has a header and no scores.")
    for where, row in lines:
        if len(row) != len(header):
            raise ValueError(
                f"{where} has {len(row)} fields; allowed: {len(header)}, as the header."
            )
    metrics = [name for name in header if name and name not in columns.values()]
    named("metric", options.metric, dict.fromkeys(metrics), place)
    rows = [(where, dict(zip(header, row, strict=True))) for where, row in lines]
    return _Table(place, rows, columns, metrics)


def _check_header(place: str, header: Sequence[str], columns: Mapping[str, str]) -> None:
    """Raise unless the labels have columns of their own, and all columns names of their own."""
    labels = dict[str, str]()
    for label, name in columns.items():
        if other := labels.get(name):
            raise ValueError(
                f"{place}: the column {_quoted([name])} was given for {other} and for {label}; "
                f"allowed: a column for each. Name others with --columns {label}=NAME."
            )
        labels[name] = label
    lacking = [name for name in labels if name not in header]
    twice = [name for name, count in Counter(header).items() if count > 1]
    short = [name for name in header if len(name) <= _LONGEST]
    hints = dict.fromkeys(nearest(name, short) for name in lacking)
    wrong = [f"it lacks {_quoted(lacking)}"] if lacking else []
    wrong += [f"it has {_quoted(twice)} more than once"] if twice else []
    wrong += [] if lacking or {*header} - {*labels, ""} else ["it has no metric"]
    if wrong:
        given = f"the columns {_quoted(header)}" if header else "an empty line"
        raise ValueError(
            f"{place}: the first line is no header of scores: {', and '.join(wrong)}."
            f"{''.join(hints)} Given: {given}. Allowed: names with commas between them, each once, "
            f"{_quoted([*labels])} and one or more metrics, for instance return. Name other "
            f"columns with --columns, for instance algorithm=algo,task=env,run=seed."
        )


def _quoted(names: Sequence[str]) -> str:
    """Return names of columns as messages quote them: of many the first, of long ones the start."""
    shown = [repr(n if len(n) <= _LONGEST else f"{n[:_LONGEST]}...") for n in names[:_SHOWN]]
    more = len(names) - _SHOWN
    return ", ".join([*shown, f"{more} more"] if more > 0 else shown)


def _check_units(table: _Table) -> None:
    """Raise for an algorithm that has a run in some rows and none in others."""
    column, first_rows = table.columns["run"], dict[str, tuple[str, bool]]()
    for where, row in table.rows:
        algorithm, trained = row[table.columns["algorithm"]], bool(row[column])
        first, other = first_rows.setdefault(algorithm, (where, trained))
        if trained != other:
            raise ValueError(
                f"{where}: {algorithm!r} has {'a' if trained else 'no'} {column} here and "
                f"{'a' if other else 'no'} {column} in {first}; a policy that was not trained and "
                f"training runs cannot be pooled. Give every line a {column}, or use two names."
            )


def _check_distinct(table: _Table) -> None:
    """Raise for a row that stands twice; rows of one step may be its episodes."""
    if "step" in table.columns and "episode" not in table.columns:
        return
    places = [table.columns[label] for label in PLACES if label in table.columns]
    first_rows: dict[tuple[str, ...], str] = {}
    for where, row in table.rows:
        labels = table.labels(where, row)
        first = first_rows.setdefault((*labels, *(row[name] for name in places)), where)
        if first != where:
            shown = ", ".join(f"{name} {row[name]}" for name in places)
            raise ValueError(
                f"{where}: run {labels[2]!r} of {labels[0]!r} on {labels[1]!r} stands twice"
                f"{f' ({shown})' if shown else ''}, first in {first}; leave one out, or name the "
                f"columns that tell them apart with --columns step=NAME,episode=NAME."
            )


def _going_back(table: _Table) -> list[str]:
    """Name the first run whose steps go back, as where a later session began at a checkpoint.

    Which of its rows still count is not known: files of several games, one after another, go back
    as well.
    """
    last, found = dict[tuple[str, str, str], int](), dict[tuple[str, str, str], str]()
    for where, row in table.rows:
        labels, step = table.labels(where, row), _step(where, row, table)
        before = last.get(labels, 0)
        if step < before:
            found.setdefault(labels, f"{where}, from step {before} to {step}")
        last[labels] = step
    if not found:
        return []
    labels, place = next(iter(found.items()))
    others = f", and {len(found) - 1} other runs" if len(found) > 1 else ""
    return [
        f"the order of {' / '.join(labels)}{others}, whose steps go back ({place}): all rows "
        "count, by rising step; leave out what a later session has replaced"
    ]


def _is_numeric(table: _Table, column: str) -> bool:
    return bool(column) and all(_number(row[column]) is not None for _, row in table.rows)


def _step(where: str, row: Mapping[str, str], table: _Table) -> int:
    """Return the step of a row."""
    step = _score(where, table.columns["step"], row[table.columns["step"]])
    if not (0 <= step < 1 << 63 and step == int(step)):
        raise ValueError(f"{where}: the step is {step:g}; allowed: whole numbers >= 0.")
    return int(step)


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
