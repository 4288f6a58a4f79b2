"""Two samples: Welch's t, effect sizes, and Holm's method for the p values of several tests.

The unit of both samples must be independent. For a claim about algorithms it is the training run;
a hundred episodes of one policy say something about that policy only.
"""

from typing import Literal, NamedTuple

import numpy as np

from coopbench.statistics.scores import Scores, as_vector, floats

NAN = float("nan")
Standardiser = Literal["pooled", "paired"]


class Welch(NamedTuple):
    """Welch's statistic of two samples; nan where they do not vary, or one has a single value."""

    statistic: float
    df: float  # degrees of freedom


def welch(a: Scores, b: Scores) -> Welch:
    """Return Welch's t of two means, ``a`` minus ``b``, without assuming equal variances.

    The degrees of freedom are Welch and Satterthwaite's (Welch 1947). ``scipy.stats.ttest_ind``
    with ``equal_var=False`` has the p value and the interval as well.

    Raises:
        ValueError: for missing or infinite values, by position.
    """
    x, y = as_vector(a, "a"), as_vector(b, "b")
    if min(x.size, y.size) < 2 or not (np.ptp(x) or np.ptp(y)):
        return Welch(NAN, NAN)
    parts = np.array([x.var(ddof=1) / x.size, y.var(ddof=1) / y.size])
    error = float(np.sqrt(parts.sum()))
    if not error > 0.0:  # differences so small that their squares vanish
        return Welch(NAN, NAN)
    # Dividing by the larger part first keeps the squares of tiny variances from vanishing.
    shares = parts / parts.max()
    df = shares.sum() ** 2 / np.sum(shares**2 / [x.size - 1, y.size - 1])
    return Welch(float(x.mean() - y.mean()) / error, float(df))


def cohens_d(a: Scores, b: Scores, *, standardiser: Standardiser = "pooled") -> float:
    """Divide the difference of means, ``a`` minus ``b``, by a standard deviation (ddof 1).

    The standard deviation is "pooled" over both samples (Cohen 1988), or that of the "paired"
    differences (d_z, equal lengths). nan where it is zero or unknown.
    """
    x, y = as_vector(a, "a"), as_vector(b, "b")
    deviation = _deviation(x, y, standardiser)
    if not deviation > 0.0:
        return float("nan")
    return float((x.mean() - y.mean()) / deviation)


def hedges_g(a: Scores, b: Scores, *, standardiser: Standardiser = "pooled") -> float:
    """Correct Cohen's d for its upward bias in small samples.

    The factor is the exact one, Gamma(m / 2) / (sqrt(m / 2) Gamma((m - 1) / 2)) with m degrees of
    freedom (Hedges 1981, "Distribution Theory for Glass's Estimator of Effect Size"): those of the
    "pooled" deviation, or of "paired" differences, n - 1. nan where d is, and for one degree of
    freedom, with which no estimate is unbiased.
    """
    from scipy import special

    d = cohens_d(a, b, standardiser=standardiser)
    df = len(a) - 1 if standardiser == "paired" else len(a) + len(b) - 2
    if np.isnan(d) or df < 2:
        return float("nan")
    factor = special.gammaln(df / 2.0) - special.gammaln((df - 1) / 2.0) - 0.5 * np.log(df / 2.0)
    return float(d * np.exp(factor))


def _deviation(x: np.ndarray, y: np.ndarray, standardiser: str) -> float:
    if standardiser == "paired":
        if x.size != y.size:
            raise ValueError(f"b has {y.size} values; allowed is the number in a, {x.size}")
        return _sd(x - y)
    if standardiser != "pooled":
        raise ValueError(f"standardiser is {standardiser!r}; allowed are pooled, paired")
    if min(x.size, y.size) < 2:
        return float("nan")
    weights = np.array([x.size - 1, y.size - 1])
    return float(np.sqrt(weights @ [_sd(x) ** 2, _sd(y) ** 2] / weights.sum()))


def _sd(values: np.ndarray) -> float:
    """Return the standard deviation; exactly 0 for equal values, nan for a single one."""
    if values.size < 2:
        return float("nan")
    return float(np.std(values, ddof=1)) if np.ptp(values) else 0.0


def holm(p_values: Scores) -> np.ndarray:
    """Step down through the p-values, which bounds the chance of any false rejection.

    Valid under any dependence (Holm 1979, "A Simple Sequentially Rejective Multiple Test
    Procedure"), and never weaker than Bonferroni. The result has the order of the input. A nan (no
    test) stays nan and is not counted as a test.

    Raises:
        ValueError: unless p_values is 1-D, with entries in [0, 1] or nan.
    """
    values = floats(p_values)
    if values.ndim != 1 or np.any((values < 0.0) | (values > 1.0)):
        raise ValueError(f"p_values is {p_values!r}; allowed is 1-D with entries in [0, 1] or nan")
    adjusted = np.full(values.shape, np.nan)
    defined = np.flatnonzero(~np.isnan(values))
    order = defined[np.argsort(values[defined], kind="stable")]
    left = np.arange(order.size, 0, -1)  # tests at each step: n, n - 1, ..., 1
    adjusted[order] = np.minimum(np.maximum.accumulate(values[order] * left), 1.0)
    return adjusted
