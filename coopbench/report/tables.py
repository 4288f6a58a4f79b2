"""Tables of a report: made once as plain data, then written as text, Markdown, CSV or JSON."""

import csv
import dataclasses
import io
import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from coopbench.analysis import Aggregate, Comparison, Estimate
from coopbench.report.formats import MISSING, Scale, interval_text, is_point, p_text, scale_of

if TYPE_CHECKING:
    from coopbench.protocol import Task
    from coopbench.report.report import Report

__all__ = [
    "Column",
    "Entry",
    "Group",
    "Table",
    "aggregate_table",
    "as_csv",
    "as_json",
    "as_markdown",
    "as_text",
    "comparison_table",
    "identity",
    "metrics",
    "policies",
    "provenance",
    "reading",
    "show",
    "task_facts",
    "task_table",
]

NOT_STANDARD = "NOT A STANDARD REPORT"
NO_AGGREGATE = "No aggregate: an ad-hoc evaluation has no agreed bounds to normalise its score by."
SAME = "all resamples give the same value: a width of zero is not certainty"
NO_COMPARISON = "No comparison: fewer than two policies have played this task."


@dataclass(frozen=True)
class Entry:
    """One cell of a table."""

    text: str
    value: float | str | None = None  # what it is sorted by, in full precision; None comes last
    marks: tuple[str, ...] = ()  # letters of the footnotes that qualify it
    strong: bool = False  # a Holm p below the protocol's alpha


@dataclass(frozen=True)
class Column:
    """Name and meaning of a column."""

    name: str
    meaning: str
    numeric: bool = True


@dataclass(frozen=True)
class Group:
    """Rows that belong together and are sorted among themselves; ``name`` may be empty."""

    name: str
    meaning: str
    rows: tuple[tuple[Entry, ...], ...]


@dataclass(frozen=True)
class Table:
    """A table with everything that a reader needs beside it."""

    title: str
    columns: tuple[Column, ...]
    groups: tuple[Group, ...]
    footnotes: tuple[tuple[str, str], ...]  # letter, sentence
    unit: str  # unit of inference

    @property
    def grouped(self) -> bool:
        """Whether the groups have names."""
        return any(group.name for group in self.groups)


class _Footnotes:
    """Sentences under a table, each once; ``mark`` returns the letter of one."""

    def __init__(self) -> None:
        self._letters: dict[str, str] = {}

    def mark(self, text: str) -> tuple[str, ...]:
        if not text:
            return ()
        count = len(self._letters)
        letter = chr(97 + count % 26) * (1 + count // 26)
        return (self._letters.setdefault(text, letter),)

    def all(self) -> tuple[tuple[str, str], ...]:
        return tuple((letter, text) for text, letter in self._letters.items())


def policies(report: "Report") -> tuple[str, ...]:
    """Return all policies in the order of the report, then required ones that are missing."""
    present = (block.cell.policy for block in report.episodes)
    return tuple(dict.fromkeys((*present, *report.protocol.report.baselines)))


def metrics(report: "Report") -> tuple[str, ...]:
    """Return the metrics that are reported, the score first."""
    reporting = report.protocol.report
    return tuple(dict.fromkeys((reporting.score, *reporting.metrics)))


def _level(report: "Report") -> str:
    return f"{100 * report.protocol.report.confidence:g} %"


def _unit(counts: Iterable[int], scope: str = "") -> str:
    found = sorted(set(counts) - {0})
    if not found:
        return "Unit of inference: episodes of a fixed policy; none here."
    number = f"{found[0]:,}" if len(found) == 1 else f"{found[0]:,} to {found[-1]:,}"
    return f"Unit of inference: episodes of a fixed policy, n = {number}{scope}; not training runs."


def _number(value: float, scale: Scale) -> Entry:
    return Entry(scale(value), value if math.isfinite(value) else None)


def _gap(columns: Sequence[Column]) -> tuple[Entry, ...]:
    """Entries after the name of a policy that has no result."""
    return (Entry("missing"), *(Entry(MISSING) for _ in columns[2:]))


def aggregate_table(report: "Report") -> Table | None:
    """Return the interquartile means over all tasks; None for an ad-hoc evaluation."""
    if report.protocol.ad_hoc:
        return None
    found = {row.policy: row for row in report.aggregates}
    rows, notes, level = list(found.values()), _Footnotes(), _level(report)
    scale = scale_of([row.estimate for row in rows], [(row.high - row.low) / 2 for row in rows])
    columns = (
        Column("Policy", "who plays all agents", numeric=False),
        Column("IQM", "interquartile mean of normalised scores; 0 and 1 are the bounds"),
        Column(f"{level} interval", "percentile interval of the stratified bootstrap"),
        Column("Tasks", "tasks that are averaged"),
        Column("n", "episodes per task"),
    )
    body = [
        _aggregate_row(found[policy], scale, notes)
        if policy in found
        else (Entry(policy, policy), *_gap(columns))
        for policy in policies(report)
    ]
    return Table(
        title=f"Interquartile mean of the normalised {report.protocol.report.score} over all tasks",
        columns=columns,
        groups=(Group("", "", tuple(body)),),
        footnotes=notes.all(),
        unit=_unit((row.episodes for row in rows), " per task"),
    )


def _aggregate_row(row: Aggregate, scale: Scale, notes: _Footnotes) -> tuple[Entry, ...]:
    return (
        Entry(row.policy, row.policy),
        _number(row.estimate, scale),
        _interval(row, scale, notes),
        Entry(f"{row.tasks:,}", row.tasks),
        Entry(f"{row.episodes:,}", row.episodes),
    )


def _interval(row: Aggregate | Estimate, scale: Scale, notes: _Footnotes) -> Entry:
    """An interval, sorted by its width, with the reason why it says less than it seems."""
    flag = row.flag or (SAME if is_point(row.low, row.high) else "")
    return Entry(interval_text(row.low, row.high, scale), _width(row), notes.mark(flag))


def _width(row: Aggregate | Estimate | Comparison) -> float | None:
    width = row.high - row.low
    return width if math.isfinite(width) else None


def task_table(report: "Report", task: "Task") -> Table:
    """Return mean, deviation, interval and count of every metric and policy on one task."""
    from coopbench.metrics import known_metrics

    found = {(row.policy, row.metric): row for row in report.estimates if row.task == task.id}
    notes, meanings, level = _Footnotes(), known_metrics(task.env), _level(report)
    columns = (
        Column("Policy", "who plays all agents", numeric=False),
        Column("Mean", "mean over episodes"),
        Column("SD", "standard deviation over episodes, divisor n - 1"),
        Column(f"{level} interval", "t interval of the mean; sorted by width"),
        Column("n", "episodes in which the metric is defined"),
    )
    groups = []
    for metric in metrics(report):
        rows = [found.get((policy, metric)) for policy in policies(report)]
        scale = _scale([row for row in rows if row is not None], "mean")
        entries = tuple(
            (Entry(policy, policy), *_gap(columns))
            if row is None
            else _estimate_row(row, scale, notes)
            for policy, row in zip(policies(report), rows, strict=True)
        )
        meaning = meanings.get(metric, "")
        if metric == report.protocol.report.score:
            meaning = f"{meaning} (the score)"
        groups.append(Group(metric, meaning, entries))
    unit = _unit(row.count for row in found.values())
    return Table(f"Results on {task.id}", columns, tuple(groups), notes.all(), unit)


def _scale(rows: Sequence[Any], centre: str) -> Scale:
    values = [getattr(row, centre) for row in rows]
    return scale_of(values, [(row.high - row.low) / 2 for row in rows])


def _estimate_row(row: Estimate, scale: Scale, notes: _Footnotes) -> tuple[Entry, ...]:
    return (
        Entry(row.policy, row.policy),
        _number(row.mean, scale),
        _number(row.std, scale),
        _interval(row, scale, notes),
        Entry(f"{row.count:,}", row.count),
    )


def comparison_table(report: "Report", task: "Task") -> Table | None:
    """Return all pairwise comparisons on one task; None if there is none."""
    rows = [row for row in report.comparisons if row.task == task.id]
    if not rows:
        return None
    score, level = report.protocol.report.score, _level(report)
    notes, scale = _Footnotes(), _scale(rows, "difference")
    columns = (
        Column("Comparison", "first vs second", numeric=False),
        Column("Difference", f"mean {score} of the first minus that of the second"),
        Column(f"{level} interval", "of the difference, Welch; sorted by width"),
        Column("t", "Welch's t"),
        Column("df", "degrees of freedom, Welch and Satterthwaite"),
        Column("p", "two-sided, unadjusted"),
        Column("Holm p", "adjusted over all tests of this task"),
        Column("Hedges g", "difference in pooled standard deviations, bias-corrected"),
    )
    alpha = report.protocol.report.alpha
    body = tuple(_comparison_row(row, scale, notes, alpha) for row in rows)
    counts = [row.count for row in report.estimates if (row.task, row.metric) == (task.id, score)]
    return Table(
        title=f"Comparisons of {score} on {task.id}",
        columns=columns,
        groups=(Group("", "", body),),
        footnotes=notes.all(),
        unit=_unit(counts, " each"),
    )


def _comparison_row(
    row: Comparison, scale: Scale, notes: _Footnotes, alpha: float
) -> tuple[Entry, ...]:
    pair = f"{row.first} vs {row.second}"
    untested = math.isnan(row.p_value)
    p = Entry("no test" if untested else p_text(row.p_value), None if untested else row.p_value)
    holm = Entry(p_text(row.p_holm), None if math.isnan(row.p_holm) else row.p_holm)
    return (
        Entry(pair, pair),
        _number(row.difference, scale),
        Entry(interval_text(row.low, row.high, scale), _width(row)),
        _number(row.statistic, Scale(2)),
        _number(row.df, Scale(1)),
        dataclasses.replace(p, marks=notes.mark(row.flag)),
        dataclasses.replace(holm, strong=row.p_holm < alpha),
        _number(row.hedges_g, Scale(2)),
    )


def identity(report: "Report") -> dict[str, str]:
    """Return what the protocol is, as {label: text}."""
    found = report.protocol
    return {
        "Protocol": f"{found.protocol.name}, version {found.protocol.version}",
        "Digest": f"{found.digest[:12]} (SHA-256 {found.digest})",
        "Description": found.protocol.description,
        "Citation": found.protocol.citation or "none given",
    }


def task_facts(report: "Report", task: "Task") -> dict[str, str]:
    """Return what is played in a task, as {label: text}."""
    facts = {
        "Environment": task.env,
        "Parameters": _settings(task.parameters) or "defaults",
        "Episodes": f"{report.protocol.episodes(task):,} per policy",
    }
    if not report.protocol.ad_hoc:
        low, high = (f"{bound:,.10g}" for bound in (task.bounds.low, task.bounds.high))
        facts["Score bounds"] = f"{low} counts as 0, {high} as 1"
    if task.instances is not None:
        facts["Instances"] = f"{task.instances.file} (SHA-256 {task.instances.sha256})"
    return facts


def _settings(parameters: dict[str, Any]) -> str:
    return ", ".join(
        f"{name} = {{{_settings(value)}}}" if isinstance(value, dict) else f"{name} = {value}"
        for name, value in parameters.items()
    )


def provenance(report: "Report") -> dict[str, str]:
    """Return seeds and versions, as {label: text}."""
    from coopbench.store import versions

    seeds = report.protocol.seeds
    first, last = seeds.evaluation.first, seeds.evaluation.first + seeds.evaluation.count - 1
    training = ", ".join(str(seed) for seed in seeds.training)
    return {
        "Evaluation seeds": f"{first} to {last}, one episode each, the same for all policies",
        "Training seeds": training or "none named by the protocol",
        "Versions (of this report)": ", ".join(f"{k} {v}" for k, v in versions().items()),
    }


def reading(report: "Report") -> dict[str, str]:
    """Return how to read the report, as {term: one or two sentences}."""
    found, level = report.protocol.report, _level(report)
    return {
        "Unit of inference": "Intervals and tests are over episodes of policies as they are: they "
        "say how far a number would move with other seeds. They say nothing about how well a "
        "training method would do in another run; for that, the training run is the unit.",
        f"Mean, SD, {level} interval": "Student's t interval of the mean over episodes (Student "
        "1908, Biometrika 6: 1-25). Where all episodes came out equal it has zero width, and no "
        "uncertainty can be inferred.",
        "Normalised score": "The score of an episode mapped so that the bounds that the protocol "
        "fixes for each task become 0 and 1; it does not depend on who else was evaluated.",
        "IQM": "The interquartile mean is the mean of the middle half of all normalised scores; "
        f"its interval is the percentile interval of {found.resamples:,} bootstrap resamples of "
        "the episodes within each task (Agarwal et al. 2021, Deep Reinforcement Learning at the "
        "Edge of the Statistical Precipice, NeurIPS 34).",
        "Welch's t, df, p": "Tests whether two means differ without supposing equal variances "
        "(Welch 1947, Biometrika 34: 28-35). Policies play the same seeds; the test makes no use "
        "of that pairing.",
        "Holm p": "The p value adjusted so that the chance of any false finding among all tests of "
        "one task stays below the level it is compared with (Holm 1979, Scandinavian Journal of "
        f"Statistics 6: 65-70). Those below {found.alpha:g} are set in bold.",
        "Hedges g": "The difference divided by the pooled standard deviation and corrected for the "
        "bias of small samples (Hedges 1981, Journal of Educational Statistics 6: 107-128). It is "
        "huge wherever policies hardly vary, as fixed ones do in deterministic games.",
    }


# --- terminal ------------------------------------------------------------------------------------


def as_text(report: "Report", width: int | None = None) -> str:
    """Return the report as plain text, without escape codes.

    ``width`` is in columns; by default that of the terminal, or 100 where there is none.
    Characters that standard output cannot show are replaced.
    """
    import shutil
    import sys

    from rich.console import Console

    width = width or shutil.get_terminal_size((100, 24)).columns
    console = Console(
        file=io.StringIO(), width=width, color_system=None, force_terminal=False, no_color=True
    )
    show(report, console)
    text = "\n".join(line.rstrip() for line in console.file.getvalue().splitlines())  # type: ignore[attr-defined]
    return _encodable(text, getattr(sys.stdout, "encoding", None) or "utf-8")


def _encodable(text: str, encoding: str) -> str:
    """Replace what an old terminal or a pipe cannot take, so that printing never fails."""
    try:
        text.encode(encoding)
    except UnicodeEncodeError:
        plain = text.replace(MISSING, "--").translate({0x2500: "-", 0x2501: "-"})
        return plain.encode(encoding, "replace").decode(encoding)
    return text


def show(report: "Report", console: Any) -> None:
    """Print the report on a rich console."""
    from rich.text import Text

    def say(text: str, style: str = "") -> None:
        console.print(Text(text, style=style))

    say(report.protocol.name, "bold")
    say(*("Standard report", "green") if report.is_standard else (NOT_STANDARD, "bold yellow"))
    for reason in report.departures:
        say(f"  - {reason}")
    for label, text in identity(report).items():
        say(f"{label}: {text}")
    say("")
    _print_table(aggregate_table(report) or NO_AGGREGATE, console)
    for task in report.protocol.task:
        say("")
        say(task.id, "bold")
        say("; ".join(f"{label}: {text}" for label, text in task_facts(report, task).items()))
        _print_table(task_table(report, task), console)
        say("")
        _print_table(comparison_table(report, task) or NO_COMPARISON, console)
    say("")
    for label, text in provenance(report).items():
        say(f"{label}: {text}")
    for note in report.notes:
        say(f"Note: {note}", "yellow")


def _print_table(table: Table | str, console: Any) -> None:
    """Print a table, or why there is none; a wide one is cut into parts that repeat the names."""
    from rich.text import Text

    if isinstance(table, str):
        console.print(Text(table))
        return
    console.print(Text(table.title, style="italic"))
    longest = max(16, 2 * console.width // 5)  # of a name; a longer one is broken
    for number, part in enumerate(_parts(table, console.width, longest)):
        console.print(*([""] if number else []), _grid(table, part, longest), sep="\n")
    for text in _below(table):
        console.print(Text(text, style="dim"))


def _parts(table: Table, width: int, longest: int) -> list[list[int]]:
    """Indices of the columns, after the first, that fit side by side."""
    rows = [row for group in table.groups for row in group.rows]
    sizes = [
        max([len(column.name), *(len(_marked(row[k])) for row in rows)]) + 2
        for k, column in enumerate(table.columns)
    ]
    head = min(sizes[0], longest) + max(
        [len(group.name) + 2 for group in table.groups if group.name], default=0
    )
    parts: list[list[int]] = [[]]
    for k, size in enumerate(sizes[1:], start=1):
        if parts[-1] and head + sum(sizes[j] for j in parts[-1]) + size > width:
            parts.append([])
        parts[-1].append(k)
    return parts


def _grid(table: Table, part: list[int], longest: int) -> Any:
    from rich import box
    from rich.table import Table as Grid
    from rich.text import Text

    grid = Grid(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False, collapse_padding=True)
    if table.grouped:
        grid.add_column("Metric", overflow="fold")
    grid.add_column(table.columns[0].name, overflow="fold", max_width=longest)
    for k in part:
        grid.add_column(table.columns[k].name, justify="right", no_wrap=True)
    for group in table.groups:
        for number, row in enumerate(group.rows):
            shown = [row[0], *(row[k] for k in part)]
            cells = [Text(_marked(entry), style="bold" if entry.strong else "") for entry in shown]
            head = [Text(group.name if number == 0 else "")] if table.grouped else []
            grid.add_row(*head, *cells, end_section=number == len(group.rows) - 1)
    return grid


def _marked(entry: Entry) -> str:
    return entry.text + "".join(f" ({mark})" for mark in entry.marks)


def _below(table: Table) -> list[str]:
    """Lines under a table: footnotes, meaning of its groups, unit of inference."""
    notes = [f"({letter}) {text}" for letter, text in table.footnotes]
    meanings = [f"{group.name}: {group.meaning}" for group in table.groups if group.name]
    return [*notes, *meanings, table.unit]


# --- Markdown ------------------------------------------------------------------------------------


def as_markdown(report: "Report", pictures: Sequence[Any] = ()) -> str:
    """Return the report as Markdown; ``pictures`` are linked as files of the folder ``plots``."""
    standing = "Standard report." if report.is_standard else "**Not a standard report:**"
    parts = [f"# {_escaped(report.protocol.name)}", standing]
    if report.departures:
        parts.append(_bullets(report.departures))
    parts.append(_facts(identity(report)))
    overall = aggregate_table(report)
    parts += ["## All tasks", *_images(pictures, None)]
    parts.append(_markdown_table(overall) if overall is not None else NO_AGGREGATE)
    for task in report.protocol.task:
        compared = comparison_table(report, task)
        parts += [
            f"## {_escaped(task.id)}",
            _facts(task_facts(report, task)),
            _markdown_table(task_table(report, task)),
            *_images(pictures, task.id),
            _markdown_table(compared) if compared is not None else NO_COMPARISON,
        ]
    parts += ["## How to read it", _facts(reading(report))]
    parts += ["## Seeds and versions", _facts(provenance(report))]
    parts += ["## Notes", _bullets(report.notes or ("none",))]
    return "\n\n".join(parts) + "\n"


def _markdown_table(table: Table) -> str:
    names = (["Metric"] if table.grouped else []) + [column.name for column in table.columns]
    sides = ([":---"] if table.grouped else []) + [
        "---:" if column.numeric else ":---" for column in table.columns
    ]
    lines = [f"**{_escaped(table.title)}**", "", _line(names), _line(sides)]
    for group in table.groups:
        for row in group.rows:
            cells = [_escaped(_marked(entry)) for entry in row]
            cells = [
                f"**{cell}**" if entry.strong else cell
                for cell, entry in zip(cells, row, strict=True)
            ]
            lines.append(_line(([_escaped(group.name)] if table.grouped else []) + cells))
    return "\n".join([*lines, "", _bullets(_below(table))])


def _line(cells: Iterable[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def _escaped(text: str) -> str:
    """Take the meaning of Markdown from the characters of a name."""
    return "".join(f"\\{char}" if char in "\\`*_[]<>|#" else char for char in text)


def _bullets(lines: Iterable[str]) -> str:
    return "\n".join(f"- {_escaped(line)}" for line in lines)


def _facts(facts: dict[str, str]) -> str:
    return "\n".join(f"- **{_escaped(label)}:** {_escaped(text)}" for label, text in facts.items())


def _images(pictures: Sequence[Any], task: str | None) -> list[str]:
    return [
        f"![{_escaped(picture.caption)}](plots/{picture.name}.svg)"
        for picture in pictures
        if picture.task == task
    ]


# --- files for machines --------------------------------------------------------------------------


def as_csv(rows: Iterable[Any], kind: type | None = None) -> str:
    """Return rows as CSV with a header, floats in full precision, an empty field where undefined.

    ``rows`` are dataclass instances of ``kind``, or dictionaries, whose columns are united.
    """
    flat = [row if isinstance(row, dict) else dataclasses.asdict(row) for row in rows]
    names = [field.name for field in dataclasses.fields(kind)] if kind is not None else []
    names = list(dict.fromkeys([*names, *(name for row in flat for name in row)]))
    out = io.StringIO()
    writer = csv.DictWriter(out, names, restval="", lineterminator="\n")
    writer.writeheader()
    writer.writerows(_finite(row) for row in flat)  # None is written as an empty field
    return out.getvalue()


def _finite(row: dict[str, Any]) -> dict[str, Any]:
    return {name: _defined(value) for name, value in row.items()}


def _defined(value: Any) -> Any:
    """None for a float that is not finite, which neither JSON nor most readers of CSV know."""
    return None if isinstance(value, float) and not math.isfinite(value) else value


def as_json(report: "Report") -> str:
    """Return the report as JSON: everything but the single episodes; null where undefined."""
    from coopbench.store import versions

    rows = {
        name: [_finite(dataclasses.asdict(row)) for row in getattr(report, name)]
        for name in ("aggregates", "estimates", "comparisons")
    }
    content = {
        "schema": 1,
        "name": report.protocol.name,
        "digest": report.protocol.digest,
        "standard": report.is_standard,
        "departures": list(report.departures),
        "unit_of_inference": "episodes of a fixed policy",
        "protocol": report.protocol.model_dump(mode="json"),
        **rows,
        "curves": _curves(report),
        "notes": list(report.notes),
        "versions": versions(),
    }
    return json.dumps(content, indent=1, allow_nan=False, ensure_ascii=False) + "\n"


def _curves(report: "Report") -> list[dict[str, Any]]:
    """Course of the protocol's curve metric; value k is after step k, averaged over episodes."""
    metric = report.protocol.report.curve
    return [
        {
            "task": block.cell.task,
            "policy": block.cell.policy,
            "metric": metric,
            "values": [_defined(value) for value in block.curves[metric].tolist()],
        }
        for block in report.episodes
        if metric in block.curves
    ]
