"""Bootstrap intervals of statistics of one score matrix or of a pair, over runs.

The resampling is the stratified bootstrap of Agarwal et al. 2021: every task draws its runs again
on its own, so run numbers need not mean the same thing in two tasks. The percentile interval of
that resampling is the published standard and the default. It is too narrow below about ten runs,
because a resample of n runs varies (n - 1) / n as much as the runs do and because the normal
quantile ignores that the spread itself is estimated. The method "expanded" corrects both and is
recommended for few runs; docs/statistics.md has the measured coverage of every method.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from coopbench.statistics import estimates
from coopbench.statistics.intervals import Interval
from coopbench.statistics.scores import Scores, as_tasks, check_confidence, columns_of, stacked

METHODS = ("percentile", "bca", "expanded")
FEW = 10  # below this number of runs a bootstrap over them is worth a warning
THIN = 10  # resamples beyond an end below which that end is mostly chance
BLOCK = 2_000  # resamples that are in memory at once
TOO_NARROW = "this interval tends to be too narrow; the method 'expanded' allows for it"
WIDER = "the interval is widened for it, yet rests on little data"

Statistic = Callable[..., Any]  # of one score matrix, or of two; returns a number
Samples = list[np.ndarray]  # scores of every task, (..., runs) each
Form = Callable[..., np.ndarray]  # one Samples, or two -> the statistic, (...)


def bootstrap_interval(
    scores: Scores | tuple[Scores, Scores],
    statistic: Statistic,
    *,
    method: str = "percentile",
    reps: int = 50_000,
    confidence: float = 0.95,
    seed: int = 0,
    vectorised: bool = False,
) -> Interval:
    """Put an interval around a statistic by drawing the runs of every task again.

    ``scores`` is one score matrix, and a tuple (x, y) for ``probability_of_improvement`` or any
    other function of two; the two of a pair are resampled independently. ``mean``, ``median``,
    ``iqm``, ``optimality_gap`` and ``probability_of_improvement`` take all resamples at once. So
    does any other function with ``vectorised``: it is given a list with one array (..., runs) per
    task and returns (...). Without, it is called once per resample with a matrix (a list with one
    array per task if run counts differ), which takes seconds for 50,000.

    Methods (Efron and Tibshirani 1993, chapters 13 and 14, unless said otherwise):

    - "percentile": quantiles of the resampled statistic.
    - "bca": bias corrected and accelerated. The acceleration leaves out one run of one task at a
      time (Efron 1987, "Better Bootstrap Confidence Intervals", section 7).
    - "expanded": percentile at levels widened for small samples (Hesterberg 2015, "What Teachers
      Should Know About the Bootstrap", section 3): t quantile instead of the normal one, and
      deviations scaled by sqrt(n / (n - 1)). With several tasks n and the degrees of freedom
      follow Satterthwaite 1946 from the jackknife variance of each task.

    The result depends on the arguments alone. ``warnings`` names what weakens it: fewer than ten
    runs, a single run (the percentile interval then has no width), no variation, too few
    resamples in a tail.

    Raises:
        ValueError: for missing or infinite scores (with run and task) or an option not allowed.
        TypeError: if a pair is given to a statistic of one matrix, or the reverse.
    """
    return bootstrap_intervals(
        scores,
        (statistic,),
        method=method,
        reps=reps,
        confidence=confidence,
        seed=seed,
        vectorised=vectorised,
    )[0]


def bootstrap_intervals(
    scores: Scores | tuple[Scores, Scores],
    statistics: Sequence[Statistic],
    *,
    method: str = "percentile",
    reps: int = 50_000,
    confidence: float = 0.95,
    seed: int = 0,
    vectorised: bool = False,
) -> tuple[Interval, ...]:
    """Put intervals around several statistics, which share their resamples.

    They are the same as one by one; see ``bootstrap_interval``.
    """
    _check_options(method, reps, confidence, seed)
    sides = _sides(scores)
    for statistic in statistics:
        _check_pair(statistic, isinstance(scores, tuple))
    forms = [_form(statistic, vectorised) for statistic in statistics]
    drawn = [[form(*draw) for form in forms] for draw in _resamples(sides, reps, seed)]
    values: np.ndarray = np.concatenate(drawn, axis=1)
    intervals = []
    for statistic, form, row in zip(statistics, forms, values, strict=True):
        centre = float(form(*([column[None] for column in side] for side in sides))[0])
        levels = _levels(sides, form, row, centre, method, (1.0 - confidence) / 2.0)
        known = bool(np.isfinite(levels).all())
        low, high = np.quantile(row, levels).tolist() if known else (np.nan, np.nan)
        # The vectorised form of a function of this package may differ from it in the last bits.
        estimate = float(statistic(*map(stacked, sides))) if statistic in _FORMS else centre
        notes = _notes(sides, method, statistic is estimates.iqm) + _level_notes(levels, reps)
        intervals.append(Interval(estimate, low, high, method, reps, tuple(notes)))
    return tuple(intervals)


# -- statistics of many resamples at once ----------------------------------------------------------


def _mean(drawn: Samples) -> np.ndarray:
    means: np.ndarray = np.mean([scores.mean(axis=-1) for scores in drawn], axis=0)
    return means


def _median(drawn: Samples) -> np.ndarray:
    medians: np.ndarray = np.median([scores.mean(axis=-1) for scores in drawn], axis=0)
    return medians


def _iqm(drawn: Samples) -> np.ndarray:
    cells = np.sort(np.concatenate(drawn, axis=-1), axis=-1)
    cut = int(0.25 * cells.shape[-1])
    middle: np.ndarray = cells[..., cut : cells.shape[-1] - cut].mean(axis=-1)
    return middle


def _optimality_gap(drawn: Samples) -> np.ndarray:
    return 1.0 - _mean([np.minimum(scores, 1.0) for scores in drawn])


def _improvement(x: Samples, y: Samples) -> np.ndarray:
    shares = []
    for ours, theirs in zip(x, y, strict=True):
        a, b = ours[..., :, None], theirs[..., None, :]
        twice = np.count_nonzero(a > b, axis=(-2, -1)) + np.count_nonzero(a >= b, axis=(-2, -1))
        shares.append(twice / (2.0 * ours.shape[-1] * theirs.shape[-1]))
    means: np.ndarray = np.mean(shares, axis=0)
    return means


_FORMS: dict[Statistic, Form] = {
    estimates.mean: _mean,
    estimates.median: _median,
    estimates.iqm: _iqm,
    estimates.optimality_gap: _optimality_gap,
    estimates.probability_of_improvement: _improvement,
}


def _form(statistic: Statistic, vectorised: bool) -> Form:
    """Return the statistic of all resamples at once; one after the other if there is no way."""
    if statistic in _FORMS or vectorised:
        return _FORMS.get(statistic, statistic)

    def one_by_one(*drawn: Samples) -> np.ndarray:
        rows = range(len(drawn[0][0]))
        return np.array([statistic(*(stacked([c[r] for c in s]) for s in drawn)) for r in rows])

    return one_by_one


# -- resamples and levels --------------------------------------------------------------------------


def _resamples(sides: list[Samples], reps: int, seed: int) -> Iterator[list[Samples]]:
    """Yield the resampled runs of every side and task, (resamples, runs), block by block."""
    rng = np.random.default_rng(seed)
    for first in range(0, reps, BLOCK):
        size = min(BLOCK, reps - first)
        yield [
            [column[rng.integers(len(column), size=(size, len(column)))] for column in side]
            for side in sides
        ]


def _levels(
    sides: list[Samples], form: Form, values: np.ndarray, centre: float, method: str, tail: float
) -> np.ndarray:
    """Return the levels of the quantiles that are the ends, (2,); nan if they are unknown."""
    from scipy import special

    if method == "percentile":
        return np.array([tail, 1.0 - tail])
    left_out = _left_out(sides, form)
    if method == "expanded":
        widened = _expanded_tail(left_out, tail)
        return np.array([widened, 1.0 - widened])
    pulls = [(len(part) - 1) * (part.mean() - part) / len(part) for part in left_out]
    pull = np.concatenate(pulls)
    bias = special.ndtri(np.mean(values < centre))
    shifted = bias + special.ndtri([tail, 1.0 - tail])
    with np.errstate(invalid="ignore", divide="ignore"):
        speed = np.sum(pull**3) / (6.0 * np.sum(pull**2) ** 1.5)
        levels: np.ndarray = special.ndtr(bias + shifted / (1.0 - speed * shifted))
    return levels if np.isfinite(bias) else np.full(2, np.nan)


def _expanded_tail(left_out: Samples, tail: float) -> float:
    """Return the share of resamples to leave beyond each end (Hesterberg 2015)."""
    from scipy import special

    sizes = np.array([len(part) for part in left_out])
    parts = np.array([np.var(part) * (len(part) - 1.0) for part in left_out])
    total = parts.sum()
    if total == 0.0:
        return tail
    scale = np.sqrt(total / (parts @ ((sizes - 1.0) / sizes)))
    df = total**2 / (parts**2 @ (1.0 / np.maximum(sizes - 1.0, 1.0)))
    return float(special.ndtr(scale * special.stdtrit(df, tail)))


def _left_out(sides: list[Samples], form: Form) -> Samples:
    """Return for every task of every side the statistic without each of its runs, (runs,).

    It is nan for a task with a single run.
    """
    parts = []
    for s, side in enumerate(sides):
        for t, column in enumerate(side):
            size = len(column)
            kept = [[np.broadcast_to(c, (size, len(c))) for c in other] for other in sides]
            kept[s][t] = np.array([np.delete(column, run) for run in range(size)])
            parts.append(form(*kept) if size > 1 else np.array([np.nan]))
    return parts


# -- checks and warnings ---------------------------------------------------------------------------


def _sides(scores: Scores | tuple[Scores, Scores]) -> list[Samples]:
    """Return the runs of every task, for one score matrix or both of a pair."""
    if not isinstance(scores, tuple):
        return [columns_of(as_tasks(scores))]
    if len(scores) != 2:
        raise TypeError(f"scores is a tuple of {len(scores)}; allowed is a pair (x, y)")
    x, y = columns_of(as_tasks(scores[0], "x")), columns_of(as_tasks(scores[1], "y"))
    if len(x) != len(y):
        raise ValueError(f"y has {len(y)} tasks; allowed is the number in x, {len(x)}")
    return [x, y]


def _check_pair(statistic: Statistic, pair: bool) -> None:
    double = statistic is estimates.probability_of_improvement
    if statistic in _FORMS and double != pair:
        given = "a pair" if pair else "one score matrix"
        needs = "a pair (x, y)" if double else "one score matrix, not a tuple"
        raise TypeError(f"scores is {given}; {statistic.__name__} allows {needs}")


def _check_options(method: str, reps: int, confidence: float, seed: int) -> None:
    """Raise unless every option of a bootstrap is allowed."""
    if method not in METHODS:
        raise ValueError(f"method is {method!r}; allowed are {', '.join(METHODS)}")
    if reps < 1:
        raise ValueError(f"reps is {reps}; allowed is at least 1")
    if seed < 0:
        raise ValueError(f"seed is {seed}; allowed is at least 0")
    check_confidence(confidence)


def _notes(sides: list[Samples], method: str, pools: bool) -> list[str]:
    """Say what in the scores weakens an interval over runs."""
    columns = [column for side in sides for column in side]
    counts, notes = [len(column) for column in columns], []
    runs = min(counts)
    if runs == 1:
        notes.append("a task has a single run: nothing is known of its spread between runs")
    elif runs < FEW:
        why = WIDER if method == "expanded" else TOO_NARROW
        notes.append(f"{runs} runs in the smallest task, fewer than {FEW}: {why}")
    if runs > 1 and all(np.ptp(column) == 0.0 for column in columns):
        notes.append("all values of each task are equal: a width of zero is not certainty")
    if pools and len(set(counts)) > 1:
        notes.append("unequal run counts: pooled cells weigh tasks with more runs more")
    return notes


def _level_notes(levels: np.ndarray, reps: int) -> list[str]:
    if not np.isfinite(levels).all():
        return ["an end is unknown: the sample shows too little variation for this method"]
    if np.min(np.minimum(levels, 1.0 - levels)) * reps < THIN:
        return [f"almost none of the {reps} resamples lie beyond an end: raise reps, or add runs"]
    return []
