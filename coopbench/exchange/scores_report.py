"""The report of results that were made elsewhere: summaries and comparisons, as page or Markdown.

It has the summary of every algorithm and, for each pair, how likely a run of one beats a run of the
other.
"""

import itertools
import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from coopbench import statistics
from coopbench.exchange.imported import Imported
from coopbench.exchange.summary_table import summary_table
from coopbench.files import write_text
from coopbench.report.markdown import markdown_table
from coopbench.report.tables.model import Column, Entry, Footnotes, Group, Table
from coopbench.report.templates import render

__all__ = ["comparison_table", "save_scores_report", "tables"]

_ORIGIN = "These results were made elsewhere: no episode was played again, and nothing is verified."
_FORMATS = (".html", ".md")


def tables(imported: Imported, metric: str = "return") -> tuple[Table, ...]:
    """Return the tables of the report, on one environment."""
    return summary_table(imported, metric), comparison_table(imported, metric)


def comparison_table(imported: Imported, metric: str = "return") -> Table:
    """Return the probability of improvement of every pair of algorithms, with intervals."""
    notes = Footnotes()
    columns = (
        Column("Comparison", "first and second algorithm", numeric=False),
        Column("P(first better)", "that a run of the first beats one of the second on a task"),
        Column("95 % interval", "stratified bootstrap over runs"),
    )
    groups = (Group("", "", tuple(_comparisons(imported, metric, notes))),)
    return Table(
        title=f"Probability of improvement in {metric} on {imported.environment}",
        columns=columns,
        groups=groups,
        footnotes=notes.all(),
        unit="Unit of inference: runs. It does not depend on the scale of the scores.",
        kind="",
    )


def _comparisons(imported: Imported, metric: str, notes: Footnotes) -> Iterator[tuple[Entry, ...]]:
    """Yield the rows of pairs that both have runs on every task."""
    scores = imported.scores(metric)
    for first, second in itertools.combinations(imported.algorithms, 2):
        pair = scores[first], scores[second]
        name = f"{first} vs {second}"
        if not all(len(runs) for side in pair for runs in side):
            flag = notes.mark("no run on some task")
            yield Entry(name, name), Entry("-", math.nan), Entry("-", math.nan, flag)
            continue
        interval = statistics.bootstrap_interval(pair, statistics.probability_of_improvement)
        low, high = float(interval.low), float(interval.high)
        yield (
            Entry(name, name),
            Entry(f"{float(interval.estimate):.3f}", float(interval.estimate)),
            Entry(f"{low:.3f} to {high:.3f}", high - low, notes.mark("; ".join(interval.warnings))),
        )


def save_scores_report(
    results: Imported | Sequence[Imported], metric: str, path: str | Path
) -> Path:
    """Write the report of imported results, one or several environments, and return its path.

    A name that ends in .html gets a page that needs nothing else, one that ends in .md Markdown;
    raises ``ValueError`` for any other. The file appears in one atomic step.
    """
    file = Path(path)
    if file.suffix not in _FORMATS:
        raise ValueError(
            f"{file} is no name of a report; allowed: names in {' or '.join(_FORMATS)}."
        )
    sources = [results] if isinstance(results, Imported) else results
    parts = [
        {"environment": one.environment, "tables": tables(one, metric), "missing": one.missing}
        for one in sources
    ]
    if file.suffix == ".html":
        text = render("scores.html", metric=metric, origin=_ORIGIN, parts=parts, looks={})
    else:
        text = "\n\n".join([f"# {metric}", _ORIGIN, *map(_markdown, parts)])
    write_text(file, text + "\n")
    return file


def _markdown(part: dict[str, Any]) -> str:
    """Return the results on one environment as Markdown."""
    shown = [f"## {part['environment']}", *map(markdown_table, part["tables"])]
    missing = "\n".join(f"- {text}" for text in part["missing"])
    return "\n\n".join([*shown, *([f"Missing:\n\n{missing}"] if missing else [])])
