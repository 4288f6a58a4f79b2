"""Charts of metrics against the axes of the tasks, as a protocol names them."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from coopbench import statistics
from coopbench.analysis.contrasts import families
from coopbench.analysis.estimates import (
    FEW,
    estimate,
    failure_flags,
    few_runs,
    trimmed_over_tasks,
)
from coopbench.analysis.findings import Findings, Part
from coopbench.analysis.rows import ReportRow
from coopbench.analysis.score_matrix import MODELS, ScoreMatrix, defined_matrices
from coopbench.episodes.grouping import grouped
from coopbench.episodes.table import EpisodeTable
from coopbench.protocol.report import Chart
from coopbench.protocol.schema import Protocol
from coopbench.protocol.task import Task
from coopbench.report.numbers import is_point, level_text
from coopbench.report.plots.drawing import LineChart
from coopbench.report.plots.policies import lines_of
from coopbench.report.plots.style import Picture, plain
from coopbench.report.section import ReportSection
from coopbench.report.tables.entries import SAME
from coopbench.statistics import TwoWay

READING = """
{% if findings.charts %}
Charts: A point is the trimmed mean of a metric's task means, over the tasks with that value on
the axis; for a single task it is the mean. Its band covers runs and episodes. All points are in
charts.csv.
{% endif %}
"""


@dataclass(frozen=True, eq=False)
class ChartPoint(ReportRow):
    """A metric of one policy at one place of an axis of the tasks."""

    chart: str
    metric: str
    axis: str
    at: float
    policy: str  # of several models: the method
    estimate: float  # trimmed mean over task means; of models: the mean of theirs
    # Two-way interval, over runs and episodes; of models that over them, if it is wider.
    low: float
    high: float
    tasks: int  # at this place of the axis, taken together
    count: int  # episodes per task, or models
    unit: str  # "episodes", "runs" or "models"
    flag: str


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
                        where = name, chart.metric, chart.x, at, family
                        point = _point(protocol, where, played, policies != [family])
                        failed = [f for model in played for f in failure_flags(table, tasks, model)]
                        flags = filter(None, (*dict.fromkeys(failed), point.flag))
                        points.append(replace(point, flag="; ".join(flags)))
    return tuple(points)


def _point(
    protocol: Protocol,
    where: tuple[str, str, str, float, str],
    played: list[list[ScoreMatrix]],
    models: bool,
) -> ChartPoint:
    """Estimate the point at a place from one list of matrices per model, or of the only policy."""
    confidence, tasks = protocol.report.confidence, len(played[0])
    if models:
        grids = [TwoWay([one.grid() for one in model]) for model in played]
        weights = [statistics.trimmed_weights(grid.means) for grid in grids]
        means = np.array([form @ grid.means for form, grid in zip(weights, grids, strict=True)])
        row = estimate("", "", "", means, confidence, MODELS)
        # All models play the same episodes, whose luck an interval over models leaves out.
        every = TwoWay([one.grid() for model in played for one in model])
        spread = every.spread(np.concatenate(weights) / len(played))
        luck = float(statistics.half_widths(spread, confidence)[0])
        half = np.fmax(row.high - row.mean, luck)
        ends = row.mean, row.mean - half, row.mean + half
        return ChartPoint(*where, *ends, tasks, row.count, MODELS, row.flag)
    matrices = played[0]
    fixed = matrices[0].fixed
    finite = [np.isfinite(np.atleast_2d(one.values)) for one in matrices]
    units = min(int(part.any(axis=0 if fixed else 1).sum()) for part in finite)
    few = not fixed and units < FEW
    flag = few_runs(f"{units} runs per task") if few else ""
    ends = trimmed_over_tasks(matrices, confidence)
    flag = flag or (SAME if is_point(*ends[1:]) else "")
    return ChartPoint(*where, *ends, tasks, units, matrices[0].unit, flag)


def chart(findings: Findings, name: str) -> LineChart:
    """Draw a chart of the protocol, one line per policy with its band.

    ``name`` is that of the picture, as in ``report.charts``.
    """
    spec, panel = charts_of(findings)[name]
    rows = grouped((row.policy, row) for row in findings.rows(CHARTS) if row.chart == name)
    per = f"{spec.per} = {spec.value_of(panel[0])}" if spec.per else ""
    return LineChart(
        lines_of(findings, rows, "at"),
        ", ".join(filter(None, (spec.group, per))) or "all tasks",
        plain(spec.x),
        plain(spec.metric),
        shares=True,
        places=tuple(sorted({task.axes[spec.x] for task in panel})),
        log=spec.scale == "log2",
    )


def charts_of(findings: Findings) -> dict[str, tuple[Chart, tuple[Task, ...]]]:
    """Return the charts of the protocol by the names of their pictures, with their tasks."""
    return {
        name: (spec, panel)
        for spec in findings.protocol.report.chart
        for name, panel in spec.panels(findings.protocol.task).items()
    }


def pictures(findings: Findings) -> Iterator[Picture]:
    """Iterate over the charts that have points."""
    level = level_text(findings.protocol)
    for name, (spec, _) in charts_of(findings).items():
        points = [point for point in findings.rows(CHARTS) if point.chart == name]
        if not points:
            continue
        caption = (
            f"{spec.metric} against {spec.x}: trimmed mean over task means, of a single "
            f"task its mean, with its {level} band over runs and episodes."
        )
        if any(point.unit == "models" for point in points):
            caption += " For several models: the mean of theirs, and the t interval over models."
        yield Picture(f"chart-{name}", caption, partial(chart, findings, name))


CHARTS = Part("charts", chart_points)
SECTION = ReportSection((CHARTS,), pictures=pictures, reading=READING)
