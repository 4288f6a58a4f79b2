"""What runs that nobody has seen could change: failures too rare to be in a small sample.

Five runs of a learner of which a fifth fails show no failure in a third of all cases. No rule that
looks at these runs alone can know it; what can be known is how many failures n runs could hide.
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


def survives_unseen(
    estimate: float, runs: int, end: float, rival: float, level: float = 0.05
) -> bool:
    """Say whether a claim holds even if unseen runs are at the end that speaks against it.

    ``estimate`` is claimed to be on the other side of ``rival`` than ``end``: above it, if ``end``
    is the floor of the scale, or below it, if ``end`` is the ceiling.
    """
    share = unseen_share(runs, level)
    moved = (1.0 - share) * estimate + share * end
    return (moved > rival) == (estimate > rival) and moved != rival and estimate != rival


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
    """Return how many runs of one task score more than ``gap`` below the best of them."""
    return int(np.sum(np.asarray(scores) < np.max(scores) - gap))
