"""Rounding: columns of numbers in one or two bytes each, exact where there are few values.

A column with at most 256 different values is stored exactly, as their table and one byte each.
Whole numbers are stored exactly if their range fits; all others are rounded to equal steps of the
column's range: ``FINE`` or ``COARSE`` of them.
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple, Self

import numpy as np

__all__ = ["COARSE", "FINE", "Packed", "pack_columns", "unpack_columns"]

# Steps from the lowest value of a column to the highest.
FINE, COARSE = (1 << 16) - 2, (1 << 12) - 2
_TABLE = 256  # different values that one byte tells apart


class Packed(NamedTuple):
    """Columns as arrays for an npz file: the bytes of their codes, and what the codes mean."""

    low: np.ndarray  # uint8, lower byte of every code
    high: np.ndarray  # uint8, upper byte of the codes of columns that have no table
    values: np.ndarray  # float64, of each column its table, or its lowest value and its step

    @classmethod
    def of(cls, arrays: Mapping[str, np.ndarray]) -> Self:
        """Take the three arrays out of those of a file."""
        return cls(*(arrays[name] for name in cls._fields))


def pack_columns(columns: Iterable[tuple[np.ndarray, int]]) -> tuple[Packed, list[int]]:
    """Return columns as codes, and the number of values in the table of each, or minus its steps.

    ``columns`` are pairs of an array and the steps that it may be rounded to.
    """
    low, high, values, forms = [], [], [], []
    for column, steps in columns:
        flat = np.asarray(column, np.float64).ravel()
        codes, meaning, form = _tabled(flat) or _stepped(flat, steps)
        low.append((codes & 255).astype(np.uint8))
        if form < 0:
            high.append((codes >> 8).astype(np.uint8))
        values.append(meaning)
        forms.append(form)
    above = np.concatenate(high) if high else np.empty(0, np.uint8)
    return Packed(np.concatenate(low), above, np.concatenate(values)), forms


def unpack_columns(packed: Packed, forms: Iterable[int], sizes: Iterable[int]) -> list[np.ndarray]:
    """Return columns of these sizes, float64; the inverse of ``pack_columns`` but for rounding."""
    columns, at, above, value = [], 0, 0, 0
    for form, size in zip(forms, sizes, strict=True):
        codes = packed.low[at : at + size].astype(np.int64)
        at += size
        if form >= 0:
            columns.append(packed.values[value : value + form][codes])
            value += form
            continue
        codes |= packed.high[above : above + size].astype(np.int64) << 8
        above += size
        lowest, step = packed.values[value : value + 2]
        value += 2
        columns.append(np.where(codes > -form, np.nan, lowest + codes * step))
    return columns


def _tabled(flat: np.ndarray) -> tuple[np.ndarray, np.ndarray, int] | None:
    """Return codes, table and its size; None if there are too many different values."""
    table, codes = np.unique(flat, return_inverse=True)
    return None if len(table) > _TABLE else (codes, table, len(table))


def _stepped(flat: np.ndarray, steps: int) -> tuple[np.ndarray, np.ndarray, int]:
    """Return codes, lowest value with step, and minus the steps; the code above all is nan."""
    finite = flat[np.isfinite(flat)]
    lowest, width = finite.min(), np.ptp(finite)
    whole = width <= FINE and bool((finite == np.rint(finite)).all())
    steps = FINE if whole else steps
    step = 1.0 if whole else width / steps
    codes = np.where(np.isfinite(flat), np.rint((flat - lowest) / step), steps + 1)
    return codes.astype(np.int64), np.array([lowest, step]), -steps
