"""Tables of a report: made once as plain data, then written as text, Markdown, CSV or JSON."""

import dataclasses
import io
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from coopbench.analysis import samples as analysis
from coopbench.analysis.aggregates import Aggregate
from coopbench.analysis.comparisons import Comparison
from coopbench.analysis.estimates import AgentEstimate, Estimate
from coopbench.analysis.findings import Findings
from coopbench.analysis.missing_runs import missing_runs
from coopbench.analysis.rankings import Rank
from coopbench.analysis.samples import EPISODES, RUNS
from coopbench.protocol.schema import Protocol
from coopbench.protocol.sections import Task
from coopbench.protocol.user_maps import maps_text
from coopbench.report.numbers import MISSING, Scale, interval_text, is_point, p_text, scale_of

__all__ = [
    "Column",
    "Entry",
    "Footnotes",
    "Group",
    "Table",
    "agent_table",
    "aggregate_table",
    "as_markdown",
    "as_text",
    "bullet_facts",
    "comparison_table",
    "escaped",
    "extra_tables",
    "identity",
    "is_long",
    "markdown_table",
    "metrics",
    "missing_table",
    "model_table",
    "overview_table",
    "policies",
    "print_table",
    "printed",
    "provenance",
    "published_table",
    "reading",
    "show",
    "task_facts",
    "task_table",
    "training_text",
    "unit_text",
    "units",
]

NOT_STANDARD = "NOT A STANDARD REPORT"
NO_AGGREGATE = "No aggregate: an ad-hoc evaluation has no agreed bounds to normalise its score by."
SAME = "all resamples give the same value: a width of zero is not certainty"
LONG = 6  # tasks beyond which a reader needs an overview, and single tasks are folded
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
    kind: str = "Metric"  # what the names of the groups are

    @property
    def grouped(self) -> bool:
        """Whether the groups have names."""
        return any(group.name for group in self.groups)


class Footnotes:
    """Sentences under a table, each once; ``mark`` returns the letter of one."""

    def __init__(self) -> None:
        self._letters: dict[str, str] = {}

    def mark(self, text: str) -> tuple[str, ...]:
        """Return the letter of a sentence, or nothing for an empty one."""
        if not text:
            return ()
        count = len(self._letters)
        letter = chr(97 + count % 26) * (1 + count // 26)
        return (self._letters.setdefault(text, letter),)

    def all(self) -> tuple[tuple[str, str], ...]:
        """Return all pairs (letter, sentence)."""
        return tuple((letter, text) for text, letter in self._letters.items())


def policies(findings: Findings) -> tuple[str, ...]:
    """Return all policies in the order of the report, then required ones that are missing."""
    present = tuple(dict.fromkeys(policy for _, policy in findings.episodes.pairs))
    return (*present, *findings.protocol.missing(present))


def metrics(findings: Findings) -> tuple[str, ...]:
    """Return the metrics that are reported, the score first."""
    reporting = findings.protocol.report
    return tuple(dict.fromkeys((reporting.score, *reporting.metrics)))


def is_long(findings: Findings) -> bool:
    """Whether there are too many tasks to show all of them in full at once."""
    return len(findings.protocol.task) > LONG and not findings.protocol.ad_hoc


def _level(findings: Findings) -> str:
    return f"{100 * findings.protocol.report.confidence:g} %"


def units(findings: Findings) -> dict[str, str]:
    """Return the unit of inference of every policy: "episodes", or "runs" if it was trained."""
    found: dict[str, str] = {}
    for block in findings.episodes:
        unit = EPISODES if block.cell.run is None else RUNS
        found[block.cell.policy] = RUNS if RUNS in (unit, found.get(block.cell.policy)) else unit
    return found


def unit_text(found: Iterable[tuple[str, int]], scope: str = "") -> str:
    """Say over what a table infers; ``found`` are unit and count of its rows."""
    counts: dict[str, set[int]] = {EPISODES: set(), RUNS: set()}
    for unit, count in found:
        counts[unit] |= {count} - {0}
    parts = []
    if counts[EPISODES] or not counts[RUNS]:
        parts.append(f"episodes of a fixed policy{_numbers(counts[EPISODES], scope)}")
    if counts[RUNS]:
        of = "of learned policies training runs" if parts else "training runs"
        parts += [of + _numbers(counts[RUNS], scope), "each is a mean over its evaluation episodes"]
    else:
        parts.append("not training runs")
    return f"Unit of inference: {'; '.join(parts)}."


def _numbers(counts: set[int], scope: str) -> str:
    if not counts:
        return ", none here"
    low, high = min(counts), max(counts)
    return f", n = {low:,}{'' if low == high else f' to {high:,}'}{scope}"


def _told(rows: Iterable[Any]) -> str:
    """Units of some rows in words, for the meaning of a column."""
    there = {row.unit for row in rows}
    names = {EPISODES: "episodes", RUNS: "training runs"}
    return " or ".join(name for unit, name in names.items() if unit in there) or "episodes"


def _count(row: Any, rows: Iterable[Any]) -> Entry:
    """Number of units of a row, with their name where the rows of a table differ in it."""
    mixed = len({each.unit for each in rows}) > 1
    return Entry(f"{row.count:,} {row.unit}" if mixed else f"{row.count:,}", row.count)


def _bounds_text(findings: Findings) -> str:
    """What the normalised scores 0 and 1 are."""
    if findings.protocol.report.normalisation == "minmax":
        return "0 and 1 are the lowest and the highest episode of this report"
    return "0 and 1 are the bounds"


def _number(value: float, scale: Scale) -> Entry:
    return Entry(scale(value), value if math.isfinite(value) else None)


def _gap(columns: Sequence[Column]) -> tuple[Entry, ...]:
    """Entries after the name of a policy that has no result."""
    return (Entry("missing"), *(Entry(MISSING) for _ in columns[2:]))


def aggregate_table(findings: Findings) -> Table | None:
    """Return IQM, optimality gap and rank over all tasks, or those of each group; None if ad hoc.

    Without groups all tasks are one.
    """
    if findings.protocol.ad_hoc:
        return None
    rows, notes = [row for row in findings.aggregates if row.statistic == "iqm"], Footnotes()
    columns = _aggregate_columns(findings, rows)
    groups = [
        Group(name if meaning else "", meaning, _aggregate_rows(findings, name, columns, notes))
        for name, meaning in _groups(findings).items()
    ]
    scope = "the tasks of each group" if len(groups) > 1 else "all tasks"
    return Table(
        title="Interquartile mean, optimality gap and rank by the normalised "
        f"{findings.protocol.report.score} over {scope}",
        columns=columns,
        groups=tuple(groups),
        footnotes=notes.all(),
        unit=unit_text(((row.unit, row.count) for row in rows), " per task")
        + (" Ranks are among policies of one unit." if len({row.unit for row in rows}) > 1 else ""),
        kind="Group",
    )


def _aggregate_columns(findings: Findings, rows: Sequence[Aggregate]) -> tuple[Column, ...]:
    level = _level(findings)
    method = " or ".join(dict.fromkeys(row.method for row in rows)) or "percentile"
    interval = f"of the stratified bootstrap, method {method}; sorted by width"
    return (
        Column("Policy", "who is evaluated", numeric=False),
        Column("IQM", f"interquartile mean of normalised scores; {_bounds_text(findings)}"),
        Column(f"{level} interval", f"of the IQM, {interval}"),
        Column("Optimality gap", "mean shortfall from the normalised score 1; less is better"),
        Column(f"Its {level} interval", interval),
        Column("Rank", f"{level} interval of the rank by IQM, 1 is the best; all hold at once"),
        Column("n", f"{_told(rows)} per task"),
        Column(
            "Acts on",
            "own observations (local), what others in sight do, too (neighbours), the whole state "
            "(global), or none of them",
            numeric=False,
        ),
    )


def _aggregate_rows(
    findings: Findings, group: str, columns: Sequence[Column], notes: Footnotes
) -> tuple[tuple[Entry, ...], ...]:
    """One row for every policy, in the order of the report."""
    iqm, gap = (
        {r.policy: r for r in findings.aggregates if (r.group, r.statistic) == (group, statistic)}
        for statistic in ("iqm", "optimality_gap")
    )
    scales = [_scale(list(found.values()), "estimate") for found in (iqm, gap)]
    ranked = {row.policy: row for row in findings.ranks if row.group == group}
    return tuple(
        (
            Entry(policy, policy),
            *_spread(iqm[policy], scales[0], notes),
            *_spread(gap[policy], scales[1], notes),
            _rank(ranked.get(policy)),
            _count(iqm[policy], findings.aggregates),
            _information(policy),
        )
        if policy in iqm
        else (Entry(policy, policy), *_gap(columns))
        for policy in policies(findings)
    )


def _spread(row: Aggregate, scale: Scale, notes: Footnotes) -> tuple[Entry, Entry]:
    return _number(row.estimate, scale), _interval(row, scale, notes)


def _rank(row: Rank | None) -> Entry:
    """The interval of a rank, sorted by its middle; never a rank alone."""
    if row is None:
        return Entry(MISSING)
    return Entry(f"{row.low:g} to {row.high:g}", (row.low + row.high) / 2.0)


def _groups(findings: Findings) -> dict[str, str]:
    """Groups of the protocol and what to say of them; nothing where there is only one."""
    groups = findings.protocol.groups
    if len(groups) == 1:
        return dict.fromkeys(groups, "")
    return {
        name: f"{len(tasks)} task{'s' if len(tasks) > 1 else ''}" for name, tasks in groups.items()
    }


def overview_table(findings: Findings) -> Table:
    """Return the mean normalised score of every policy that has any, on every task."""
    score, scales = (
        findings.protocol.report.score,
        analysis.score_scales(findings.protocol, findings.episodes),
    )
    found = {(row.task, row.policy): row for row in findings.estimates if row.metric == score}
    names, groups = [name for name in policies(findings) if any(p == name for _, p in found)], []
    for group, meaning in _groups(findings).items():
        body = [
            (
                Entry(task.id, task.id),
                *(_share(scales.get(task.id), found.get((task.id, name))) for name in names),
            )
            for task in findings.protocol.groups[group]
        ]
        groups.append(Group(group if meaning else "", meaning, tuple(body)))
    means = f"mean over {_told(found.values())}; {_bounds_text(findings)}"
    return Table(
        title=f"Mean normalised {score} on every task",
        columns=(
            Column("Task", "what is played", numeric=False),
            *(Column(name, means) for name in names),
        ),
        groups=tuple(groups),
        footnotes=(),
        unit=unit_text(((row.unit, row.count) for row in found.values()), " per task and policy"),
        kind="Group",
    )


def model_table(findings: Findings) -> Table | None:
    """Return the mean over the models of every method that has several; None if there is none."""
    if not findings.models:
        return None
    notes, level, score = Footnotes(), _level(findings), findings.protocol.report.score
    columns = (
        Column("Task", "what is played; below the tasks of a group, all of them", numeric=False),
        Column("Mean", f"mean over models of their mean {score}; of a group, normalised"),
        Column("SD", "standard deviation over models, divisor n - 1"),
        Column(f"{level} interval", "t interval of the mean over models; sorted by width"),
        Column("n", "models, each trained on another task"),
    )
    groups = []
    for name in dict.fromkeys(row.policy for row in findings.models):
        rows = [row for row in findings.models if row.policy == name]
        scale = _scale(rows, "mean")
        body = tuple(
            (Entry(r.task, r.task), *_estimate_row(r, scale, notes, rows)[1:]) for r in rows
        )
        groups.append(Group(name, "", body))
    return Table(
        title=f"{score} of methods with several models, over the models",
        columns=columns,
        groups=tuple(groups),
        footnotes=notes.all(),
        unit="Unit of inference: models of one method, trained on different tasks; not episodes.",
        kind="Method",
    )


def published_table(findings: Findings) -> Table | None:
    """Return the returns normalised as published; None where the protocol does not ask for them."""
    if not findings.published:
        return None
    found: dict[str, dict[str, list[float]]] = {}
    members = {t.id: name for name, tasks in findings.protocol.groups.items() for t in tasks}
    for row in findings.published:
        by_group = found.setdefault(row.policy, {})
        by_group.setdefault(members[row.task], []).append(row.normalised)
    names = tuple(findings.protocol.groups)
    body = tuple(
        (Entry(name, name), *(_pooled(shares.get(group, [])) for group in names))
        for name, shares in found.items()
    )
    return Table(
        title="Normalised return as published",
        columns=(
            Column("Policy", "who is evaluated", numeric=False),
            *(Column(name or "all tasks", "IQM over the tasks it has played") for name in names),
        ),
        groups=(Group("", "", body),),
        footnotes=(),
        unit="Interquartile mean over tasks of (G - min) / (max - min), where G is the mean return "
        "and min and max are over all tasks and policies of this report: adding a policy moves "
        "every value. For comparisons use the score. No interval: a fixed policy has one run.",
    )


def _pooled(shares: Sequence[float]) -> Entry:
    from coopbench.statistics import iqm

    return _number(iqm(shares) if shares else float("nan"), Scale(3))


def missing_table(findings: Findings) -> Table | None:
    """Return the training runs that failed, are missing or partial; None if all are there."""
    runs: dict[tuple[str, ...], list[str]] = {}
    for row in missing_runs(findings.protocol, findings.episodes):
        alike = row.task, row.policy, row.state, row.reason
        runs.setdefault(alike, []).append(str(row.run))
    if not runs:
        return None
    body = tuple(
        tuple(Entry(text, text) for text in (*alike[:3], ", ".join(seeds), alike[3]))
        for alike, seeds in runs.items()
    )
    return Table(
        title="Runs that are missing",
        columns=(
            Column("Task", "what is played", numeric=False),
            Column("Policy", "who was trained", numeric=False),
            Column("State", "failed, missing, or partial: fewer checkpoints", numeric=False),
            Column("Runs", "training seeds", numeric=False),
            Column("What is known", "why, or how far it came", numeric=False),
        ),
        groups=(Group("", "", body),),
        footnotes=(),
        unit="Nothing stands in for them: estimates are over the runs that are there. Partial runs "
        "count with the checkpoints that they have.",
    )


def extra_tables(findings: Findings) -> list[Table]:
    """Return the tables over all tasks that only some reports have."""
    from coopbench.report.plots import learning

    made = (
        missing_table(findings),
        model_table(findings),
        *learning.tables(findings),
        published_table(findings),
    )
    return [table for table in made if table is not None]


def _share(scale: analysis.Scale | None, row: Estimate | None) -> Entry:
    if row is None or scale is None:
        return Entry(MISSING)
    return _number((row.mean - scale.low) / scale.width, Scale(3))


def _information(policy: str) -> Entry:
    """What a registered policy uses; of any other nobody has said it."""
    from coopbench.baselines.registry import entries

    entry = entries().get(policy.partition(":")[0])
    return Entry(entry.information, entry.information) if entry else Entry(MISSING)


def _interval(row: Aggregate | Estimate | AgentEstimate, scale: Scale, notes: Footnotes) -> Entry:
    """An interval, sorted by its width, with the reason why it says less than it seems."""
    flag = row.flag or (SAME if is_point(row.low, row.high) else "")
    return Entry(interval_text(row.low, row.high, scale), _width(row), notes.mark(flag))


def _width(row: Aggregate | Estimate | AgentEstimate | Comparison) -> float | None:
    width = row.high - row.low
    return width if math.isfinite(width) else None


def task_table(findings: Findings, task: Task) -> Table:
    """Return mean, deviation, interval and count of every metric and policy on one task."""
    from coopbench.episodes.metrics import known_metrics

    every = [row for row in findings.estimates if row.task == task.id]
    found = {(row.policy, row.metric): row for row in every}
    notes, meanings, over = Footnotes(), known_metrics(task.env), _told(every)
    columns = (
        Column("Policy", "who plays all agents, or the focal one", numeric=False),
        Column("Mean", f"mean over {over}"),
        Column("SD", f"standard deviation over {over}, divisor n - 1"),
        Column(f"{_level(findings)} interval", "t interval of the mean; sorted by width"),
        Column("n", f"{over} in which the metric is defined"),
    )
    groups = []
    for metric in findings.protocol.metrics_of(task):
        rows = [found.get((policy, metric)) for policy in policies(findings)]
        scale = _scale([row for row in rows if row is not None], "mean")
        entries = tuple(
            (Entry(policy, policy), *_gap(columns))
            if row is None
            else _estimate_row(row, scale, notes, every)
            for policy, row in zip(policies(findings), rows, strict=True)
        )
        meaning = meanings.get(metric, "")
        if metric == findings.protocol.report.score:
            meaning = f"{meaning} (the score)"
        groups.append(Group(metric, meaning, entries))
    unit = unit_text((row.unit, row.count) for row in every)
    return Table(f"Results on {task.id}", columns, tuple(groups), notes.all(), unit)


def _scale(rows: Sequence[Any], centre: str) -> Scale:
    values = [getattr(row, centre) for row in rows]
    return scale_of(values, [(row.high - row.low) / 2 for row in rows])


def _estimate_row(
    row: Estimate, scale: Scale, notes: Footnotes, rows: Sequence[Estimate]
) -> tuple[Entry, ...]:
    """Entries of one estimate; ``rows`` are all of the table."""
    return (
        Entry(row.policy, row.policy),
        _number(row.mean, scale),
        _number(row.std, scale),
        _interval(row, scale, notes),
        _count(row, rows),
    )


def agent_table(findings: Findings, task: Task) -> Table | None:
    """Return return and further metrics of every agent on one task; None if nobody played it."""
    rows = [row for row in findings.agents if row.task == task.id]
    if not rows:
        return None
    found = {(row.policy, row.agent, row.metric): row for row in rows}
    names = tuple(dict.fromkeys(row.metric for row in rows))
    scales = {name: _scale([row for row in rows if row.metric == name], "mean") for name in names}
    notes, columns = Footnotes(), _agent_columns(findings, task, names, _told(rows))
    groups = []
    for policy in policies(findings):
        agents = dict.fromkeys(row.agent for row in rows if row.policy == policy)
        body = tuple(
            _agent_row([found[policy, agent, name] for name in names], scales, notes, rows)
            for agent in agents
        )
        groups.append(Group(policy, "", body or ((Entry("all", "all"), *_gap(columns)),)))
    unit = unit_text((row.unit, row.count) for row in rows if row.metric == names[0])
    return Table(f"Agents of {task.id}", columns, tuple(groups), notes.all(), unit, kind="Policy")


def _agent_columns(
    findings: Findings, task: Task, names: Sequence[str], over: str
) -> tuple[Column, ...]:
    from coopbench.episodes.metrics import known_agent_metrics

    meanings = known_agent_metrics(task.env)
    return (
        Column("Agent", "one seat of the game", numeric=False),
        Column("Mean return", f"mean over {over} in which the policy played the agent"),
        Column(f"{_level(findings)} interval", "t interval of the mean return; sorted by width"),
        Column("n", f"{over} in which the policy played the agent"),
        *(Column(name, f"mean over {over} of: {meanings.get(name, name)}") for name in names[1:]),
    )


def _agent_row(
    found: Sequence[AgentEstimate],
    scales: dict[str, Scale],
    notes: Footnotes,
    rows: Sequence[AgentEstimate],
) -> tuple[Entry, ...]:
    first, *others = found
    return (
        Entry(first.agent, first.agent),
        _number(first.mean, scales[first.metric]),
        _interval(first, scales[first.metric], notes),
        _count(first, rows),
        *(_agent_mean(row, first, scales[row.metric], notes) for row in others),
    )


def _agent_mean(row: AgentEstimate, first: AgentEstimate, scale: Scale, notes: Footnotes) -> Entry:
    """A mean without its interval: marked only where episodes are missing from it."""
    flag = row.flag if row.count < first.count else ""
    return dataclasses.replace(_number(row.mean, scale), marks=notes.mark(flag))


def comparison_table(findings: Findings, task: Task) -> Table | None:
    """Return all pairwise comparisons on one task; None if there is none."""
    rows = [row for row in findings.comparisons if row.task == task.id]
    if not rows:
        return None
    score, alpha = findings.protocol.report.score, findings.protocol.report.alpha
    notes, scale = Footnotes(), _scale(rows, "difference")
    body = [_comparison_row(row, scale, notes, alpha) for row in rows]
    columns, body = _filled(_comparison_columns(findings), body)
    compared = {row.unit for row in rows}
    counts = [
        (row.unit, row.count)
        for row in findings.estimates
        if (row.task, row.metric) == (task.id, score) and row.unit in compared
    ]
    return Table(
        title=f"Comparisons of {score} on {task.id} ({_test(findings)})",
        columns=columns,
        groups=(Group("", "", tuple(body)),),
        footnotes=notes.all(),
        unit=" ".join(filter(None, (unit_text(counts, " each"), _equality(findings)))),
    )


def _filled(
    columns: Sequence[Column], body: Sequence[tuple[Entry, ...]]
) -> tuple[tuple[Column, ...], list[tuple[Entry, ...]]]:
    """Leave out the columns in which no row has anything."""
    kept = [k for k in range(len(columns)) if any(row[k].text != MISSING for row in body)]
    return tuple(columns[k] for k in kept), [tuple(row[k] for k in kept) for row in body]


def _equality(findings: Findings) -> str:
    """When two policies are called equal; nothing where the protocol declares no margin."""
    found = findings.protocol.report
    if found.margin is None:
        return ""
    return (
        f"Equivalence p below {found.alpha:g}: the two differ by less than {found.margin:g} of "
        'normalised score. "No difference" is claimed only through this test.'
    )


def _test(findings: Findings) -> str:
    return "paired t" if findings.protocol.report.comparison == "paired" else "Welch's t"


def _comparison_columns(findings: Findings) -> tuple[Column, ...]:
    score, level = findings.protocol.report.score, _level(findings)
    paired = findings.protocol.report.comparison == "paired"
    test, margin = _test(findings), findings.protocol.report.margin
    equal = f"test that the two differ by less than {margin} of normalised score, adjusted"
    return (
        Column("Comparison", "first vs second", numeric=False),
        Column("Difference", f"mean {score} of the first minus that of the second"),
        Column(f"{level} interval", f"of the difference, {test}; sorted by width"),
        Column("t", "t of the paired differences" if paired else "Welch's t"),
        Column("df", "pairs - 1" if paired else "degrees of freedom, Welch and Satterthwaite"),
        Column("p", "two-sided, unadjusted"),
        Column("Holm p", "adjusted over all tests of this task"),
        Column("Hedges g", "difference in pooled standard deviations, bias-corrected"),
        Column("r", "correlation between scores of the same seed"),
        *([] if margin is None else [Column("Equivalence p", equal)]),
    )


def _comparison_row(
    row: Comparison, scale: Scale, notes: Footnotes, alpha: float
) -> tuple[Entry, ...]:
    """Entries of a comparison; the last is left out where no margin is declared."""
    pair = f"{row.first} vs {row.second}"
    p = Entry("no test") if math.isnan(row.p_value) else _p(row.p_value)
    holm, equal = _p(row.p_holm), _p(row.p_equivalence)
    return (
        Entry(pair, pair),
        _number(row.difference, scale),
        Entry(interval_text(row.low, row.high, scale), _width(row)),
        _number(row.statistic, Scale(2)),
        _number(row.df, Scale(1)),
        dataclasses.replace(p, marks=notes.mark(row.flag)),
        dataclasses.replace(holm, strong=row.p_holm < alpha),
        _number(row.hedges_g, Scale(2)),
        _number(row.correlation, Scale(2)),
        dataclasses.replace(equal, strong=row.p_equivalence < alpha),
    )


def _p(value: float) -> Entry:
    return Entry(p_text(value), None if math.isnan(value) else value)


def identity(findings: Findings) -> dict[str, str]:
    """Return what the protocol is, as {label: text}."""
    found = findings.protocol
    return {
        "Protocol": f"{found.protocol.name}, version {found.protocol.version}",
        "Digest": f"{found.digest[:12]} (SHA-256 {found.digest})",
        "Description": found.protocol.description,
        "Citation": found.protocol.citation or "none given",
        **({"Maps": maps_text(found)} if maps_text(found) else {}),
        **({"Training": training_text(found)} if found.training else {}),
    }


def training_text(protocol: Protocol) -> str:
    """Say in words what learned policies are trained on, and for how long."""
    training = protocol.training
    if training is None:
        return "not fixed by the protocol"
    own, count = training.plays == "own", len(protocol.trained_tasks)
    on = f"one model on each task, which plays {'its own task' if own else 'all tasks'}"
    if count < len(protocol.task):
        on = f"one model on each of {count} tasks, which plays it and those that name it"
    if training.on == "any":
        on = f"one model, on any map but {', '.join(training.held_out)}"
    budgets = "; ".join(
        f"{name.replace('_', '-')} {budget.steps:,} steps, evaluated every {budget.interval:,}"
        for name, budget in training.budgets.items()
    )
    return f"{on}; {training.runs} runs; {budgets}; {training.episodes:,} episodes per evaluation"


def task_facts(findings: Findings, task: Task) -> dict[str, str]:
    """Return what is played in a task, as {label: text}."""
    bounds = not findings.protocol.ad_hoc and findings.protocol.report.normalisation != "minmax"
    facts = {
        "Environment": task.env,
        "Parameters": _settings(task.parameters) or "defaults",
        "Episodes": f"{findings.protocol.episodes(task):,} per policy",
        "Players": _players(task),
    }
    if task.group:
        facts = {"Group": task.group} | facts
    if task.trained_on is not None:
        facts["Learned policies"] = f"those that were trained on {task.trained_on}"
    if bounds:
        low, high = (f"{bound:,.10g}" for bound in (task.bounds.low, task.bounds.high))
        facts["Score bounds"] = f"{low} counts as 0, {high} as 1"
    if task.instances is not None:
        facts["Instances"] = f"{task.instances.file} (SHA-256 {task.instances.sha256})"
    return facts


def _players(task: Task) -> str:
    """Who sits where in a task, in words."""
    if not task.partners:
        return "the policy in all seats (self-play)"
    pools = [
        ", ".join(names) + (f" as {role}" if role else "") for role, names in task.pools.items()
    ]
    return f"the policy in one seat, by turns in each; in the others {'; '.join(pools)}"


def _settings(parameters: dict[str, Any]) -> str:
    return ", ".join(
        f"{name} = {{{_settings(value)}}}" if isinstance(value, dict) else f"{name} = {value}"
        for name, value in parameters.items()
    )


def provenance(findings: Findings) -> dict[str, str]:
    """Return seeds and versions, as {label: text}."""
    from coopbench.provenance import versions

    seeds = findings.protocol.seeds
    first, last = seeds.evaluation.first, seeds.evaluation.first + seeds.evaluation.count - 1
    training = ", ".join(str(seed) for seed in seeds.training)
    return {
        "Evaluation seeds": f"{first} to {last}, one episode each, the same for all policies",
        "Training seeds": training or "none named by the protocol",
        "Results": f"digest {findings.results}" if findings.results else "not kept in a folder",
        "Versions (of this report)": ", ".join(f"{k} {v}" for k, v in versions().items()),
    }


_FOCAL = {
    "Focal seat": "With partners, the policy takes one seat in each episode: seat k mod n "
    "in episode k of n agents. The partners take the other seats, and move on by one whenever the "
    "policy has visited all seats. The metric own_return counts the policy's seat alone. Intervals "
    "include how seats and partners differ.",
}


_WELCH = {
    "Welch's t, df, p": "Tests whether two means differ without supposing equal variances "
    "(Welch 1947, Biometrika 34: 28-35). Policies play the same seeds; the test makes no use "
    "of that pairing.",
}
_PAIRED = {
    "Paired t, df, p, r": "Policies play the same seeds. Tests whether the mean of the differences "
    "between episodes, or training runs, of the same seed is zero (Student 1908, Biometrika 6: "
    "1-25). The higher the correlation r of the two scores over seeds, the more the pairing helps.",
}
_CHARTS = {
    "Charts": "A point is the interquartile mean of a metric over all tasks that stand at that "
    "place of the axis; its band is the interval of the stratified bootstrap. All points stand in "
    "charts.csv.",
}
_AGARWAL = (
    "Agarwal et al. 2021, Deep Reinforcement Learning at the Edge of the Statistical Precipice, "
    "NeurIPS 34"
)


_METHODS = {  # of the bootstrap
    "percentile": "Method percentile: its ends are quantiles of the resampled values.",
    "expanded": "Method expanded: the quantiles are widened for few runs (Hesterberg 2015, The "
    "American Statistician 69: 371-386).",
    "t": "Method t: a t quantile of standard errors to either side, for runs of a single task.",
}


def reading(findings: Findings) -> dict[str, str]:
    """Return how to read the report, as {term: some sentences}."""
    from coopbench.report.plots import learning

    found, over = findings.protocol.report, _told(findings.estimates)
    return {
        **_reading_units(findings),
        f"Mean, SD, {_level(findings)} interval": f"Student's t interval of the mean over {over} "
        "(Student 1908, Biometrika 6: 1-25). Where all came out equal it has zero width, and no "
        "uncertainty can be inferred.",
        **(_FOCAL if any(task.partners for task in findings.protocol.task) else {}),
        "Agents": "An agent is one seat of a game; its numbers are means over the episodes in "
        f"which the policy played it. {_agent_meanings(findings)}",
        **_reading_scores(findings),
        **(_reading_groups(findings) if findings.profiles else {}),
        "Acts on": "What a policy of this package goes by: what it observes itself (local), also "
        "what others in sight do (neighbours), the whole state (global), or nothing (none). "
        "Policies are to be compared with those that know as much.",
        **(_PAIRED if found.comparison == "paired" else _WELCH),
        "Holm p": "The p value adjusted so that the chance of any false finding among all tests of "
        "one task stays below the level it is compared with (Holm 1979, Scandinavian Journal of "
        f"Statistics 6: 65-70). Those below {found.alpha:g} are set in bold.",
        **_reading_equality(findings),
        "Hedges g": "The difference divided by the pooled standard deviation and corrected for the "
        "bias of small samples (Hedges 1981, Journal of Educational Statistics 6: 107-128). It is "
        "huge wherever policies hardly vary, as fixed ones do in deterministic games.",
        **(_CHARTS if findings.charts else {}),
        **learning.reading(findings),
    }


def _reading_units(findings: Findings) -> dict[str, str]:
    there, text = set(units(findings).values()), ""
    if EPISODES in there or not there:
        text = (
            "Of fixed policies, intervals and tests are over episodes of the policies as they are: "
            "they say how far a number would move with other seeds. They say nothing about how "
            "well a training method would do in another run; for that, the training run is the "
            "unit. "
        )
    if RUNS in there:
        text += (
            "Of learned policies every training run counts once, by the mean over its evaluation "
            "episodes: intervals and tests say how far a number would move with other runs. "
        )
    if {EPISODES, RUNS} <= there:
        text += "A fixed policy is compared with runs by its mean over the same episodes."
    return {"Unit of inference": text.strip()}


def _reading_scores(findings: Findings) -> dict[str, str]:
    score, found = "The score mapped so that ", findings.protocol.report
    if found.normalisation == "minmax":
        score += (
            "the lowest and the highest episode of this report on a task become 0 and 1; it moves "
            "whenever a policy is added, and cannot be compared with that of other reports."
        )
    else:
        score += (
            "the bounds that the protocol fixes for each task become 0 and 1; it does not depend "
            "on who else was evaluated."
        )
    methods = {row.method for row in findings.aggregates}
    return {
        "Normalised score": score,
        "IQM": "The interquartile mean is the mean of the middle half of all normalised scores; "
        f"its interval comes from {found.resamples:,} resamples of the "
        f"{_told(findings.aggregates)} within each task ({_AGARWAL}). "
        + " ".join(text for name, text in _METHODS.items() if name in methods),
        "Optimality gap": "How far scores fall short of the normalised score 1 on average: those "
        "above 1 count as 1, those below 0 as they are. Less is better (Agarwal et al. 2021).",
    }


def _reading_groups(findings: Findings) -> dict[str, str]:
    over = _told(findings.aggregates)
    return {
        "Rank": "From the best to the worst place by IQM that a policy may have among those of its "
        "unit of inference: after all that are significantly better, before all that are "
        "significantly worse; the intervals of all policies hold at once (Mogstad et al. 2024, "
        "Review of Economic Studies 91: 476-518). No rank is shown without its interval.",
        "Probability of improvement": "The chance that one policy scores higher than another when "
        f"the task, and one each of their {over}, are drawn at random; a tie counts one half, so "
        "that 0.5 is no difference. It says how often, not by how much. The two are resampled "
        "independently (Agarwal et al. 2021). All pairs of one unit stand in improvements.csv.",
        "Profile": f"The share of the normalised scores of all tasks and {over} that lie above a "
        "threshold: the higher the line, the better; where lines cross, neither policy is better "
        "throughout. Bands hold at each threshold by itself (Agarwal et al. 2021; Dolan and More "
        "2002, Mathematical Programming 91: 201-213). All points stand in profiles.csv.",
    }


def _reading_equality(findings: Findings) -> dict[str, str]:
    margin = findings.protocol.report.margin
    if margin is None:
        text = (
            "The protocol declares no margin within which two policies count as equal, so that "
            "nothing here says that two do not differ: a large p value does not."
        )
    else:
        text = (
            "Two one-sided tests (Schuirmann 1987, Journal of Pharmacokinetics and "
            "Biopharmaceutics 15: 657-680) that two means differ by less than the margin which the "
            f"protocol declares, {margin:g} of normalised score; adjusted like Holm p. "
            '"No difference" is claimed only through this test, never through a large p value.'
        )
    return {"Equivalence": text}


def _agent_meanings(findings: Findings) -> str:
    """What the metrics of agents mean in the games of this report, as sentences."""
    from coopbench.episodes.metrics import known_agent_metrics

    known = {
        k: v for task in findings.protocol.task for k, v in known_agent_metrics(task.env).items()
    }
    return " ".join(f"{name}: {text}." for name, text in known.items())


# --- terminal ------------------------------------------------------------------------------------


def as_text(findings: Findings, width: int | None = None) -> str:
    """Return the report as plain text; see ``printed``."""
    return printed(lambda console: show(findings, console), width)


def printed(show: Callable[[Any], None], width: int | None = None) -> str:
    """Return what ``show`` prints on a rich console as plain text, without escape codes.

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
    show(console)
    text = "\n".join(line.rstrip() for line in console.file.getvalue().splitlines())  # type: ignore[attr-defined]
    return encodable(text, getattr(sys.stdout, "encoding", None) or "utf-8")


def encodable(text: str, encoding: str) -> str:
    """Replace what an old terminal or a pipe cannot take, so that printing never fails."""
    try:
        text.encode(encoding)
    except UnicodeEncodeError:
        plain = text.replace(MISSING, "--").replace("±", "+/-")
        plain = plain.translate({0x2500: "-", 0x2501: "-"})
        return plain.encode(encoding, "replace").decode(encoding)
    return text


def show(findings: Findings, console: Any) -> None:
    """Print the report on a rich console."""
    from rich.text import Text

    def say(text: str, style: str = "") -> None:
        console.print(Text(text, style=style))

    say(findings.protocol.name, "bold")
    say(*("Standard report", "green") if findings.is_standard else (NOT_STANDARD, "bold yellow"))
    for reason in findings.departures:
        say(f"  - {reason}")
    for label, text in identity(findings).items():
        say(f"{label}: {text}")
    say("")
    print_table(aggregate_table(findings) or NO_AGGREGATE, console)
    for table in extra_tables(findings):
        say("")
        print_table(table, console)
    if is_long(findings):
        say("")
        print_table(overview_table(findings), console)
        say("")
        say(f"The files of the saved report show all {len(findings.protocol.task)} tasks in full.")
    for task in () if is_long(findings) else findings.protocol.task:
        say("")
        say(task.id, "bold")
        say("; ".join(f"{label}: {text}" for label, text in task_facts(findings, task).items()))
        print_table(task_table(findings, task), console)
        say("")
        print_table(comparison_table(findings, task) or NO_COMPARISON, console)
    say("")
    for label, text in provenance(findings).items():
        say(f"{label}: {text}")
    for note in findings.notes:
        say(f"Note: {note}", "yellow")


def print_table(table: Table | str, console: Any) -> None:
    """Print a table, or why there is none; a wide one is cut into parts that repeat the names."""
    from rich.text import Text

    if isinstance(table, str):
        console.print(Text(table))
        return
    console.print(Text(table.title, style="italic"))
    longest = max(16, 2 * console.width // 5)  # of a name; a longer one is broken, if need be
    if len(_parts(table, console.width, console.width)) == 1:
        longest = console.width
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
        grid.add_column(table.kind, overflow="fold")
    grid.add_column(table.columns[0].name, overflow="fold", max_width=longest)
    for k in part:
        column = table.columns[k]
        if column.numeric:
            grid.add_column(column.name, justify="right", no_wrap=True)
        else:
            grid.add_column(column.name, overflow="fold")
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
    meanings = [f"{group.name}: {group.meaning}" for group in table.groups if group.meaning]
    return [*notes, *meanings, table.unit]


# --- Markdown ------------------------------------------------------------------------------------


def as_markdown(findings: Findings, pictures: Sequence[Any] = ()) -> str:
    """Return the report as Markdown; ``pictures`` are linked as files of the folder ``plots``."""
    from coopbench.report import card

    standing = "Standard report." if findings.is_standard else "**Not a standard report:**"
    parts = [f"# {escaped(findings.protocol.name)}", standing]
    if findings.departures:
        parts.append(_bullets(findings.departures))
    parts.append(bullet_facts(identity(findings)))
    overall = aggregate_table(findings)
    drawn = [picture for picture in pictures if picture.kind == "chart"]
    others = [picture for picture in pictures if picture.kind != "chart"]
    parts += ["## All tasks", *_images(others, None)]
    parts.append(markdown_table(overall) if overall is not None else NO_AGGREGATE)
    parts += map(markdown_table, extra_tables(findings))
    parts += ["## Charts", *_images(drawn, None)] if drawn else []
    if is_long(findings):
        parts.append(markdown_table(overview_table(findings)))
    for task in findings.protocol.task:
        compared, agents = comparison_table(findings, task), agent_table(findings, task)
        parts += [
            f"## {escaped(task.id)}",
            bullet_facts(task_facts(findings, task)),
            markdown_table(task_table(findings, task)),
            *_images(pictures, task.id),
            markdown_table(compared) if compared is not None else NO_COMPARISON,
            *([markdown_table(agents)] if agents is not None else []),
        ]
    parts += ["## How to read it", bullet_facts(reading(findings)), card.as_markdown(findings)]
    parts += ["## Seeds and versions", bullet_facts(provenance(findings))]
    parts += ["## Notes", _bullets(findings.notes or ("none",))]
    return "\n\n".join(parts) + "\n"


def markdown_table(table: Table) -> str:
    """Return a table as Markdown, with its notes beneath."""
    names = [table.kind] if table.grouped else []
    names += [escaped(column.name) for column in table.columns]
    sides = ([":---"] if table.grouped else []) + [
        "---:" if column.numeric else ":---" for column in table.columns
    ]
    lines = [f"**{escaped(table.title)}**", "", _line(names), _line(sides)]
    for group in table.groups:
        for row in group.rows:
            cells = [escaped(_marked(entry)) for entry in row]
            cells = [
                f"**{cell}**" if entry.strong else cell
                for cell, entry in zip(cells, row, strict=True)
            ]
            lines.append(_line(([escaped(group.name)] if table.grouped else []) + cells))
    return "\n".join([*lines, "", _bullets(_below(table))])


def _line(cells: Iterable[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def escaped(text: str) -> str:
    """Take the meaning of Markdown from the characters of a name."""
    return "".join(f"\\{char}" if char in "\\`*_[]<>|#" else char for char in text)


def _bullets(lines: Iterable[str]) -> str:
    return "\n".join(f"- {escaped(line)}" for line in lines)


def bullet_facts(facts: dict[str, str]) -> str:
    """Return facts as a Markdown list."""
    return "\n".join(f"- **{escaped(label)}:** {escaped(text)}" for label, text in facts.items())


def _images(pictures: Sequence[Any], task: str | None) -> list[str]:
    return [
        f"![{escaped(picture.caption)}](plots/{picture.name}.svg)"
        for picture in pictures
        if picture.task == task
    ]
