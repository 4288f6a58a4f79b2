"""Tests that compare three samples or more at once, and ranks of several contestants.

A small p says that not all are alike, not which differ: follow up with pairs and ``holm``.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from coopbench.statistics.results import Comparison
from coopbench.statistics.scores import Scores, as_tasks, as_vector

NAN = float("nan")


def anova(groups: Sequence[Scores]) -> Comparison:
    """Test whether all means are equal, assuming equal variances (Fisher's one-way F).

    ``estimate`` is eta squared, the share of the variance that lies between groups, in [0, 1];
    ``df`` is that between groups. Degenerate when no group varies.
    """
    from scipy import stats

    samples = _samples(groups)
    if all(np.ptp(s) == 0.0 for s in samples):
        return _undefined("anova")
    result = stats.f_oneway(*samples)
    return _comparison(result, len(samples) - 1, _eta_squared(samples), "anova")


def alexander_govern(groups: Sequence[Scores]) -> Comparison:
    """Test whether all means are equal without assuming equal variances.

    ``estimate`` is eta squared as in ``anova`` (Alexander and Govern 1994). Degenerate when a
    group does not vary.
    """
    from scipy import stats

    samples = _samples(groups)
    if any(np.ptp(s) == 0.0 for s in samples):
        return _undefined("alexander-govern")
    result = stats.alexandergovern(*samples)
    return _comparison(result, len(samples) - 1, _eta_squared(samples), "alexander-govern")


def kruskal(groups: Sequence[Scores]) -> Comparison:
    """Test whether all groups tend to values of one size, by ranks (Kruskal and Wallis 1952).

    ``estimate`` is epsilon squared, H / (values - 1), in [0, 1]. Degenerate when all values are
    equal.
    """
    from scipy import stats

    samples = _samples(groups)
    pooled = np.concatenate(samples)
    if np.ptp(pooled) == 0.0:
        return _undefined("kruskal-wallis")
    result = stats.kruskal(*samples)
    effect = float(result.statistic) / (pooled.size - 1)
    return _comparison(result, len(samples) - 1, effect, "kruskal-wallis")


def friedman(scores: Scores) -> Comparison:
    """Test whether contestants measured on the same blocks tend to values of one size, by ranks.

    ``scores`` is (blocks, contestants), for instance tasks by algorithms, at least three of the
    latter. ``estimate`` is Kendall's concordance W in [0, 1] (Friedman 1937). Degenerate when all
    contestants tie in every block.
    """
    from scipy import stats

    table = _table(scores)
    blocks, contestants = table.shape
    if contestants < 3:
        raise ValueError(f"scores has {contestants} contestants; allowed are at least 3")
    if np.all(np.ptp(table, axis=1) == 0.0):
        return _undefined("friedman")
    result = stats.friedmanchisquare(*table.T)
    effect = float(result.statistic) / (blocks * (contestants - 1))
    return _comparison(result, contestants - 1, effect, "friedman")


def average_ranks(scores: Scores) -> np.ndarray:
    """Rank the contestants in every block, 1 for the highest score, and average over blocks.

    ``scores`` is (blocks, contestants); ties share their ranks. Returns (contestants,).
    """
    from scipy import stats

    result: np.ndarray = stats.rankdata(-_table(scores), axis=1).mean(axis=0)
    return result


def _samples(groups: Sequence[Scores]) -> list[np.ndarray]:
    if len(groups) < 2:
        raise ValueError(f"groups has {len(groups)} samples; allowed are at least 2")
    return [as_vector(g, f"groups[{k}]", minimum=2) for k, g in enumerate(groups)]


def _table(scores: Scores) -> np.ndarray:
    table = as_tasks(scores)
    if not isinstance(table, np.ndarray):
        raise ValueError("scores has columns of unequal length; allowed is a full matrix")
    return table


def _eta_squared(samples: list[np.ndarray]) -> float:
    pooled = np.concatenate(samples)
    between = sum(s.size * (s.mean() - pooled.mean()) ** 2 for s in samples)
    return float(between / np.sum((pooled - pooled.mean()) ** 2))


def _comparison(result: Any, df: int, effect: float, method: str) -> Comparison:
    statistic, p_value = float(result.statistic), float(result.pvalue)
    return Comparison(statistic, float(df), p_value, effect, None, False, method)


def _undefined(method: str) -> Comparison:
    return Comparison(NAN, NAN, NAN, NAN, None, True, method)
