"""Differences that are the same in all episodes, of which a variance says nothing.

If n episodes all have the difference d, a share of at most u = 1 - (alpha / 2)^(1 / n) of all
episodes has another one (Clopper and Pearson 1934, Biometrika 26: 404-413; about 3 / n, the rule of
three of Hanley and Lippman-Hand 1983, Journal of the American Medical Association 249: 1743-1745).
At worst these have the opposite end of the range, so that the mean of all episodes differs from d
by at most u (width + |d|), where scores lie in a range of this width.
"""

import numpy as np

from coopbench.statistics.scores import check_confidence
from coopbench.statistics.two_way import Spread


def constant_half_width(
    difference: float, episodes: int, width: float, confidence: float = 0.95
) -> float:
    """Return the half width of the interval of a difference that all episodes have.

    ``width`` is that of the range of the scores, at least ``|difference|``.

    Raises:
        ValueError: for fewer than one episode, too small a width, or a confidence outside (0, 1).
    """
    check_confidence(confidence)
    _check(difference, episodes, width)
    share = 1.0 - ((1.0 - confidence) / 2.0) ** (1.0 / episodes)
    return float(share * (width + abs(difference)))


def constant_p(difference: float, episodes: int, width: float, margin: float = 0.0) -> float:
    """Return the two-sided level at which the interval of such a difference reaches ``margin``.

    With a margin of 0 and scores that differ by the whole width it is 2^(1 - episodes), as of the
    sign test; 1 if the difference is the margin.

    Raises:
        ValueError: as ``constant_half_width``.
    """
    _check(difference, episodes, width)
    reach = width + abs(difference)
    if reach == 0.0:
        return 1.0
    share = min(abs(abs(difference) - margin) / reach, 1.0)
    return float(min(1.0, max(2.0 * (1.0 - share) ** episodes, 1e-150)))


def nearest_spread(changes: np.ndarray, runs: np.ndarray) -> Spread:
    """Return the spread of runs that are all alike, as if one run had not been.

    ``changes`` (sides,) is by how much the mean of that run would differ, ``runs`` (sides,) how
    many there are. Data that vary so little are what the test decides next; the spread has one
    form.
    """
    variances = (np.asarray(changes) / np.asarray(runs)) ** 2
    total = variances.sum()
    with np.errstate(invalid="ignore"):
        df = total**2 / np.sum(variances**2 / (np.asarray(runs) - 1.0))
    none = np.zeros(1)
    return Spread(np.array([total]), np.array([df]), none, np.full(1, np.inf), none)


def _check(difference: float, episodes: int, width: float) -> None:
    if episodes < 1 or not width >= abs(difference) * (1.0 - 1e-9):
        raise ValueError(
            f"episodes is {episodes} and width {width} for a difference of {difference}; allowed "
            "are at least 1 episode, and a width of at least the difference"
        )
