"""Adjusted p-values for several tests read together; order of input, nan entries left alone.

A nan (a degenerate test) is not counted as a test. "family" control bounds the chance of any false
rejection; "discovery" control bounds the expected share of false ones among the rejections.
"""

from collections.abc import Callable

import numpy as np

from coopbench.statistics.scores import Scores


def bonferroni(p_values: Scores) -> np.ndarray:
    """Multiply each p-value by the number of tests: family control under any dependence."""
    return _adjust(p_values, lambda p: p * p.size)


def holm(p_values: Scores) -> np.ndarray:
    """Step down through the p-values: family control, never weaker than Bonferroni.

    Valid under any dependence (Holm 1979, "A Simple Sequentially Rejective Multiple Test
    Procedure"). The recommended default for a handful of comparisons.
    """
    return _adjust(p_values, lambda p: np.maximum.accumulate(p * _left(p)))


def holm_sidak(p_values: Scores) -> np.ndarray:
    """Step down with Sidak's bound: slightly sharper than Holm, valid for independent tests."""
    # log1p and expm1 keep tiny p-values from being rounded to zero.
    return _adjust(
        p_values,
        lambda p: np.maximum.accumulate(-np.expm1(_left(p) * np.log1p(-np.minimum(p, 1 - 1e-16)))),
    )


def hochberg(p_values: Scores) -> np.ndarray:
    """Step up with Holm's factors: family control for independent or positively dependent tests.

    Source: Hochberg 1988, "A Sharper Bonferroni Procedure for Multiple Tests of Significance".
    """
    return _adjust(p_values, lambda p: _running_minimum(p * _left(p)))


def benjamini_hochberg(p_values: Scores) -> np.ndarray:
    """Bound the share of false discoveries, for independent or positively dependent tests.

    Source: Benjamini and Hochberg 1995, "Controlling the False Discovery Rate".
    """
    from scipy import stats

    return _adjust(p_values, lambda p: stats.false_discovery_control(p, method="bh"))


def benjamini_yekutieli(p_values: Scores) -> np.ndarray:
    """Bound the share of false discoveries under any dependence (Benjamini and Yekutieli 2001)."""
    from scipy import stats

    return _adjust(p_values, lambda p: stats.false_discovery_control(p, method="by"))


def _left(p: np.ndarray) -> np.ndarray:
    """Return how many tests are left at each step: n, n - 1, ..., 1."""
    return np.arange(p.size, 0, -1)


def _running_minimum(p: np.ndarray) -> np.ndarray:
    return np.minimum.accumulate(p[::-1])[::-1]


def _adjust(p_values: Scores, step: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
    """Apply ``step`` to the sorted p-values and put the results back where they came from."""
    values = np.asarray(p_values, dtype=np.float64)
    if values.ndim != 1 or np.any((values < 0.0) | (values > 1.0)):
        raise ValueError(f"p_values is {p_values!r}; allowed is 1-D with entries in [0, 1] or nan")
    adjusted = np.full(values.shape, np.nan)
    defined = np.flatnonzero(~np.isnan(values))
    order = defined[np.argsort(values[defined], kind="stable")]
    if order.size:
        adjusted[order] = np.minimum(step(values[order]), 1.0)
    return adjusted
