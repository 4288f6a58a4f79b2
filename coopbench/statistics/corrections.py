"""P-values of several tests read together, adjusted by Holm's method."""

import numpy as np

from coopbench.statistics.scores import Scores


def holm(p_values: Scores) -> np.ndarray:
    """Step down through the p-values, which bounds the chance of any false rejection.

    Valid under any dependence (Holm 1979, "A Simple Sequentially Rejective Multiple Test
    Procedure"), and never weaker than Bonferroni. The result has the order of the input. A nan (a
    degenerate test) stays nan and is not counted as a test.

    Raises:
        ValueError: unless p_values is 1-D, with entries in [0, 1] or nan.
    """
    values = np.asarray(p_values, dtype=np.float64)
    if values.ndim != 1 or np.any((values < 0.0) | (values > 1.0)):
        raise ValueError(f"p_values is {p_values!r}; allowed is 1-D with entries in [0, 1] or nan")
    adjusted = np.full(values.shape, np.nan)
    defined = np.flatnonzero(~np.isnan(values))
    order = defined[np.argsort(values[defined], kind="stable")]
    left = np.arange(order.size, 0, -1)  # tests at each step: n, n - 1, ..., 1
    adjusted[order] = np.minimum(np.maximum.accumulate(values[order] * left), 1.0)
    return adjusted
