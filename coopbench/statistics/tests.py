"""Welch's test of two samples, which never returns p = 0 for want of variation.

The unit of both samples must be independent. For a claim about algorithms it is the training run;
a hundred episodes of one policy say something about that policy only.
"""

import numpy as np

from coopbench.statistics.results import Comparison, Interval
from coopbench.statistics.scores import Scores, as_vector, check_confidence

ALTERNATIVES = ("two-sided", "greater", "less")
NAN = float("nan")


def welch(
    a: Scores, b: Scores, *, alternative: str = "two-sided", confidence: float = 0.95
) -> Comparison:
    """Test whether two means differ without assuming equal variances.

    ``estimate`` is the difference of means, ``a`` minus ``b``, with its two-sided interval; ``df``
    is Welch and Satterthwaite's (Welch 1947). ``alternative`` is "two-sided", "greater" (the first
    mean is larger) or "less". Degenerate when a sample has one value or neither varies.

    Raises:
        ValueError: for missing or infinite values, by position, or an option not allowed.
    """
    from scipy import special

    if alternative not in ALTERNATIVES:
        raise ValueError(f"alternative is {alternative!r}; allowed are {', '.join(ALTERNATIVES)}")
    check_confidence(confidence)
    effect, error, df = _welch_summary(as_vector(a, "a"), as_vector(b, "b"))
    if not error > 0.0:  # also for differences so small that their squares vanish
        return Comparison(NAN, NAN, NAN, effect, None, True, "welch")
    half = float(special.stdtrit(df, 0.5 + confidence / 2.0) * error)
    interval = Interval(effect, effect - half, effect + half, "t", 0)
    p_value = _t_share(effect / error, df, alternative)
    return Comparison(effect / error, df, p_value, effect, interval, False, "welch")


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
