"""Tests that compare two samples; each returns a Comparison and never p = 0 for want of variation.

The unit of every sample must be independent. For a claim about algorithms it is the training run;
a hundred episodes of one policy say something about that policy only. Samples evaluated under
the same seeds or on the same tasks are paired: use the paired tests.

``alternative`` is "two-sided", "greater" (the first sample tends to be larger) or "less".
One-sided tests report the two-sided interval all the same. Distributions and rank tests are
scipy's. Missing or infinite values raise and are named by position.
"""

from collections.abc import Callable
from functools import partial

import numpy as np

from coopbench.statistics.effects import a12
from coopbench.statistics.results import Comparison, Interval
from coopbench.statistics.scores import Scores, as_vector, check_confidence

ALTERNATIVES = ("two-sided", "greater", "less")
EXACT_SIGNS = 20  # sign patterns are enumerated up to 2^20
EXACT_SPLITS = 100_000  # splits of a pooled sample are enumerated up to this number
NAN = float("nan")


def welch(
    a: Scores, b: Scores, *, alternative: str = "two-sided", confidence: float = 0.95
) -> Comparison:
    """Test whether two means differ without assuming equal variances.

    ``estimate`` is the difference of means, ``a`` minus ``b``, with its interval; ``df`` is Welch
    and Satterthwaite's (Welch 1947). Degenerate when a sample has one value or neither varies.
    """
    x, y = _two_samples(a, b, alternative, confidence)
    return _t_comparison(_welch_summary(x, y), alternative, confidence, "welch")


def student(
    a: Scores, b: Scores, *, alternative: str = "two-sided", confidence: float = 0.95
) -> Comparison:
    """Test whether two means differ, assuming equal variances; prefer ``welch``.

    ``estimate`` is the difference of means. Degenerate when no variance can be estimated: fewer
    than three values in all, or none of the samples varies.
    """
    x, y = _two_samples(a, b, alternative, confidence)
    effect = float(x.mean() - y.mean())
    df = x.size + y.size - 2
    if df < 1 or (_constant(x) and _constant(y)):
        return _undefined(effect, "student")
    pooled = (x.var() * x.size + y.var() * y.size) / df
    error = np.sqrt(pooled * (1.0 / x.size + 1.0 / y.size))
    return _t_comparison((effect, error, df), alternative, confidence, "student")


def paired_t(
    a: Scores, b: Scores, *, alternative: str = "two-sided", confidence: float = 0.95
) -> Comparison:
    """Test whether the mean of paired differences, ``a`` minus ``b``, is zero (Student 1908).

    ``estimate`` is that mean. Degenerate for one pair, or when all differences are equal.
    """
    gaps = _differences(a, b, alternative, confidence)
    return _t_comparison(_paired_summary(gaps), alternative, confidence, "paired t")


def tost(
    a: Scores, b: Scores, margin: float | tuple[float, float], *, confidence: float = 0.90
) -> Comparison:
    """Test that two means are equivalent: that their difference lies inside the margin.

    ``margin`` is (low, high) in the units of the scores, or one number for both sides. An infinite
    end asks only about the other one (non-inferiority). Two one-sided Welch tests (Schuirmann
    1987); p is the larger of the two and ``statistic`` belongs to it. Equivalence at 5 % is the
    same as a 90 % interval inside the margin, hence the default confidence.

    Raises:
        ValueError: unless low < high.
    """
    x, y = _two_samples(a, b, "two-sided", confidence)
    return _equivalence(_welch_summary(x, y), margin, confidence, "tost welch")


def paired_tost(
    a: Scores, b: Scores, margin: float | tuple[float, float], *, confidence: float = 0.90
) -> Comparison:
    """Test that the mean of paired differences lies inside the margin.

    As ``tost``, from two one-sided paired t tests: for samples evaluated under the same seeds.

    Raises:
        ValueError: unless low < high, or if the lengths differ.
    """
    gaps = _differences(a, b, "two-sided", confidence)
    return _equivalence(_paired_summary(gaps), margin, confidence, "tost paired")


def wilcoxon(
    a: Scores, b: Scores, *, alternative: str = "two-sided", confidence: float = 0.95
) -> Comparison:
    """Test whether paired differences are symmetric around zero, by their signed ranks.

    ``estimate`` is the Hodges-Lehmann median of the pairwise means of differences, with the
    interval that inverts the test (Hollander, Wolfe and Chicken 2014, section 3.3). Pairs without
    a difference are dropped (Wilcoxon 1945). The test is exact up to 50 pairs without ties (by
    enumeration of signs up to 13 pairs with ties), else asymptotic; ``method`` says which.
    Degenerate when no pair differs.
    """
    from scipy import stats

    gaps = _differences(a, b, alternative, confidence)
    effect, interval = _hodges_lehmann(gaps, confidence)
    gaps = gaps[gaps != 0.0]
    if not gaps.size:
        return _undefined(effect, "wilcoxon")
    tied = np.unique(np.abs(gaps)).size < gaps.size
    how = "exact" if gaps.size <= 50 and not tied else "asymptotic"
    if tied and gaps.size <= 13:
        how = "permutation"
    method = stats.PermutationMethod(n_resamples=2**13) if how == "permutation" else how
    result = stats.wilcoxon(gaps, alternative=alternative, method=method)
    statistic, p_value = float(result.statistic), float(result.pvalue)
    return Comparison(statistic, NAN, p_value, effect, interval, False, f"wilcoxon {how}")


def sign_flip(
    a: Scores,
    b: Scores,
    *,
    alternative: str = "two-sided",
    reps: int = 100_000,
    seed: int = 0,
) -> Comparison:
    """Test whether paired differences are symmetric around zero, by flipping their signs.

    ``estimate`` and ``statistic`` are the mean difference. Up to 20 pairs all 2^n patterns are
    counted and p is exact; beyond, ``reps`` random patterns are drawn and the observed one is
    counted with them (Phipson and Smyth 2010). Two-sided p is twice the smaller tail. With n
    pairs p cannot fall below 2 / 2^n. Degenerate when no pair differs.
    """
    gaps = _differences(a, b, alternative, 0.5)
    effect = float(gaps.mean())
    if not np.any(gaps):
        return _undefined(effect, "sign flip")
    exact = gaps.size <= EXACT_SIGNS
    sums = _all_sign_sums(gaps) if exact else _random_sign_sums(gaps, reps, seed)
    p_value = _tail_share(sums, gaps.sum(), alternative, extra=0 if exact else 1)
    how = "exact" if exact else "random"
    return Comparison(effect, NAN, p_value, effect, None, False, f"sign flip {how}")


def mann_whitney(
    a: Scores, b: Scores, *, alternative: str = "two-sided", confidence: float = 0.95
) -> Comparison:
    """Test whether entries of ``a`` tend to exceed those of ``b``, by ranks.

    ``statistic`` is U of ``a`` and ``estimate`` the chance U / (n_a n_b) that ``a`` exceeds ``b``
    (see ``a12``), with the Brunner-Munzel interval. Exact without ties if the smaller sample has
    at most 8 values, else normal with corrections for ties and continuity; ``method`` says which
    (Mann and Whitney 1947). Degenerate when all values are equal.
    """
    from scipy import stats

    x, y = _two_samples(a, b, alternative, confidence)
    if _constant(np.append(x, y)):
        return _undefined(a12(x, y), "mann-whitney")
    tied = np.unique(np.append(x, y)).size < x.size + y.size
    how = "exact" if not tied and min(x.size, y.size) <= 8 else "asymptotic"
    result = stats.mannwhitneyu(x, y, alternative=alternative, method=how)
    interval = _dominance(x, y, confidence)[2]
    statistic, p_value = float(result.statistic), float(result.pvalue)
    return Comparison(statistic, NAN, p_value, a12(x, y), interval, False, f"mann-whitney {how}")


def brunner_munzel(
    a: Scores, b: Scores, *, alternative: str = "two-sided", confidence: float = 0.95
) -> Comparison:
    """Test whether the chance that ``a`` exceeds ``b`` is one half, for any two distributions.

    Unlike ``mann_whitney`` it does not assume equal shapes (Brunner and Munzel 2000; needs about
    ten values a side). ``estimate`` is the chance, as ``a12``; ``statistic`` has scipy's sign,
    positive when ``b`` tends to be larger. Degenerate when a sample has one value, or when the
    samples do not overlap, which leaves no variance.
    """
    x, y = _two_samples(a, b, alternative, confidence)
    effect = a12(x, y)
    error, df, interval = _dominance(x, y, confidence)
    if not error > 0.0:
        return _undefined(effect, "brunner-munzel")
    statistic = (0.5 - effect) / error
    p_value = _t_share(-statistic, df, alternative)
    return Comparison(statistic, df, p_value, effect, interval, False, "brunner-munzel")


def kolmogorov_smirnov(a: Scores, b: Scores) -> Comparison:
    """Test whether two samples come from one distribution of any shape.

    ``statistic`` and ``estimate`` are the largest distance of the two empirical distribution
    functions. scipy decides whether p is exact.
    """
    from scipy import stats

    x, y = _two_samples(a, b, "two-sided", 0.5)
    result = stats.ks_2samp(x, y)
    distance = float(result.statistic)
    return Comparison(
        distance, NAN, float(result.pvalue), distance, None, False, "kolmogorov-smirnov"
    )


def permutation_test(
    a: Scores,
    b: Scores,
    statistic: Callable[[np.ndarray, np.ndarray], float] | None = None,
    *,
    alternative: str = "two-sided",
    reps: int = 10_000,
    seed: int = 0,
) -> Comparison:
    """Test whether two samples are exchangeable by dealing their values out again.

    ``statistic(a, b)`` defaults to the difference of means. All splits are counted if there are
    at most 100,000, and p is exact; else ``reps`` random ones are drawn, the observed one counted
    with them. Two-sided p is twice the smaller tail (scipy's convention). Degenerate when all
    values are equal.
    """
    from scipy import special, stats

    x, y = _two_samples(a, b, alternative, 0.5)
    measure = statistic or _mean_gap
    observed = float(measure(x, y))
    if _constant(np.append(x, y)):
        return _undefined(observed, "permutation")
    exact = special.comb(x.size + y.size, x.size) <= EXACT_SPLITS
    result = stats.permutation_test(
        (x, y),
        measure,
        vectorized=statistic is None,
        n_resamples=np.inf if exact else reps,
        batch=1000,
        alternative=alternative,
        rng=np.random.default_rng(seed),
    )
    how = f"permutation {'exact' if exact else 'random'}"
    return Comparison(observed, NAN, float(result.pvalue), observed, None, False, how)


def _two_samples(
    a: Scores, b: Scores, alternative: str, confidence: float
) -> tuple[np.ndarray, np.ndarray]:
    if alternative not in ALTERNATIVES:
        raise ValueError(f"alternative is {alternative!r}; allowed are {', '.join(ALTERNATIVES)}")
    check_confidence(confidence)
    return as_vector(a, "a"), as_vector(b, "b")


def _differences(a: Scores, b: Scores, alternative: str, confidence: float) -> np.ndarray:
    x, y = _two_samples(a, b, alternative, confidence)
    if x.size != y.size:
        raise ValueError(f"b has {y.size} values; allowed is the number in a, {x.size} (pairs)")
    result: np.ndarray = x - y
    return result


def _mean_gap(x: np.ndarray, y: np.ndarray, axis: int = -1) -> np.ndarray:
    result: np.ndarray = np.mean(x, axis=axis) - np.mean(y, axis=axis)
    return result


def _constant(values: np.ndarray) -> bool:
    return bool(np.ptp(values) == 0.0)


def _undefined(effect: float, method: str) -> Comparison:
    return Comparison(NAN, NAN, NAN, effect, None, True, method)


def _t_comparison(
    summary: tuple[float, float, float], alternative: str, confidence: float, method: str
) -> Comparison:
    """Refer an effect to Student's t; ``summary`` is (effect, standard error, df)."""
    effect, error, df = (float(number) for number in summary)
    if not error > 0.0:  # differences so small that their squares vanish
        return _undefined(effect, method)
    statistic = effect / error
    p_value = _t_share(statistic, df, alternative)
    interval = _t_range(effect, error, df, confidence)
    return Comparison(statistic, df, p_value, effect, interval, False, method)


def _equivalence(
    summary: tuple[float, float, float],
    margin: float | tuple[float, float],
    confidence: float,
    method: str,
) -> Comparison:
    """Ask whether an effect lies inside a margin; ``summary`` is (effect, standard error, df)."""
    low, high = margin if isinstance(margin, tuple) else (-margin, margin)
    if not low < high:
        raise ValueError(f"margin is {margin!r}; allowed is low < high, or a number above 0")
    effect, error, df = summary
    if not error > 0.0:
        return _undefined(effect, method)
    above, below = (effect - low) / error, (effect - high) / error
    p_above, p_below = _t_share(above, df, "greater"), _t_share(below, df, "less")
    statistic, p_value = (above, p_above) if p_above > p_below else (below, p_below)
    interval = _t_range(effect, error, df, confidence)
    return Comparison(statistic, df, p_value, effect, interval, False, method)


def _t_share(statistic: float, df: float, alternative: str) -> float:
    """Return the p-value of a t statistic, from the tail itself so that small ones stay exact."""
    from scipy import special

    above, below = special.stdtr(df, [-statistic, statistic])
    two = 2.0 * min(above, below)
    return float({"greater": above, "less": below, "two-sided": two}[alternative])


def _t_range(effect: float, error: float, df: float, confidence: float) -> Interval:
    from scipy import special

    half = float(special.stdtrit(df, 0.5 + confidence / 2.0) * error)
    return Interval(effect, effect - half, effect + half, "t", 0)


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


def _paired_summary(gaps: np.ndarray) -> tuple[float, float, float]:
    """Return the mean difference, its standard error (nan if unknown) and degrees of freedom."""
    effect = float(gaps.mean())
    if gaps.size < 2 or _constant(gaps):
        return effect, NAN, NAN
    return effect, float(gaps.std(ddof=1) / np.sqrt(gaps.size)), float(gaps.size - 1)


def _dominance(
    x: np.ndarray, y: np.ndarray, confidence: float
) -> tuple[float, float, Interval | None]:
    """Return standard error, degrees of freedom and interval of the chance that x exceeds y.

    The variance is that of the shares of y below each x and the reverse (Brunner and Munzel
    2000); an interval that leaves [0, 1] is cut there. (nan, nan, None) without variance.
    """
    if min(x.size, y.size) < 2:
        return NAN, NAN, None
    parts = np.array([_placements(p, q).var(ddof=1) / p.size for p, q in ((x, y), (y, x))])
    if not parts.any():
        return NAN, NAN, None
    df = float(parts.sum() ** 2 / np.sum(parts**2 / [x.size - 1, y.size - 1]))
    error = float(np.sqrt(parts.sum()))
    ends = _t_range(a12(x, y), error, df, confidence)
    cut = partial(np.clip, a_min=0.0, a_max=1.0)
    interval = Interval(
        ends.estimate, float(cut(ends.low)), float(cut(ends.high)), "brunner-munzel", 0
    )
    return error, df, interval


def _placements(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Return for every x the share of y below it, ties counting one half."""
    ordered = np.sort(y)
    return (np.searchsorted(ordered, x, "left") + np.searchsorted(ordered, x, "right")) / (
        2.0 * y.size
    )


def _hodges_lehmann(gaps: np.ndarray, confidence: float) -> tuple[float, Interval]:
    """Return the median of pairwise means and the interval between two of them."""
    first, second = np.triu_indices(gaps.size)
    means = np.sort((gaps[first] + gaps[second]) / 2.0)
    centre = float(np.median(means))
    outside = _signed_rank_count(gaps.size, (1.0 - confidence) / 2.0)
    if outside == 0:
        note = f"{gaps.size} pairs are too few for an interval at this confidence"
        return centre, Interval(centre, NAN, NAN, "hodges-lehmann", 0, (note,))
    ends = float(means[outside - 1]), float(means[-outside])
    return centre, Interval(centre, *ends, "hodges-lehmann", 0)


def _signed_rank_count(size: int, tail: float) -> int:
    """Return the largest k with P(signed rank sum < k) <= tail: pairwise means to leave out."""
    from scipy import special

    if size > 50:
        mean, variance = size * (size + 1) / 4.0, size * (size + 1) * (2 * size + 1) / 24.0
        return int(max(np.floor(mean + special.ndtri(tail) * np.sqrt(variance)), 0))
    ways = np.zeros(size * (size + 1) // 2 + 1)
    ways[0] = 1.0
    for rank in range(1, size + 1):  # each rank is positive or not
        ways[rank:] = ways[rank:] + ways[:-rank]
    return int(np.searchsorted(np.cumsum(ways) / 2.0**size, tail, side="right"))


def _all_sign_sums(gaps: np.ndarray) -> np.ndarray:
    sums = np.zeros(1)
    for gap in gaps:
        sums = np.concatenate([sums - gap, sums + gap])
    return sums


def _random_sign_sums(gaps: np.ndarray, reps: int, seed: int) -> np.ndarray:
    if reps < 1:
        raise ValueError(f"reps is {reps}; allowed is at least 1")
    rng = np.random.default_rng(seed)
    sums = np.empty(reps)
    for first in range(0, reps, 10_000):  # blocks bound the memory
        block = min(10_000, reps - first)
        sums[first : first + block] = (rng.integers(0, 2, (block, gaps.size)) * 2.0 - 1.0) @ gaps
    return sums


def _tail_share(sums: np.ndarray, observed: float, alternative: str, extra: int) -> float:
    """Return the share of sums at least as far out; ``extra`` counts the observed one again."""
    slack = 1e-12 * max(abs(observed), float(np.max(np.abs(sums))))  # sums that round differently
    shares: dict[str, float] = {
        "greater": (np.count_nonzero(sums >= observed - slack) + extra) / (sums.size + extra),
        "less": (np.count_nonzero(sums <= observed + slack) + extra) / (sums.size + extra),
    }
    shares["two-sided"] = min(2.0 * min(shares.values()), 1.0)
    return shares[alternative]
