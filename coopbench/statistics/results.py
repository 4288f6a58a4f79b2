"""What an inference of this package returns: an interval, or a comparison of two samples."""

from dataclasses import dataclass

import numpy as np


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


@dataclass(frozen=True, slots=True)
class Comparison:
    """What a test of two samples says.

    ``degenerate`` marks a question that the data cannot answer (no variation, one run): then
    ``p_value`` is nan. It is never 0 for want of variation.
    """

    statistic: float  # test statistic; nan when degenerate
    df: float  # degrees of freedom; nan when degenerate
    p_value: float  # in [0, 1], or nan when degenerate
    estimate: float  # difference of means, in the units of the scores
    interval: Interval | None  # of the estimate; None when degenerate
    degenerate: bool
    method: str  # name of the test, for instance "welch"
