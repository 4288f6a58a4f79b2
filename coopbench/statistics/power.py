"""How many runs a comparison needs, and what it can find with the runs there are."""

from typing import Literal

import numpy as np

Alternative = Literal["two-sided", "greater"]


def power(
    effect: float,
    runs: float,
    *,
    rivals: float | None = None,
    alpha: float = 0.05,
    alternative: Alternative = "two-sided",
) -> float:
    """Return the chance that a two-sample t test finds a true difference.

    ``effect`` is the difference of means in standard deviations (Cohen's d), ``runs`` the size of
    the first sample and ``rivals`` that of the second (the same by default). Normal scores of
    equal variance; exact by the noncentral t distribution (Cohen 1988). With 10 runs a side an
    effect of 1.3 is found with a chance of about 0.8, and one of 0.5 with 0.19. "greater" asks for
    the first to be larger.

    Raises:
        ValueError: for fewer than two runs a side, or alpha outside (0, 1).
    """
    from scipy import special, stats

    others = runs if rivals is None else rivals
    if min(runs, others) < 2:
        raise ValueError(f"runs is {runs} against {others}; allowed are at least 2 a side")
    tail = _tail(alpha, alternative)
    df = runs + others - 2
    shift = effect * np.sqrt(runs * others / (runs + others))
    limit = special.stdtrit(df, 1.0 - tail)
    probability = stats.nct.sf(limit, df, shift)
    if alternative == "two-sided":
        probability += stats.nct.cdf(-limit, df, shift)
    return float(probability)


def runs_needed(
    effect: float,
    *,
    power: float = 0.8,
    alpha: float = 0.05,
    alternative: Alternative = "two-sided",
) -> int:
    """Return the smallest number of runs a side that finds the effect with the wanted chance.

    The effect is in standard deviations and its sign does not matter; see the function ``power``
    for the assumptions.

    Raises:
        ValueError: if the effect is zero, or a chance is not inside (0, 1).
    """
    size = abs(effect)
    if not (np.isfinite(size) and size > 0.0):
        raise ValueError(f"effect is {effect}; allowed is a finite number other than 0")
    if not alpha < power < 1.0:
        raise ValueError(f"power is {power}; allowed is above alpha ({alpha}) and below 1")
    low, high = 1, 2  # low fails (or is not allowed), high may succeed
    while _power(size, high, alpha, alternative) < power:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        if _power(size, middle, alpha, alternative) < power:
            low = middle
        else:
            high = middle
    return high


def _power(effect: float, runs: int, alpha: float, alternative: Alternative) -> float:
    return power(effect, runs, alpha=alpha, alternative=alternative)


def _tail(alpha: float, alternative: str) -> float:
    if not 0.0 < alpha < 1.0:
        raise ValueError(f"alpha is {alpha}; allowed is a share between 0 and 1")
    if alternative not in ("two-sided", "greater"):
        raise ValueError(f"alternative is {alternative!r}; allowed is 'two-sided' or 'greater'")
    return alpha / 2.0 if alternative == "two-sided" else alpha
