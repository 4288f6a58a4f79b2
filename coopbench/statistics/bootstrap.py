"""Percentile bootstrap of statistics of a score matrix, over runs.

The resampling is the stratified bootstrap of Agarwal et al. 2021: every task draws its runs again
on its own, so run numbers need not mean the same thing in two tasks. Its percentile interval is the
published standard. It is too narrow below about ten runs, because a resample of n runs varies
(n - 1) / n as much as the runs do and because the normal quantile ignores that the spread itself is
estimated; and it leaves out new episodes. Reports decide by ``TwoWay``; docs/statistics.md has the
measured coverage.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from coopbench.statistics import estimates
from coopbench.statistics.intervals import Interval
from coopbench.statistics.scores import Scores, as_tasks, check_confidence, columns_of, stacked

FEW = 10  # below this number of runs a bootstrap over them is worth a warning
THIN = 10  # resamples beyond an end below which that end is mostly chance
BLOCK = 2_000  # resamples that are in memory at once

Samples = list[np.ndarray]  # scores of every task, (..., runs) each
Statistic = Callable[..., Any]  # of a score matrix, or of many resamples at once
Form = Callable[[Samples], np.ndarray]  # a statistic of many resamples at once -> (...)


def bootstrap_intervals(
    scores: Scores,
    statistics: Sequence[Statistic],
    *,
    reps: int = 50_000,
    confidence: float = 0.95,
    seed: int = 0,
) -> tuple[Interval, ...]:
    """Put intervals around statistics by drawing the runs of every task again; all share them.

    A statistic is ``mean``, ``median``, ``iqm`` or ``optimality_gap``, or a function of all
    resamples: it is given a list with one array (..., runs) per task and returns (...). The result
    depends on the arguments alone. ``warnings`` names what weakens it: fewer than ten runs, a
    single run (the interval then has no width), no variation, too few resamples in a tail.

    Raises ``ValueError`` for missing or infinite scores (with run and task) and for an option that
    is not allowed.
    """
    if reps < 1:
        raise ValueError(f"reps is {reps}; allowed is at least 1")
    if seed < 0:
        raise ValueError(f"seed is {seed}; allowed is at least 0")
    check_confidence(confidence)
    columns, tail = columns_of(as_tasks(scores)), (1.0 - confidence) / 2.0
    forms = [_FORMS.get(statistic, statistic) for statistic in statistics]
    drawn = [[form(draw) for form in forms] for draw in _resamples(columns, reps, seed)]
    values: np.ndarray = np.concatenate(drawn, axis=1)
    intervals = []
    for statistic, form, row in zip(statistics, forms, values, strict=True):
        low, high = np.quantile(row, (tail, 1.0 - tail)).tolist()
        # The form of a function of this package may differ from it in the last bits.
        known = statistic in _FORMS
        centre = statistic(stacked(columns)) if known else form([c[None] for c in columns])[0]
        notes = _notes(columns, statistic is estimates.iqm)
        if tail * reps < THIN:
            notes.append(
                f"almost none of the {reps} resamples lie beyond an end: raise reps, or add runs"
            )
        intervals.append(Interval(float(centre), low, high, tuple(notes)))
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


_FORMS: dict[Statistic, Form] = {
    estimates.mean: _mean,
    estimates.median: _median,
    estimates.iqm: _iqm,
    estimates.optimality_gap: _optimality_gap,
}


# -- resamples and warnings ------------------------------------------------------------------------


def _resamples(columns: Samples, reps: int, seed: int) -> Iterator[Samples]:
    """Yield the resampled runs of every task, (resamples, runs), block by block."""
    rng = np.random.default_rng(seed)
    for first in range(0, reps, BLOCK):
        size = min(BLOCK, reps - first)
        yield [column[rng.integers(len(column), size=(size, len(column)))] for column in columns]


def _notes(columns: Samples, pools: bool) -> list[str]:
    """Say what in the scores weakens an interval over runs."""
    counts, notes = [len(column) for column in columns], []
    runs = min(counts)
    if runs == 1:
        notes.append("a task has a single run: nothing is known of its spread between runs")
    elif runs < FEW:
        notes.append(
            f"{runs} runs in the smallest task, fewer than {FEW}: this interval tends to be too "
            f"narrow"
        )
    if runs > 1 and all(np.ptp(column) == 0.0 for column in columns):
        notes.append("all values of each task are equal: a width of zero is not certainty")
    if pools and len(set(counts)) > 1:
        notes.append("unequal run counts: pooled cells weigh tasks with more runs more")
    return notes
