"""Speeds: fractions of a cell per step, and the shares of trains that have them."""

from collections.abc import Iterable, Mapping
from fractions import Fraction
from math import isclose, isfinite, lcm
from numbers import Real
from typing import Any

__all__ = ["read_factor", "read_shares", "read_unit"]

_LARGEST = 1000  # denominator


def read_factor(name: str, text: Any) -> Fraction:
    """Read a fraction in (0, 1] such as "1/3"; ``name`` is the parameter's, for errors."""
    try:
        value = Fraction(text)
        fits = 0 < value <= 1 and value.denominator <= _LARGEST
    except (TypeError, ValueError, ZeroDivisionError, OverflowError):
        fits = False
    if not fits:
        raise ValueError(
            f"Parameter {name!r} of coopbench/Rail was {text!r}; allowed: a fraction above 0 "
            f"and at most 1 with a denominator up to {_LARGEST}, for instance '1/3'."
        )
    return value


def read_shares(speeds: Mapping[Any, Any]) -> dict[Fraction, float]:
    """Read the shares of trains by speed; they must add up to 1."""
    shares: dict[Fraction, float] = {}
    for text, share in speeds.items():
        speed = read_factor("speeds", text)
        is_share = isinstance(share, Real) and not isinstance(share, bool) and isfinite(share)
        if not is_share or not 0 <= share <= 1:
            raise ValueError(
                f"Parameter 'speeds' of coopbench/Rail has the share {share!r} of speed "
                f"{text!r}; allowed: numbers from 0 to 1."
            )
        shares[speed] = shares.get(speed, 0.0) + float(share)
    total = sum(shares.values())
    if not isclose(total, 1.0, abs_tol=1e-9):
        raise ValueError(
            f"Parameter 'speeds' of coopbench/Rail was {dict(speeds)!r}, whose shares add up "
            f"to {total:g}; allowed: shares that add up to 1."
        )
    return shares


def read_unit(fractions: Iterable[Fraction]) -> int:
    """Return the least number of which every fraction is a whole multiple of its inverse.

    It is a multiple of 12, so that speeds of 1, 1/2, 1/3 and 1/4 can always be imported.
    """
    return lcm(12, *(fraction.denominator for fraction in fractions))
