"""Numbers as text: as many decimals as their uncertainty carries, the same within one column."""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from statistics import median_low
from typing import Any

from coopbench.protocol.schema import Protocol

MISSING = "—"  # a value that does not exist; never 0, never an empty cell
_NOISE = 1e-12  # relative width below which two ends differ by rounding only
_SMALLEST_P = 1e-4


@dataclass(frozen=True)
class Scale:
    """How the numbers of one column are written."""

    decimals: int
    scientific: bool = False

    def __call__(self, value: float) -> str:
        """Write ``value`` with thousands separators; what is not a number becomes a dash."""
        if math.isnan(value):
            return MISSING
        if math.isinf(value):
            return "inf" if value > 0 else "-inf"
        if self.scientific:
            return "0" if value == 0 else f"{value:.3e}"
        text = f"{value:,.{self.decimals}f}"
        return text if any(digit in text for digit in "123456789") else text.lstrip("-")


def scale_of(values: Iterable[float], errors: Iterable[float]) -> Scale:
    """Choose the decimals of a column: two digits of its median error, seven digits in all.

    ``errors`` are half widths of intervals in the units of ``values``. Where nothing varies, four
    digits are shown.
    """
    top = max((abs(value) for value in values if math.isfinite(value)), default=0.0)
    if top == 0.0:
        return Scale(0)
    if top >= 1e9 or top < 1e-3:
        return Scale(3, scientific=True)
    size = math.floor(math.log10(top))
    real = [error for error in errors if math.isfinite(error) and error > _NOISE * top]
    decimals = 1 - math.floor(math.log10(median_low(real))) if real else 3 - size
    return Scale(max(0, min(decimals, 6 - size)))


def scale_of_rows(rows: Iterable[Any], centre: str) -> Scale:
    """Choose the decimals of a column of rows with ``low`` and ``high`` around ``centre``."""
    rows = list(rows)
    return scale_of(
        [getattr(row, centre) for row in rows], [(row.high - row.low) / 2 for row in rows]
    )


def level_text(protocol: Protocol) -> str:
    """Write the confidence level of a protocol, such as "95 %"."""
    return f"{100 * protocol.report.confidence:g} %"


def is_point(low: float, high: float) -> bool:
    """Whether an interval has no width beyond rounding."""
    return abs(high - low) <= _NOISE * max(abs(low), abs(high))


def longer_side(value: float, low: float, high: float) -> float:
    """Return the distance from a value to the further end of its interval.

    It is half of the width, except where an interval ends at the range of the scores.
    """
    return max(high - value, value - low)


def interval_text(low: float, high: float, scale: Scale) -> str:
    """Write an interval; one without width is called that, since it bounds nothing."""
    if not (math.isfinite(low) and math.isfinite(high)):
        return MISSING
    return "zero width" if is_point(low, high) else f"{scale(low)} to {scale(high)}"


def range_text(first: float, last: float) -> str:
    """Write a range of ranks; a single number where there is one rank in it."""
    return f"{first:g}" if first == last else f"{first:g} to {last:g}"


def p_text(value: float) -> str:
    """Write a p value with four decimals; a tiny one as a bound, because none is 0."""
    if math.isnan(value):
        return MISSING
    return "< 0.0001" if value < _SMALLEST_P else f"{value:.4f}"


def finite(row: dict[str, Any]) -> dict[str, Any]:
    """Return a row with None for every number that is not finite."""
    return {name: defined(value) for name, value in row.items()}


def defined(value: Any) -> Any:
    """Return None for a float that is not finite, which JSON and most CSV readers do not accept."""
    return None if isinstance(value, float) and not math.isfinite(value) else value
