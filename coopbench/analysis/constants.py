"""Scores and differences that do not vary: exact, or known within a bound.

They are exact if nothing is drawn: every start is played, and policies and environments always do
the same. Otherwise other episodes, or other runs, may differ, although none that was seen does.
"""

from collections.abc import Sequence

import numpy as np

from coopbench import statistics
from coopbench.analysis.score_matrix import ScoreMatrix, score_range
from coopbench.statistics import Spread

EXACT, BOUND, TEST, NONE = "exact", "bound", "test", "none"  # what a p value follows from
Matrices = tuple[ScoreMatrix, ...]  # of one policy, one for each task


def are_exact(policies: Sequence[Matrices]) -> bool:
    """Whether the scores of some policies on some tasks are exact; no learner has such scores."""
    return all(one.fixed and one.distinct for matrices in policies for one in matrices)


def constant_episodes(
    policies: Sequence[Matrices], ends: Sequence[Sequence[float]]
) -> tuple[int, float]:
    """Return how many episodes fixed policies have played, and the width of their scores' range.

    Over several tasks these are the fewest episodes and the mean width; a task on which the scores
    are exact has no width. ``ends`` are those of ``score_ends``.
    """
    counts, widths = [], []
    for limits, *matrices in zip(ends, *policies, strict=True):
        if are_exact([(one,) for one in matrices]):
            widths.append(0.0)
            continue
        low, high = score_range(limits, matrices)
        widths.append(high - low)
        counts.append(min(len(one.seeds) for one in matrices))
    return min(counts), float(np.mean(widths))


def constant_runs(policies: Sequence[Matrices], ends: Sequence[Sequence[float]]) -> Spread:
    """Return the spread of learners whose runs are all alike, as if one episode had not been.

    Of each learner it is the one episode of one run that would move the mean most, from one end of
    the range of the scores to the other. Fixed policies among them have no runs.
    """
    ranges = [score_range(*parts) for parts in zip(ends, zip(*policies, strict=True), strict=True)]
    changes, runs = [], []
    for matrices in policies:
        if matrices[0].fixed:
            continue
        moves = [
            (high - low) / one.episodes / len(one.runs)
            for one, (low, high) in zip(matrices, ranges, strict=True)
        ]
        most = int(np.argmax(moves))
        runs.append(len(matrices[most].runs))
        changes.append(moves[most] * runs[-1] / len(matrices))
    return statistics.nearest_spread(np.array(changes), np.array(runs))


def constant_interval(
    matrices: Matrices, ends: Sequence[Sequence[float]], mean: float, confidence: float
) -> tuple[float, float]:
    """Return the interval of a mean score that does not vary; it ends at the range of the scores.

    That of exact scores has no width.
    """
    if are_exact([matrices]):
        return mean, mean
    ranges = [score_range(limits, [one]) for limits, one in zip(ends, matrices, strict=True)]
    low, high = np.mean(ranges, axis=0).tolist()
    if matrices[0].fixed:
        count, width = constant_episodes([matrices], ends)
        half = statistics.constant_half_width(0.0, count, width, confidence)
    else:
        half = float(statistics.half_widths(constant_runs([matrices], ends), confidence)[0])
    return max(mean - half, low), min(mean + half, high)
