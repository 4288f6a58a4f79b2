"""Probability of improvement: the chance that one policy scores higher than another."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from coopbench import statistics
from coopbench.analysis.contrasts import family_pairs
from coopbench.analysis.findings import Findings, Part
from coopbench.analysis.rows import ReportRow
from coopbench.analysis.score_matrix import EPISODES, UnitScores, group_units
from coopbench.episodes.table import EpisodeTable
from coopbench.protocol.schema import Protocol
from coopbench.report.numbers import level_text
from coopbench.report.plots.drawing import IntervalChart, Row
from coopbench.report.plots.policies import finished_groups, looks_of, open_markers
from coopbench.report.plots.style import Picture, plain
from coopbench.report.section import ReportSection
from coopbench.report.tables.entries import unit_names

PAIRS = 12  # of policies, in one plot
READING = """
{% if findings.aggregates %}
Probability of improvement: The chance that one policy scores higher than another when the task
and one of the {{ over }} of each are drawn at random; a tie counts one half, so that 0.5 is no
difference (Agarwal et al. 2021). It says how often, not by how much. Intervals are Newcombe's
(2006, Statistics in Medicine 25: 559-573), for runs on these episodes, and never have a width of
zero. All pairs of one unit are in improvements.csv.
{% endif %}
"""


@dataclass(frozen=True, eq=False)
class Improvement(ReportRow):
    """Chance that one policy scores higher than another on a task of a group.

    Task and unit of each policy are drawn at random; a tie counts one half.
    """

    group: str  # empty if the protocol has no groups: then over all tasks
    first: str
    second: str
    estimate: float  # in [0, 1]; nan where the two have different units
    low: float  # Newcombe's interval over the units of both; runs have played these episodes
    high: float
    tasks: int
    count: int  # units per task of either, at least
    unit: str  # "episodes" or "runs"; empty where the two differ
    flag: str


def improvements(protocol: Protocol, table: EpisodeTable) -> tuple[Improvement, ...]:
    """Compare all pairs of policies over every group whose tasks both have finished.

    Models of one method are not compared with each other, nor are episodes with runs.
    """
    rows = []
    for group, scores in group_units(protocol, table).items():
        for one, two in family_pairs(protocol, list(scores)):
            rows.append(_improvement(protocol, (group, one, two), scores[one], scores[two]))
    return tuple(rows)


def _improvement(
    protocol: Protocol, names: tuple[str, str, str], x: UnitScores, y: UnitScores
) -> Improvement:
    """Compare one pair in one group; ``names`` are those of the group and the two."""
    unit, tasks, nan = x.unit, len(x.tasks), math.nan
    count = min(map(len, (*x.tasks, *y.tasks)))
    if unit != y.unit:
        why = f"not compared: {names[1]} stands for its {unit}, {names[2]} for its {y.unit}"
        return Improvement(*names, nan, nan, nan, tasks, count, "", why)
    shared = unit == EPISODES and not x.own_episodes
    interval = statistics.improvement_interval(
        x.tasks,
        y.tasks,
        confidence=protocol.report.confidence,
        units=(x.units, y.units),
        matched=shared and all(map(np.array_equal, x.units, y.units)),
    )
    ends = float(interval.estimate), float(interval.low), float(interval.high)
    return Improvement(*names, *ends, tasks, count, unit, "; ".join(interval.warnings))


def chart(findings: Findings, group: str) -> IntervalChart:
    """Draw the probability of improvement of the pairs of policies in a group.

    Of more than twelve pairs only those with the best policy by the mean are drawn.
    """
    pairs, looks = drawn_pairs(findings, group), looks_of(findings)
    common = len({pair.first for pair in pairs}) == 1 and len(pairs) > 1
    rows = tuple(
        Row(
            plain(pair.second) if common else f"{plain(pair.first)}\nover {plain(pair.second)}",
            looks[pair.second if common else pair.first],
            (pair.estimate, pair.low, pair.high),
            f"{pair.estimate:.2f}",
        )
        for pair in pairs
    )
    who = f"{plain(pairs[0].first)}\n" if common else "the first "
    label = f"chance that {who}scores higher"
    return IntervalChart(rows, group or "all tasks", label, (-0.03, 1.03), even=0.5)


def drawn_pairs(findings: Findings, group: str) -> list[Improvement]:
    """Return the pairs to draw: all, or if they are many those with the best of their unit."""
    rows = [row for row in findings.rows(IMPROVEMENTS) if row.group == group]
    rows = [row for row in rows if math.isfinite(row.estimate)]
    if len(rows) <= PAIRS:
        return rows
    scores = group_units(findings.protocol, findings.episodes)[group]
    means = {name: np.mean([np.mean(task) for task in one.tasks]) for name, one in scores.items()}
    best = {
        unit: max((name for name in scores if scores[name].unit == unit), key=means.__getitem__)
        for unit in {row.unit for row in rows}
    }
    swapped = [r if r.first == best[r.unit] else _swapped(r) for r in rows]
    return [row for row in swapped if row.first == best[row.unit]]


def _swapped(row: Improvement) -> Improvement:
    """Return the same pair with the two policies exchanged."""
    return replace(
        row,
        first=row.second,
        second=row.first,
        estimate=1.0 - row.estimate,
        low=1.0 - row.high,
        high=1.0 - row.low,
    )


def pictures(findings: Findings) -> Iterator[Picture]:
    """Iterate over the pairs of every group that a policy has finished."""
    level = level_text(findings.protocol)
    for group, (end, _) in finished_groups(findings).items():
        pairs = drawn_pairs(findings, group)
        if pairs:
            caption = _caption(findings, group, pairs, level)
            yield Picture(f"improvements{end}", caption, partial(chart, findings, group))


def _caption(findings: Findings, group: str, pairs: Sequence[Improvement], level: str) -> str:
    """Say what a plot of improvements shows, and which pairs it leaves out."""
    rows = [row for row in findings.rows(IMPROVEMENTS) if row.group == group]
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


IMPROVEMENTS = Part("improvements", improvements)
SECTION = ReportSection((IMPROVEMENTS,), pictures=pictures, reading=READING)
