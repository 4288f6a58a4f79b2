"""One step of a coopetition game of version 0, from its formulas: equilibria and optimum.

>>> from coopbench import theory
>>> theory.price_of_anarchy("PartnerHoldUp-v0", weak_dependency=0.5)  # doctest: +SKIP

Every function takes the name of a game and any of its parameters. It looks at the private payoffs
of one step of the model that all version 0 games share. Factors that a game adds to its reward
(loyalty, reciprocity, penalties, market tiers), trust and the horizon are no part of it. All raise
``ValueError`` for games of other families. Definitions and a table of all games: docs/games.md.
Source: the published Coopetition-Gym suite, which has the solver of ``static_nash``.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from coopbench_envs.coopetition.published.stage import best_responses, payoffs, synergy_weight
from coopbench_envs.core import EnvSpec
from coopbench_envs.parameters import resolve
from coopbench_envs.registration import spec

__all__ = [
    "StageProfile",
    "coopetitive_equilibrium",
    "price_of_anarchy",
    "social_optimum",
    "stage_payoffs",
    "static_nash",
    "worst_nash",
]

_NEEDED = ("endowment", "alpha", "theta", "gamma", "dependence")  # fields of a version 0 game
_STARTS = (0.0, 0.3, 1.0)  # shares of endowment from which equilibria are sought


@dataclass(frozen=True, eq=False)
class StageProfile:
    """Investments of one step, and what they pay."""

    env_id: str
    agents: tuple[str, ...]  # names, in the order of the arrays
    actions: np.ndarray  # (agents,) units
    fractions: np.ndarray  # (agents,) of own endowment, in [0, 1]
    payoffs: np.ndarray  # (agents,) private payoff pi of one step
    welfare: float  # sum of the payoffs
    converged: bool  # whether the solver met its tolerance
    sweeps: int  # rounds of best responses, or iterations of the optimiser


def stage_payoffs(env_id: str, actions: Any, **parameters: Any) -> np.ndarray:
    """Return the private payoff of every agent for one step: kept units, own value, synergy share.

    ``actions`` are (..., agents) in units and the result is (..., agents) float64, equal to the
    rewards of ``reward_type="private"`` where a game adds no factor of its own. Where the weight of
    the synergy is drawn anew each episode (SynergySearch) its mean is used, which gives the mean
    payoff. Raises ``ValueError`` for a wrong shape and for investments outside [0, endowment].
    Source: section 1.1 of the model, docs/environments/coopetition.md.
    """
    _, c = _game(env_id, parameters)
    units = _numbers("actions", actions, (len(c.endowment),))
    if not ((units >= 0.0) & (units <= c.endowment)).all():
        raise ValueError(
            f"actions were {units.min():g} to {units.max():g} units; allowed: [0, endowment] with "
            f"endowments {c.endowment.tolist()}."
        )
    return payoffs(c, units)


def static_nash(
    env_id: str, *, weights: Any = None, start: float = 0.3, **parameters: Any
) -> StageProfile:
    """Seek investments of one step from which nobody gains by deviating alone.

    Agents respond one after the other in index order, each with the investment in [0, endowment]
    that maximises pi_i + sum_j weights[i, j] pi_j, by bounded scalar minimisation. They begin
    at ``start`` (share of own endowment) and stop when a sweep moves nobody by 1e-6 units or more
    (``converged``), or after 100 sweeps. ``weights`` is (agents, agents) with a zero diagonal; None
    means own payoffs alone, the Nash equilibrium. Raises ``ValueError`` for values out of range.
    """
    game, c = _game(env_id, parameters)
    if not 0.0 <= start <= 1.0:
        raise ValueError(f"start was {start!r}; allowed: a share of the endowments in [0, 1].")
    n = len(c.endowment)
    others = np.zeros((n, n)) if weights is None else _numbers("weights", weights, (n, n))
    if np.diag(others).any():
        raise ValueError(f"weights had the diagonal {np.diag(others).tolist()}; allowed: zeros.")
    concern = np.eye(n) + others
    return _profile(game, c, *best_responses(c, lambda a, x: concern[a] @ payoffs(c, x), start))


def coopetitive_equilibrium(
    env_id: str, *, trust: Any = None, start: float = 0.3, **parameters: Any
) -> StageProfile:
    """Seek the equilibrium of agents whose objective includes the payoffs they depend on.

    As ``static_nash`` with the game's dependence matrix D as weights; with ``trust`` (agents,
    agents), effective trust in [0, 1] of the row's agent in the column's, with trust * D. Raises
    ``ValueError`` for values out of range.
    """
    _, c = _game(env_id, parameters)
    weights = np.array(c.dependence)
    if trust is not None:
        shares = _numbers("trust", trust, weights.shape)
        if shares.min() < 0.0 or shares.max() > 1.0:
            raise ValueError(f"trust was {shares.min():g} to {shares.max():g}; allowed: [0, 1].")
        weights *= shares
    return static_nash(env_id, weights=weights, start=start, **parameters)


def worst_nash(env_id: str, **parameters: Any) -> StageProfile:
    """Return the Nash equilibrium of least welfare among those from the starts 0, 0.3 and 1.

    Starts are shares of the endowments. Raises ``RuntimeError`` if none of the searches converges.
    """
    found = [static_nash(env_id, start=start, **parameters) for start in _STARTS]
    equilibria = [profile for profile in found if profile.converged]
    if not equilibria:
        raise RuntimeError(f"No Nash equilibrium of {env_id} was found from starts {_STARTS}.")
    return min(equilibria, key=lambda profile: profile.welfare)


def social_optimum(env_id: str, **parameters: Any) -> StageProfile:
    """Find the investments of one step with the largest sum of private payoffs.

    Bounded quasi-Newton search with exact gradients from several common shares of the endowments;
    the best result is returned. The sum is concave, so all results agree unless a search fails;
    ``converged`` says that no slope of the result exceeds 1e-4 (payoff per unit) except at a
    bound.
    """
    from scipy.optimize import minimize

    game, c = _game(env_id, parameters)
    e, n, weight = np.asarray(c.endowment), len(c.endowment), synergy_weight(c) * np.sum(c.alpha)

    def loss(units: np.ndarray) -> tuple[float, np.ndarray]:
        shared = np.exp(np.log(units).mean())
        slope = c.theta / (1.0 + units) - 1.0 + weight * shared / (n * units)
        return -float(payoffs(c, units).sum()), -slope

    # The slope of the synergy is infinite at zero: stay a little above.
    bounds = [(1e-6 * top, top) for top in e]
    options = {"ftol": 1e-15, "gtol": 1e-9, "maxiter": 10_000}
    results = [
        minimize(loss, share * e, jac=True, bounds=bounds, method="L-BFGS-B", options=options)
        for share in (0.05, 0.3, 0.6, 0.95)
    ]
    best = min(results, key=lambda result: float(result.fun))
    # The status of the search is no use: it reports failure when rounding stops it at the optimum.
    low, high = np.array(bounds).T
    gap = np.abs(np.clip(best.x - loss(best.x)[1], low, high) - best.x).max()
    return _profile(game, c, np.asarray(best.x), bool(gap < 1e-4), int(best.nit))


def price_of_anarchy(env_id: str, **parameters: Any) -> float:
    """Return W(optimum) / W(worst Nash equilibrium) of one step, W the sum of private payoffs.

    It is >= 1, and 1 means that selfish play loses nothing. The published protocol divides the
    other way round and still calls lower values better, which contradicts itself; this is the usual
    definition. Raises ``RuntimeError`` as ``worst_nash`` does.
    """
    worst = worst_nash(env_id, **parameters)
    return social_optimum(env_id, **parameters).welfare / worst.welfare


def _game(env_id: str, parameters: dict[str, Any]) -> tuple[EnvSpec, Any]:
    """Return the spec and the constants of a version 0 game."""
    game = spec(env_id)
    constants = game.constants(resolve(game.params, parameters, game.id))
    missing = [field for field in _NEEDED if not hasattr(constants, field)]
    if missing:
        raise ValueError(
            f"{game.id} has no {', '.join(missing)}: only coopetition games of version 0 have this "
            f"stage game. Those of version 1 have certificates: docs/games.md."
        )
    return game, constants


def _numbers(name: str, values: Any, shape: tuple[int, ...]) -> np.ndarray:
    """Return finite numbers as float64, any number of dimensions before ``shape`` of vectors."""
    array = np.asarray(values)
    given = array.shape[-1:] if len(shape) == 1 else array.shape
    if array.dtype.kind not in "iuf" or given != shape or not np.isfinite(array).all():
        raise ValueError(f"{name} was {values!r}; allowed: finite numbers of shape {shape}.")
    return array.astype(np.float64)


def _profile(
    game: EnvSpec, c: Any, units: np.ndarray, converged: bool, sweeps: int
) -> StageProfile:
    """Return the profile in which the agents invest ``units``, with its payoffs."""
    paid = payoffs(c, units)
    shares, welfare = units / c.endowment, float(paid.sum())
    return StageProfile(game.id, game.agents(c), units, shares, paid, welfare, converged, sweeps)
