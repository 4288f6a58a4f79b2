"""Bootstrap intervals of any statistic of a score matrix or of a pair.

The resampling is the stratified bootstrap of Agarwal et al. 2021: every task draws its runs again
on its own, so run numbers need not mean the same thing in two tasks. The percentile interval of
that resampling is the published standard and the default. It is too narrow below about ten runs,
because a resample of n runs varies (n - 1) / n as much as the runs do and because the normal
quantile ignores that the spread itself is estimated. The method "expanded" corrects both and is
recommended for few runs; docs/statistics.md has the measured coverage of every method.
"""

from collections.abc import Sequence

import numpy as np

from coopbench.statistics.intervals import METHODS, interval_ends, is_closed_form
from coopbench.statistics.resampling import LEVELS, Aggregate, Sampler, Statistic, sampler_for
from coopbench.statistics.results import Interval
from coopbench.statistics.scores import Scores, check_confidence, columns_of, is_matrix

FEW = 10  # below this number of runs (or tasks) a bootstrap over them is worth a warning
TOO_NARROW = "this interval tends to be too narrow"
REMEDY = "methods 'expanded' and 't' allow for it"
WIDER = "the interval is widened for it, yet rests on little data"


def bootstrap_interval(
    scores: Scores | tuple[Scores, Scores],
    statistic: Statistic,
    *,
    method: str = "percentile",
    resample: str = "runs",
    reps: int = 50_000,
    confidence: float = 0.95,
    seed: int = 0,
) -> Interval:
    """Put an interval around a statistic by drawing the runs, the tasks or both again.

    ``scores`` is one score matrix for ``mean``, ``median``, ``iqm``, ``optimality_gap`` and
    ``performance_profile``, and a tuple (x, y) for ``probability_of_improvement`` and
    ``difference_of(...)``; the two of a pair are resampled independently. Options of a statistic
    are bound with ``functools.partial(performance_profile, taus=taus)``. These run compiled; any
    other function of one matrix (or of two) is called once per resample, which takes seconds for
    50,000, and must accept a list with one array per task if the runs are unequal.

    Methods (Efron and Tibshirani 1993, chapters 12 to 14, unless said otherwise):

    - "percentile": quantiles of the resampled statistic.
    - "basic": the same, mirrored at the estimate.
    - "bc", "bca": bias corrected, and also accelerated. The acceleration leaves out one run at a
      time in all tasks at once (each cell on its own if run counts differ; each task where tasks
      are resampled).
    - "expanded": percentile at levels widened for small samples (Hesterberg 2015, "What Teachers
      Should Know About the Bootstrap", section 3): t quantile instead of the normal one, and
      deviations scaled by sqrt(n / (n - 1)). With several tasks n and the degrees of freedom
      follow Satterthwaite 1946 from the jackknife variance of each task.
    - "t": the estimate plus and minus a t quantile times the standard error, which is exact for
      ``mean`` (its interval is ``t_interval`` for one task, Welch's for a difference) and the
      scaled standard deviation of the resamples otherwise. Ends of a probability of improvement
      or profile are cut at 0 and 1.

    ``resample="runs"`` asks how far other training runs would differ on these tasks; "tasks"
    draws tasks and keeps their runs, as if the runs were the whole truth; "hierarchical" draws
    tasks and then runs, for claims about other tasks of the same kind. The result depends on the
    arguments alone: resample r is a function of (seed, r).

    ``warnings`` of the result names what weakens it: fewer than ten runs or tasks, a single run
    (the percentile interval then has no width), no variation, too few resamples in a tail.

    Raises:
        ValueError: for missing or infinite scores (with run and task) or an option not allowed.
        TypeError: if a pair is given to a statistic of one matrix, or the reverse.
    """
    check_options(method, resample, reps, confidence, seed)
    sampler = sampler_for(scores, statistic)
    reps = 0 if is_closed_form(sampler, method, resample) else reps
    return interval_of(sampler, sampler.draw(resample, reps, seed), method, resample, confidence)


def bootstrap_intervals(
    scores: Scores,
    statistics: Sequence[Statistic],
    *,
    method: str = "percentile",
    resample: str = "runs",
    reps: int = 50_000,
    confidence: float = 0.95,
    seed: int = 0,
) -> tuple[Interval, ...]:
    """Put intervals around several statistics of one score matrix; see ``bootstrap_interval``.

    The intervals are the same as one by one, but ``mean``, ``median``, ``iqm`` and
    ``optimality_gap`` share their resamples, which costs little more than one of them alone.
    """
    check_options(method, resample, reps, confidence, seed)
    samplers = [sampler_for(scores, statistic) for statistic in statistics]
    aggregates = [s for s in samplers if isinstance(s, Aggregate)]
    # The mean capped score depends on gamma, the other aggregates can come from any of the draws.
    drawn = {s.gamma: s for s in aggregates if s.is_gap} or {s.gamma: s for s in aggregates[:1]}
    shared = {gamma: s.draw_all(resample, reps, seed) for gamma, s in drawn.items()}
    intervals = []
    for sampler in samplers:
        if is_closed_form(sampler, method, resample):
            values = np.empty((0, 1))
        elif isinstance(sampler, Aggregate):
            own = sampler.gamma if sampler.is_gap else next(iter(shared))
            values = sampler.pick(shared[own])
        else:
            values = sampler.draw(resample, reps, seed)
        intervals.append(interval_of(sampler, values, method, resample, confidence))
    return tuple(intervals)


def bootstrap_distribution(
    scores: Scores | tuple[Scores, Scores],
    statistic: Statistic,
    *,
    resample: str = "runs",
    reps: int = 50_000,
    seed: int = 0,
) -> np.ndarray:
    """Return the resampled statistic, (reps,) or (reps, columns); see ``bootstrap_interval``."""
    check_options("percentile", resample, reps, 0.5, seed)
    sampler = sampler_for(scores, statistic)
    values = sampler.draw(resample, reps, seed)
    return values[:, 0] if sampler.scalar else values


def interval_of(
    sampler: Sampler, values: np.ndarray, method: str, resample: str, confidence: float
) -> Interval:
    """Put resampled values, ends and warnings together."""
    low, high, notes = interval_ends(sampler, values, method, resample, confidence)
    why = WIDER if method in ("t", "expanded") else f"{TOO_NARROW}; {REMEDY}"
    warnings = (*sample_notes(sampler, why, resample), *notes)
    if sampler.scalar:
        ends = float(sampler.estimate[0]), float(low[0]), float(high[0])
        return Interval(*ends, method, len(values), warnings)
    return Interval(sampler.estimate, low, high, method, len(values), warnings)


def check_options(method: str, resample: str, reps: int, confidence: float, seed: int) -> None:
    """Raise unless every option of a bootstrap is allowed."""
    if method not in METHODS:
        raise ValueError(f"method is {method!r}; allowed are {', '.join(METHODS)}")
    if resample not in LEVELS:
        raise ValueError(f"resample is {resample!r}; allowed are {', '.join(LEVELS)}")
    if reps < 1:
        raise ValueError(f"reps is {reps}; allowed is at least 1")
    if not 0 <= seed < 2**64:
        raise ValueError(f"seed is {seed}; allowed is 0 to 2**64 - 1")
    check_confidence(confidence)


def sample_notes(sampler: Sampler, why: str, resample: str) -> list[str]:
    """Say what in the scores weakens an interval over runs, over tasks or over both.

    ``why`` says what few runs or tasks do to it.
    """
    notes = []
    columns = [column for source in sampler.sources for column in columns_of(source)]
    runs, tasks = min(len(c) for c in columns), len(columns) // len(sampler.sources)
    if resample != "tasks" and runs == 1:
        notes.append("a task has a single run: nothing is known of its spread between runs")
    elif resample != "tasks" and runs < FEW:
        notes.append(f"{runs} runs in the smallest task, fewer than {FEW}: {why}")
    if resample != "runs" and tasks < FEW:
        notes.append(f"{tasks} tasks resampled, fewer than {FEW}: {why}")
    if resample != "tasks" and runs > 1 and all(np.ptp(c) == 0.0 for c in columns):
        notes.append("all values of each task are equal: a width of zero is not certainty")
    if not all(is_matrix(source) for source in sampler.sources) and sampler.pools:
        notes.append("unequal run counts: pooled cells weigh tasks with more runs more")
    return notes
