"""Rows: the base of all rows of reports, which are equal where they say the same."""

import math
from typing import Any

import numpy as np

_NAN = object()  # stands for every nan, of which none equals itself


class ReportRow:
    """A row of a report: equal to another of its type if all fields are, where nan equals nan.

    Its types are dataclasses with ``eq=False``: how their own comparison treats nan depends on the
    release of Python, and on whether it is the same object.
    """

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return bool(_comparable(vars(self)) == _comparable(vars(other)))

    def __hash__(self) -> int:
        return hash(_comparable(vars(self)))


def _comparable(value: Any) -> Any:
    """Return a value that can be compared and hashed, with one object for every nan."""
    if isinstance(value, dict):
        return tuple(_comparable(part) for part in value.values())
    if isinstance(value, np.ndarray):
        value = value.tolist()
    if isinstance(value, list | tuple):
        return tuple(_comparable(part) for part in value)
    return _NAN if isinstance(value, float) and math.isnan(value) else value
