"""Effect sizes: how large a difference is, apart from how sure it is."""

from typing import Literal

import numpy as np

from coopbench.statistics.scores import Scores, as_vector

Standardiser = Literal["pooled", "paired"]


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
