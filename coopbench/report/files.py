"""Files of a report: every rendering is written below one folder, each in one atomic step."""

from pathlib import Path
from typing import TYPE_CHECKING

from coopbench.analysis.estimates import (
    AgentEstimate,
    Aggregate,
    ChartPoint,
    Comparison,
    Estimate,
    PublishedReturn,
)
from coopbench.analysis.learning import CurvePoint, Efficiency, LateScore
from coopbench.analysis.rankings import Improvement, ProfilePoint, Rank
from coopbench.files import write_all

if TYPE_CHECKING:
    from coopbench.report.report import Report

__all__ = ["save"]


def save(report: "Report", folder: Path) -> dict[str, Path]:
    """Write all files of a report below ``folder``, which is made if needed.

    Returns {what: file} with the keys html, md, tex, json, one per table of numbers such as
    estimates or episodes, and one such as ``plots/iqm.svg`` per plot and format.
    Files of the same name are replaced, never half written. The same report gives the same bytes.

    Raises:
        OSError: the folder cannot be written.
    """
    from coopbench.report.page import as_html
    from coopbench.report.plots.overall import pictures
    from coopbench.report.tables.overall import as_csv, as_json, as_markdown

    drawn = pictures(report)
    contents: dict[str, str | bytes] = {}
    for picture in drawn:
        contents[f"plots/{picture.name}.svg"] = picture.svg
        contents[f"plots/{picture.name}.png"] = picture.png
    contents |= {
        "report.json": as_json(report),
        "estimates.csv": as_csv(report.estimates, Estimate),
        "agents.csv": as_csv(report.agents, AgentEstimate),
        "comparisons.csv": as_csv(report.comparisons, Comparison),
        "aggregates.csv": as_csv(report.aggregates, Aggregate),
        "improvements.csv": as_csv(report.improvements, Improvement),
        "profiles.csv": as_csv(report.profiles, ProfilePoint),
        "ranks.csv": as_csv(report.ranks, Rank),
        "charts.csv": as_csv(report.charts, ChartPoint),
        "models.csv": as_csv(report.models, Estimate),
        "published.csv": as_csv(report.published, PublishedReturn),
        "learning.csv": as_csv(
            (p for curve in report.learning for p in curve.points()), CurvePoint
        ),
        "efficiency.csv": as_csv(report.efficiency, Efficiency),
        "late.csv": as_csv(report.late, LateScore),
        "episodes.csv": as_csv(report.episodes.rows()),
        "report.tex": report.latex(),
        "report.md": as_markdown(report, drawn),
        "report.html": as_html(report, drawn),
    }
    return write_all(folder, contents, "report")
