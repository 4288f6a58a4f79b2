"""The points of charts, and the methods that have several models."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from coopbench import statistics
from coopbench.analysis.estimates import FEW, estimate, few_runs, trimmed_over_tasks
from coopbench.analysis.rows import ReportRow
from coopbench.analysis.score_matrix import (
    MODELS,
    ScoreMatrix,
    defined_matrices,
)
from coopbench.episodes.table import EpisodeTable
from coopbench.protocol.schema import Protocol
from coopbench.statistics import TwoWay


@dataclass(frozen=True, eq=False)
class ChartPoint(ReportRow):
    """A metric of one policy at one place of an axis of the tasks."""

    chart: str
    metric: str
    axis: str
    at: float
    policy: str  # of several models: the method
    estimate: float  # trimmed mean over task means; of models: the mean of theirs
    low: float  # two-way interval, over runs and episodes; of models: t interval over them
    high: float
    tasks: int  # at this place of the axis, taken together
    count: int  # episodes per task, or models
    unit: str  # "episodes", "runs" or "models"
    flag: str


def families(protocol: Protocol, table: EpisodeTable) -> dict[str, list[str]]:
    """Group the policies by the method that they are models of; others are their own method."""
    families: dict[str, list[str]] = {}
    for policy in table.policies:
        families.setdefault(protocol.family(policy)[0], []).append(policy)
    return families


def chart_points(protocol: Protocol, table: EpisodeTable) -> tuple[ChartPoint, ...]:
    """Estimate every point of the protocol's charts of which all tasks have been played."""
    points = []
    for chart in protocol.report.chart:
        for name, panel in chart.panels(protocol.task).items():
            for family, policies in families(protocol, table).items():
                for at in sorted({task.axes[chart.x] for task in panel}):
                    tasks = [task for task in panel if task.axes[chart.x] == at]
                    played = [
                        defined_matrices(protocol, table, tasks, p, chart.metric) for p in policies
                    ]
                    if all(len(model) == len(tasks) for model in played):
                        point = _point(protocol, played, policies != [family])
                        where = name, chart.metric, chart.x, at, family
                        points.append(ChartPoint(*where, *point[:3], len(tasks), *point[3:]))
    return tuple(points)


class _Point(NamedTuple):
    """A point of a chart before it has a place."""

    estimate: float
    low: float
    high: float
    units: int
    unit: str
    flag: str


def _point(protocol: Protocol, played: list[list[ScoreMatrix]], models: bool) -> _Point:
    """Estimate a point from one list of matrices per model, or of the only policy."""
    confidence = protocol.report.confidence
    if models:
        grids = [TwoWay([one.grid() for one in model]) for model in played]
        means = np.array([statistics.trimmed_weights(g.means) @ g.means for g in grids])
        row = estimate("", "", "", means, confidence, MODELS)
        return _Point(row.mean, row.low, row.high, row.count, MODELS, row.flag)
    matrices = played[0]
    fixed = matrices[0].fixed
    finite = [np.isfinite(np.atleast_2d(one.values)) for one in matrices]
    units = min(int(part.any(axis=0 if fixed else 1).sum()) for part in finite)
    few = not fixed and units < FEW
    flag = few_runs(f"{units} runs per task") if few else ""
    return _Point(*trimmed_over_tasks(matrices, confidence), units, matrices[0].unit, flag)
