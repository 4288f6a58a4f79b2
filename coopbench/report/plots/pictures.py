"""Pictures of a report: all its plots with their captions."""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from coopbench.analysis.aggregates import shown_statistics
from coopbench.analysis.findings import Findings
from coopbench.analysis.rankings import Improvement
from coopbench.analysis.reproduction import LEAD
from coopbench.report.numbers import level_text
from coopbench.report.plots.charts import chart, charts_of
from coopbench.report.plots.courses import curves, scores
from coopbench.report.plots.intervals import height_of, open_markers
from coopbench.report.plots.learning import efficiency, learning_curves, medians, tasks_led
from coopbench.report.plots.overall import aggregate, drawn_pairs, improvements, profiles
from coopbench.report.plots.style import WIDTH, Picture, picture
from coopbench.report.tables.words import listed, policies, unit_names

__all__ = ["pictures"]


def pictures(findings: Findings) -> tuple[Picture, ...]:
    """Draw all plots of a report: aggregates, charts, then those of every task."""
    level = level_text(findings.protocol)
    drawn = _group_pictures(findings, level) + _chart_pictures(findings, level)
    score = findings.protocol.report.score
    for task in findings.protocol.task:
        metric = findings.protocol.curve_of(task)
        rows = [row for row in findings.estimates if (row.task, row.metric) == (task.id, score)]
        caption = f"Mean {score} with {level} interval." + open_markers(rows)
        drawn.append(picture(f"score-{task.id}", task.id, caption, scores(findings, task.id)))
        caption = (
            f"Course of {metric} over an episode: its value so far, mean over episodes. "
            "A curve ends where its last episode does."
        )
        drawn.append(picture(f"curve-{task.id}", task.id, caption, curves(findings, task.id)))
    return (*drawn, *_learning_pictures(findings, level))


def _group_pictures(findings: Findings, level: str) -> list[Picture]:
    """Draw aggregates, profiles and improvements of every group that a policy has finished."""
    drawn, groups = [], tuple(findings.protocol.groups)
    shown = shown_statistics()
    names = listed([statistic.name for statistic in shown.values()])
    for group in groups:
        rows = [row for row in findings.aggregates if row.group == group]
        if not rows:
            continue
        end, whose = (f"-{group}", f" of {group}") if len(groups) > 1 else ("", "")
        caption = f"{names} of normalised scores{whose} with {level} interval." + open_markers(
            [row for row in rows if row.statistic in shown]
        )
        drawn.append(picture(f"scores{end}", None, caption, _statistics(findings, group)))
        units = dict.fromkeys(point.unit for point in findings.profiles if point.group == group)
        if not units:
            continue
        for unit in units:
            caption = (
                f"Performance profiles{whose}: share of {unit} whose normalised score is "
                f"above the threshold, with pointwise {level} band."
            )
            kind = f"-{unit}" if len(units) > 1 else ""
            axes = profiles(findings, group, unit=unit)
            drawn.append(_chart(f"profiles{kind}{end}", caption, axes))
        pairs = drawn_pairs(findings, group)
        if pairs:
            caption = _improvement_caption(findings, group, pairs, level)
            drawn.append(_chart(f"improvements{end}", caption, improvements(findings, group)))
    return drawn


def _statistics(findings: Findings, group: str) -> Any:
    """Draw the shown statistics one above the other; return the axes of the first."""
    from matplotlib.figure import Figure

    shown = shown_statistics()
    height = len(shown) * height_of(len(policies(findings)))
    figure = Figure(figsize=(WIDTH, height), layout="constrained")
    axes = figure.subplots(len(shown), squeeze=False)[:, 0]
    first, *others = shown
    for ax, statistic in zip(axes[1:], others, strict=True):
        aggregate(findings, ax, group, statistic).set_title("", loc="left")
    return aggregate(findings, axes[0], group, first)


def _chart(name: str, caption: str, ax: Any) -> Picture:
    """Write a figure over several tasks that is shown among the charts."""
    return replace(picture(name, None, caption, ax), kind="chart")


def _improvement_caption(
    findings: Findings, group: str, pairs: Sequence[Improvement], level: str
) -> str:
    """Say what a plot of improvements shows, and which pairs it leaves out."""
    rows = [row for row in findings.improvements if row.group == group]
    caption = (
        f"Probability of improvement{f' in {group}' if group else ''}: chance that one policy "
        f"scores higher than another, over {unit_names(pairs)} and tasks, with {level} interval; "
        "at the dashed line neither is better."
    )
    tested = [row for row in rows if math.isfinite(row.estimate)]
    if len(pairs) < len(tested):
        caption += f" Of {len(tested)} pairs those with the best policy by the mean are drawn."
    if len(tested) < len(rows):
        caption += " Policies of different units of inference are not compared."
    return caption + open_markers(pairs)


def _chart_pictures(findings: Findings, level: str) -> list[Picture]:
    drawn = []
    for name, (spec, _) in charts_of(findings).items():
        points = [point for point in findings.charts if point.chart == name]
        if not points:
            continue
        caption = (
            f"{spec.metric} against {spec.x}: trimmed mean over task means, of a single "
            f"task its mean, with its {level} band over runs and episodes."
        )
        if any(point.unit == "models" for point in points):
            caption += " For several models: the mean of theirs, and the t interval over models."
        drawn.append(_chart(f"chart-{name}", caption, chart(findings, name)))
    return drawn


def _learning_pictures(findings: Findings, level: str) -> list[Picture]:
    """Draw the sample efficiency over every group, then the learning curves of every task."""
    score, drawn = findings.protocol.report.score, []
    for group in dict.fromkeys(row.group for row in findings.learning if not row.task):
        caption = (
            f"Sample efficiency: trimmed mean over tasks of the mean normalised {score} "
            f"at every checkpoint, with the {level} interval of each point, over runs and episodes."
        )
        name = f"efficiency-{group}" if group else "efficiency"
        drawn.append(_chart(name, caption, efficiency(findings, group)))
    if any(not row.task for row in findings.medians):
        caption = (
            f"Mean over all tasks of the median over runs of the normalised {score} at every "
            "checkpoint; bands: the means of the lower and of the upper quartiles over runs."
        )
        drawn.append(_chart("medians", caption, medians(findings)))
        caption = (
            f"Number of tasks on which the median over runs is the highest by at least 1/"
            f"{1 / LEAD:g} of the normalised {score}, at every checkpoint."
        )
        drawn.append(_chart("tasks-led", caption, tasks_led(findings)))
    for task in dict.fromkeys(curve.task for curve in findings.learning if curve.task):
        caption = (
            f"Learning curves: mean over runs of the mean {score} at every checkpoint, with the "
            f"{level} interval of each point, over runs and episodes. Dotted: the evaluation of "
            "the best "
            "fixed policy, and of the best that ignores its observations, with the "
            f"{level} interval; its episodes are not those of the curves."
        )
        drawn.append(picture(f"learning-{task}", task, caption, learning_curves(findings, task)))
    return drawn
