"""Intervals, and Student's t interval of a mean."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

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
    warnings: tuple[str, ...] = ()  # sentences for the reader of a report; empty when all is well


class Moments(NamedTuple):
    """Mean of a sample, with its standard deviation and the width of its interval."""

    mean: float  # nan without values
    std: float  # ddof 1; nan of one value, and 0 of equal ones, whatever rounds their mean
    half: float  # of Student's t interval, to each side

    @property
    def warnings(self) -> tuple[str, ...]:
        """Sentences on the interval for the reader of a report."""
        if np.isnan(self.std):
            return ("one value: no interval exists",)
        return () if self.std else ("all values are equal: a width of zero is not certainty",)


def moments(samples: Sequence[np.ndarray], confidence: float = 0.95) -> list[Moments]:
    """Return the moments of samples of finite float64 values, each 1-D and by itself.

    Those of one size are computed together, with the bits that each has alone.
    """
    from scipy import special

    check_confidence(confidence)
    found = [Moments(np.nan, np.nan, np.nan)] * len(samples)
    sizes = np.array([len(sample) for sample in samples], np.int64)
    for size in np.unique(sizes[sizes > 0]).tolist():
        members = np.flatnonzero(sizes == size).tolist()
        rows = np.stack([samples[k] for k in members])
        stds = np.full(len(rows), np.nan)
        if size > 1:
            stds = np.where(np.ptp(rows, axis=1) > 0.0, np.std(rows, axis=1, ddof=1), 0.0)
        halves = float(special.stdtrit(size - 1, 0.5 + confidence / 2.0)) * (stds / np.sqrt(size))
        columns = (np.mean(rows, axis=1), stds, halves)
        for k, *three in zip(members, *(column.tolist() for column in columns), strict=True):
            found[k] = Moments(*three)
    return found


def t_interval(values: Scores, confidence: float = 0.95) -> Interval:
    """Put Student's t interval around the mean of independent values.

    The half width is the t quantile with n - 1 degrees of freedom times the standard deviation
    (ddof 1) over sqrt(n) (Student 1908). One value has no interval (nan); equal values have one
    of zero width; both carry a warning. The unit must be independent: training runs when
    algorithms are compared, episodes only when one fixed policy is described.

    Raises:
        ValueError: for missing or infinite values or a confidence outside (0, 1).
    """
    check_confidence(confidence)
    (found,) = moments([as_vector(values, "values")], confidence)
    ends = found.mean - found.half, found.mean + found.half
    return Interval(found.mean, *ends, found.warnings)
