"""Findings: everything that the results of a protocol show, as values that draw nothing.

Parts that several sections of a report share are lines of ``Findings``; the others are those of
their sections, see ``coopbench.report.sections``.
"""

import functools
import inspect
import typing
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Generic, Self, TypeVar, overload

import numpy as np

from coopbench.analysis.aggregates import Aggregate, aggregates
from coopbench.analysis.certificates import certified_tasks
from coopbench.analysis.comparisons import comparisons, group_comparisons
from coopbench.analysis.deviations import MissingRun, deviations, missing_learners, missing_runs
from coopbench.analysis.estimates import Estimate, estimates
from coopbench.analysis.rankings import ranks
from coopbench.analysis.registered import study_deviations
from coopbench.analysis.score_matrix import EPISODES, RUNS, score_scales, units_of
from coopbench.baselines.registry import entry_of
from coopbench.episodes.grouping import grouped
from coopbench.episodes.table import Cell, EpisodeTable
from coopbench.protocol.registration import Registration
from coopbench.protocol.schema import Protocol
from coopbench.results.packed_runs import is_shipped

Row = TypeVar("Row")
Made = TypeVar("Made")


class Part(Generic[Row]):
    """Rows of a report that follow from protocol and episodes, made when they are first read.

    ``name`` is that of its CSV file. ``rare``: few reports have such rows, and the files of the
    others leave the part out. ``after`` are other parts, whose rows ``make`` takes as well.
    ``flat`` makes the lines of the CSV file from a row that stands for several.
    """

    def __init__(
        self,
        name: str,
        make: Callable[..., tuple[Row, ...]],
        *after: "Part[Any]",
        rare: bool = False,
        flat: Callable[[Any], Iterator[Any]] | None = None,
    ) -> None:
        self.name, self.make, self.after, self.rare, self.flat = name, make, after, rare, flat
        self.row: type[Row] = _first_type(make)
        self.line = self.row if flat is None else _first_type(flat)
        fields = inspect.cleandoc(self.row.__doc__ or "")
        self.__doc__ = f"{inspect.cleandoc(make.__doc__ or '')}\n\n{self.row.__name__}: {fields}"

    @overload
    def __get__(self, findings: None, owner: type) -> Self: ...
    @overload
    def __get__(self, findings: "Findings", owner: type) -> tuple[Row, ...]: ...
    def __get__(self, findings: "Findings | None", owner: type) -> Self | tuple[Row, ...]:
        return self if findings is None else findings.rows(self)


def _first_type(make: Callable[..., Any]) -> Any:
    """Return the type of what a function returns, or yields, several of."""
    return typing.get_args(typing.get_type_hints(make)["return"])[0]


@dataclass(frozen=True, eq=False)
class Findings:
    """Protocol, episodes and facts of a study, with the rows of every part of its report."""

    protocol: Protocol
    episodes: EpisodeTable
    notes: tuple[str, ...] = ()  # damaged results that were redone or left out
    metadata: Mapping[Cell, Mapping[str, Any]] = field(default_factory=dict)  # see store
    registration: Registration | None = None  # of the study, from its results folder
    results: str = ""  # digest of the folder with the results, see manifest; empty without one
    page: str = ""  # path of the page that an evaluation has written; empty without one
    _made: dict[Any, Any] = field(default_factory=dict, init=False, repr=False)  # by its maker

    aggregates = Part("aggregates", aggregates)
    group_comparisons = Part("group_comparisons", group_comparisons)  # of all pairs, by the mean
    ranks = Part("ranks", ranks, group_comparisons)
    estimates = Part("estimates", estimates)
    comparisons = Part("comparisons", comparisons)
    certificates = Part("certificates", certified_tasks, rare=True)  # of tasks that have one

    def rows(self, part: Part[Row]) -> tuple[Row, ...]:
        """Return the rows of a part, which are made once."""
        if part not in self._made:
            earlier = (self.rows(other) for other in part.after)
            self._made[part] = part.make(self.protocol, self.episodes, *earlier)
        rows: tuple[Row, ...] = self._made[part]
        return rows

    @cached_property
    def deviations(self) -> tuple[str, ...]:
        """Why it is not a standard report; empty if it is one."""
        return deviations(self.protocol, self.episodes)

    @cached_property
    def missing_learners(self) -> tuple[str, ...]:
        """The deviations that only say which runs of required learners are missing."""
        return missing_learners(self.protocol, self.episodes)

    @property
    def is_standard(self) -> bool:
        """Whether the protocol was followed exactly."""
        return not self.deviations

    @cached_property
    def missing_runs(self) -> tuple[MissingRun, ...]:
        """Training runs that failed, are missing, or are partial."""
        return missing_runs(self.protocol, self.episodes)

    @cached_property
    def study_deviations(self) -> tuple[str, ...]:
        """How the results deviate from their registration; empty without one."""
        if self.registration is None:
            return ()
        study = self.protocol, self.episodes, self.metadata, self.shipped
        return study_deviations(self.registration, *study)

    @cached_property
    def policies(self) -> tuple[str, ...]:
        """All policies in the order of the report, then required ones that are missing."""
        present = self.episodes.policies
        return (*present, *self.protocol.missing(present))

    @cached_property
    def units(self) -> dict[str, str]:
        """The unit of inference of every policy: "episodes", or "runs" if it was trained."""
        cells = [block.cell for block in self.episodes]
        trained = {cell.policy for cell in cells if cell.run is not None} | {*self.episodes.bare}
        return {cell.policy: RUNS if cell.policy in trained else EPISODES for cell in cells}

    @cached_property
    def shipped(self) -> frozenset[str]:
        """The policies whose runs all ship with the package."""
        name = self.protocol.protocol.name
        runs = grouped((cell.policy, is_shipped(name, m)) for cell, m in self.metadata.items())
        return frozenset(policy for policy, ships in runs.items() if all(ships))

    @cached_property
    def learned(self) -> tuple[str, ...]:
        """The policies that have training runs, failed ones included, or are one trained model."""
        cells = [block.cell for block in self.episodes]
        cells += [failure.cell for failure in self.episodes.failures]
        bare = self.episodes.bare
        trained = (c.policy for c in cells if c.run is not None or c.policy in bare)
        return tuple(dict.fromkeys(trained))

    @cached_property
    def unregistered(self) -> tuple[str, ...]:
        """The policies without runs that are not in the registry; they may have been trained."""
        others = [name for name in self.episodes.policies if name not in self.learned]
        found = {name: entry_of(name) for name in others}
        return tuple(name for name, entry in found.items() if entry is None or entry.trained)

    def metas(self, names: Sequence[str]) -> list[Mapping[str, Any]]:
        """Return the metadata of every cell of some policies, empty for a cell that has none."""
        cells = [block.cell for block in self.episodes if block.cell.policy in names]
        return [self.metadata.get(cell, {}) for cell in cells]

    def estimates_of(self, task: str, metric: str) -> list[Estimate]:
        """Return the estimates of a metric on a task, one for each policy that played it."""
        return [row for row in self.estimates if (row.task, row.metric) == (task, metric)]

    def aggregates_of(self, statistic: str, group: str | None = None) -> list[Aggregate]:
        """Return a statistic of every policy in a group of tasks; None: in every group."""
        return [
            row
            for row in self.aggregates
            if row.statistic == statistic and group in (None, row.group)
        ]

    @property
    def scores(self) -> dict[str, dict[str, np.ndarray]]:
        """Normalized scores {policy: {task: (units,)}}, of episodes or of runs; see samples."""
        scales = score_scales(self.protocol, self.episodes)
        scores: dict[str, dict[str, np.ndarray]] = {}
        for task, policy in self.episodes.pairs:
            where = self.protocol, self.episodes, self.protocol.task_of(task), policy
            raw = units_of(*where, self.protocol.report.score)
            scores.setdefault(policy, {})[task] = scales[task].normalise(raw)
        return scores


def once(make: Callable[[Findings], Made]) -> Callable[[Findings], Made]:
    """Let a function of findings be called once for each; later calls return what it returned."""

    @functools.wraps(make)
    def kept(findings: Findings) -> Made:
        if make not in findings._made:
            findings._made[make] = make(findings)
        made: Made = findings._made[make]
        return made

    return kept
