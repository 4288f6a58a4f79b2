"""LaTeX tables of a report, for a paper: booktabs, each with a caption that stands alone."""

import itertools
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from coopbench.analysis.aggregates import Aggregate
from coopbench.analysis.estimates import Estimate
from coopbench.analysis.findings import Findings
from coopbench.protocol.sections import Task
from coopbench.report.numbers import MISSING, Scale, is_point, scale_of
from coopbench.report.tables.overall import policies, unit_text

__all__ = ["as_latex", "escaped"]

TASKS = 4  # columns of a table of tasks: as many as fit the width of a page of one column
LINES = 22  # policies of a table: as many as fit its height, with an interval below each value
LONGEST = 13  # characters in a line of a column's head

_TESTS = {"welch": "Welch", "paired": "paired"}  # what a protocol calls them, in words
_NONE = "missing", "---"  # a value and its interval
_SPECIAL = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    **{char: f"\\{char}" for char in "&%$#_{}"},
    MISSING: "---",
    "\N{MINUS SIGN}": "$-$",
}


def as_latex(findings: Findings) -> str:
    """Return tables of aggregates and of the score on every task, to be included in a paper.

    The best value is in bold, and so is all that is not significantly worse: an interquartile mean
    whose interval of ranks holds 1, a mean whose Holm p against the best is not below the
    protocol's alpha. Where there is no test only the best is.
    """
    parts = [_head(findings)]
    for group, tasks in findings.protocol.groups.items():
        rows = [row for row in findings.aggregates if row.group == group]
        for names in _chunks([name for name in policies(findings) if rows], LINES):
            parts.append(_aggregate_table(findings, group, names, rows))
        wide = list(_chunks(tasks, TASKS))
        for (number, part), names in itertools.product(
            enumerate(wide, start=1), _chunks(policies(findings), LINES)
        ):
            count = f" ({number} of {len(wide)})" if len(wide) > 1 else ""
            parts.append(_task_table(findings, (group, count), part, names))
    return "\n\n".join(parts) + "\n"


def escaped(text: str) -> str:
    """Take the meaning of LaTeX from the characters of a text, and its line breaks."""
    return "".join(_SPECIAL.get(char, char) for char in " ".join(text.split()))


def _head(findings: Findings) -> str:
    """Comments: what this is, what it needs, and why it is not a standard report."""
    found = findings.protocol
    lines = [
        f"coopbench report: {found.name}, SHA-256 {found.digest}",
        r"Needs in the preamble: \usepackage{booktabs}",
        *([] if findings.is_standard else ["Not a standard report:"]),
        *(f"- {reason}" for reason in findings.departures),
    ]
    return "\n".join(f"% {' '.join(line.split())}" for line in lines)  # no line leaves the comment


def _aggregate_table(
    findings: Findings, group: str, names: Sequence[str], rows: Sequence[Aggregate]
) -> str:
    """Aggregates of some policies in one group; ``rows`` are those of all policies."""
    iqm = [row for row in rows if row.statistic == "iqm"]
    there, tasks = _aggregate_cells(findings, group, rows), len(findings.protocol.groups[group])
    level, methods = _level(findings), " or ".join(sorted({row.method for row in iqm}))
    over = f"{tasks} tasks" if tasks > 1 else "one task"
    caption = (
        "Interquartile mean (IQM), optimality gap and rank by normalised "
        f"{findings.protocol.report.score} over {over}{f' of {group}' if group else ''}, with "
        f"{level} intervals of the stratified bootstrap, method {methods}. Bold: the best, and "
        "IQMs whose interval of ranks holds 1. "
        + unit_text(((row.unit, row.count) for row in iqm), " per task")
    )
    head = ["Policy", "IQM", "Optimality gap", "Rank", "$n$"]
    lines = [line for name in names for line in _two_lines(name, there.get(name, [_NONE] * 4))]
    return _table(findings, caption, head, lines)


def _aggregate_cells(
    findings: Findings, group: str, rows: Sequence[Aggregate]
) -> dict[str, list[tuple[str, str]]]:
    """Cells of every policy that has finished a group: what stands above, and below it."""
    iqm, gap = (
        {row.policy: row for row in rows if row.statistic == statistic}
        for statistic in ("iqm", "optimality_gap")
    )
    ranked = {row.policy: row for row in findings.ranks if row.group == group}
    scales = [_scale(found.values(), "estimate") for found in (iqm, gap)]
    leading = _leading(iqm, {name for name, row in ranked.items() if row.low == 1.0})
    lowest = min((row.estimate for row in gap.values()), default=math.nan)
    mixed, cells = len({row.unit for row in rows}) > 1, {}
    for name, row in iqm.items():
        short, rank = gap[name], ranked.get(name)
        cells[name] = [
            _cell(row.estimate, row, scales[0], name in leading),
            _cell(short.estimate, short, scales[1], short.estimate == lowest),
            (f"{rank.low:g} to {rank.high:g}" if rank else "---", ""),
            (f"{row.count:,} {row.unit}" if mixed else f"{row.count:,}", ""),
        ]
    return cells


def _leading(iqm: Mapping[str, Aggregate], first: set[str]) -> set[str]:
    """The best, and those of its unit among ``first``, who may be the first."""
    if not iqm:
        return set()
    best = max(iqm.values(), key=lambda row: row.estimate)
    return {
        name
        for name, row in iqm.items()
        if row.estimate == best.estimate or (row.unit == best.unit and name in first)
    }


def _task_table(
    findings: Findings, where: tuple[str, str], tasks: Sequence[Task], names: Sequence[str]
) -> str:
    """Means of the score, policies by tasks; ``where`` is the group and which of its tables."""
    score, (group, part) = findings.protocol.report.score, where
    found = {
        task.id: {
            row.policy: row
            for row in findings.estimates
            if (row.task, row.metric) == (task.id, score)
        }
        for task in tasks
    }
    cells = [_task_cells(findings, task, found[task.id], names) for task in tasks]
    lines = [
        line
        for name, row in zip(names, zip(*cells, strict=True), strict=True)
        for line in _two_lines(name, row)
    ]
    whose = f"the tasks of {group}{part}" if group else f"the tasks{part}"
    rows = [row for column in found.values() for row in column.values()]
    caption = (
        f"Mean {score} with {_level(findings)} t intervals on {whose}. Bold: the best mean of a "
        "task, and those that are not significantly worse (Holm-adjusted p of the "
        f"{_TESTS[findings.protocol.report.comparison]} comparison with the best at least "
        f"{findings.protocol.report.alpha:g}). " + unit_text((row.unit, row.count) for row in rows)
    )
    head = ["Policy", *(_stacked(task.id) for task in tasks)]
    return _table(findings, caption, head, lines)


def _task_cells(
    findings: Findings, task: Task, found: Mapping[str, Estimate], names: Sequence[str]
) -> list[tuple[str, str]]:
    """Mean and interval of every policy on one task."""
    scale = _scale(found.values(), "mean")
    defined = {name: row for name, row in found.items() if math.isfinite(row.mean)}
    best = max(defined, key=lambda name: defined[name].mean, default="")
    even = {
        row.second if row.first == best else row.first
        for row in findings.comparisons
        if row.task == task.id and row.p_holm >= findings.protocol.report.alpha
        if best in (row.first, row.second)
    }
    top = {name for name, row in defined.items() if row.mean == defined[best].mean or name in even}
    return [
        _cell(found[name].mean, found[name], scale, name in top) if name in found else _NONE
        for name in names
    ]


def _cell(value: float, row: Any, scale: Scale, strong: bool) -> tuple[str, str]:
    """A value, in bold if it is strong, and the interval that stands below it."""
    text = _number(value, scale)
    return rf"\textbf{{{text}}}" if strong else text, _interval(row, scale)


def _two_lines(name: str, cells: Iterable[tuple[str, str]]) -> list[list[str]]:
    """The lines of one policy: values, then their intervals in small print."""
    above, below = zip(*cells, strict=True)
    small = [rf"{{\scriptsize {text}}}" if text else "" for text in below]
    return [[escaped(name), *above], ["", *small]]


def _table(
    findings: Findings, caption: str, head: Sequence[str], lines: Iterable[Sequence[str]]
) -> str:
    """A table with its caption; ``head`` and ``lines`` are LaTeX, the others plain text."""
    found = findings.protocol
    caption = f"{caption} Protocol {found.name} (SHA-256 {found.digest[:12]})."
    if not findings.is_standard:
        caption += " Not a standard report."
    return "\n".join(
        [
            r"\begin{table}[tbp]",
            r"\centering\footnotesize\setlength{\tabcolsep}{3pt}",
            rf"\caption{{{escaped(caption)}}}",
            r"\smallskip",
            rf"\begin{{tabular}}{{@{{}}l*{{{len(head) - 1}}}{{r}}@{{}}}}",
            r"\toprule",
            " & ".join(head) + r" \\",
            r"\midrule",
            *(" & ".join(line) + (r" \\" if line[0] else r" \\[2pt]") for line in lines),
            r"\bottomrule",
            r"\end{tabular}",
            r"\end{table}",
        ]
    )


def _chunks(items: Sequence[Any], size: int) -> Iterable[Sequence[Any]]:
    return (items[k : k + size] for k in range(0, len(items), size))


def _stacked(name: str) -> str:
    """A name in several lines, broken behind its dashes, dots, underscores and colons."""
    lines = [""]
    for piece in re.split(r"(?<=[-._:])", name):
        if lines[-1] and len(lines[-1] + piece) > LONGEST:
            lines.append("")
        lines[-1] += piece
    return r"\shortstack[r]{" + r" \\ ".join(map(escaped, lines)) + "}"


def _level(findings: Findings) -> str:
    return f"{100 * findings.protocol.report.confidence:g} %"


def _scale(rows: Iterable[Any], centre: str) -> Scale:
    there = list(rows)
    return scale_of(
        [getattr(row, centre) for row in there], [(row.high - row.low) / 2 for row in there]
    )


def _number(value: float, scale: Scale) -> str:
    return escaped(scale(value)).replace("-", "$-$") if math.isfinite(value) else "---"


def _interval(row: Any, scale: Scale) -> str:
    if not (math.isfinite(row.low) and math.isfinite(row.high)):
        return "---"
    if is_point(row.low, row.high):
        return "zero width"
    return f"[{_number(row.low, scale)}, {_number(row.high, scale)}]"
