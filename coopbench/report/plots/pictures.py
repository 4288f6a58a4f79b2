"""Pictures of a report: its plots with their captions."""

import math
from collections.abc import Iterator, Sequence
from functools import partial

from coopbench.analysis.aggregates import shown_statistics
from coopbench.analysis.findings import Findings
from coopbench.analysis.rankings import Improvement
from coopbench.protocol.task import Task
from coopbench.report.numbers import level_text
from coopbench.report.plots.courses import curves, scores
from coopbench.report.plots.intervals import open_markers
from coopbench.report.plots.learning import learning_curves
from coopbench.report.plots.overall import (
    drawn_pairs,
    improvements,
    profiles,
    statistics,
)
from coopbench.report.plots.style import Picture
from coopbench.report.tables.entries import listed, unit_names


def overall_pictures(findings: Findings) -> list[Picture]:
    """Return a picture of the statistics of every group that a policy has finished."""
    shown, drawn = shown_statistics(), []
    names, level = listed([one.name for one in shown.values()]), level_text(findings.protocol)
    for group, (end, whose) in _finished(findings).items():
        rows = [row for row in findings.aggregates if row.group == group]
        caption = f"{names} of normalized scores{whose} with {level} interval."
        caption += open_markers([row for row in rows if row.statistic in shown])
        drawn.append(Picture(f"scores{end}", caption, partial(statistics, findings, group)))
    return drawn


def task_pictures(findings: Findings, task: Task) -> list[Picture]:
    """Return the pictures of one task: scores, the course of an episode, learning curves."""
    score, level = findings.protocol.report.score, level_text(findings.protocol)
    metric = findings.protocol.report.curve_of(task)
    scored = f"Mean {score} with {level} interval."
    scored += open_markers(findings.estimates_of(task.id, score))
    course = (
        f"Course of {metric} over an episode: its value so far, mean over episodes. "
        "A curve ends at the end of its longest episode."
    )
    drawn = [Picture(f"score-{task.id}", scored, partial(scores, findings, task.id))]
    if any(metric in block.curves for block in findings.episodes if block.cell.task == task.id):
        drawn.append(Picture(f"curve-{task.id}", course, partial(curves, findings, task.id)))
    if any(curve.task == task.id for curve in findings.learning):
        caption = (
            f"Learning curves: mean over runs of the mean {score} at every checkpoint, with the "
            f"{level} interval of each point, over runs and episodes. Dotted: the evaluation of "
            "the best fixed policy, and of the best that ignores its observations, with the "
            f"{level} interval; its episodes are not those of the curves."
        )
        draw = partial(learning_curves, findings, task.id)
        drawn.append(Picture(f"learning-{task.id}", caption, draw))
    return drawn


def _finished(findings: Findings) -> dict[str, tuple[str, str]]:
    """Return the groups with aggregates, each with the end of its files and a phrase."""
    several = len(findings.protocol.groups) > 1
    return {
        group: (f"-{group}", f" of {group}") if several else ("", "")
        for group in findings.protocol.groups
        if any(row.group == group for row in findings.aggregates)
    }


def group_pictures(findings: Findings) -> Iterator[Picture]:
    """Iterate over profiles and improvements of every group that a policy has finished."""
    level = level_text(findings.protocol)
    for group, (end, whose) in _finished(findings).items():
        units = dict.fromkeys(point.unit for point in findings.profiles if point.group == group)
        for unit in units:
            caption = (
                f"Performance profiles{whose}: share of {unit} whose normalized score is "
                f"above the threshold, with pointwise {level} band."
            )
            kind = f"-{unit}" if len(units) > 1 else ""
            draw = partial(profiles, findings, group, unit=unit)
            yield Picture(f"profiles{kind}{end}", caption, draw)
        pairs = drawn_pairs(findings, group)
        if units and pairs:
            caption = _improvement_caption(findings, group, pairs, level)
            yield Picture(f"improvements{end}", caption, partial(improvements, findings, group))


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
        caption += (
            f" Of {len(tested)} pairs, only those with the policy of the highest mean are drawn."
        )
    if len(tested) < len(rows):
        caption += " Policies of different units of inference are not compared."
    return caption + open_markers(pairs)
