"""Two samples: Welch's test, effect sizes, and Holm's method for the p values of several tests.

The unit of both samples must be independent. For a claim about algorithms it is the training run;
a hundred episodes of one policy say something about that policy only.
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np

from coopbench.statistics.intervals import Interval
from coopbench.statistics.scores import Scores, as_vector, check_confidence, floats

ALTERNATIVES = ("two-sided", "greater", "less")
NAN = float("nan")
Standardiser = Literal["pooled", "paired"]


@dataclass(frozen=True, slots=True)
class WelchTest:
    """What Welch's test says of two samples.

    Where the data cannot answer (no variation, one run), all but the estimate are nan or None: a p
    value is never 0 for want of variation.
    """

    statistic: float
    df: float  # degrees of freedom
    p_value: float  # in [0, 1]
    estimate: float  # difference of means, in the units of the scores
    interval: Interval | None  # of the estimate


def welch(
    a: Scores, b: Scores, *, alternative: str = "two-sided", confidence: float = 0.95
) -> WelchTest:
    """Test whether two means differ without assuming equal variances.

    ``estimate`` is the difference of means, ``a`` minus ``b``, with its two-sided interval; ``df``
    is Welch and Satterthwaite's (Welch 1947). ``alternative`` is "two-sided", "greater" (the first
    mean is larger) or "less". There is no test when a sample has one value or neither varies.

    Raises:
        ValueError: for missing or infinite values, by position, or an option not allowed.
    """
    from scipy import special

    if alternative not in ALTERNATIVES:
        raise ValueError(f"alternative is {alternative!r}; allowed are {', '.join(ALTERNATIVES)}")
    check_confidence(confidence)
    effect, error, df = _welch_summary(as_vector(a, "a"), as_vector(b, "b"))
    if not error > 0.0:  # also for differences so small that their squares vanish
        return WelchTest(NAN, NAN, NAN, effect, None)
    half = float(special.stdtrit(df, 0.5 + confidence / 2.0) * error)
    interval = Interval(effect, effect - half, effect + half, "t", 0)
    p_value = _t_share(effect / error, df, alternative)
    return WelchTest(effect / error, df, p_value, effect, interval)


def _constant(values: np.ndarray) -> bool:
    return bool(np.ptp(values) == 0.0)


def _t_share(statistic: float, df: float, alternative: str) -> float:
    """Return the p-value of a t statistic, from the tail itself so that small ones stay exact."""
    from scipy import special

    above, below = special.stdtr(df, [-statistic, statistic])
    two = 2.0 * min(above, below)
    return float({"greater": above, "less": below, "two-sided": two}[alternative])


def _welch_summary(x: np.ndarray, y: np.ndarray) -> tuple[float, float, float]:
    """Return the difference of means, its standard error (nan if unknown) and Welch's df."""
    effect = float(x.mean() - y.mean())
    if min(x.size, y.size) < 2 or (_constant(x) and _constant(y)):
        return effect, NAN, NAN
    parts = np.array([x.var(ddof=1) / x.size, y.var(ddof=1) / y.size])
    # Dividing by the larger part first keeps the squares of tiny variances from vanishing.
    shares = parts / max(parts.max(), 5e-324)
    df = shares.sum() ** 2 / np.sum(shares**2 / [x.size - 1, y.size - 1])
    return effect, float(np.sqrt(parts.sum())), float(df)


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
