"""Ends of intervals: from resampled values by every bootstrap method, and from Student's t."""

import numpy as np

from coopbench.statistics.resampling import Aggregate, Custom, Difference, Sampler
from coopbench.statistics.results import Interval
from coopbench.statistics.scores import Scores, as_vector, check_confidence, columns_of, is_matrix

METHODS = ("percentile", "basic", "bc", "bca", "expanded", "t")
THIN = 10  # resamples beyond an end below which that end is mostly chance


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


def published_curve_interval(values: Scores) -> Interval:
    """Reproduce the band that marl-eval draws: 1.96 * std(ddof 0) / sqrt(10), whatever n is.

    Only for redrawing published figures next to their source (Gorsane et al. 2022, public code):
    it is right for no number of runs but ten, and too narrow there. ``t_interval`` is the
    interval to report.
    """
    sample = as_vector(values, "values")
    centre, half = float(np.mean(sample)), float(1.96 * np.std(sample) / np.sqrt(10.0))
    note = "divides by sqrt(10) whatever the number of runs; for reproducing figures only"
    return Interval(centre, centre - half, centre + half, "marl-eval", 0, (note,))


def interval_ends(
    sampler: Sampler, values: np.ndarray, method: str, resample: str, confidence: float
) -> tuple[np.ndarray, np.ndarray, list[str]]:
    """Return the two ends (columns,) and warnings, given resampled ``values`` (reps, columns)."""
    tail = (1.0 - confidence) / 2.0
    if method == "t":
        return *_t_ends(sampler, values, resample, tail), []
    levels = np.full((2, values.shape[1]), tail)
    if method in ("bc", "bca"):
        levels = _corrected_levels(sampler, values, method, resample, tail)
    elif method == "expanded":
        levels = np.tile(_expanded_tail(sampler, resample, tail), (2, 1))
    if method in ("percentile", "basic", "expanded"):
        levels[1] = 1.0 - levels[1]
    low, high = quantiles(values, levels, sampler.steps)
    if method == "basic":
        low, high = 2.0 * sampler.estimate - high, 2.0 * sampler.estimate - low
    return low, high, _level_notes(levels, len(values))


def quantiles(values: np.ndarray, levels: np.ndarray, steps: int = 0) -> np.ndarray:
    """Return (levels, columns) quantiles by linear interpolation; nan where the level is nan.

    ``values`` is (reps, columns); with ``steps`` its entries are multiples of 1 / steps.
    """
    if steps and np.all(np.isfinite(levels)):
        from coopbench.statistics import kernels

        out = np.empty(levels.shape)
        kernels.lattice_quantiles(values, steps, levels, out)
        return out
    known = np.where(np.isfinite(levels), levels, 0.5)
    columns = [np.quantile(v, at) for v, at in zip(values.T, known.T, strict=True)]
    return np.where(np.isfinite(levels), np.array(columns).T, np.nan)


def _corrected_levels(
    sampler: Sampler, values: np.ndarray, method: str, resample: str, tail: float
) -> np.ndarray:
    """Return the (2, columns) levels of the bias corrected (and accelerated) interval.

    Efron and Tibshirani 1993, equations 14.9 to 14.15; the acceleration of several samples is
    that of Efron 1987, "Better Bootstrap Confidence Intervals", section 7.
    """
    from scipy import special

    bias = special.ndtri(np.mean(values < sampler.centre(), axis=0))
    speed = _acceleration(sampler, resample) if method == "bca" else 0.0
    shifted = bias + special.ndtri(np.array([[tail], [1.0 - tail]]))
    with np.errstate(invalid="ignore"):
        levels = special.ndtr(bias + shifted / (1.0 - speed * shifted))
    return np.where(np.isfinite(bias), levels, np.nan)


def _acceleration(sampler: Sampler, resample: str) -> np.ndarray:
    unit = "tasks"
    if resample == "runs":
        unit = "runs" if all(is_matrix(source) for source in sampler.sources) else "cells"
    values, strata = sampler.leave_out(unit)
    cubes, squares = np.zeros(len(values)), np.zeros(len(values))
    for stratum in range(strata.max() + 1):
        part = values[:, strata == stratum]
        size = part.shape[1]
        pull = (size - 1) * (part.mean(axis=1, keepdims=True) - part) / size
        cubes += np.sum(pull**3, axis=1)
        squares += np.sum(pull**2, axis=1)
    with np.errstate(invalid="ignore", divide="ignore"):
        return cubes / (6.0 * squares**1.5)


def _expanded_tail(sampler: Sampler, resample: str, tail: float) -> np.ndarray:
    """Return (columns,) the share of resamples to leave beyond each end (Hesterberg 2015)."""
    from scipy import special

    variance, scale, df = spread_of(sampler, resample)
    widened = special.ndtr(scale * special.stdtrit(df, tail))
    return np.where(variance == 0.0, tail, widened)


def _t_ends(
    sampler: Sampler, values: np.ndarray, resample: str, tail: float
) -> tuple[np.ndarray, np.ndarray]:
    from scipy import special

    variance, scale, df = spread_of(sampler, resample)
    if is_closed_form(sampler, "t", resample):
        error = np.sqrt(variance)
    else:
        error = np.std(values, axis=0) * np.where(variance == 0.0, 1.0, scale)
    # A jackknife without variation gives no degrees of freedom: the normal quantile remains.
    half = -np.where(variance == 0.0, special.ndtri(tail), special.stdtrit(df, tail)) * error
    low, high = sampler.estimate - half, sampler.estimate + half
    return (np.clip(low, 0.0, 1.0), np.clip(high, 0.0, 1.0)) if sampler.share else (low, high)


def is_closed_form(sampler: Sampler, method: str, resample: str) -> bool:
    """Say whether the interval needs no resamples: Student's t for means over runs."""
    side = sampler.sides[0] if isinstance(sampler, Difference) else sampler
    is_mean = isinstance(side, Aggregate) and side.column == 0
    return method == "t" and resample == "runs" and is_mean


def spread_of(sampler: Sampler, resample: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return variance, scale of deviations and degrees of freedom, each (columns,).

    The jackknife gives the variance that each stratum (the runs of one task) contributes. The
    bootstrap sees (n - 1) / n of it, which ``scale`` undoes; Satterthwaite 1946 pools the
    degrees of freedom. A stratum with one unit contributes an unknown: all three become nan.
    """
    parts, sizes = _contributions(sampler, resample)
    total = parts.sum(axis=1)
    with np.errstate(invalid="ignore", divide="ignore"):
        scale = np.sqrt(total / (parts @ ((sizes - 1.0) / sizes)))
        df = total**2 / (parts**2 @ (1.0 / (sizes - 1.0)))
    return total, scale, df


def _contributions(sampler: Sampler, resample: str) -> tuple[np.ndarray, np.ndarray]:
    """Return (columns, strata) variances of the estimate and the (strata,) number of units."""
    if isinstance(sampler, Custom) and resample == "runs":
        # An unknown function may refuse uneven tasks: only the shares of the tasks matter here,
        # and the variances of the scores stand in for them.
        columns = [column for source in sampler.sources for column in columns_of(source)]
        sizes = np.array([len(c) for c in columns])
        shares = [np.var(c, ddof=1) / len(c) if len(c) > 1 else np.nan for c in columns]
        return np.tile(shares, (len(sampler.estimate), 1)), sizes
    values, strata = sampler.leave_out("cells" if resample == "runs" else "tasks")
    sizes = np.bincount(strata)
    parts = np.empty((len(values), len(sizes)))
    for stratum, size in enumerate(sizes):
        part = values[:, strata == stratum]
        parts[:, stratum] = np.var(part, axis=1) * (size - 1.0) if size > 1 else np.nan
    return parts, sizes


def _level_notes(levels: np.ndarray, reps: int) -> list[str]:
    if not np.all(np.isfinite(levels)):
        return ["an end is unknown: the sample shows too little variation for this method"]
    outside = np.min(np.minimum(levels, 1.0 - levels)) * reps
    if outside < THIN:
        return [f"almost none of the {reps} resamples lie beyond an end: raise reps, or add runs"]
    return []
