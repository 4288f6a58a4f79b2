"""Plays: the values of a metric by run and episode, as the two-way intervals need them."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

import coopbench_envs
from coopbench.analysis.samples import mean_of_defined, score_scales
from coopbench.baselines.match import OWN
from coopbench.episodes.metrics import values
from coopbench.episodes.table import Episodes, EpisodeTable
from coopbench.protocol.schema import Protocol
from coopbench.protocol.sections import Task
from coopbench.statistics import Grid, complete_grid

__all__ = [
    "Play",
    "common_plays",
    "count_runs",
    "group_ends",
    "group_plays",
    "has_agreed_bounds",
    "play",
    "plays_of",
    "same_episodes",
    "scale_ends",
]


@dataclass(frozen=True, eq=False)
class Play:
    """Values of a metric of one policy on one task.

    ``values`` is (runs, episodes), or (episodes,) of a fixed policy; not finite where the metric is
    undefined.
    """

    policy: str
    values: np.ndarray
    seeds: np.ndarray  # (episodes,) uint64
    strata: np.ndarray | None  # (episodes,) labels, see ``Grid``
    runs: tuple[int, ...]  # training seeds; empty for a fixed policy
    origin: str  # task that the models were trained on; "" if they play all tasks
    note: str = ""  # why episodes were left out; empty if none was

    @property
    def fixed(self) -> bool:
        """Whether the policy has no training runs."""
        return self.values.ndim == 1

    @property
    def run_means(self) -> np.ndarray:
        """Mean over the episodes of every run, (runs,); one value for a fixed policy."""
        result: np.ndarray = np.atleast_2d(self.values).mean(axis=1)
        return result

    @property
    def units(self) -> np.ndarray:
        """Values of the episodes of a fixed policy; means of the runs over defined episodes."""
        if self.fixed:
            return self.values
        return np.array([mean_of_defined(row) for row in self.values])

    def on(self, columns: np.ndarray) -> "Play":
        """Return the play on some of the episodes."""
        strata = None if self.strata is None else self.strata[columns]
        return replace(
            self, values=self.values[..., columns], seeds=self.seeds[columns], strata=strata
        )

    def scaled(self, low: float, width: float) -> "Play":
        """Return the play with ``low`` mapped to 0 and ``low + width`` to 1."""
        return replace(self, values=(self.values - low) / width)

    def grid(self, paired: bool = True) -> Grid:
        """Return the grid for ``Crossed``; without ``paired`` it shares episodes with no policy."""
        finite = np.isfinite(np.atleast_2d(self.values))
        whole = self if finite.all() else self.on(finite.any(axis=0))
        # Tasks share the luck of a seed, also those of different games: their episodes with equal
        # seeds draw the same numbers, and a correlation of .90 between two games was measured.
        episodes = (whole.seeds.tobytes(), "" if paired else whole.policy)
        filled = complete_grid(whole.values)
        rows = len(np.atleast_2d(filled))
        runs = None if self.fixed else (self.policy, self.origin, self.runs, rows)
        return Grid(filled, episodes, runs, _usable(whole.strata))


def play(
    protocol: Protocol, table: EpisodeTable, task: Task, policy: str, metric: str
) -> Play | None:
    """Return the values of a metric of a policy on a task; None if it has not played.

    Where runs have played different seeds, only the episodes that all have are used.
    """
    return next(plays_of(protocol, table, task, policy, [metric]), None)


def plays_of(
    protocol: Protocol, table: EpisodeTable, task: Task, policy: str, metrics: Iterable[str]
) -> Iterator[Play]:
    """Yield ``play`` of some metrics of a policy on a task; none if it has not played."""
    blocks = table.runs(task.id, policy)
    if not blocks:
        return
    origin = ""
    training = protocol.training
    if training is not None and (training.on, training.plays) == ("each", "own"):
        origin = task.trained_on or task.id
    first, strata = blocks[0], strata_of(task, blocks[0])
    runs = tuple(block.cell.run for block in blocks if block.cell.run is not None)
    together = all(np.array_equal(block.seeds, first.seeds) for block in blocks[1:])
    for metric in metrics:
        scores = values(first, metric)
        whole = Play(policy, scores, first.seeds, strata, runs, origin)
        if not runs:
            yield whole
        elif together:
            yield replace(whole, values=np.array([values(block, metric) for block in blocks]))
        else:
            yield _on_common_seeds(whole, blocks, metric)


def _on_common_seeds(whole: Play, blocks: Sequence[Episodes], metric: str) -> Play:
    """Return the play of runs that have played different seeds, on those that all have."""
    shared = whole.seeds
    for block in blocks[1:]:
        shared = np.intersect1d(shared, block.seeds)
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


def same_episodes(plays: Sequence[Play]) -> bool:
    """Whether all have played the same seeds in the same order."""
    return all(np.array_equal(one.seeds, plays[0].seeds) for one in plays[1:])


def common_plays(one: Play, two: Play) -> tuple[Play, Play] | None:
    """Return two plays of a task on the episodes that both have; None if these are fewer than two.

    A seed that stands several times counts once.
    """
    if same_episodes((one, two)):
        return one, two
    shared = np.intersect1d(one.seeds, two.seeds)
    if len(shared) < 2:
        return None
    return one.on(_places(one.seeds, shared)), two.on(_places(two.seeds, shared))


def scale_ends(protocol: Protocol, task: Task, plays: Sequence[Play]) -> tuple[float, float] | None:
    """Return the ends of the scale of the score: where runs could be that nobody has seen.

    They are those of the task's bounds, or what a run of these ``plays`` has reached beyond them;
    no other contestant moves them. None where the protocol has no agreed bounds: a scale from the
    lowest to the highest score of a table depends on who is in it.
    """
    if not has_agreed_bounds(protocol):
        return None
    return _reached(task.bounds.ends, plays)


def _reached(ends: Iterable[float], plays: Sequence[Play]) -> tuple[float, float]:
    """Return two ends, or what the mean of a run of some plays has reached beyond them."""
    values = np.concatenate([list(ends), *(one.run_means for one in plays)])
    return float(np.nanmin(values)), float(np.nanmax(values))


def has_agreed_bounds(protocol: Protocol) -> bool:
    """Whether the scale of normalised scores is the protocol's, and not that of a table."""
    return not protocol.ad_hoc and protocol.report.normalisation != "minmax"


def group_plays(protocol: Protocol, table: EpisodeTable) -> dict[str, dict[str, tuple[Play, ...]]]:
    """Return normalised scores, {group: {policy: one play per task}}.

    A policy is in a group only if its score is defined in all episodes of all tasks of the group;
    a group that no policy has finished is left out. An ad-hoc protocol has no agreed bounds, hence
    no normalised scores.
    """
    if protocol.ad_hoc:
        return {}
    scales, groups = score_scales(protocol, table), dict[str, dict[str, tuple[Play, ...]]]()
    for group, tasks in protocol.groups.items():
        members: dict[str, tuple[Play, ...]] = {}
        for policy in dict.fromkeys(policy for _, policy in table.pairs):
            plays = [play(protocol, table, t, policy, protocol.report.score) for t in tasks]
            scores = [
                one.scaled(scales[task.id].low, scales[task.id].width)
                for task, one in zip(tasks, plays, strict=True)
                if one is not None and np.isfinite(one.values).all()
            ]
            if len(scores) == len(tasks):
                members[policy] = tuple(scores)
        if members:
            groups[group] = members
    return groups


def group_ends(
    protocol: Protocol, group: str, members: Sequence[Sequence[Play]]
) -> tuple[float, float] | None:
    """Return the mean over the tasks of a group of ``scale_ends``, as normalised scores.

    ``members`` are the normalised plays of one policy or of two, one play per task. None where
    ``scale_ends`` is None.
    """
    if not has_agreed_bounds(protocol):
        return None
    ends = [
        _reached(task.bounds.normalise(np.array(task.bounds.ends)), plays)
        for task, *plays in zip(protocol.groups[group], *members, strict=True)
    ]
    floor, ceiling = np.mean(ends, axis=0)
    return float(floor), float(ceiling)


def count_runs(plays: Sequence[Play]) -> int:
    """Return the number of training runs behind some plays of one policy; 0 if it is fixed."""
    return len({(one.origin, run) for one in plays for run in one.runs})
