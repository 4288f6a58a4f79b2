"""Charts of metrics against the axes of the tasks, as a protocol names them."""

from collections.abc import Iterator
from functools import partial

from coopbench.analysis.findings import Findings
from coopbench.report.numbers import level_text
from coopbench.report.plots.overall import chart, charts_of
from coopbench.report.plots.style import Picture
from coopbench.report.section import ReportSection

READING = """
{% if findings.charts %}
Charts: A point is the trimmed mean of a metric's task means, over the tasks with that value on
the axis; for a single task it is the mean. Its band covers runs and episodes. All points are in
charts.csv.
{% endif %}
"""


def pictures(findings: Findings) -> Iterator[Picture]:
    """Iterate over the charts that have points."""
    level = level_text(findings.protocol)
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
        yield Picture(f"chart-{name}", caption, partial(chart, findings, name))


SECTION = ReportSection(pictures=pictures, reading=READING)
