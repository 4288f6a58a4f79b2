"""Checks of the arguments that the functions of this folder share; errors name the argument."""

from typing import Any

import numpy as np


def check_within(name: str, value: Any, low: float, high: float) -> None:
    """Raise ``ValueError`` unless ``value`` is a number in [low, high]; nan never is."""
    if not isinstance(value, (int, float, np.number)) or not low <= value <= high:
        raise ValueError(f"{name} was {value!r}; allowed: a number in [{low:g}, {high:g}].")


def check_count(name: str, value: Any, low: int, high: int = 1_000_000) -> None:
    """Raise ``ValueError`` unless ``value`` is an integer in [low, high]."""
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)):
        raise ValueError(f"{name} was {value!r}; allowed: an integer in [{low}, {high}].")
    check_within(name, value, low, high)


def numbers(name: str, values: Any) -> np.ndarray:
    """Return ``values`` as a float64 array; raise ``ValueError`` if they are not numbers."""
    try:
        return np.asarray(values, np.float64)
    except (TypeError, ValueError):
        raise ValueError(f"{name} was {values!r}; allowed: an array of numbers.") from None


def matrix(name: str, values: Any, n: int, *, diagonal: bool = False) -> np.ndarray:
    """Return ``values`` as a finite (n, n) array; its diagonal must be zero unless ``diagonal``.

    Raises ``ValueError`` for another shape, for values that are not finite, and for a diagonal that
    is not zero.
    """
    table = numbers(name, values)
    if table.shape != (n, n) or not np.isfinite(table).all():
        raise ValueError(f"{name} must be finite of shape ({n}, {n}); given shape {table.shape}.")
    if not diagonal and np.diag(table).any():
        raise ValueError(f"{name} must have a zero diagonal; given {np.diag(table).tolist()}.")
    return table
