"""Two-way intervals: scores of runs crossed with episodes, for claims about new runs and episodes.

All runs of a learner play the same episodes, so that their means share the luck of these episodes.
The variance of a mean over R runs and E episodes is that of the run means, plus that of the episode
means, minus the interaction, which both contain (Searle, Casella and McCulloch 1992, Variance
Components; the same combination as in Cameron, Gelbach and Miller 2011, Journal of Business and
Economic Statistics 29: 238-249). The rule for the half width H of an interval,

    H^2 = max(t_R^2 V_R + t_E^2 V_E - z^2 V_I, t_R^2 V_R, t_E^2 V_E),

adds squared half widths (Howe 1974, Journal of the American Statistical Association 69: 789-794;
with a difference of components Ting et al. 1990, Journal of Statistical Computation and Simulation
35: 135-143). It is never narrower than Student's interval over runs or over episodes alone.
docs/statistics.md has its coverage.
"""

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Literal, NamedTuple

import numpy as np

from coopbench.statistics.scores import check_confidence, floats
from coopbench.statistics.shared_units import align, connected

FEWEST = 3  # runs of a learner: with two, nothing is known of the spread of its spread
ROUNDING = 1e-12  # relative size below which a spread comes from rounding only


@dataclass(frozen=True)
class Grid:
    """Scores of one contestant on one task.

    ``values`` is (runs, episodes) for a learner and (episodes,) for a fixed policy, which has no
    runs. Two grids with equal ``episodes`` (not None) have played the same ones: columns with equal
    ``seeds`` (episodes,) or, without seeds, column by column. Two with equal ``runs`` (not None)
    come from the same training runs: rows with equal ``names`` (runs,) or, without names, row by
    row. ``strata`` (episodes,) labels episodes whose numbers per label are fixed by design; grids
    with the same episodes may have other strata, as different games do. ``nested`` says that every
    run of a learner has played episodes of its own: ``values`` are then run means, (runs, 1), whose
    variance contains that over episodes. ``many`` says that ``values`` has a further, first axis:
    several metrics of the same runs and episodes, each by itself. Such a grid stands alone in
    ``TwoWay``, whose results have that axis, too.
    """

    values: np.ndarray
    episodes: Hashable = None
    runs: Hashable = None
    strata: np.ndarray | None = None
    nested: bool = False
    many: bool = False
    seeds: np.ndarray | None = None
    names: np.ndarray | None = None

    @property
    def fixed(self) -> bool:
        """Whether it is a fixed policy."""
        return self.values.ndim - self.many == 1

    @property
    def matrix(self) -> np.ndarray:
        """The values as (..., runs, episodes); a fixed policy has one row."""
        return self.values[..., None, :] if self.fixed else self.values


class Spread(NamedTuple):
    """Parts of the variance of linear forms of means, each (..., forms)."""

    runs: np.ndarray  # V_R: variance over runs
    runs_df: np.ndarray  # degrees of freedom of V_R (Satterthwaite 1946)
    episodes: np.ndarray  # V_E: variance over episodes
    episodes_df: np.ndarray
    interaction: np.ndarray  # V_I: what both of them contain


class _Block(NamedTuple):
    """Covariance of the means of some grids that depend on each other."""

    members: list[int]
    covariance: np.ndarray  # (..., members, members), of means
    df: float


class _Strata(NamedTuple):
    """The strata of some episodes, as an order in which those of one stratum are neighbours."""

    order: np.ndarray  # (episodes,)
    places: np.ndarray  # (episodes,) of every episode in that order
    starts: np.ndarray  # (strata,) the first place of each in that order
    counts: np.ndarray  # (strata,) episodes
    scale: np.ndarray  # (episodes,) root of n / (n - 1) for n episodes of its stratum

    @property
    def smallest(self) -> int:
        return int(self.counts.min())

    def centred(self, values: np.ndarray) -> np.ndarray:
        """Return values (..., episodes) less the row's mean over their stratum."""
        ordered: np.ndarray = values[..., self.order]
        means = np.add.reduceat(ordered, self.starts, axis=-1) / self.counts
        centred: np.ndarray = (ordered - np.repeat(means, self.counts, axis=-1))[..., self.places]
        return centred


class TwoWay:
    """Means of grids, and the variance of every linear form of them.

    ``means`` is (..., grids). A variance is nan, and with it the interval, where a learner has
    fewer than three runs or there are fewer than two episodes (in a stratum).

    Raises:
        ValueError: for missing or infinite values, empty grids, grids that claim the same runs or
            episodes and have another number of them, or one of many metrics beside another.
    """

    def __init__(self, grids: Sequence[Grid]) -> None:
        self.grids = tuple(grids)
        _check(self.grids)
        series = [_series(grid) for grid in self.grids]
        self.means = np.stack([part.mean for part in series], axis=-1)
        self._magnitude = np.stack([_magnitude(part) for part in series], axis=-1)
        learners = [k for k, grid in enumerate(self.grids) if not grid.fixed]
        by_runs = sharing(learners, self.grids, "runs")
        by_episodes = sharing(range(len(self.grids)), self.grids, "episodes")
        self._runs = [_runs_block(members, series, self.grids) for members in by_runs]
        self._episodes = [_episodes_block(members, series, self.grids) for members in by_episodes]
        whole = [
            None
            if grid.runs is None or grid.episodes is None
            else (grid.runs, grid.episodes, _content(grid.names), _content(grid.seeds))
            for grid in self.grids
        ]
        self._interaction = [
            _interaction_block(members, series, self.grids) for members in _alike(learners, whole)
        ]

    def spread(self, weights: np.ndarray) -> Spread:
        """Return the variances of the forms ``weights @ means``; weights are (forms, grids)."""
        forms = np.atleast_2d(np.asarray(weights, np.float64))
        slack = (ROUNDING * (self._magnitude @ np.abs(forms).T)) ** 2
        runs, runs_df = _total(self._runs, forms, slack)
        episodes, episodes_df = _total(self._episodes, forms, slack)
        interaction, _ = _total(self._interaction, forms, slack)
        return Spread(runs, runs_df, episodes, episodes_df, interaction)

    def estimates(self, weights: np.ndarray) -> np.ndarray:
        """Return the forms themselves, (forms,); differences by rounding only are 0."""
        forms = np.atleast_2d(np.asarray(weights, np.float64))
        values = forms @ self.means
        slack = ROUNDING * (np.abs(forms) @ np.abs(self.means))
        return np.where(np.abs(values) <= slack, 0.0, values)


def half_widths(spread: Spread, confidence: float = 0.95) -> np.ndarray:
    """Return the half widths of the intervals at a level of confidence, (..., forms)."""
    check_confidence(confidence)
    tails = np.full(spread.runs.shape, (1.0 - confidence) / 2.0)
    result: np.ndarray = np.sqrt(_squared(spread, tails))
    return result


def half_widths_apart(grids: Sequence[Grid], confidence: float = 0.95) -> np.ndarray:
    """Return the half widths of the intervals of the means of grids, each by itself, (grids,).

    Those of one shape with equal strata are computed together.
    """
    alike: dict[Hashable, list[int]] = {}
    for k, grid in enumerate(grids):
        strata = None if grid.strata is None else np.asarray(grid.strata).tobytes()
        alike.setdefault((grid.values.shape, grid.values.strides, grid.nested, strata), []).append(
            k
        )
    halves = np.empty(len(grids))
    for members in alike.values():
        values = _stacked([grids[k].values for k in members])
        two_way = TwoWay([replace(grids[members[0]], values=values, many=True)])
        halves[members] = half_widths(two_way.spread(np.ones(1)), confidence)[:, 0]
    return halves


def _stacked(parts: Sequence[np.ndarray]) -> np.ndarray:
    """Stack arrays without changing their order in memory, which is that of their sums."""
    if parts[0].flags.c_contiguous:
        return np.stack(parts)
    return np.swapaxes(np.stack([part.T for part in parts]), -1, -2)


def p_values(estimates: np.ndarray, spread: Spread) -> np.ndarray:
    """Return the levels at which the intervals touch 0, (forms,), by bisection.

    nan where there is no interval or it has no width; at least 1e-150.
    """
    values = np.abs(np.atleast_1d(np.asarray(estimates, np.float64)))
    low, high = np.full(values.shape, np.log(0.5e-150)), np.full(values.shape, np.log(0.5))
    for _ in range(52):  # halves 345 to the relative precision of a float
        middle = (low + high) / 2.0
        inside = _squared(spread, np.exp(middle)) >= values**2
        low, high = np.where(inside, middle, low), np.where(inside, high, middle)
    some = _squared(spread, np.full(values.shape, 0.025)) > 0.0  # False for nan as well
    return np.where(some, np.where(values == 0.0, 1.0, 2.0 * np.exp(low)), np.nan)


def one_sided(estimates: np.ndarray, spread: Spread) -> np.ndarray:
    """Return the p values against the hypothesis that the forms are 0 or less, (forms,)."""
    half = p_values(estimates, spread) / 2.0
    return np.where(np.asarray(estimates) > 0.0, half, 1.0 - half)


def complete_grid(values: np.ndarray, keep: bool = False) -> np.ndarray:
    """Return a complete grid for a metric that is undefined (not finite) in some episodes.

    ``values`` is (runs, episodes) or (episodes,). Episodes in which no run has it are left out,
    unless ``keep`` is set. In the others an undefined value becomes the run's mean, and the
    deviations of the defined ones grow by the share that is missing: every run keeps its mean over
    the episodes in which the metric is defined, and the variance is that of a ratio of means (the
    delta method). Without undefined values nothing changes. Runs in which it is never defined are
    left out.
    """
    matrix = np.atleast_2d(values)
    finite = np.isfinite(matrix)
    columns = np.ones(matrix.shape[1], np.bool_) if keep else finite.any(axis=0)
    matrix = matrix[finite.any(axis=1)][:, columns]
    finite = np.isfinite(matrix)
    if not finite.all():
        means = np.mean(matrix, axis=1, where=finite, keepdims=True)
        share = finite.mean(axis=1, keepdims=True)
        matrix = means + np.where(finite, matrix - means, 0.0) / share
    result: np.ndarray = matrix[0] if values.ndim == 1 and len(matrix) else matrix
    return result


# -- blocks of grids that depend on each other -----------------------------------------------------


class _Series(NamedTuple):
    """What the variances need of one grid, all centred at its mean."""

    mean: np.ndarray  # (...)
    runs: np.ndarray  # (..., runs) deviations of the run means
    episodes: np.ndarray  # (..., episodes) deviations of the episode means
    matrix: np.ndarray  # (..., runs, episodes)


def _series(grid: Grid) -> _Series:
    matrix = grid.matrix
    by_run = matrix.mean(axis=-1)
    mean = np.asarray(by_run.mean(axis=-1))
    centred = matrix - mean[..., None, None]
    return _Series(mean, by_run - mean[..., None], centred.mean(axis=-2), centred)


def _magnitude(part: _Series) -> np.ndarray:
    ranges = [np.ptp(deviations, axis=-1) for deviations in (part.episodes, part.runs)]
    return np.asarray(np.abs(part.mean) + np.maximum(*ranges))


def _check(grids: Sequence[Grid]) -> None:
    """Raise unless all grids are finite and those that share something have its size."""
    shared: dict[tuple[str, Hashable], tuple[int, bool]] = {}
    for k, grid in enumerate(grids):
        _check_grid(k, grid, len(grids))
        runs, episodes = grid.matrix.shape[-2:]
        parts = [("runs", grid.runs, runs, "names", grid.names)] if not grid.fixed else []
        parts.append(("episodes", grid.episodes, episodes, "seeds", grid.seeds))
        for what, label, size, column, given in parts:
            if label is None:
                continue
            # Numbers may differ where a column says which ones are the same.
            known = given is not None
            other = shared.setdefault((what, label), (-1 if known else size, known))
            if other[1] != known:
                raise ValueError(
                    f"grid {k} and another share {what}, and one of them has no {column}; allowed "
                    f"are {column} of both or of none"
                )
            if not known and other[0] != size:
                raise ValueError(
                    f"grid {k} has {size} {what} and shares them with one of {other[0]}; allowed "
                    "are equal numbers"
                )


def _check_grid(k: int, grid: Grid, count: int) -> None:
    """Raise unless grid ``k`` of ``count`` is one that is allowed."""
    if grid.values.ndim - grid.many not in (1, 2) or grid.values.size == 0:
        raise ValueError(
            f"grid {k} has shape {grid.values.shape}; allowed is (runs, episodes) or, for a "
            "fixed policy, (episodes,), neither empty"
        )
    if not np.isfinite(floats(grid.values)).all():
        raise ValueError(
            f"grid {k} has missing or infinite values; allowed are finite numbers: every run "
            "must have every episode"
        )
    if grid.many and count > 1:
        raise ValueError(
            f"grid {k} of {count} is of many metrics; allowed is such a grid alone, see "
            "half_widths_apart"
        )
    episodes = grid.matrix.shape[-1]
    if grid.nested and (grid.fixed or episodes != 1):
        raise ValueError(
            f"grid {k} is nested and has shape {grid.values.shape}; allowed is (runs, 1): the "
            "means of runs that have played episodes of their own"
        )
    runs = grid.matrix.shape[-2]
    columns = ("strata", grid.strata, episodes), ("seeds", grid.seeds, episodes)
    for name, column, size in (*columns, ("names", grid.names, runs)):
        if column is not None and np.shape(column) != (size,):
            raise ValueError(
                f"grid {k} has {name} of shape {np.shape(column)}; allowed is ({size},)"
            )


def sharing(
    members: Iterable[int], grids: Sequence[Grid], what: Literal["runs", "episodes"]
) -> list[list[int]]:
    """Group grids that share runs or episodes, directly or by others."""
    parts = list[list[int]]()
    for group in _alike(members, [getattr(grid, what) for grid in grids]):
        names = names_of(group, grids, what)
        parts += [[group[k] for k in part] for part in connected(names)] if names else [group]
    return parts


def names_of(
    members: Sequence[int], grids: Sequence[Grid], what: Literal["runs", "episodes"]
) -> list[np.ndarray]:
    """Return the names of runs or the seeds of episodes; nothing if grids match by place."""
    columns = [grids[k].names if what == "runs" else grids[k].seeds for k in members]
    return [np.asarray(column) for column in columns if column is not None]


def _alike(members: Iterable[int], labels: Sequence[Hashable]) -> list[list[int]]:
    """Group grids by label; one without a label is alone."""
    groups: dict[Hashable, list[int]] = {}
    for k in members:
        groups.setdefault(("alone", k) if labels[k] is None else ("label", labels[k]), []).append(k)
    return list(groups.values())


def _content(column: np.ndarray | None) -> bytes | None:
    return None if column is None else np.asarray(column).tobytes()


def _runs_block(members: list[int], series: Sequence[_Series], grids: Sequence[Grid]) -> _Block:
    rows, names = [series[k].runs for k in members], names_of(members, grids, "runs")
    sizes = np.array([row.shape[-1] for row in rows])
    if sizes.min() < FEWEST:
        return _Block(members, np.full((len(members),) * 2, np.nan), np.nan)
    if len({own.tobytes() for own in names}) < 2:
        size, deviations = int(sizes[0]), np.stack(rows, axis=-2)
        return _Block(members, _products(deviations) / ((size - 1) * size), size - 1.0)
    scaled = [row * np.sqrt(size / (size - 1.0)) for row, size in zip(rows, sizes, strict=True)]
    products = _products(np.stack(align(scaled, names), axis=-2))
    return _Block(members, products / np.outer(sizes, sizes), sizes.min() - 1.0)


def _episodes_block(members: list[int], series: Sequence[_Series], grids: Sequence[Grid]) -> _Block:
    if all(grids[k].nested for k in members):
        return _Block(members, np.zeros((len(members),) * 2), np.inf)
    sizes = np.array([series[k].episodes.shape[-1] for k in members])
    strata = [_strata(grids[k], size) for k, size in zip(members, sizes.tolist(), strict=True)]
    if min(part.smallest for part in strata) < 2:
        return _Block(members, np.full((len(members),) * 2, np.nan), np.nan)
    rows = [
        part.centred(series[k].episodes) * part.scale
        for k, part in zip(members, strata, strict=True)
    ]
    seeds = names_of(members, grids, "episodes")
    centred = np.stack(align(rows, seeds) if seeds else rows, axis=-2)
    df = min(size - len(part.counts) for size, part in zip(sizes, strata, strict=True))
    return _Block(members, _products(centred) / np.outer(sizes, sizes), float(df))


def _interaction_block(
    members: list[int], series: Sequence[_Series], grids: Sequence[Grid]
) -> _Block:
    *many, runs, size = series[members[0]].matrix.shape
    if all(grids[k].nested for k in members):
        return _Block(members, np.zeros((len(members),) * 2), np.inf)
    strata = [_strata(grids[k], size) for k in members]
    if runs < FEWEST or min(part.smallest for part in strata) < 2:
        return _Block(members, np.full((len(members),) * 2, np.nan), np.nan)
    if len(members) == len(strata[0].counts) == 1:  # the usual case, without a copy of the matrix
        value = _interaction(series[members[0]]) / ((runs - 1) * (size - 1) * runs * size)
        return _Block(members, value[..., None, None], np.inf)
    rows = [
        (_residuals(series[k].matrix, part) * part.scale).reshape(*many, runs * size)
        for k, part in zip(members, strata, strict=True)
    ]
    residuals = np.stack(rows, axis=-2)
    return _Block(members, _products(residuals) / ((runs - 1) * runs * size**2), np.inf)


def _interaction(part: _Series) -> np.ndarray:
    """Return the sum of squares that run and episode together do not explain, (...)."""
    *many, runs, episodes = part.matrix.shape
    every = part.matrix.reshape(*many, runs * episodes)
    total, by_run, by_episode = (
        _products(values[..., None, :])[..., 0, 0] for values in (every, part.runs, part.episodes)
    )
    return np.asarray(np.maximum(0.0, total - (episodes * by_run + runs * by_episode)))


def _products(rows: np.ndarray) -> np.ndarray:
    """Return the products of all pairs of rows (..., rows, columns), (..., rows, rows)."""
    rows = np.ascontiguousarray(rows)  # or sums would have another order
    return np.asarray(rows @ np.swapaxes(rows, -1, -2))


def _residuals(matrix: np.ndarray, strata: _Strata) -> np.ndarray:
    """Return what run and episode of the same stratum do not explain, (..., runs, episodes)."""
    by_run = strata.centred(matrix)  # by run and stratum
    result: np.ndarray = by_run - by_run.mean(axis=-2, keepdims=True)
    return result


def _strata(grid: Grid, size: int) -> _Strata:
    """Return the strata of the episodes of a grid; a single one if it names none."""
    labels = np.zeros(size, np.int64) if grid.strata is None else np.asarray(grid.strata)
    if labels.dtype.hasobject:
        labels = np.unique(labels, return_inverse=True)[1]
    return _ordered(labels.tobytes(), labels.dtype.str)


@lru_cache(maxsize=256)
def _ordered(content: bytes, kind: str) -> _Strata:
    """Order episodes by labels, given as bytes: all metrics of a cell have the same ones."""
    labels = np.unique(np.frombuffer(content, kind), return_inverse=True)[1]
    counts = np.bincount(labels)
    with np.errstate(divide="ignore"):
        scale = np.sqrt(counts / (counts - 1.0))[labels]
    order = np.argsort(labels, kind="stable")
    return _Strata(order, np.argsort(order), np.cumsum(counts) - counts, counts, scale)


def _total(
    blocks: Sequence[_Block], forms: np.ndarray, slack: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return variance and degrees of freedom of every form, both (..., forms)."""
    parts, freedom = np.zeros((*slack.shape, len(blocks))), np.ones(len(blocks))
    single = [k for k, block in enumerate(blocks) if len(block.members) == 1]
    if single:
        members = [blocks[k].members[0] for k in single]
        variances = np.stack([blocks[k].covariance[..., 0, 0] for k in single], axis=-1)
        parts[..., single] = _without_zeros(forms[:, members] ** 2, variances[..., None, :])
    for k, block in enumerate(blocks):
        freedom[k] = block.df
        if len(block.members) > 1:
            parts[..., k] = _quadratic(block, forms[:, block.members])
    total = parts.sum(axis=-1)
    total = np.where(total <= slack, 0.0, total)
    with np.errstate(invalid="ignore", divide="ignore"):
        unequal = (_without_zeros(parts**2, 1.0 / freedom)).sum(axis=-1)
        df = np.where(total == 0.0, np.inf, total**2 / unequal)
    return total, df


def _without_zeros(factors: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Multiply; 0 times nan is 0, since what a form leaves out cannot spoil it."""
    result: np.ndarray = np.where(factors == 0.0, 0.0, factors * values)
    return result


def _quadratic(block: _Block, forms: np.ndarray) -> np.ndarray:
    """Return the variance of every form over one block, (forms,); 0 where it is rounding."""
    if np.isnan(block.covariance).any():
        return np.where((forms == 0.0).all(axis=1), 0.0, np.nan)
    values = np.sum(forms @ block.covariance * forms, axis=1)
    scale = (np.abs(forms) @ np.sqrt(np.diag(block.covariance))) ** 2
    return np.where(values <= ROUNDING * scale, 0.0, values)


def _squared(spread: Spread, tails: np.ndarray) -> np.ndarray:
    """Return the squared half widths with ``tails`` (forms,) beyond each end."""
    from scipy import special

    runs = _quantile(spread.runs_df, tails) ** 2 * spread.runs
    episodes = _quantile(spread.episodes_df, tails) ** 2 * spread.episodes
    both = runs + episodes - special.ndtri(tails) ** 2 * spread.interaction
    result: np.ndarray = np.maximum(np.maximum(both, runs), episodes)
    return result


def _quantile(df: np.ndarray, tails: np.ndarray) -> np.ndarray:
    """Return the quantile of Student's t, which is normal for infinite degrees of freedom."""
    from scipy import special

    finite = np.isfinite(df)
    student = special.stdtrit(np.where(finite, df, 1.0), tails)
    result: np.ndarray = np.where(finite | np.isnan(df), student, special.ndtri(tails))
    return result
