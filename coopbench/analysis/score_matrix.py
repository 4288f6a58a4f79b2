"""Score matrices: values of a metric by run and episode, and the scale that normalises scores.

The unit of inference of a fixed policy is the episode, that of a policy with training runs the run.
"""

import math
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import NamedTuple

import numpy as np

import coopbench_envs
from coopbench.baselines.match import OWN
from coopbench.episodes.metrics import values
from coopbench.episodes.table import Episodes, EpisodeTable
from coopbench.protocol.schema import Protocol
from coopbench.protocol.task import Task
from coopbench.statistics import Grid, complete_grid
from coopbench.statistics.scores import mean_of_defined, means_of_defined

EPISODES, RUNS, MODELS = "episodes", "runs", "models"  # units of inference
_EPSILON = 1e-6  # added to the width of a range by Gorsane et al. 2022


@dataclass(frozen=True, eq=False)
class ScoreMatrix:
    """Values of a metric of one policy on one task.

    ``values`` is (runs, episodes), or (episodes,) of a fixed policy; not finite where the metric is
    undefined. Runs that have played episodes of their own have their means, (runs, 1). A trained
    model without a training seed is one run.
    """

    policy: str
    values: np.ndarray
    seeds: np.ndarray  # (episodes,) uint64
    strata: np.ndarray | None  # (episodes,) labels, see ``Grid``
    runs: tuple[int | None, ...]  # training seeds, None if not known; empty for a fixed policy
    origin: str  # task that the models were trained on; "" if they play all tasks
    note: str = ""  # why episodes were left out; empty if none was
    own_episodes: bool = False  # whether no task, policy or run shares them; see EpisodeTable
    # Of runs with episodes of their own: in how many of all these the metric is defined.
    own_count: int = 0
    failed: int = 0  # runs that failed: their rows hold the floor of the score
    # Episodes that differ by construction, if the environment draws nothing and every run always
    # plays alike: one for each seating. 0: episodes are drawn, of the environment or the policy.
    distinct: int = 0

    @property
    def episodes(self) -> int:
        """Number of distinct episodes of a run in which the values may differ."""
        return self.distinct or self.values.shape[-1]

    @property
    def fixed(self) -> bool:
        """Whether the policy has no training runs."""
        return self.values.ndim == 1

    @property
    def unit(self) -> str:
        """Unit of inference."""
        return EPISODES if self.fixed else RUNS

    @cached_property
    def run_means(self) -> np.ndarray:
        """Mean of every run over its defined episodes, (runs,); one value for a fixed policy."""
        return means_of_defined(np.atleast_2d(self.values))

    @cached_property
    def episode_means(self) -> np.ndarray:
        """Mean of every episode over the runs, (episodes,)."""
        return np.asarray(np.atleast_2d(self.values).mean(axis=0))

    @property
    def units(self) -> np.ndarray:
        """Values of the episodes of a fixed policy; ``run_means`` of a learner."""
        return self.values if self.fixed else self.run_means

    def on(self, columns: np.ndarray) -> "ScoreMatrix":
        """Return the matrix of some of the episodes."""
        strata = None if self.strata is None else self.strata[columns]
        distinct = self.distinct
        if distinct and strata is not None:
            distinct = len(np.unique(strata))  # one for each seating that is left
        values, seeds = self.values[..., columns], self.seeds[columns]
        return replace(self, values=values, seeds=seeds, strata=strata, distinct=distinct)

    def grid(self, paired: bool = True) -> Grid:
        """Return the grid for ``TwoWay``; without ``paired`` it shares episodes with no policy."""
        finite = np.isfinite(np.atleast_2d(self.values))
        whole = self if finite.all() else self.on(finite.any(axis=0))
        # Tasks share the luck of a seed, also those of different games: their episodes with equal
        # seeds draw the same numbers, and a correlation of .90 between two games was measured.
        episodes = "seeds" if paired else ("seeds", whole.policy)
        own, filled = whole.own_episodes, complete_grid(whole.values)
        return Grid(
            filled,
            episodes=None if own else episodes,
            runs=None if self.fixed else (self.policy, self.origin),
            strata=_usable(whole.strata),
            nested=own and not self.fixed,
            seeds=None if own else whole.seeds,
            names=None if self.fixed else self._names_of_defined(whole.values),
        )

    def _names_of_defined(self, values: np.ndarray) -> np.ndarray:
        """Return the training seeds of the runs that have values, or their places, (runs,)."""
        names = np.array([k if run is None else run for k, run in enumerate(self.runs)], np.int64)
        result: np.ndarray = names[np.isfinite(values).any(axis=1)]
        return result


class UnitScores(NamedTuple):
    """Normalized scores of one policy on the tasks of a group."""

    unit: str  # of inference
    tasks: list[np.ndarray]  # (units,) each
    own_episodes: bool  # as in ``ScoreMatrix``
    units: list[np.ndarray]  # (units,) each: equal entries of two tasks are the same unit


@dataclass(frozen=True)
class Scale:
    """Linear normalisation: the score mapped to 0, and the width mapped to 1."""

    low: float
    width: float

    def normalise(self, scores: np.ndarray) -> np.ndarray:
        """Map scores to normalized scores; those beyond the bounds are not clipped."""
        return (scores - self.low) / self.width


# -- one policy on one task ------------------------------------------------------------------------


def score_matrix(
    protocol: Protocol, table: EpisodeTable, task: Task, policy: str, metric: str
) -> ScoreMatrix | None:
    """Return the values of a metric of a policy on a task; None if it has no result.

    Where runs have played different seeds, only the episodes that all have are used. Of the score,
    every run that failed has a row of the floor, see ``floor_of``; of any other metric none.
    """
    key = score_matrix, task.id, policy, metric
    if table.kept.get(key, (None,))[0] is not protocol:  # parts of a report ask for the same
        matrix = next(score_matrices(protocol, table, task, policy, [metric]), None)
        table.kept[key] = protocol, matrix
    kept: ScoreMatrix | None = table.kept[key][1]
    return kept


def units_of(
    protocol: Protocol, table: EpisodeTable, task: Task, policy: str, metric: str
) -> np.ndarray:
    """Return the values of a metric by unit of inference, (units,); empty without a result."""
    matrix = score_matrix(protocol, table, task, policy, metric)
    return np.empty(0) if matrix is None else matrix.units


def defined_matrices(
    protocol: Protocol, table: EpisodeTable, tasks: Iterable[Task], policy: str, metric: str
) -> list[ScoreMatrix]:
    """Return the values on those of some tasks on which the metric is ever defined."""
    matrices = [score_matrix(protocol, table, task, policy, metric) for task in tasks]
    return [one for one in matrices if one is not None and np.isfinite(one.values).any()]


def score_matrices(
    protocol: Protocol, table: EpisodeTable, task: Task, policy: str, metrics: Iterable[str]
) -> Iterator[ScoreMatrix]:
    """Yield ``score_matrix`` of some metrics of a policy on a task; none without a result."""
    failed, score = table.failed(task.id, policy), protocol.report.score
    for metric, matrix in _played(protocol, table, task, policy, metrics):
        if not failed or metric != score:
            yield matrix
            continue
        rows = np.full((len(failed), len(matrix.seeds)), floor_of(protocol, table, task))
        both, runs = np.concatenate([np.atleast_2d(matrix.values), rows]), (*matrix.runs, *failed)
        # In the order of seeds, as on tasks on which these runs have not failed.
        order = sorted(range(len(runs)), key=lambda k: runs[k] or 0)
        ordered = tuple(runs[k] for k in order)
        yield replace(matrix, values=both[order], runs=ordered, failed=len(failed))


def floor_of(protocol: Protocol, table: EpisodeTable, task: Task) -> float:
    """Return the score of a run that failed: the lower end of the task's bounds.

    Without agreed bounds it is the lowest score that any episode of the table has on the task.
    """
    if has_agreed_bounds(protocol):
        return task.bounds.ends[0]
    return _range(table, task.id, protocol.report.score).low


def _played(
    protocol: Protocol, table: EpisodeTable, task: Task, policy: str, metrics: Iterable[str]
) -> Iterator[tuple[str, ScoreMatrix]]:
    """Yield metrics with their matrices over the runs that have played.

    A policy all of whose runs failed on the task, but not on every task, has a matrix without rows,
    of the score alone.
    """
    blocks = table.runs(task.id, policy)
    if not blocks and (policy not in table.policies or not table.failed(task.id, policy)):
        return
    own = table.own_episodes
    # Files of other programs do not say that one model has played several tasks: runs of two tasks
    # with one number share at most a seed.
    origin = task.origin if own else protocol.model_of(task)
    if not blocks:
        seeds = protocol.seeds_of(task)[: 1 if own else None]
        nothing = np.empty((0, len(seeds)))
        whole = ScoreMatrix(policy, nothing, seeds, None, (), origin, own_episodes=own)
        yield from ((name, whole) for name in metrics if name == protocol.report.score)
        return
    first, strata = blocks[0], strata_of(task, blocks[0])
    bare = policy in table.bare
    runs = tuple(block.cell.run for block in blocks if bare or block.cell.run is not None)
    together = all(np.array_equal(block.seeds, first.seeds) for block in blocks[1:])
    each = [distinct_episodes(block, strata) for block in blocks] if together else [0]
    distinct = max(each) if all(each) else 0
    for metric in metrics:
        scores = values(first, metric)
        head = policy, scores, first.seeds, strata, runs, origin
        whole = ScoreMatrix(*head, own_episodes=own, distinct=distinct)
        if not runs:
            yield metric, whole
        elif own:
            samples = [values(block, metric) for block in blocks]
            means = np.array([[mean_of_defined(sample)] for sample in samples])
            count = sum(int(np.isfinite(sample).sum()) for sample in samples)
            yield metric, replace(whole, values=means, seeds=first.seeds[:1], own_count=count)
        elif together:
            rows = np.array([values(block, metric) for block in blocks])
            yield metric, replace(whole, values=rows)
        else:
            yield metric, _on_common_seeds(whole, blocks, metric)


def distinct_episodes(block: Episodes, strata: np.ndarray | None) -> int:
    """Return the number of distinct episodes if they are certain; 0 if they are drawn.

    They are certain if the environment has drawn nothing and all episodes of a stratum, of which
    there are two at least, have one fingerprint: the start is the same for all seeds, and the
    policy and its partners do not draw either.
    """
    if block.drawn or block.trace is None:
        return 0
    labels = [0] * len(block) if strata is None else strata.tolist()
    counts = Counter(labels)
    distinct = len(set(zip(labels, block.trace.checksums, strict=True)))
    return distinct if distinct == len(counts) and min(counts.values()) > 1 else 0


def _on_common_seeds(whole: ScoreMatrix, blocks: Sequence[Episodes], metric: str) -> ScoreMatrix:
    """Return the matrix of runs that have played different seeds, on those that all have."""
    shared = whole.seeds
    for block in blocks[1:]:
        shared = np.intersect1d(shared, block.seeds)
    if not len(shared):
        nothing = np.full((len(blocks), 1), np.nan)
        note = "no episode that all runs have played"
        return replace(whole, values=nothing, seeds=whole.seeds[:1], strata=None, note=note)
    rows = np.array([values(block, metric)[_places(block.seeds, shared)] for block in blocks])
    strata = None if whole.strata is None else whole.strata[_places(whole.seeds, shared)]
    note = f"over the {len(shared)} episodes that all runs have played"
    return replace(whole, values=rows, seeds=shared, strata=strata, note=note)


def _places(seeds: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """Return where every wanted seed first stands among ``seeds``."""
    order = np.argsort(seeds, kind="stable")
    return np.asarray(order[np.searchsorted(seeds, wanted, sorter=order)])


def strata_of(task: Task, block: Episodes) -> np.ndarray | None:
    """Return the label of every episode's stratum; None if there is only one.

    Strata are the seats and partners, which rotate in a fixed order, crossed with what the
    environment names as its stratum.
    """
    columns: list[np.ndarray] = []
    if task.partners:
        seating = task.seating(len(block), block.agents)
        if np.array_equal(seating == OWN, block.seats):
            columns += list(seating.T)
    name = coopbench_envs.spec(task.env).stratum
    if name in block.metrics:
        columns.append(np.nan_to_num(block.metrics[name], nan=-1.0))
    if not columns:
        return None
    table = np.stack(columns, axis=1)
    labels = _labels(table.tobytes(), table.dtype.str, table.shape)
    return labels if labels.max(initial=0) > 0 else None


@lru_cache(maxsize=256)
def _labels(content: bytes, kind: str, shape: tuple[int, int]) -> np.ndarray:
    """Number the different rows of a table; all metrics of a cell have the same table."""
    table = np.frombuffer(content, kind).reshape(shape)
    labels: np.ndarray = np.unique(table, axis=0, return_inverse=True)[1].ravel()
    labels.flags.writeable = False
    return labels


def _usable(strata: np.ndarray | None) -> np.ndarray | None:
    """Return strata that all have two episodes at least; None, which is wider, otherwise."""
    if strata is None or not len(strata):
        return None
    return strata if _smallest(strata.tobytes(), strata.dtype.str) > 1 else None


@lru_cache(maxsize=256)
def _smallest(content: bytes, kind: str) -> int:
    """Return the number of episodes of the smallest stratum; ``content`` holds the labels."""
    return int(np.unique(np.frombuffer(content, kind), return_counts=True)[1].min())


# -- several policies and tasks --------------------------------------------------------------------


def same_episodes(matrices: Sequence[ScoreMatrix]) -> bool:
    """Whether all have played the same seeds in the same order, and share these episodes."""
    return all(
        np.array_equal(one.seeds, matrices[0].seeds) and not one.own_episodes
        for one in matrices[1:]
    )


def common_episodes(one: ScoreMatrix, two: ScoreMatrix) -> tuple[ScoreMatrix, ScoreMatrix] | None:
    """Return two matrices of a task on the episodes of both; None if these are fewer than two.

    A seed that stands several times counts once.
    """
    if same_episodes((one, two)):
        return one, two
    shared = np.intersect1d(one.seeds, two.seeds)
    if len(shared) < 2 or one.own_episodes:
        return None
    return one.on(_places(one.seeds, shared)), two.on(_places(two.seeds, shared))


def group_matrices(
    protocol: Protocol, table: EpisodeTable
) -> dict[str, dict[str, tuple[ScoreMatrix, ...]]]:
    """Return normalized scores, {group: {policy: one matrix per task}}.

    A policy is in a group only if its score is defined in all episodes of all tasks of the group;
    a group that no policy has finished is left out. An ad-hoc protocol has no agreed bounds, hence
    no normalized scores.
    """
    scales = score_scales(protocol, table)
    return {
        group: {
            policy: tuple(
                replace(one, values=scales[task.id].normalise(one.values))
                for task, one in zip(protocol.groups[group], matrices, strict=True)
            )
            for policy, matrices in members.items()
        }
        for group, members in _groups(protocol, table, lambda one: one.values).items()
    }


def group_units(protocol: Protocol, table: EpisodeTable) -> dict[str, dict[str, UnitScores]]:
    """Return normalized scores by unit of inference, {group: {policy: scores}}.

    As ``group_matrices``, but the score of a run need not be defined in all of its episodes.
    """
    scales = score_scales(protocol, table)
    groups: dict[str, dict[str, UnitScores]] = {}
    for group, members in _groups(protocol, table, lambda one: one.units).items():
        for policy, matrices in members.items():
            scores = [
                scales[task.id].normalise(one.units)
                for task, one in zip(protocol.groups[group], matrices, strict=True)
            ]
            head = matrices[0]
            found = UnitScores(head.unit, scores, head.own_episodes, shared_units(matrices))
            groups.setdefault(group, {})[policy] = found
    return groups


def shared_units(matrices: Sequence[ScoreMatrix]) -> list[np.ndarray]:
    """Return the units of a policy on some tasks, (units,) each: equal entries are the same unit.

    They are seeds of episodes, equal for all policies, or numbers of runs. Episodes that no task
    shares have numbers of their own.
    """
    if matrices[0].fixed and not matrices[0].own_episodes:
        return [one.seeds for one in matrices]
    numbers = dict[Hashable, int]()
    return [
        np.array([numbers.setdefault(name, len(numbers)) for name in _unit_names(k, one)], np.int64)
        for k, one in enumerate(matrices)
    ]


def _unit_names(task: int, one: ScoreMatrix) -> Iterator[Hashable]:
    """Iterate over names of runs, or of the episodes that only this task has."""
    if one.fixed:
        yield from ((task, place) for place in range(len(one.values)))
    else:  # of models without a training seed only the place is known
        named = enumerate(one.runs)
        yield from ((one.origin, (place,) if run is None else run) for place, run in named)


def _groups(
    protocol: Protocol, table: EpisodeTable, needed: Callable[[ScoreMatrix], np.ndarray]
) -> dict[str, dict[str, tuple[ScoreMatrix, ...]]]:
    """Return the scores of the policies of which all ``needed`` values in a group are defined."""
    groups = dict[str, dict[str, tuple[ScoreMatrix, ...]]]()
    for group, tasks in ({} if protocol.ad_hoc else protocol.groups).items():
        for policy in table.policies:
            played = [
                score_matrix(protocol, table, t, policy, protocol.report.score) for t in tasks
            ]
            scores = [one for one in played if one is not None and np.isfinite(needed(one)).all()]
            if len(scores) == len(tasks):
                groups.setdefault(group, {})[policy] = tuple(scores)
    return groups


def count_runs(matrices: Sequence[ScoreMatrix]) -> int:
    """Return the number of training runs behind the scores of one policy; 0 if it is fixed."""
    return len({(one.origin, run) for one in matrices for run in one.runs})


# -- scales ----------------------------------------------------------------------------------------


def score_scales(protocol: Protocol, table: EpisodeTable) -> dict[str, Scale]:
    """Return the scale of every task: its bounds, or the range of all its episodes.

    The latter, (x - min) / (max - min + 1e-6) over all policies, runs and checkpoints, is that of
    Gorsane et al. 2022; it changes whenever a policy is added. It is nan on a task without
    episodes.
    """
    if protocol.report.normalisation != "minmax":
        bounds = {task.id: task.bounds for task in protocol.task}
        return {task: Scale(b.low, b.high - b.low) for task, b in bounds.items()}
    return {task.id: _range(table, task.id, protocol.report.score) for task in protocol.task}


def _range(table: EpisodeTable, task: str, score: str) -> Scale:
    """Return the scale from the lowest to the highest score of a task."""
    blocks = [values(block, score) for block in table if block.cell.task == task]
    courses = [
        p.metrics[score] for p in table.progress if p.cell.task == task and score in p.metrics
    ]
    defined = [scores[np.isfinite(scores)] for scores in (*blocks, *courses)]
    low = min((float(scores.min()) for scores in defined if scores.size), default=math.nan)
    high = max((float(scores.max()) for scores in defined if scores.size), default=math.nan)
    return Scale(low, high - low + _EPSILON)


def score_ends(
    protocol: Protocol, tasks: Sequence[Task], normalized: bool = False
) -> list[tuple[float, ...]]:
    """Return the ends of the range of the score on every task; nothing without agreed bounds."""
    if not has_agreed_bounds(protocol):
        return [()] * len(tasks)
    ends = [np.array(task.bounds.ends) for task in tasks]
    if normalized:
        ends = [task.bounds.normalise(one) for task, one in zip(tasks, ends, strict=True)]
    return [tuple(one.tolist()) for one in ends]


def score_range(ends: Sequence[float], matrices: Sequence[ScoreMatrix]) -> tuple[float, float]:
    """Return the range in which the scores of some policies lie on a task.

    It is that of ``ends``, wider where a score lies beyond them; without ends that of the scores.
    """
    values = np.concatenate([ends, *(one.values.ravel() for one in matrices)])
    return float(np.nanmin(values)), float(np.nanmax(values))


def has_agreed_bounds(protocol: Protocol) -> bool:
    """Whether the scale of normalized scores is the protocol's, and not that of a table."""
    return not protocol.ad_hoc and protocol.report.normalisation != "minmax"
