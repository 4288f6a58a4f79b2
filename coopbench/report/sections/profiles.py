"""Performance profiles: the share of the scores of a policy that lie above a threshold."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from coopbench import statistics
from coopbench.analysis.findings import Findings, Part
from coopbench.analysis.rows import ReportRow
from coopbench.analysis.score_matrix import UnitScores, group_units
from coopbench.episodes.grouping import grouped
from coopbench.episodes.table import EpisodeTable
from coopbench.protocol.schema import Protocol
from coopbench.report.numbers import finite, level_text
from coopbench.report.plots.drawing import LineChart
from coopbench.report.plots.policies import finished_groups, lines_of
from coopbench.report.plots.style import Picture, plain
from coopbench.report.section import ReportSection

THRESHOLDS = 101  # of a profile
TAIL = 0.01  # share of scores that a profile may leave out at each end
WIDEST = (-1.0, 2.0)  # thresholds of a profile: at most one width of the bounds beyond them
READING = """
{% if findings.aggregates %}
Profile: The share of the normalized scores of all tasks and {{ over }} above a threshold: the
higher the line, the better; where lines cross, neither policy is better throughout. Shares of
episodes and shares of runs are drawn apart. Bands hold for each threshold separately (Agarwal et
al. 2021; Dolan and More 2002, Mathematical Programming 91: 201-213). All points are in
profiles.csv.
{% endif %}
"""


@dataclass(frozen=True, eq=False)
class ProfilePoint(ReportRow):
    """Share of the scores of one policy in a group that lie above a threshold."""

    group: str
    policy: str
    threshold: float  # normalized score
    estimate: float  # share of units of all tasks, in [0, 1]
    low: float  # interval of this point alone, over units
    high: float
    unit: str
    flag: str


def profile_points(protocol: Protocol, table: EpisodeTable) -> tuple[ProfilePoint, ...]:
    """Profile every policy in every group whose tasks it finished, at the same thresholds."""
    points = []
    for group, scores in group_units(protocol, table).items():
        taus = _thresholds([task for one in scores.values() for task in one.tasks])
        for policy, one in scores.items():
            points += _profile(protocol, (group, policy), one, taus)
    return tuple(points)


def _thresholds(values: Sequence[np.ndarray]) -> np.ndarray:
    """Return thresholds from 0 to 1 and beyond, in tenths, as far as scores go in ``WIDEST``."""
    low, high = np.quantile(np.concatenate(values), (TAIL, 1.0 - TAIL))
    first = max(WIDEST[0], min(0.0, math.floor(10.0 * low) / 10.0))
    last = min(WIDEST[1], max(1.0, math.ceil(10.0 * high) / 10.0))
    return np.linspace(first, last, THRESHOLDS)


def _profile(
    protocol: Protocol, names: tuple[str, str], scores: UnitScores, taus: np.ndarray
) -> list[ProfilePoint]:
    interval = statistics.profile_interval(
        scores.tasks, taus, confidence=protocol.report.confidence, units=scores.units
    )
    flag = "; ".join(interval.warnings)
    points = np.stack([taus, interval.estimate, interval.low, interval.high], axis=1)
    return [
        ProfilePoint(*names, tau, y, low, high, scores.unit, flag)
        for tau, y, low, high in points.tolist()
    ]


def profiles(findings: Findings, group: str, unit: str) -> LineChart:
    """Draw the performance profiles of the policies of one unit in a group.

    x is a normalized score, y the share of scores above it with its pointwise band. ``unit`` is
    "episodes" or "runs": shares of episodes cannot be compared with shares of runs.
    """
    points = (p for p in findings.rows(PROFILES) if (p.group, p.unit) == (group, unit))
    by_policy = grouped((point.policy, point) for point in points)
    return LineChart(
        lines_of(findings, by_policy, "threshold"),
        group or "all tasks",
        f"normalized {plain(findings.protocol.report.score)}",
        f"share of {unit} above",
        shares=True,
    )


def pictures(findings: Findings) -> Iterator[Picture]:
    """Iterate over the profiles of every group that a policy has finished, by unit."""
    level = level_text(findings.protocol)
    for group, (end, whose) in finished_groups(findings).items():
        points = [point for point in findings.rows(PROFILES) if point.group == group]
        units = dict.fromkeys(point.unit for point in points)
        for unit in units:
            caption = (
                f"Performance profiles{whose}: share of {unit} whose normalized score is "
                f"above the threshold, with pointwise {level} band."
            )
            kind = f"-{unit}" if len(units) > 1 else ""
            draw = partial(profiles, findings, group, unit)
            yield Picture(f"profiles{kind}{end}", caption, draw)


def by_column(findings: Findings) -> list[dict[str, Any]]:
    """Return the profiles by column, one entry for each policy and group."""
    profiles: dict[tuple[str, str], dict[str, Any]] = {}
    for point in findings.rows(PROFILES):
        row = finite(vars(point))
        head = {name: row.pop(name) for name in ("group", "policy", "unit", "flag")}
        columns = {name: list[Any]() for name in row}
        profile = profiles.setdefault((point.group, point.policy), head | columns)
        for name, value in row.items():
            profile[name].append(value)
    return list(profiles.values())


PROFILES = Part("profiles", profile_points)
SECTION = ReportSection(
    (PROFILES,), pictures=pictures, reading=READING, json={"profiles": by_column}
)
