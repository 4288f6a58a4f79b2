"""LaTeX tables of a report, for a paper: booktabs, each with a caption that stands alone."""

import itertools
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from coopbench.analysis.aggregates import STATISTICS, Aggregate, Statistic, shown_statistics
from coopbench.analysis.estimates import Estimate
from coopbench.analysis.findings import Findings
from coopbench.protocol.sections import Task
from coopbench.report.facts import reference_text
from coopbench.report.numbers import MISSING, Scale, is_point, level_text, scale_of_rows
from coopbench.report.tables.aggregates import rank_text
from coopbench.report.tables.words import listed, policies, policy_text, unit_text

__all__ = ["as_latex", "escaped"]

TASKS = 4  # columns of a table of tasks: as many as fit the width of a page of one column
LINES = 22  # policies of a table: as many as fit its height, with an interval below each value
LONGEST = 13  # characters in a line of a column's head

FIRST = next(iter(STATISTICS))  # statistic by which policies are ranked
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

    The best value is in bold, and so is all that is not significantly worse: a mean over tasks
    whose interval of ranks holds 1, a mean of a task whose difference from the best is no claim
    at the protocol's alpha, adjusted by Holm's method. Where there is no test only the best is.
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
    """Escape the characters that mean something in LaTeX, and join lines."""
    return "".join(_SPECIAL.get(char, char) for char in " ".join(text.split()))


def _head(findings: Findings) -> str:
    """Return comments: what this is, what it needs, and why it is not a standard report."""
    protocol = findings.protocol
    lines = [
        f"coopbench report: {protocol.name}, SHA-256 {protocol.digest}",
        r"Needs in the preamble: \usepackage{booktabs}",
        *([] if findings.is_standard else ["Not a standard report:"]),
        *(f"- {reason}" for reason in findings.departures),
        *map(reference_text, findings.reference),
    ]
    return "\n".join(f"% {' '.join(line.split())}" for line in lines)  # no line leaves the comment


def _aggregate_table(
    findings: Findings, group: str, names: Sequence[str], rows: Sequence[Aggregate]
) -> str:
    """Return the aggregates of some policies in one group; ``rows`` are those of all policies."""
    first = [row for row in rows if row.statistic == FIRST]
    cells, tasks = _aggregate_cells(findings, group, rows), len(findings.protocol.groups[group])
    level = level_text(findings.protocol)
    over = f"{tasks} tasks" if tasks > 1 else "one task"
    shown = shown_statistics()
    title = listed([*(_name(statistic) for statistic in shown.values()), "rank"])
    caption = (
        f"{title} by normalised "
        f"{findings.protocol.report.score} over {over}{f' of {group}' if group else ''}, with "
        f"{level} intervals for new runs and new episodes. Bold: the best, and means whose "
        "interval of ranks holds 1; a rank is a tie of policies that cannot be told apart. "
        + unit_text(((row.unit, row.count) for row in first), " per task")
    )
    head = ["Policy", *(escaped(s.label) for s in shown.values()), "Rank", "$n$"]
    none = [_NONE] * (len(head) - 1)
    lines = [
        line
        for name in names
        for line in _two_lines(policy_text(findings, name), cells.get(name, none))
    ]
    return _table(findings, caption, head, lines)


def _name(statistic: Statistic) -> str:
    """Return the name of a statistic, with the head of its column where that differs."""
    same = statistic.name.lower() == statistic.label.lower()
    return statistic.name if same else f"{statistic.name} ({statistic.label})"


def _aggregate_cells(
    findings: Findings, group: str, rows: Sequence[Aggregate]
) -> dict[str, list[tuple[str, str]]]:
    """Return the cells of every policy that has finished a group: value above, interval below."""
    shown = shown_statistics()
    by_statistic = {key: {row.policy: row for row in rows if row.statistic == key} for key in shown}
    ranked = {row.policy: row for row in findings.ranks if row.group == group}
    first = {name for name, row in ranked.items() if row.low == 1.0}
    scales = {key: scale_of_rows(of.values(), "estimate") for key, of in by_statistic.items()}
    strong = {key: _best(of, shown[key]) for key, of in by_statistic.items()}
    strong[FIRST] = _leading(by_statistic[FIRST], first)
    mixed, cells = len({row.unit for row in rows}) > 1, {}
    for name, row in by_statistic[FIRST].items():
        rank = ranked.get(name)
        cells[name] = [
            _cell(of[name].estimate, of[name], scales[key], name in strong[key])
            for key, of in by_statistic.items()
        ]
        cells[name] += [
            (rank_text(rank) if rank else "---", ""),
            (f"{row.count:,} {row.unit}" if mixed else f"{row.count:,}", ""),
        ]
    return cells


def _best(rows: Mapping[str, Aggregate], statistic: Statistic) -> set[str]:
    """Return the policies with the best value of a statistic."""
    values = [row.estimate for row in rows.values()]
    best = (min if statistic.lowest else max)(values, default=math.nan)
    return {name for name, row in rows.items() if row.estimate == best}


def _leading(rows: Mapping[str, Aggregate], first: set[str]) -> set[str]:
    """Return the policies with the best value, and those among ``first``."""
    best = max((row.estimate for row in rows.values()), default=math.nan)
    return {name for name, row in rows.items() if row.estimate == best or name in first}


def _task_table(
    findings: Findings, where: tuple[str, str], tasks: Sequence[Task], names: Sequence[str]
) -> str:
    """Return means of the score, policies by tasks; ``where`` is the group and part of it."""
    score, (group, part) = findings.protocol.report.score, where
    by_task = {
        task.id: {
            row.policy: row
            for row in findings.estimates
            if (row.task, row.metric) == (task.id, score)
        }
        for task in tasks
    }
    cells = [_task_cells(findings, task, by_task[task.id], names) for task in tasks]
    lines = [
        line
        for name, row in zip(names, zip(*cells, strict=True), strict=True)
        for line in _two_lines(policy_text(findings, name), row)
    ]
    whose = f"the tasks of {group}{part}" if group else f"the tasks{part}"
    rows = [row for column in by_task.values() for row in column.values()]
    caption = (
        f"Mean {score} with {level_text(findings.protocol)} intervals for new runs and new "
        f"episodes on {whose}. Bold: the best mean of a task, and those that are not significantly "
        "worse (Holm-adjusted p of the comparison with the best at least "
        f"{findings.protocol.report.alpha:g}, or unseen runs could undo it). "
        + unit_text((row.unit, row.count) for row in rows)
    )
    head = ["Policy", *(_stacked(task.id) for task in tasks)]
    return _table(findings, caption, head, lines)


def _task_cells(
    findings: Findings, task: Task, rows: Mapping[str, Estimate], names: Sequence[str]
) -> list[tuple[str, str]]:
    """Return mean and interval of every policy on one task."""
    scale = scale_of_rows(rows.values(), "mean")
    defined = {name: row for name, row in rows.items() if math.isfinite(row.mean)}
    best = max(defined, key=lambda name: defined[name].mean, default="")
    even = {
        row.second if row.first == best else row.first
        for row in findings.comparisons
        if row.task == task.id
        and best in (row.first, row.second)
        and (row.p_holm >= findings.protocol.report.alpha or row.not_shown)
    }
    top = {name for name, row in defined.items() if row.mean == defined[best].mean or name in even}
    return [
        _cell(rows[name].mean, rows[name], scale, name in top) if name in rows else _NONE
        for name in names
    ]


def _cell(value: float, row: Any, scale: Scale, strong: bool) -> tuple[str, str]:
    """Return a value, in bold if it is strong, and the interval below it."""
    text = _number(value, scale)
    return rf"\textbf{{{text}}}" if strong else text, _interval(row, scale)


def _two_lines(name: str, cells: Iterable[tuple[str, str]]) -> list[list[str]]:
    """Return the lines of one policy: values, then their intervals in small print."""
    above, below = zip(*cells, strict=True)
    small = [rf"{{\scriptsize {text}}}" if text else "" for text in below]
    return [[escaped(name), *above], ["", *small]]


def _table(
    findings: Findings, caption: str, head: Sequence[str], lines: Iterable[Sequence[str]]
) -> str:
    """Return a table with its caption; ``head`` and ``lines`` are LaTeX, ``caption`` is not."""
    protocol = findings.protocol
    caption = f"{caption} Protocol {protocol.name} (SHA-256 {protocol.digest[:12]})."
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
    """Break a name into several lines, behind its dashes, dots, underscores and colons."""
    lines = [""]
    for piece in re.split(r"(?<=[-._:])", name):
        if lines[-1] and len(lines[-1] + piece) > LONGEST:
            lines.append("")
        lines[-1] += piece
    return r"\shortstack[r]{" + r" \\ ".join(map(escaped, lines)) + "}"


def _number(value: float, scale: Scale) -> str:
    return escaped(scale(value)).replace("-", "$-$") if math.isfinite(value) else "---"


def _interval(row: Any, scale: Scale) -> str:
    if not (math.isfinite(row.low) and math.isfinite(row.high)):
        return "---"
    if is_point(row.low, row.high):
        return "zero width"
    return f"[{_number(row.low, scale)}, {_number(row.high, scale)}]"
