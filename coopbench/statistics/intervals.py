"""Intervals, and Student's t interval of a mean."""

from dataclasses import dataclass

import numpy as np

from coopbench.statistics.scores import Scores, as_vector, check_confidence


@dataclass(frozen=True, slots=True)
class Interval:
    """An estimate with a range that covers the true value with a stated confidence.

    The three numbers are floats for a scalar statistic and arrays of one shape for a profile.
    An end that cannot be known (one run, for instance) is nan and a warning says why.
    """

    estimate: float | np.ndarray  # the statistic of the data itself, never of the resamples
    low: float | np.ndarray  # lower end, units of the estimate
    high: float | np.ndarray  # upper end, units of the estimate
    method: str  # how the ends were found, for instance "percentile"
    reps: int  # resamples drawn; 0 for a closed form
    warnings: tuple[str, ...] = ()  # sentences for the reader of a report; empty when all is well


def t_interval(values: Scores, confidence: float = 0.95) -> Interval:
    """Put Student's t interval around the mean of independent values.

    The half width is the t quantile with n - 1 degrees of freedom times the standard deviation
    (ddof 1) over sqrt(n) (Student 1908). One value has no interval (nan); equal values have one
    of zero width; both carry a warning. The unit must be independent: training runs when
    algorithms are compared, episodes only when one fixed policy is described.

    Raises:
        ValueError: for missing or infinite values or a confidence outside (0, 1).
    """
    from scipy import special

    check_confidence(confidence)
    sample = as_vector(values, "values")
    size, centre = sample.size, float(np.mean(sample))
    if size == 1:
        return Interval(centre, np.nan, np.nan, "t", 0, ("one value: no interval exists",))
    spread = float(np.std(sample, ddof=1) / np.sqrt(size)) if np.ptp(sample) else 0.0
    half = float(special.stdtrit(size - 1, 0.5 + confidence / 2.0)) * spread
    notes = () if spread else ("all values are equal: a width of zero is not certainty",)
    return Interval(centre, centre - half, centre + half, "t", 0, notes)
