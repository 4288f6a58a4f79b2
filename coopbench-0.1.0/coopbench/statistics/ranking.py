"""Order contestants: ranks with intervals, and ratings from wins or payoffs between them."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from coopbench.statistics.bootstrap import WIDER, check_options, sample_notes
from coopbench.statistics.estimates import iqm
from coopbench.statistics.intervals import spread_of
from coopbench.statistics.resampling import Sampler, Statistic, sampler_for
from coopbench.statistics.results import Interval
from coopbench.statistics.scores import Scores, columns_of

ROUNDING = 1e-12  # of the largest score: smaller differences come from the order of summation


@dataclass(frozen=True, slots=True)
class Ranking:
    """Ranks of contestants by a statistic, 1 for the best."""

    interval: Interval  # estimate, low and high are (contestants,) ranks
    shares: np.ndarray  # (contestants, ranks) share of resamples in which each takes each rank


@dataclass(frozen=True, slots=True)
class NashAverage:
    """Maximum entropy equilibrium of a zero-sum game between rows and columns."""

    rows: np.ndarray  # (rows,) probabilities
    columns: np.ndarray  # (columns,) probabilities
    row_ratings: np.ndarray  # (rows,) payoff of each row against the columns' equilibrium
    column_ratings: np.ndarray  # (columns,) payoff of the rows' equilibrium against each column
    value: float  # payoff of equilibrium against equilibrium


def rank_intervals(
    scores: Sequence[Scores],
    statistic: Statistic = iqm,
    *,
    best: Literal["highest", "lowest"] = "highest",
    rows: Literal["independent", "paired"] = "independent",
    reps: int = 50_000,
    confidence: float = 0.95,
    seed: int = 0,
) -> Ranking:
    """Rank contestants by a statistic of their runs and say how sure every rank is.

    ``scores`` has one score matrix per contestant. A contestant's rank starts after all those
    significantly better and ends before all those significantly worse; all pairs are judged
    together by the bootstrap of the largest standardised difference, so all intervals hold at
    once with the stated confidence (Mogstad, Romano, Shaikh and Wilhelm 2024, "Inference for
    Ranks with Applications to Mobility across Neighbourhoods"). For small samples the deviations
    are scaled and the limit is referred to Student's t, as by the method "expanded" of
    ``bootstrap_interval``. ``shares`` are plain bootstrap frequencies, equal values sharing the
    better rank: a picture, not a test.

    ``rows="paired"`` is for matrices whose rows belong together, for instance episodes played
    under the same seeds: the same rows are then drawn for all contestants, and luck that they
    share does not blur the ranks. Training runs are independent.

    Raises:
        ValueError: for fewer than two contestants, an option not allowed, scores that are not
            allowed, or paired rows that are not equally many in every task.
    """
    check_options("percentile", "runs", reps, confidence, seed)
    _check_contestants(len(scores), best, rows)
    paired = rows == "paired"
    salts = [1 if paired else 1 + k for k in range(len(scores))]
    samplers = [sampler_for(s, statistic, salt) for s, salt in zip(scores, salts, strict=True)]
    if paired:
        _check_rows(samplers)
    sign = 1.0 if best == "highest" else -1.0
    values = sign * np.concatenate([s.draw("runs", reps, seed) for s in samplers], axis=1)
    centre = sign * np.concatenate([s.estimate for s in samplers])
    variance, scale, df = np.concatenate([_spread(s) for s in samplers], axis=1)
    freedom = _smaller(df) if paired else _pooled(variance, df)
    better = _significantly_better(centre + scale * (values - centre), centre, freedom, confidence)
    low, high = 1.0 + better.sum(axis=0), float(len(scores)) - better.sum(axis=1)
    notes = dict.fromkeys(n for s in samplers for n in sample_notes(s, WIDER, "runs"))
    ranks = _ranks(centre[None])[0].astype(float)
    interval = Interval(ranks, low, high, "simultaneous ranks", reps, tuple(notes))
    shares = (_ranks(values)[:, :, None] == np.arange(1, len(scores) + 1)).mean(axis=0)
    return Ranking(interval, shares)


def bradley_terry(wins: Scores, *, prior: float = 0.0) -> np.ndarray:
    """Fit strengths such that i beats j with chance 1 / (1 + exp(s_j - s_i)).

    ``wins[i, j]`` counts how often i beat j, a draw being half a win for each; the diagonal is
    ignored. Returns (contestants,) natural log strengths with mean zero, by maximum likelihood
    (Bradley and Terry 1952); 400 / ln(10) times them are Elo points. Without a ``prior`` they are
    finite only if everyone can be reached from everyone by a chain of wins (Ford 1957): otherwise
    all are nan. A prior adds that many wins and losses to every pair.

    Raises:
        ValueError: unless wins is square, finite and not negative.
    """
    from scipy.sparse.csgraph import connected_components

    table = _square(wins, "wins") + prior
    np.fill_diagonal(table, 0.0)
    if np.any(table < 0.0):
        raise ValueError("wins has a negative entry; allowed are counts of at least 0")
    if connected_components(table > 0.0, directed=True, connection="strong")[0] > 1:
        return np.full(len(table), np.nan)
    games, won = table + table.T, table.sum(axis=1)
    strengths = np.zeros(len(table))
    for _ in range(200):
        chance = 1.0 / (1.0 + np.exp(strengths[None, :] - strengths[:, None]))
        slope = won - np.sum(games * chance, axis=1)
        weight = games * chance * (1.0 - chance)
        # The ones fix the mean, which the likelihood leaves open.
        curvature = np.diag(weight.sum(axis=1)) - weight + weight.max() / len(table)
        move = np.linalg.solve(curvature, slope)
        strengths += move * min(1.0, 2.0 / max(np.max(np.abs(move)), 1e-300))
        if np.max(np.abs(move)) < 1e-12:
            break
    result: np.ndarray = strengths - strengths.mean()
    return result


def alpha_rank(
    payoffs: np.ndarray | Sequence[np.ndarray], *, alpha: float = np.inf, population: int = 50
) -> np.ndarray:
    """Rank strategies by how long evolution stays at each of them.

    One square matrix is a symmetric game, ``payoffs[i, j]`` what i earns against j; the result is
    (strategies,). Several arrays of one shape, one per player, are a general game; the result has
    that shape, a mass for each joint strategy. A single mutant strategy takes over a
    ``population`` with the Moran fixation chance at selection strength ``alpha`` (in 1 / units of
    payoff), and the masses are the stationary distribution of that chain (Omidshafiei et al.
    2019, "alpha-Rank: Multi-Agent Evaluation by Evolution"). ``alpha = inf`` is the limit of
    strong selection: better mutants always win, equal ones with 1 / population, worse ones with
    1e-12. For large finite alpha the masses approach that limit until the chances underflow.

    Raises:
        ValueError: for shapes that do not fit, missing values, alpha <= 0 or population < 2.
    """
    tables = _games(payoffs)
    if not alpha > 0.0 or population < 2:
        settings = f"alpha is {alpha} and population is {population}"
        raise ValueError(f"{settings}; allowed are alpha > 0 and population >= 2")
    symmetric = len(tables) == 1
    shape = (len(tables[0]),) if symmetric else tables[0].shape
    states = list(np.ndindex(shape))
    chain = np.zeros((len(states), len(states)))
    for source, state in enumerate(states):
        for player, strategy in _mutations(shape, state):
            mutant = (*state[:player], strategy, *state[player + 1 :])
            if symmetric:
                gain = tables[0][mutant + state] - tables[0][state + mutant]
            else:
                gain = tables[player][mutant] - tables[player][state]
            target = np.ravel_multi_index(mutant, shape)
            chain[source, target] = _fixation(gain, alpha, population)
    return _stationary(chain).reshape(shape)


def nash_average(payoffs: np.ndarray) -> NashAverage:
    """Rate agents against each other, or against tasks, so that copies cannot inflate a rating.

    ``payoffs[i, j]`` is what row i wins from column j: an antisymmetric matrix of agents against
    agents (log odds of winning, say) or scores of agents on tasks. The ratings are payoffs
    against the equilibrium of maximum entropy, which is unique and splits its mass among copies
    (Balduzzi, Tuyls, Perolat and Graepel 2018, "Re-evaluating Evaluation"). Accurate to about
    1e-6 of the payoffs' range.

    Raises:
        ValueError: unless payoffs is a finite matrix.
    """
    table = np.asarray(payoffs, dtype=np.float64)
    if table.ndim != 2 or table.size == 0 or not np.all(np.isfinite(table)):
        raise ValueError(f"payoffs has shape {table.shape}; allowed is a finite matrix")
    unit = np.ptp(table) or 1.0
    game = (table - table.mean()) / unit  # the equilibria do not change, the tolerances fit
    rows, columns = _even_equilibrium(game), _even_equilibrium(-game.T)
    value = float(rows @ table @ columns)
    return NashAverage(rows, columns, table @ columns, rows @ table, value)


def _check_contestants(count: int, best: str, rows: str) -> None:
    if count < 2:
        raise ValueError(f"scores has {count} contestants; allowed are at least 2")
    if best not in ("highest", "lowest"):
        raise ValueError(f"best is {best!r}; allowed are 'highest' or 'lowest'")
    if rows not in ("independent", "paired"):
        raise ValueError(f"rows is {rows!r}; allowed are 'independent' or 'paired'")


def _check_rows(samplers: Sequence[Sampler]) -> None:
    """Raise unless every contestant has the rows of the first, task by task."""
    rows, *others = ([len(c) for c in columns_of(s.sources[0])] for s in samplers)
    for position, other in enumerate(others, start=1):
        if other != rows:
            raise ValueError(
                f"scores[{position}] has {other} rows in its tasks; allowed are those of the first,"
                f" {rows}, because the rows are paired (rows='independent' needs no pairs)"
            )


def _spread(sampler: Sampler) -> np.ndarray:
    """Return (3, 1): variance, scale of deviations and degrees of freedom; nan for a single run.

    Runs that do not vary need no scale, and their spread counts as known.
    """
    variance, scale, df = spread_of(sampler, "runs")
    return np.where(variance == 0.0, [[0.0], [1.0], [np.inf]], [variance, scale, df])


def _pooled(variance: np.ndarray, df: np.ndarray) -> np.ndarray:
    """Return the degrees of freedom of every difference of two (Satterthwaite 1946)."""
    parts = variance**2 / df
    total, known = np.add.outer(variance, variance) ** 2, np.add.outer(parts, parts)
    return np.where(known == 0.0, np.inf, total / np.where(known == 0.0, 1.0, known))


def _smaller(df: np.ndarray) -> np.ndarray:
    """Return the smaller degrees of freedom of every two: paired rows count once."""
    result: np.ndarray = np.minimum.outer(df, df)
    return result


def _significantly_better(
    values: np.ndarray, centre: np.ndarray, df: np.ndarray, confidence: float
) -> np.ndarray:
    """Return a matrix that says whether i is better than j, all pairs judged at once.

    ``df`` are the degrees of freedom of every difference.
    """
    from scipy import special

    count, slack = len(centre), ROUNDING * np.max(np.abs(centre))
    gaps, errors = centre[:, None] - centre[None, :], np.zeros((count, count))
    largest = np.zeros(len(values))
    for i in range(count):
        for j in range(i):
            moves = values[:, i] - values[:, j] - gaps[i, j]
            errors[i, j] = errors[j, i] = np.std(moves)
            if errors[i, j] > slack:
                np.maximum(largest, np.abs(moves) / errors[i, j], out=largest)
    share = special.ndtr(-np.quantile(largest, confidence))
    limits = -special.stdtrit(df, share)
    result: np.ndarray = gaps > limits * errors + slack
    return result


def _ranks(values: np.ndarray) -> np.ndarray:
    """Return the rank of every column in every row: one more than the number above it."""
    return np.stack([1 + (values > column[:, None]).sum(axis=1) for column in values.T], axis=1)


def _square(values: Scores, name: str) -> np.ndarray:
    table = np.array(values, dtype=np.float64)
    if table.ndim != 2 or table.shape[0] != table.shape[1] or not np.all(np.isfinite(table)):
        raise ValueError(f"{name} has shape {table.shape}; allowed is a finite square matrix")
    return table


def _games(payoffs: np.ndarray | Sequence[np.ndarray]) -> list[np.ndarray]:
    """Return one table per population, all checked."""
    if isinstance(payoffs, np.ndarray) and payoffs.ndim == 2:
        return [_square(payoffs, "payoffs")]
    tables = [np.asarray(table, dtype=np.float64) for table in payoffs]
    shapes = {table.shape for table in tables}
    fits = len(shapes) == 1 and tables[0].ndim == len(tables)
    if not fits or not all(np.all(np.isfinite(table)) for table in tables):
        raise ValueError(
            f"payoffs has shapes {sorted(shapes)} for {len(tables)} players; allowed is one "
            "square matrix, or per player one finite array with an axis for each player"
        )
    return tables


def _mutations(shape: tuple[int, ...], state: tuple[int, ...]) -> Iterator[tuple[int, int]]:
    """Yield every (player, other strategy) that a single mutation can reach."""
    for player, strategies in enumerate(shape):
        for strategy in range(strategies):
            if strategy != state[player]:
                yield player, strategy


def _fixation(gain: float, alpha: float, population: int) -> float:
    """Return the chance that one mutant with this gain takes over (up to a common factor)."""
    if gain == 0.0:
        return 1.0 / population
    if np.isinf(alpha):
        return 1.0 if gain > 0.0 else 1e-12
    x = alpha * abs(gain)
    chance = np.expm1(-x) / np.expm1(-population * x)
    # A loss is the mirrored gain times exp(-(population - 1) x): no overflow either way.
    return float(chance if gain > 0.0 else chance * np.exp(-(population - 1) * x))


def _stationary(chain: np.ndarray) -> np.ndarray:
    """Solve for the stationary distribution of transition rates (diagonal ignored).

    Grassmann, Taksar and Heyman 1985: elimination without subtraction keeps tiny masses exact.
    """
    rates = np.maximum(chain, 1e-300)  # an underflow would cut the chain in pieces
    np.fill_diagonal(rates, 0.0)
    for last in range(len(rates) - 1, 0, -1):
        rates[:last, last] /= rates[last, :last].sum()
        rates[:last, :last] += np.outer(rates[:last, last], rates[last, :last])
    masses = np.ones(len(rates))
    for state in range(1, len(rates)):
        masses[state] = masses[:state] @ rates[:state, state]
    result: np.ndarray = masses / masses.sum()
    return result


def _even_equilibrium(game: np.ndarray) -> np.ndarray:
    """Return the rows' equilibrium strategy of maximum entropy."""
    from scipy import optimize

    size = len(game)
    simplex = np.ones((1, size))
    # Maximise v subject to p @ game >= v in every column.
    limits = np.column_stack([-game.T, np.ones(game.shape[1])])
    best = optimize.linprog(
        np.append(np.zeros(size), -1.0),
        A_ub=limits,
        b_ub=np.zeros(len(limits)),
        A_eq=np.append(simplex, [[0.0]], axis=1),
        b_eq=[1.0],
        bounds=[(0.0, None)] * size + [(None, None)],
    )
    floor = -best.fun - 1e-9
    corners = [_corner(game, row, floor, best.x[:size]) for row in np.eye(size)]
    start = np.clip(np.mean(corners, axis=0), 0.0, 1.0)
    used = start > 1e-7  # rows that no equilibrium uses stay at zero
    result = np.zeros(size)
    result[used] = _spread_evenly(start[used], game[used], floor)
    value: np.ndarray = result / result.sum()
    return value


def _corner(game: np.ndarray, row: np.ndarray, floor: float, equilibrium: np.ndarray) -> np.ndarray:
    """Return the strategy that plays ``row`` most often among those that earn ``floor``.

    The solver works to a tolerance of 1e-7 and may therefore see no such strategy; ``equilibrium``,
    which it has found itself, is returned instead.
    """
    from scipy import optimize

    columns, size = game.shape[1], len(game)
    corner: np.ndarray | None = optimize.linprog(
        -row, A_ub=-game.T, b_ub=np.full(columns, -floor), A_eq=np.ones((1, size)), b_eq=[1.0]
    ).x
    return equilibrium if corner is None else corner


def _spread_evenly(start: np.ndarray, game: np.ndarray, floor: float) -> np.ndarray:
    """Maximise entropy from an inner point of the set of equilibria."""
    from scipy import optimize

    if start.size == 1:
        return start
    solution = optimize.minimize(
        lambda p: np.sum(p * np.log(p)),
        start,
        jac=lambda p: np.log(p) + 1.0,
        bounds=[(1e-12, 1.0)] * start.size,
        constraints=[
            {"type": "eq", "fun": lambda p: p.sum() - 1.0, "jac": lambda p: np.ones(p.size)},
            {"type": "ineq", "fun": lambda p: p @ game - floor, "jac": lambda p: game.T},
        ],
        method="SLSQP",
        options={"ftol": 1e-13, "maxiter": 500},
    )
    holds = np.min(solution.x @ game) >= floor - 1e-7
    return np.clip(solution.x, 0.0, 1.0) if holds else start
