"""Scores that were made elsewhere: a CSV file with a row for each run of each algorithm and task.

The report has the summary of every algorithm and, for each pair, how likely a run of one beats a
run of the other.
"""

import csv
import io
import itertools
import math
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from coopbench import statistics
from coopbench.exchange.imported import ABSOLUTE, Imported, Run
from coopbench.exchange.inputs import read_import
from coopbench.exchange.summary_table import summary_table
from coopbench.files import write_text
from coopbench.report.markdown import markdown_table
from coopbench.report.tables.model import Column, Entry, Footnotes, Group, Table
from coopbench_envs.parameters import named

__all__ = ["comparison_table", "read_scores_csv", "save_scores_report"]

_LABELS = ("algorithm", "task", "run")


def read_scores_csv(path: str | Path, absolute: str = "unknown") -> Imported:
    """Read a CSV file with the columns ``algorithm``, ``task``, ``run`` and one for each metric.

    A row is one run: what it scored at the end of its training, or over its evaluation episodes.
    ``absolute`` says what the scores are, a key of ``ABSOLUTE``.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: for a file that is too large or damaged, and for a run that stands twice; the
            message names the line.
    """
    named("kind of absolute metric", absolute, ABSOLUTE)
    try:
        reader = csv.reader(io.StringIO(read_import(Path(path)).decode("utf-8-sig")), strict=True)
        header = [name.strip() for name in next(reader, [])]
        rows = [(reader.line_num, row) for row in reader if row]
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
        run = _run(where, header, row)
        if runs.setdefault((run.task, run.algorithm, run.name), run) is not run:
            raise ValueError(
                f"{where}: this run of {run.algorithm!r} on {run.task!r} stands twice."
            )
    return Imported(Path(path).stem, absolute, tuple(runs.values()))


def _run(where: str, header: list[str], row: list[str]) -> Run:
    """Return the run of one line."""
    if len(row) != len(header):
        raise ValueError(f"{where} has {len(row)} fields; allowed: {len(header)}, as the header.")
    fields = {name: text.strip() for name, text in zip(header, row, strict=True)}
    empty = [name for name in _LABELS if not fields[name]]
    if empty:
        raise ValueError(f"{where}: {empty[0]} is empty; name it.")
    scores = {name: _score(where, name, fields[name]) for name in header if name not in _LABELS}
    labels = fields["task"], fields["algorithm"], fields["run"]
    return Run(*labels, np.zeros(0, np.int64), {}, scores)


def _score(where: str, name: str, text: str) -> np.ndarray:
    """Return the score in a field, (1,)."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise ValueError(f"{where}, column {name!r} was {text[:40]!r}; allowed: a finite number.")
    return np.array([value])


def comparison_table(imported: Imported, metric: str = "return") -> Table:
    """Return the probability of improvement of every pair of algorithms, with intervals."""
    notes = Footnotes()
    columns = (
        Column("Comparison", "first and second algorithm", numeric=False),
        Column("P(first better)", "that a run of the first beats one of the second on a task"),
        Column("95 % interval", "stratified bootstrap over runs"),
    )
    groups = (Group("", "", tuple(_comparisons(imported, metric, notes))),)
    return Table(
        title=f"Probability of improvement in {metric} on {imported.environment}",
        columns=columns,
        groups=groups,
        footnotes=notes.all(),
        unit="Unit of inference: runs. It does not depend on the scale of the scores.",
        kind="",
    )


def _comparisons(imported: Imported, metric: str, notes: Footnotes) -> Iterator[tuple[Entry, ...]]:
    """Yield the rows of pairs that both have runs on every task."""
    scores = imported.scores(metric)
    for first, second in itertools.combinations(imported.algorithms, 2):
        pair = scores[first], scores[second]
        name = f"{first} vs {second}"
        if not all(len(runs) for side in pair for runs in side):
            flag = notes.mark("no run on some task")
            yield Entry(name, name), Entry("-", math.nan), Entry("-", math.nan, flag)
            continue
        interval = statistics.bootstrap_interval(pair, statistics.probability_of_improvement)
        low, high = float(interval.low), float(interval.high)
        yield (
            Entry(name, name),
            Entry(f"{float(interval.estimate):.3f}", float(interval.estimate)),
            Entry(f"{low:.3f} to {high:.3f}", high - low, notes.mark("; ".join(interval.warnings))),
        )


def save_scores_report(imported: Imported, metric: str, path: str | Path) -> Path:
    """Write the report of imported scores as Markdown, in one atomic step; return its path."""
    missing = [f"- {text}" for text in imported.missing]
    parts = [
        f"# {metric} on {imported.environment}",
        "These results were made elsewhere: no episode was played again, and nothing is verified.",
        markdown_table(summary_table(imported, metric)),
        markdown_table(comparison_table(imported, metric)),
        *(["Missing:\n\n" + "\n".join(missing)] if missing else []),
    ]
    write_text(Path(path), "\n\n".join(parts) + "\n")
    return Path(path)
