"""Pictures of a report: its plots with their captions."""

import math
from collections.abc import Iterator, Sequence
from functools import partial

from coopbench.analysis.findings import Findings
from coopbench.analysis.rankings import Improvement
from coopbench.report.numbers import level_text
from coopbench.report.plots.overall import (
    drawn_pairs,
    improvements,
    profiles,
)
from coopbench.report.plots.policies import finished_groups, open_markers
from coopbench.report.plots.style import Picture
from coopbench.report.tables.entries import unit_names


def group_pictures(findings: Findings) -> Iterator[Picture]:
    """Iterate over profiles and improvements of every group that a policy has finished."""
    level = level_text(findings.protocol)
    for group, (end, whose) in finished_groups(findings).items():
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
