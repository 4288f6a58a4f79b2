"""Charts of Weights & Biases, exported as CSV: a column for the step and one for each run."""

import csv
import io
import math
from pathlib import Path

import numpy as np

from coopbench.episodes.names import one_line
from coopbench.exchange.curves import curve_of, labels_of, runs_of, whole_step
from coopbench.exchange.runs import Options, Reading, read_import
from coopbench_envs.parameters import named

_BOUNDS = ("__MIN", "__MAX")  # further columns of a run, of charts that average


def is_wandb(place: Path) -> bool:
    """Whether the columns of a CSV file are those of a chart: all but the first "RUN - METRIC"."""
    if place.suffix.lower() != ".csv" or not place.is_file():
        return False
    with place.open("rb") as file:
        header = next(csv.reader([file.readline(1 << 20).decode("utf-8-sig", "replace")]), [])
    return len(header) > 1 and all(" - " in name for name in header[1:])


def read_wandb(place: Path, options: Options) -> Reading:
    """Read the runs of a chart, whose labels follow from their names.

    Raises ``ValueError`` for a metric that no column has, for runs whose names do not fit or are
    not distinct, for steps that are no whole numbers, and for a damaged file.
    """
    try:
        reader = csv.reader(io.StringIO(read_import(place).decode("utf-8-sig")), strict=True)
        header = next(reader)
        rows = [row for row in reader if row]
    except (UnicodeDecodeError, csv.Error, StopIteration) as error:
        raise ValueError(f"{place} cannot be read as CSV in UTF-8: {error}.") from None
    columns = list[tuple[str, int]]()
    measured = dict[str, None]()
    for k, name in enumerate(header[1:], start=1):
        run, _, metric = name.rpartition(" - ")
        if metric.endswith(_BOUNDS):
            continue
        measured[one_line(metric)] = None
        if metric == options.metric:
            columns.append((run, k))
    named("metric", options.metric, measured, str(place))
    labels = labels_of([run for run, _ in columns], options.names, place)
    numbered = [(step, row) for row in rows if not math.isnan(step := _number(place, row, 0))]
    steps = np.array([whole_step(step, str(place)) for step, _ in numbered], np.int64)
    curves = []
    for label, (_, k) in zip(labels, columns, strict=True):
        values = np.array([_number(place, row, k) for _, row in numbered], np.float64)
        curves.append(curve_of(label, steps, values))
    return runs_of(curves, one_line(place.stem), options.metric)


def _number(place: Path, row: list[str], k: int) -> float:
    """Return the number in a field; nan if it is empty or missing."""
    text = row[k].strip() if k < len(row) else ""
    try:
        return float(text) if text else math.nan
    except ValueError:
        raise ValueError(
            f"{place} has {text[:40]!r} in column {k + 1}; allowed: numbers."
        ) from None
