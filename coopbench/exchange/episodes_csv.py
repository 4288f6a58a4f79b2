"""Episodes and checkpoints as CSV: written for other programs, and read back strictly."""

import csv
import io
import math
from pathlib import Path
from typing import Any

import numpy as np

from coopbench.analysis.findings import Findings
from coopbench.episodes.table import EpisodeTable
from coopbench.exchange.inputs import read_import
from coopbench.files import write_text
from coopbench.report.data import columns_as_csv, plain
from coopbench.report.frames import EPISODE_COLUMNS, progress_columns

__all__ = ["progress_csv", "read_episodes_csv", "save_episodes_csv"]

_INTEGERS = ("episode", "seed")


def progress_csv(table: EpisodeTable) -> str:
    """Return all checkpoints as CSV: a line per task, policy, run, step and episode.

    Metrics are columns, floats in full precision, and a field is empty where one is undefined.
    """
    names = dict.fromkeys(name for progress in table.progress for name in progress.metrics)
    header = ["step", "episode", *names]
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(map(plain, ("task", "policy", "run", *header)))
    for progress in table.progress:
        columns, cell = progress_columns(progress), progress.cell
        count = len(columns["step"])
        labels = [[plain(label)] * count for label in (cell.task, cell.policy, cell.run)]
        fields = [_fields(columns[n]) if n in columns else [""] * count for n in header]
        writer.writerows(zip(*labels, *fields, strict=True))
    return out.getvalue()


def _fields(column: np.ndarray) -> list[Any]:
    values: list[Any] = column.tolist()
    if column.dtype != np.float64 or np.isfinite(column).all():
        return values
    return [value if math.isfinite(value) else "" for value in values]


def save_episodes_csv(findings: Findings, path: str | Path) -> None:
    """Write every episode that was played for a report as CSV: a row each, as in a data frame.

    Metrics are columns, floats in full precision, and a field is empty where one is undefined.
    """
    write_text(Path(path), columns_as_csv(findings.episodes.columns()))


def read_episodes_csv(path: str | Path) -> list[dict[str, object]]:
    """Read a file of ``save_episodes_csv``: a row per episode, as ``EpisodeTable.rows`` has it.

    Numbers come back bit for bit; an empty field is nan, and None for the run of a fixed policy.
    The file does not hold the course of an episode; only the results folder does.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: for a file that is too large or damaged; the message names line and column.
    """
    try:
        text = read_import(Path(path)).decode()
        reader = csv.reader(io.StringIO(text, newline=""), strict=True)
        header = next(reader, [])
        rows = [(reader.line_num, cells) for cells in reader]
    except (UnicodeDecodeError, csv.Error) as error:
        raise ValueError(f"{path} cannot be read as CSV in UTF-8: {error}.") from None
    if tuple(header[: len(EPISODE_COLUMNS)]) != EPISODE_COLUMNS or len(set(header)) < len(header):
        raise ValueError(
            f"{path}: the first line is no header of episodes; allowed: each column once, first "
            f"{', '.join(EPISODE_COLUMNS)}."
        )
    return [_row(header, cells, f"{path}, line {line}") for line, cells in rows]


def _row(header: list[str], cells: list[str], where: str) -> dict[str, object]:
    if len(cells) != len(header):
        raise ValueError(f"{where} has {len(cells)} fields; allowed: {len(header)}, as the header.")
    row = {}
    for name, text in zip(header, cells, strict=True):
        try:
            row[name] = _value(name, text)
        except (KeyError, OverflowError, ValueError):
            raise ValueError(
                f"{where}, column {name!r} was {text[:40]!r}; {_allowed(name)}."
            ) from None
    return row


def _value(name: str, text: str) -> object:
    if name in ("task", "policy", "seats", "trajectory"):
        return text
    if name == "terminated":
        return {"True": True, "False": False}[text]
    if name == "run" and not text:
        return None
    # A game that measures its length itself has a float there.
    whole = name in ("run", *_INTEGERS) or (name == "length" and text.isdigit())
    value = (int if whole else float)(text or "nan")
    if text and ("_" in text or not math.isfinite(value)):
        raise ValueError(text)
    return value


def _allowed(name: str) -> str:
    if name == "terminated":
        return "allowed: True or False"
    return "allowed: a whole number" if name in ("run", *_INTEGERS) else "allowed: a finite number"
