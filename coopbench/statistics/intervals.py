"""Student's t interval."""

import numpy as np

from coopbench.statistics.results import Interval
from coopbench.statistics.scores import Scores, as_vector, check_confidence


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
