"""What a coopetition game is worth: equilibria and optimum of a step, best play of an episode.

The stage functions (``stage_payoffs``, ``static_nash``, ``coopetitive_equilibrium``,
``social_optimum``, ``efficiency``, ``price_of_anarchy``) look at the private payoffs of one step of
the model that all coopetition games share. Factors that a game adds to its reward (loyalty,
reciprocity, penalties, market tiers), trust and the horizon are no part of it. The other functions
play whole episodes of the real environment. Definitions and a table of all games: docs/games.md.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np

from coopbench.baselines.game import Game
from coopbench.baselines.match import OWN, Actor, Match, Script
from coopbench.baselines.player import Player
from coopbench.baselines.registry import entries, make_policy
from coopbench.baselines.strategies.investments import CUSTOMARY
from coopbench_envs.parameters import resolve
from coopbench_envs.registration import ids, spec

__all__ = [
    "BestConstant",
    "Exploitability",
    "OpenLoop",
    "Search",
    "StageProfile",
    "best_constant",
    "best_open_loop",
    "coopetitive_equilibrium",
    "efficiency",
    "exploitability",
    "price_of_anarchy",
    "social_optimum",
    "stage_payoffs",
    "static_nash",
]

_NEEDED = ("endowment", "alpha", "theta", "gamma", "dependence")  # of a coopetition game
_NOTHING = 1e-10  # units; at or below it an investment counts as none and there is no synergy
_STARTS = (0.0, 0.3, 1.0)  # shares of endowment from which equilibria are sought
_LANE_BYTES = 1 << 26  # of observations that one batch may hold


# -- one step ------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class StageProfile:
    """Investments of one step, and what they pay."""

    env_id: str
    agents: tuple[str, ...]
    actions: np.ndarray  # (agents,) units
    fractions: np.ndarray  # (agents,) of own endowment, in [0, 1]
    payoffs: np.ndarray  # (agents,) private payoff pi of one step
    welfare: float  # sum of the payoffs
    converged: bool  # whether the solver met its tolerance
    sweeps: int  # rounds of best responses, or iterations of the optimiser


def stage_payoffs(constants: Any, actions: Any) -> np.ndarray:
    """Return the private payoff of every agent for one step: kept units, own value, synergy share.

    ``constants`` are a game's (``Engine(...).constants``); ``actions`` are (..., agents) in units
    and the result is (..., agents) float64, equal to the rewards of ``reward_type="private"`` where
    a game adds no factor of its own. Where the weight of the synergy is drawn anew each episode
    (SynergySearch) its mean is used, which gives the mean payoff. Raises ``ValueError`` for a wrong
    shape and for investments outside [0, endowment]. Source: section 1.1 of the model,
    docs/environments/coopetition.md.
    """
    units = _numbers("actions", actions)
    endowment = np.asarray(_checked_constants(constants).endowment)
    if units.ndim == 0 or units.shape[-1] != len(endowment):
        raise ValueError(
            f"actions must have shape (..., {len(endowment)}), one per agent; given {units.shape}."
        )
    if not ((units >= 0.0) & (units <= endowment)).all():
        raise ValueError(
            f"actions must lie in [0, endowment] with endowments {endowment.tolist()}; "
            f"given {units.tolist() if units.size <= 16 else 'an array with values beyond'}."
        )
    return _payoffs(constants, units)


def _payoffs(c: Any, units: np.ndarray) -> np.ndarray:
    """Payoffs (..., agents) of checked investments."""
    shared = np.exp(np.log(np.maximum(units, _NOTHING)).mean(axis=-1, keepdims=True))
    shared = np.where((units <= _NOTHING).any(axis=-1, keepdims=True), 0.0, shared)
    return c.endowment - units + c.theta * np.log1p(units) + c.alpha * _gamma(c) * shared


def _gamma(c: Any) -> float:
    """Weight of the synergy; its mean where it is hidden and drawn."""
    return 0.5 * (c.gamma_low + c.gamma_high) if hasattr(c, "gamma_low") else float(c.gamma)


def _checked_constants(constants: Any, name: str = "constants") -> Any:
    missing = [field for field in _NEEDED if not hasattr(constants, field)]
    if missing:
        raise ValueError(
            f"{name}: only coopetition games of version 0 have these stage payoffs; this one has "
            f"no {', '.join(missing)}. coopbench.theory.solve takes every game with investments."
        )
    return constants


def _game(env_id: str, parameters: dict[str, Any]) -> tuple[Any, Any]:
    """Spec and constants of a coopetition game."""
    found = spec(env_id)
    constants = found.constants(resolve(found.params, parameters, found.id))
    return found, _checked_constants(constants, found.id)


def _profile(found: Any, c: Any, units: np.ndarray, converged: bool, sweeps: int) -> StageProfile:
    paid = _payoffs(c, units)
    return StageProfile(
        found.id,
        found.agents(c),
        units,
        units / c.endowment,
        paid,
        float(paid.sum()),
        converged,
        sweeps,
    )


def static_nash(
    env_id: str,
    *,
    weights: Any = None,
    start: float = 0.3,
    tolerance: float = 1e-6,
    sweeps: int = 100,
    **parameters: Any,
) -> StageProfile:
    """Seek investments of one step from which nobody gains by deviating alone.

    Agents answer one after the other in index order, each with the investment in [0, endowment]
    that maximises pi_i + sum_j weights[i, j] pi_j, found by bounded scalar minimisation. They begin
    at ``start`` (share of own endowment) and stop when a sweep moves nobody by ``tolerance`` units
    or more (``converged``), or after ``sweeps`` sweeps. ``weights`` is (agents, agents) with a zero
    diagonal; None means own payoffs alone, the Nash equilibrium. ``parameters`` are the
    environment's. Raises ``ValueError`` for games of other families and values out of range.
    """
    found, c = _game(env_id, parameters)
    _within("start", start, 0.0, 1.0)
    _within("tolerance", tolerance, 1e-12, 1e6)
    _within("sweeps", sweeps, 1, 1_000_000)
    n = len(c.endowment)
    care = np.eye(n) + (np.zeros((n, n)) if weights is None else _matrix("weights", weights, n))
    units = start * np.asarray(c.endowment, np.float64)
    for sweep in range(1, int(sweeps) + 1):
        before = units.copy()
        for agent in range(n):
            units[agent] = _best_response(c, units, agent, care[agent], tolerance)
        if np.abs(units - before).max() < tolerance:
            return _profile(found, c, units, True, sweep)
    return _profile(found, c, units, False, int(sweeps))


def _best_response(
    c: Any, units: np.ndarray, agent: int, care: np.ndarray, tolerance: float
) -> float:
    """Investment of ``agent`` that maximises the payoffs weighted by ``care``."""
    from scipy.optimize import minimize_scalar

    trial = units.copy()

    def loss(x: float) -> float:
        trial[agent] = x
        return -float(care @ _payoffs(c, trial))

    top = float(c.endowment[agent])
    # The last step of the search falls well below its own bound; a tighter one only meets rounding.
    inner = minimize_scalar(
        loss, bounds=(0.0, top), method="bounded", options={"xatol": 10.0 * tolerance}
    )
    # The search never evaluates the ends, where the best answer may lie.
    return min((float(inner.x), 0.0, top), key=loss)


def coopetitive_equilibrium(
    env_id: str,
    *,
    trust: Any = None,
    start: float = 0.3,
    tolerance: float = 1e-6,
    sweeps: int = 100,
    **parameters: Any,
) -> StageProfile:
    """Seek the equilibrium of agents who care for those that they depend on.

    As ``static_nash`` with the game's dependence matrix D as weights; with ``trust`` (agents,
    agents), effective trust in [0, 1] of the row's agent in the column's, with trust * D. Solver,
    defaults and errors are those of ``static_nash``.
    """
    _, c = _game(env_id, parameters)
    weights = np.array(c.dependence, np.float64)
    if trust is not None:
        given = _matrix("trust", trust, len(weights), diagonal=True)
        if given.min() < 0.0 or given.max() > 1.0:
            raise ValueError(
                f"trust must lie in [0, 1]; given values from {given.min():g} to {given.max():g}."
            )
        weights *= given
    return static_nash(
        env_id, weights=weights, start=start, tolerance=tolerance, sweeps=sweeps, **parameters
    )


def social_optimum(env_id: str, **parameters: Any) -> StageProfile:
    """Find the investments of one step with the largest sum of private payoffs.

    Bounded quasi-Newton search with exact gradients from several common shares of the endowments;
    the best end is returned. The sum is concave, so all ends agree unless a search fails;
    ``converged`` tells that no slope there exceeds 1e-4 (payoff per unit) except at a bound. Raises
    ``ValueError`` for games of other families.
    """
    from scipy.optimize import minimize

    found, c = _game(env_id, parameters)
    e, n, weight = np.asarray(c.endowment), len(c.endowment), _gamma(c) * np.sum(c.alpha)

    def loss(units: np.ndarray) -> tuple[float, np.ndarray]:
        shared = np.exp(np.log(units).mean())
        slope = c.theta / (1.0 + units) - 1.0 + weight * shared / (n * units)
        return -float(_payoffs(c, units).sum()), -slope

    # The synergy is infinitely steep at zero: stay a little above.
    bounds = [(1e-6 * top, top) for top in e]
    options = {"ftol": 1e-15, "gtol": 1e-9, "maxiter": 10_000}
    ends = [
        minimize(loss, share * e, jac=True, bounds=bounds, method="L-BFGS-B", options=options)
        for share in (0.05, 0.3, 0.6, 0.95)
    ]
    best = min(ends, key=lambda end: end.fun)
    # The search's own verdict is no use: it complains when rounding stops it at the optimum.
    low, high = np.array(bounds).T
    gap = np.abs(np.clip(best.x - loss(best.x)[1], low, high) - best.x).max()
    return _profile(found, c, np.asarray(best.x), bool(gap < 1e-4), int(best.nit))


def efficiency(env_id: str, actions: Any, **parameters: Any) -> float:
    """Return W(actions) / W(optimum) of one step, W the sum of private payoffs; at most 1.

    ``actions`` are (agents,) units. Raises ``ValueError`` as ``stage_payoffs`` does.
    """
    _, c = _game(env_id, parameters)
    if np.ndim(actions) != 1:
        raise ValueError(f"actions must be one vector; given shape {np.shape(actions)}.")
    return float(stage_payoffs(c, actions).sum()) / social_optimum(env_id, **parameters).welfare


def price_of_anarchy(env_id: str, **parameters: Any) -> float:
    """Return W(optimum) / W(worst Nash equilibrium) of one step, W the sum of private payoffs.

    It is >= 1, and 1 means that selfish play loses nothing. The published protocol divides the
    other way round and still calls lower values better, which contradicts itself; this is the usual
    definition. The worst equilibrium is that of all found from 0, 0.3 and all of the endowments.
    Raises ``RuntimeError`` if none of the searches converges.
    """
    found = [static_nash(env_id, start=start, **parameters) for start in _STARTS]
    welfare = [equilibrium.welfare for equilibrium in found if equilibrium.converged]
    if not welfare:
        raise RuntimeError(f"No Nash equilibrium of {env_id} was found from starts {_STARTS}.")
    return social_optimum(env_id, **parameters).welfare / min(welfare)


def _within(name: str, value: Any, low: float, high: float) -> None:
    """Refuse numbers out of range; nan is in no range."""
    if not isinstance(value, (int, float, np.number)) or not low <= value <= high:
        raise ValueError(f"{name} was {value!r}; allowed: a number in [{low:g}, {high:g}].")


def _count(name: str, value: Any, low: int, high: int = 1_000_000) -> None:
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)):
        raise ValueError(f"{name} was {value!r}; allowed: an integer in [{low}, {high}].")
    _within(name, value, low, high)


def _numbers(name: str, given: Any) -> np.ndarray:
    try:
        return np.asarray(given, np.float64)
    except (TypeError, ValueError):
        raise ValueError(f"{name} was {given!r}; allowed: an array of numbers.") from None


def _matrix(name: str, given: Any, n: int, *, diagonal: bool = False) -> np.ndarray:
    """Checked (n, n) numbers; unless ``diagonal``, nobody may weigh itself."""
    table = _numbers(name, given)
    if table.shape != (n, n) or not np.isfinite(table).all():
        raise ValueError(f"{name} must be finite of shape ({n}, {n}); given shape {table.shape}.")
    if not diagonal and np.diag(table).any():
        raise ValueError(f"{name} must have a zero diagonal; given {np.diag(table).tolist()}.")
    return table


# -- whole episodes ------------------------------------------------------------------------------


class _Arena:
    """Candidates for one game at play: each has a block of lanes with the same seeded episodes."""

    def __init__(
        self, env_id: str, candidates: int, episodes: int, seed: int, parameters: dict[str, Any]
    ) -> None:
        from coopbench_envs.engine import Engine

        _count("episodes", episodes, 1)
        _count("seed", seed, 0, 2**63)
        self.engine = Engine(env_id, candidates * episodes, **parameters)
        if "own_action" not in self.engine.layout or self.engine.discrete:
            raise ValueError(f"{env_id}: only coopetition games have investments to search over.")
        self.tops = self.engine.action_bounds()[1].astype(np.float64)[:, 0]
        self.candidates, self.episodes = candidates, episodes
        seeds = np.arange(seed, seed + episodes, dtype=np.uint64)
        self._seeds = np.tile(seeds, candidates)

    def play(self, players: Sequence[Actor], seats: np.ndarray | None = None) -> np.ndarray:
        """Play all lanes to the end; return mean returns (candidates, agents).

        ``players`` and ``seats`` are those of a ``Match``.
        """
        returns = Match(self.engine, players, seats).play(self._seeds)
        return returns.reshape(self.candidates, self.episodes, -1).mean(axis=1)

    def sequences(self, fractions: np.ndarray) -> np.ndarray:
        """Sums of returns (candidates,) of fractions (candidates, steps or 1, agents or 1).

        Further parts of actions are played as is customary.
        """
        units = np.repeat(fractions, self.episodes, axis=0) * self.tops
        last, actions = units.shape[1] - 1, np.full(self.engine.actions.shape, CUSTOMARY)

        def invested(step: int) -> np.ndarray:
            actions[:, :, 0] = units[:, min(step, last)]
            return actions

        return self.play([Script(invested)]).sum(axis=1)


@dataclass(frozen=True, eq=False)
class BestConstant:
    """Best constant play found, and the returns of all common fractions on the first grid."""

    env_id: str
    fraction: float  # best common fraction of own endowment, after refinement
    value: float  # its return, summed over agents, mean over episodes
    grid: np.ndarray  # (grid,) fractions, even on [0, 1]
    returns: np.ndarray  # (grid,) their returns, summed over agents
    profile: np.ndarray  # (agents,) best constant fractions; all ``fraction`` unless asked for
    actions: np.ndarray  # (agents,) the profile in units
    profile_value: float  # return of the profile


def best_constant(
    env_id: str,
    *,
    grid: int = 101,
    episodes: int = 1,
    seed: int = 0,
    profile: bool = False,
    **parameters: Any,
) -> BestConstant:
    """Find the constant fraction of own endowments with the largest return of a whole episode.

    All ``grid`` fractions are lanes of one batch of the real environment; then as many between the
    neighbours of the best are tried. The return is summed over agents and averaged over the
    ``episodes`` seeded ``seed``, ``seed + 1``, ...; one is enough for a deterministic game. With
    ``profile``, each agent's own fraction is then refined in turn on ever narrower grids. Raises
    ``ValueError`` for a grid below 2 and games of other families.
    """
    _count("grid", grid, 2, 100_001)
    arena = _Arena(env_id, grid, episodes, seed, parameters)
    shares = np.linspace(0.0, 1.0, grid)
    returns = arena.sequences(shares[:, None, None])
    fraction, value = float(shares[returns.argmax()]), float(returns.max())
    finer = np.clip(fraction + np.linspace(-1.0, 1.0, grid) / (grid - 1), 0.0, 1.0)
    again = arena.sequences(finer[:, None, None])
    if again.max() > value:
        fraction, value = float(finer[again.argmax()]), float(again.max())
    each, worth = np.full(len(arena.tops), fraction), value
    if profile:
        each, worth = _refined(arena, each, worth)
    units = each * arena.tops
    name = arena.engine.spec.id
    return BestConstant(name, fraction, value, shares, returns, each, units, worth)


def _refined(arena: _Arena, each: np.ndarray, worth: float) -> tuple[np.ndarray, float]:
    """Move one agent's fraction at a time, over everything first and ever less around it then."""
    offsets = np.linspace(-1.0, 1.0, arena.candidates)
    for width in (1.0, 0.25, 0.05, 0.01, 0.002):
        for agent in range(len(each)):
            trial = np.tile(each, (arena.candidates, 1))
            trial[:, agent] = np.clip(each[agent] + width * offsets, 0.0, 1.0)
            returns = arena.sequences(trial[:, None, :])
            if returns.max() > worth:
                each, worth = trial[returns.argmax()], float(returns.max())
    return each, worth


@dataclass(frozen=True, eq=False)
class OpenLoop:
    """Best sequence of investments found, fixed before the episode."""

    env_id: str
    fractions: np.ndarray  # (steps, agents) of own endowment
    value: float  # its return, summed over agents
    constant: BestConstant  # where the search began
    history: np.ndarray  # (iterations + 1,) best return so far; the first is the constant's


def best_open_loop(
    env_id: str,
    *,
    iterations: int = 160,
    population: int = 128,
    elite: int = 16,
    episodes: int = 1,
    seed: int = 0,
    per_agent: bool = False,
    **parameters: Any,
) -> OpenLoop:
    """Search for the sequence of fractions with the largest summed return.

    Cross-entropy method on a batch of the real environment: draw ``population`` changes of the best
    sequence from a normal distribution, fit it to the ``elite`` best, repeat. Changes are constant
    on pieces of the episode: first its halves, then pieces that shorten towards both ends, where
    trust begins and stops to matter, then even pieces down to single steps; the ``iterations`` are
    shared out equally. The search begins at ``best_constant`` and keeps the best sequence, so it is
    never worse. All agents invest the same fraction of their endowments; with ``per_agent`` the
    second half of the iterations lets each have its own. The return is the mean over ``episodes``
    seeded ``seed``, ``seed + 1``, ...; one, where a game is random, means an episode known in
    advance. ``seed`` also seeds the draws: equal arguments give equal results. What it finds is a
    lower bound of the optimum. Raises ``ValueError`` for
    counts out of range and games of other families. Method: Rubinstein (1999), The cross-entropy
    method for combinatorial and continuous optimization.
    """
    _count("iterations", iterations, 1)
    _count("population", population, 2)
    _count("elite", elite, 1, population)
    constant = best_constant(env_id, episodes=episodes, seed=seed, **parameters)
    arena = _Arena(env_id, population, episodes, seed, parameters)
    steps, agents, rng = arena.engine.horizon, len(arena.tops), np.random.default_rng(seed)
    best, history = np.full((steps, 1), constant.fraction), [constant.value]
    widths = (1, agents) if per_agent else (1,)  # numbers for each piece
    stages = [(piece, width) for width in widths for piece in _partitions(steps)]
    cuts = [iterations * k // len(stages) for k in range(len(stages) + 1)]
    for k, (piece, width) in enumerate(stages):
        best = np.broadcast_to(best, (steps, width))
        turns = cuts[k + 1] - cuts[k]
        best, values = _cross_entropy(arena, (best, history[-1]), piece, turns, elite, rng)
        history += values
    every = np.broadcast_to(best, (steps, agents)).copy()
    return OpenLoop(arena.engine.spec.id, every, history[-1], constant, np.array(history))


def _partitions(steps: int) -> list[np.ndarray]:
    """Ever finer divisions of an episode, as the piece (steps,) that each step belongs to."""
    doublings = 2 ** np.arange(np.ceil(np.log2(max(steps, 2))).astype(int))
    inner = doublings[doublings <= steps // 2]
    cuts = np.unique([0, *inner, *(steps - inner)])
    towards_ends = np.searchsorted(cuts, np.arange(steps), side="right") - 1
    even = [np.arange(steps) * min(count, steps) // steps for count in (2, 16, 32, steps)]
    return [even[0], towards_ends, *even[1:]]


def _cross_entropy(
    arena: _Arena,
    begun: tuple[np.ndarray, float],
    piece: np.ndarray,
    turns: int,
    elite: int,
    rng: np.random.Generator,
) -> tuple[np.ndarray, list[float]]:
    """Improve a sequence by changes that are constant on each ``piece``; best values so far."""
    (base, value), values = begun, []
    best, change = base, np.zeros((piece.max() + 1, base.shape[1]))
    # The more numbers change at once, the less each may.
    centre, spread = change, np.full_like(change, 0.2 / np.sqrt(change.size))
    for _ in range(turns):
        changes = centre + spread * rng.standard_normal((arena.candidates, *centre.shape))
        changes[0] = change  # the best so far stays in the race
        trial = np.clip(base + changes[:, piece], 0.0, 1.0)
        returns = arena.sequences(trial)
        order = np.argsort(-returns, kind="stable")[:elite]
        if returns[order[0]] > value:
            best, change, value = trial[order[0]], changes[order[0]], float(returns[order[0]])
        centre, spread = changes[order].mean(axis=0), changes[order].std(axis=0)
        values.append(value)
    return best, values


# -- exploitability ------------------------------------------------------------------------------


@dataclass(frozen=True)
class Search:
    """Deviations that ``exploitability`` tries, besides playing the policy itself.

    Constants on an even grid of ``levels`` fractions; switches from one of ``switch_levels``
    fractions, or from the policy itself, to another at each of ``switch_times`` (shares of the
    horizon); and ``policies`` by name (None: all registered that need no parameter and can play).
    """

    levels: int = 21
    switch_levels: int = 6
    switch_times: tuple[float, ...] = (0.05, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99)
    policies: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        _count("levels", self.levels, 2, 10_001)
        _count("switch_levels", self.switch_levels, 2, 1_001)
        for time in self.switch_times:
            _within("switch_times", time, 0.0, 1.0)


@dataclass(frozen=True, eq=False)
class Exploitability:
    """What one seat gains by the best deviation found, and what that costs the others."""

    env_id: str
    policy: str
    seat: int
    deviation: str  # best of the search, in words; fractions of own endowment, steps from 0
    base: np.ndarray  # (agents,) mean returns when all play the policy
    returns: np.ndarray  # (agents,) mean returns under the deviation
    gain: float  # of the deviating seat; 0 if nothing beats the policy
    losses: np.ndarray  # (agents - 1,) of the others in index order; negative where they gain
    victims_loss: float  # sum of the losses
    tried: int  # deviations tried


def exploitability(
    env_id: str,
    policy: Any,
    *,
    search: Search | None = None,
    seat: int = 0,
    episodes: int = 1,
    seed: int = 0,
    **parameters: Any,
) -> Exploitability:
    """Find what ``seat`` gains by deviating while all other seats play ``policy``.

    ``policy`` is a registered name or a policy object. Every deviation of ``search`` plays the
    same ``episodes``, seeded ``seed``, ``seed + 1``, ...; the one with the largest return of the
    seat wins, ties to the first, and the policy itself is always in. So the gain is >= 0, and a
    lower bound: better deviations outside the search may exist. Returns are those of the
    environment's reward type. Raises ``ValueError`` for a seat, a policy or a value that is not
    allowed, and for games of other families.
    """
    asked = Search() if search is None else search
    arena = _Arena(env_id, 1, episodes, seed, parameters)
    engine, game = arena.engine, Game.of(arena.engine)
    _count("seat", seat, 0, len(engine.agents) - 1)
    name = Player(policy, game).label
    if asked.policies is None:
        rivals = _playable(game)
    else:
        rivals = [Player(rival, game).label for rival in asked.policies]
    plans = list(_plans(asked))
    block = min(len(plans), max(1, _LANE_BYTES // engine.control.obs.nbytes))
    wide = _Arena(env_id, block, episodes, seed, parameters)
    fractions = np.array([_sequence(plan, engine.horizon) for plan in plans])
    results = list(_planned(wide, policy, seat, fractions))
    results += [_replaced(arena, policy, seat, rival) for rival in rivals]
    words = [_worded(plan, engine.horizon) for plan in plans]
    words += [f"policy {rival}" for rival in rivals]
    best = int(np.argmax([result[seat] for result in results]))
    base, found = results[0], results[best]
    losses = np.delete(base - found, seat)
    return Exploitability(
        env_id=engine.spec.id,
        policy=name,
        seat=seat,
        deviation=words[best],
        base=base,
        returns=found,
        gain=float(found[seat] - base[seat]),
        losses=losses,
        victims_loss=float(losses.sum()),
        tried=len(results) - 1,
    )


def _plans(search: Search) -> Iterator[tuple[float, float, float]]:
    """Triples (fraction before, after, share of the horizon); nan stands for the policy itself."""
    yield np.nan, np.nan, 0.0
    for level in np.linspace(0.0, 1.0, search.levels).tolist():
        yield level, level, 0.0
    levels = np.linspace(0.0, 1.0, search.switch_levels).tolist()
    for before, after, time in product([np.nan, *levels], levels, search.switch_times):
        if before != after:
            yield before, after, time


def _sequence(plan: tuple[float, float, float], horizon: int) -> np.ndarray:
    before, after, time = plan
    return np.where(np.arange(horizon) < round(time * horizon), before, after)


def _worded(plan: tuple[float, float, float], horizon: int) -> str:
    before, after = ("the policy" if np.isnan(part) else f"{part:.3g}" for part in plan[:2])
    if before == after:
        return before if before == "the policy" else f"constant {before}"
    return f"{before}, then {after} from step {round(plan[2] * horizon)}"


def _planned(arena: _Arena, policy: Any, seat: int, fractions: np.ndarray) -> Iterator[np.ndarray]:
    """Mean returns (agents,) of every row of fractions (plans, steps) for the seat."""
    player = Player(policy, Game.of(arena.engine))
    block, top = arena.candidates, arena.tops[seat]
    for first in range(0, len(fractions), block):
        # The last block is filled up with its last plan.
        rows = np.minimum(np.arange(first, first + block), len(fractions) - 1)
        units = top * np.repeat(fractions[rows], arena.episodes, axis=0)
        yield from arena.play([_Deviator(player, seat, units)])[: len(fractions) - first]


class _Deviator:
    """A player that follows a plan (lanes, steps) in units in one seat; nan: its own action."""

    def __init__(self, player: Player, seat: int, units: np.ndarray) -> None:
        self._player, self._seat, self._units, self._step = player, seat, units, 0

    def begin(
        self, seeds: np.ndarray, episodes: np.ndarray, chosen: np.ndarray, stream: int = 0
    ) -> None:
        self._player.begin(seeds, episodes, chosen, stream)
        self._step = 0

    def act(
        self, observations: np.ndarray, state: Any = None, masks: np.ndarray | None = None
    ) -> np.ndarray:
        actions, planned = self._player.act(observations, state, masks), self._units[:, self._step]
        investment = actions[:, self._seat, 0]
        actions[:, self._seat, 0] = np.where(np.isnan(planned), investment, planned)
        self._step += 1
        return actions


def _replaced(arena: _Arena, policy: Any, seat: int, name: str) -> np.ndarray:
    """Mean returns (agents,) when another policy plays the seat."""
    game = Game.of(arena.engine)
    seats = np.full((arena.engine.lanes, len(game.agents)), OWN)
    seats[:, seat] = 0  # the second player
    return arena.play([Player(policy, game), Player(name, game)], seats)[0]


def _playable(game: Game) -> list[str]:
    """Registered policies that need no parameter and can play ``game``."""
    names = []
    for name, entry in entries().items():
        fields: Any = entry.params
        if set(fields._fields) - set(fields._field_defaults):
            continue
        try:
            make_policy(name, game)
        except ValueError:
            continue
        names.append(name)
    return names


# -- the table of docs/games.md ------------------------------------------------------------------

# The published weight is drawn; the table shows the game at the mean of its range.
_FIXED: dict[str, dict[str, Any]] = {"coopbench/SynergySearch-v0": {"gamma_range": (0.55, 0.55)}}


def _row(env_id: str) -> str:
    given = _FIXED.get(env_id, {})
    nash, coopetitive = static_nash(env_id, **given), coopetitive_equilibrium(env_id, **given)
    optimum, constant = social_optimum(env_id, **given), best_constant(env_id, **given)
    cells = [env_id.split("/")[1].removesuffix("-v0")]
    for stage in (nash, coopetitive, optimum):
        cells += [_units(stage.actions), f"{stage.welfare:.1f}"]
    price = price_of_anarchy(env_id, **given)
    cells += [f"{price:.4f}", f"{constant.fraction:.4f}", f"{constant.value:.0f}"]
    return "| " + " | ".join(cells) + " |"


def _units(actions: np.ndarray) -> str:
    """Investments in order, runs of equal ones as one number with a count."""
    runs: list[list[Any]] = []
    for text in (f"{units:.2f}" for units in actions):
        if runs and runs[-1][0] == text:
            runs[-1][1] += 1
        else:
            runs.append([text, 1])
    return ", ".join(text if count == 1 else f"{text} x {count}" for text, count in runs)


def main() -> None:
    """Print the equilibria, optimum, price of anarchy and best constant of every published game."""
    heads = ["game", "Nash", "W", "coopetitive", "W", "optimum", "W", "price of anarchy"]
    heads += ["best constant", "return"]
    print("| " + " | ".join(heads) + " |")
    print("|---" * len(heads) + "|")
    for env_id in ids():
        if spec(env_id).source.startswith("Coopetition-Gym"):
            print(_row(env_id), flush=True)


if __name__ == "__main__":
    main()
