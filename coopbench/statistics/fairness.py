"""How evenly a total is shared: over the last axis, usually that of the agents.

All functions take (..., agents) and return (...), a float for one vector. Shares are meaningful
when all amounts have one sign. With both signs present the indices have no meaning (gains and
losses cancel in the total), and ``jain`` and ``gini`` return nan. Subtract a declared reference
(the worst payoff, say) before asking, if there is one.
"""

import numpy as np

from coopbench.statistics.scores import Scores, floats


def jain(amounts: Scores) -> float | np.ndarray:
    """Give Jain's index: 1 when all get the same, 1 / agents when one gets all.

    (sum x)^2 / (agents * sum x^2), from Jain, Chiu and Hawe 1984. All zeros count as equal
    (1). Amounts that are all negative are read as shared costs. nan for mixed signs.
    """
    x = _as_amounts(amounts)
    largest = np.max(np.abs(x), axis=-1, keepdims=True)
    # The index has no unit: dividing first keeps squares of tiny or huge amounts in range.
    shares = x / np.where(largest > 0.0, largest, 1.0)
    squares = x.shape[-1] * np.sum(shares**2, axis=-1)
    index = np.sum(shares, axis=-1) ** 2 / np.where(squares > 0.0, squares, 1.0)
    index = np.where(squares > 0.0, index, 1.0)
    return _result(np.where(_mixed_signs(x), np.nan, index))


def gini(amounts: Scores) -> float | np.ndarray:
    """Give the Gini coefficient: 0 when all get the same, (agents - 1) / agents when one gets all.

    Mean absolute difference of all pairs over twice the mean. Amounts that are all negative give
    the negative of the coefficient of the costs: the sign is that of the total. nan for mixed
    signs and for a total of zero.
    """
    x = _as_amounts(amounts)
    agents = x.shape[-1]
    # Sorted amounts turn the sum over pairs into a weighted sum (no agents x agents array).
    weights = 2.0 * np.arange(1, agents + 1) - agents - 1.0
    with np.errstate(invalid="ignore", divide="ignore"):
        index = np.sort(x, axis=-1) @ weights / (agents * np.sum(x, axis=-1))
    return _result(np.where(_mixed_signs(x) | (np.sum(x, axis=-1) == 0.0), np.nan, index))


def _mixed_signs(x: np.ndarray) -> np.ndarray:
    """Say whether an amount is above zero and another below: then no share is defined."""
    mixed: np.ndarray = np.any(x > 0.0, axis=-1) & np.any(x < 0.0, axis=-1)
    return mixed


def _as_amounts(amounts: Scores) -> np.ndarray:
    x = floats(amounts)
    if x.ndim == 0 or x.size == 0:
        raise ValueError(f"amounts has shape {x.shape}; allowed is a non-empty (..., agents)")
    bad = np.argwhere(~np.isfinite(x))
    if len(bad):
        where = tuple(int(i) for i in bad[0])
        raise ValueError(f"amounts has {x[where]} at {where}; allowed are finite numbers")
    return x


def _result(values: np.ndarray) -> float | np.ndarray:
    return values if values.ndim else float(values)
