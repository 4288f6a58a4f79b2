"""One step of the published model in formulas, and the investments from which nobody deviates.

The private payoffs here are those of the kernels of ``dynamics``, for any number of steps at once.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

__all__ = ["best_responses", "payoffs", "synergy_weight"]

NOTHING = 1e-10  # units; at or below it an investment counts as none and there is no synergy
TOLERANCE, SWEEPS = 1e-6, 100  # of best responses: units, and rounds


def synergy_weight(c: Any) -> float:
    """Return the weight of the synergy, or its mean where a game draws it anew each episode."""
    return 0.5 * (c.gamma_low + c.gamma_high) if hasattr(c, "gamma_low") else float(c.gamma)


def payoffs(c: Any, units: np.ndarray) -> np.ndarray:
    """Return private payoffs (..., agents) for investments (..., agents) in [0, endowment]."""
    shared = np.exp(np.log(np.maximum(units, NOTHING)).mean(axis=-1, keepdims=True))
    shared = np.where((units <= NOTHING).any(axis=-1, keepdims=True), 0.0, shared)
    result: np.ndarray = (
        c.endowment - units + c.theta * np.log1p(units) + c.alpha * synergy_weight(c) * shared
    )
    return result


def best_responses(
    c: Any, utility: Callable[[int, np.ndarray], float], start: float
) -> tuple[np.ndarray, bool, int]:
    """Return investments in units, whether they have settled, and after how many sweeps.

    Agents respond one after the other in index order, each with the investment in [0, endowment] of
    largest ``utility(agent, units)``, by bounded scalar minimisation. They begin at ``start``
    (share of own endowment) and settle when a sweep moves nobody by 1e-6 units or more, at the
    latest after 100 sweeps. This is the published solver.
    """
    units = start * np.asarray(c.endowment)
    for sweep in range(1, SWEEPS + 1):
        before = units.copy()
        for agent, top in enumerate(c.endowment.tolist()):
            units[agent] = _best_response(utility, units, agent, top)
        if np.abs(units - before).max() < TOLERANCE:
            return units, True, sweep
    return units, False, SWEEPS


def _best_response(
    utility: Callable[[int, np.ndarray], float], units: np.ndarray, agent: int, top: float
) -> float:
    """Return the investment of ``agent`` in [0, ``top``] of largest utility."""
    from scipy.optimize import minimize_scalar

    trial = units.copy()

    def loss(x: float) -> float:
        trial[agent] = x
        return -float(utility(agent, trial))

    # The last step of the search falls well below its own bound; a tighter one only meets rounding.
    inner = minimize_scalar(
        loss, bounds=(0.0, top), method="bounded", options={"xatol": 10.0 * TOLERANCE}
    )
    # The search never evaluates the bounds, where the best response may lie.
    return min((float(inner.x), 0.0, top), key=loss)
