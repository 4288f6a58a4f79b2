"""Units that several tasks share: runs or episodes that have played more than one of them.

Units are an array (values,) for each task: equal entries of two tasks are the same run or episode.
"""

from collections.abc import Hashable, Sequence

import numpy as np

__all__ = ["Units", "align", "connected"]

Units = Sequence[np.ndarray]  # (values,) of every task


def connected(units: Units) -> list[list[int]]:
    """Group tasks, by number, that share units, directly or through other tasks."""
    equal: dict[Hashable, list[int]] = {}
    for k, names in enumerate(units):
        equal.setdefault((names.dtype.str, names.tobytes()), []).append(k)
    if len(equal) == 1:
        return list(equal.values())
    parts = list[tuple[list[int], set[Hashable]]]()
    for members in equal.values():
        numbers, own = members, set[Hashable](units[members[0]].tolist())
        for other, theirs in parts:
            if not own.isdisjoint(theirs):
                numbers, own = other + numbers, own | theirs
        parts = [part for part in parts if own.isdisjoint(part[1])] + [(numbers, own)]
    return [sorted(numbers) for numbers, _ in parts]


def align(rows: Sequence[np.ndarray], units: Units) -> list[np.ndarray]:
    """Return rows (..., values) with one column for every unit of any task.

    A column is 0 where a row lacks the unit; values of one unit in one row add up. Rows whose tasks
    all have the same units in the same order are returned as they are.
    """
    if all(np.array_equal(names, units[0]) for names in units[1:]):
        return list(rows)
    union, aligned = np.unique(np.concatenate(units)), []
    for row, names in zip(rows, units, strict=True):
        columns = np.zeros((len(union), *row.shape[:-1]))
        np.add.at(columns, np.searchsorted(union, names), np.moveaxis(row, -1, 0))
        aligned.append(np.moveaxis(columns, 0, -1))
    return aligned
