"""Checks scores once, at the border."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

Tasks = np.ndarray | list[np.ndarray]  # checked scores: (runs, tasks), or one array per task
Scores = np.ndarray | Sequence[Any]  # what a caller may pass; see as_tasks


def as_tasks(scores: Scores, name: str = "scores") -> Tasks:
    """Return scores as a finite float64 matrix, or as a list of arrays when run counts differ.

    Accepted: a matrix (runs, tasks), also as nested lists; a 1-D array, which is the runs of a
    single task; a list or tuple whose items are 1-D numpy arrays, one per task, of any lengths
    (arrays in a list are tasks, plain lists in a list are rows). Masked entries are missing.

    Raises:
        ValueError: naming the first missing or infinite entry by run and task, or the shape.
    """
    if _is_per_task(scores):
        tasks = [as_vector(s, f"{name}, task {j},") for j, s in enumerate(scores)]
        return stacked(tasks)
    matrix = floats(scores)
    if matrix.ndim == 1:
        matrix = matrix[:, None]
    if matrix.ndim != 2 or matrix.size == 0:
        raise ValueError(
            f"{name} has shape {matrix.shape}; allowed is a non-empty (runs, tasks) matrix "
            "or a list with one 1-D array per task (curves over steps have their own functions)"
        )
    bad = np.argwhere(~np.isfinite(matrix))
    if len(bad):
        run, task = bad[0]
        raise ValueError(
            f"{name} has {matrix[run, task]} at run {run}, task {task} ({len(bad)} such entries); "
            "allowed are finite numbers (a list with one array per task can leave runs out)"
        )
    return matrix


def as_vector(values: Scores, name: str) -> np.ndarray:
    """Return values as a finite 1-D float64 array that is not empty.

    Raises:
        ValueError: naming the first missing or infinite entry by position, or the shape.
    """
    vector = floats(values)
    if vector.ndim != 1 or not vector.size:
        raise ValueError(f"{name} has shape {vector.shape}; allowed is 1-D with >= 1 value")
    bad = np.flatnonzero(~np.isfinite(vector))
    if len(bad):
        raise ValueError(
            f"{name} has {vector[bad[0]]} at position {bad[0]} ({len(bad)} such entries); "
            "allowed are finite numbers"
        )
    return vector


def floats(values: Scores) -> np.ndarray:
    """Return values as a float64 array, with nan for those that a masked array hides."""
    if isinstance(values, np.ma.MaskedArray):
        return np.ma.asarray(values, np.float64).filled(np.nan)
    return np.asarray(values, dtype=np.float64)


def _is_per_task(scores: Scores) -> bool:
    listed = isinstance(scores, (list, tuple)) and len(scores) > 0
    return listed and all(isinstance(item, np.ndarray) for item in scores)


def stacked(columns: Sequence[np.ndarray]) -> Tasks:
    """Return the runs of each task as a matrix, or as a list if run counts differ."""
    same = len({len(column) for column in columns}) == 1
    return np.stack(columns, axis=1) if same else list(columns)


def columns_of(tasks: Tasks) -> list[np.ndarray]:
    """Return the runs of each task as contiguous arrays."""
    return [np.ascontiguousarray(c) for c in tasks.T] if isinstance(tasks, np.ndarray) else tasks


def check_confidence(confidence: float) -> None:
    """Raise unless ``0 < confidence < 1``."""
    if not 0.0 < confidence < 1.0:
        raise ValueError(f"confidence is {confidence}; allowed is a share between 0 and 1")


def means_of_defined(rows: np.ndarray) -> np.ndarray:
    """Return ``mean_of_defined`` of every row of a matrix."""
    if rows.size and np.isfinite(rows).all():
        return np.asarray(np.ascontiguousarray(rows).mean(axis=1))  # sums in the order of one row
    return np.array([mean_of_defined(row) for row in rows])


def mean_of_defined(sample: np.ndarray) -> float:
    """Return the mean of the finite values of a sample; nan if there are none."""
    defined = sample[np.isfinite(sample)]
    return float(defined.mean()) if len(defined) else math.nan
