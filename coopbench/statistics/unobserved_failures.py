"""Effects of unobserved runs: failures too rare to be in a small sample.

Five runs of a learner of which a fifth fails show no failure in a third of all cases. The runs
themselves do not tell; how many failures n runs could hide can be computed.
"""

import numpy as np

from coopbench.statistics.scores import check_confidence

FEW = 10  # runs below which a report marks an interval


def unseen_share(runs: int, level: float = 0.025) -> float:
    """Return the share of runs that could behave in a way which none of ``runs`` has shown.

    With a larger share, the chance to see none of them would be below ``level``.

    Raises:
        ValueError: for fewer than one run or a level outside (0, 1).
    """
    if runs < 1:
        raise ValueError(f"runs is {runs}; allowed is at least 1")
    check_confidence(level)
    return float(1.0 - level ** (1.0 / runs))


def unseen_interval(
    estimate: float,
    half: float,
    runs: int,
    scale: tuple[float, float],
    confidence: float = 0.95,
) -> tuple[float, float]:
    """Return an interval that also covers failures, or successes, which no run has shown.

    The share ``unseen_share`` of the runs is put at either end of ``scale``; where the interval
    ``estimate`` +- ``half`` reaches further, its end is taken.
    """
    share = unseen_share(runs, (1.0 - confidence) / 2.0)
    floor, ceiling = scale
    low = (1.0 - share) * estimate + share * floor
    high = (1.0 - share) * estimate + share * ceiling
    return min(estimate - half, low), max(estimate + half, high)


def unseen_p(
    higher: float, runs: int, lower: float, others: int, scale: tuple[float, float]
) -> float:
    """Return the largest chance to see none of the runs that would undo a difference.

    ``higher`` and ``lower`` are the means of two contestants with ``runs`` and ``others`` runs, 0
    for a fixed policy, which has none to hide. A share s of the runs of the first could be at the
    floor of the ``scale``, a share u of those of the second at its ceiling. Of all shares that
    close the gap, the most likely ones to have stayed unseen count: the largest
    (1 - s)^runs (1 - u)^others. It is 0 if no shares close the gap, and 1 without a gap.
    """
    gap, (floor, ceiling) = higher - lower, scale
    if gap <= 0.0:
        return 1.0
    fall = higher - floor if runs else 0.0  # by which the first sinks if all of its runs fail
    rise = ceiling - lower if others else 0.0
    if fall + rise <= gap:
        return 0.0
    least = max(0.0, (gap - rise) / fall) if fall else 0.0
    most = min(1.0, gap / fall) if fall else 0.0
    # log of the chance is concave in s; u follows from s, because both together close the gap.
    share = least  # which is also the most if the second has no runs
    if fall and rise:
        kept = rise - gap  # (1 - u) rise = kept + s fall
        best = (others * fall - runs * kept) / (fall * (runs + others))
        share = min(max(best, least), most)
    other = (gap - share * fall) / rise if rise else 0.0
    return float((1.0 - share) ** runs * (1.0 - min(max(other, 0.0), 1.0)) ** others)


def binomial_interval(hits: int, count: int, confidence: float = 0.95) -> tuple[float, float]:
    """Return the exact interval of a share of which ``hits`` of ``count`` were seen.

    Clopper and Pearson 1934, Biometrika 26: 404-413.

    Raises:
        ValueError: unless 0 <= hits <= count and count >= 1.
    """
    from scipy import special

    check_confidence(confidence)
    if not 0 <= hits <= count or count < 1:
        raise ValueError(f"hits is {hits} of {count}; allowed are 0 to count, and count >= 1")
    tail = (1.0 - confidence) / 2.0
    low = 0.0 if hits == 0 else special.betaincinv(hits, count - hits + 1, tail)
    high = 1.0 if hits == count else special.betaincinv(hits + 1, count - hits, 1.0 - tail)
    return float(low), float(high)


def runs_behind_best(scores: np.ndarray, gap: float) -> int:
    """Return how many runs of one task score more than ``gap`` below the best of them.

    Scores that are nan, undefined, take no part.
    """
    return int(np.sum(np.asarray(scores) < np.fmax.reduce(scores) - gap))
