"""The short form of a report that notebooks show: departures and the first tables, no plots."""

from coopbench.analysis.findings import Findings
from coopbench.report.plots.style import styles
from coopbench.report.tables.aggregates import aggregate_table
from coopbench.report.tables.overall import overview_table
from coopbench.report.tables.tasks import task_table
from coopbench.report.tables.words import is_long, policies
from coopbench.report.templates import render

__all__ = ["as_notebook"]

_MOST_TASKS = 3  # that are shown in full; of more there is one table


def as_notebook(findings: Findings) -> str:
    """Return the report as HTML below a cell: the aggregates, and the tasks or their overview."""
    tasks = findings.protocol.task
    brief = is_long(findings) or len(tasks) > _MOST_TASKS
    overall = aggregate_table(findings)
    shown = [overview_table(findings)] if brief else [task_table(findings, t) for t in tasks]
    return render(
        "notebook.html",
        protocol=findings.protocol,
        departures=findings.departures,
        looks=styles(policies(findings)),
        tables=[table for table in (overall, *shown) if table is not None],
        more="print(report) shows all tables; report.save(folder) writes the page with plots.",
    )
