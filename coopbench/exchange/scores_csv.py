"""Scores that were made elsewhere: a CSV file with a row for each run of an algorithm on a task."""

import csv
import io
import math
from pathlib import Path

import numpy as np

from coopbench.episodes.names import one_line
from coopbench.exchange.runs import Run, read_import

_LABELS = ("algorithm", "task", "run")


def read_scores_csv(path: Path, absolute: str = "unknown") -> tuple[Run, ...]:
    """Read a CSV file with the columns ``algorithm``, ``task``, ``run`` and one for each metric.

    A row is one run: what it scored at the end of its training, or over its evaluation episodes.
    The scores may be of any kind of ``absolute`` metric.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: for a file that is too large or damaged, and for a run that stands twice; the
            message names the line.
    """
    try:
        reader = csv.reader(io.StringIO(read_import(path).decode("utf-8-sig")), strict=True)
        header = [one_line(name.strip()) for name in next(reader, [])]
        rows = [
            (reader.line_num, [one_line(text.strip()) for text in row]) for row in reader if row
        ]
    except (UnicodeDecodeError, csv.Error) as error:
        raise ValueError(f"{path} cannot be read as CSV in UTF-8: {error}.") from None
    metrics = [name for name in header if name not in _LABELS]
    if not set(_LABELS) <= set(header) or not metrics or len(set(header)) < len(header):
        raise ValueError(
            f"{path}: the first line is no header of scores; allowed: each column once, "
            f"{', '.join(_LABELS)} and one or more metrics, for instance return."
        )
    if not rows:
        raise ValueError(f"{path} has a header and no scores.")
    runs: dict[tuple[str, ...], Run] = {}
    for line, row in rows:
        where = f"{path}, line {line}"
        run = _run(one_line(path.stem), where, header, row)
        if runs.setdefault((run.task, run.algorithm, run.name), run) is not run:
            raise ValueError(
                f"{where}: this run of {run.algorithm!r} on {run.task!r} stands twice."
            )
    return tuple(runs.values())


def _run(environment: str, where: str, header: list[str], row: list[str]) -> Run:
    """Return the run of one line."""
    if len(row) != len(header):
        raise ValueError(f"{where} has {len(row)} fields; allowed: {len(header)}, as the header.")
    fields = {name: text.strip() for name, text in zip(header, row, strict=True)}
    empty = [name for name in _LABELS if not fields[name]]
    if empty:
        raise ValueError(f"{where}: {empty[0]} is empty; name it.")
    scores = {name: _score(where, name, fields[name]) for name in header if name not in _LABELS}
    labels = fields["task"], fields["algorithm"], fields["run"]
    return Run(environment, *labels, np.zeros(0, np.int64), {}, scores)


def _score(where: str, name: str, text: str) -> np.ndarray:
    """Return the score in a field, (1,)."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if "_" in text or not math.isfinite(value):
        raise ValueError(f"{where}, column {name!r} was {text[:40]!r}; allowed: a finite number.")
    return np.array([value])
