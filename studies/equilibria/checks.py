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
