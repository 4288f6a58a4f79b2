"""Table of imported results, to print in a terminal."""

from collections.abc import Sequence

from coopbench.exchange.imported import ABSOLUTE, Imported, Summary
from coopbench.report.numbers import interval_text, scale_of_rows
from coopbench.report.tables.model import Column, Entry, Footnotes, Group, Table

__all__ = ["summary_table"]


_STATISTICS = {
    "iqm": ("IQM", "interquartile mean over all runs and tasks"),
    "median": ("Median", "over tasks, of the mean over runs"),
    "mean": ("Mean", "over tasks, of the mean over runs"),
    "optimality_gap": ("Optimality gap", "how far runs fall short of 1; lower is better"),
}
_MINMAX = (
    "0 and 1 are the lowest and highest value of each task in this file: they move when an "
    "algorithm is added, so compare nothing with other files."
)


def summary_table(imported: Imported, metric: str = "return") -> Table:
    """Return ``Imported.table`` as a table to print, with what a reader has to know under it."""
    rows, notes = imported.table(metric), Footnotes()
    columns = (
        Column("Algorithm", "who is evaluated", numeric=False),
        Column("Estimate", "of all runs on all tasks"),
        Column("95 % interval", "stratified bootstrap over runs, widened for few runs"),
        Column("Tasks", "tasks that are taken together"),
        Column("n", "runs in the task with the fewest"),
    )
    groups = [
        Group(title, meaning, _entries([row for row in rows if row.statistic == kind], notes))
        for kind, (title, meaning) in _STATISTICS.items()
        if kind in {row.statistic for row in rows}
    ]
    scale = _MINMAX if metric in imported.minmax else "Values as the file has them."
    kind = f"absolute metric: {imported.absolute} ({ABSOLUTE[imported.absolute]})"
    return Table(
        title=f"{metric} on {imported.environment}; {kind}",
        columns=columns,
        groups=tuple(groups),
        footnotes=notes.all(),
        unit=f"Unit of inference: runs. {scale}",
        kind="Statistic",
    )


def _entries(rows: Sequence[Summary], notes: Footnotes) -> tuple[tuple[Entry, ...], ...]:
    scale = scale_of_rows(rows, "estimate")
    return tuple(
        (
            Entry(row.algorithm, row.algorithm),
            Entry(scale(row.estimate), row.estimate),
            Entry(
                interval_text(row.low, row.high, scale), row.high - row.low, notes.mark(row.flag)
            ),
            Entry(f"{row.tasks:,}", row.tasks),
            Entry(f"{row.runs:,}", row.runs),
        )
        for row in rows
    )
