"""Tables of a report: made once as plain data, then written as text, Markdown, CSV or JSON."""

import csv
import dataclasses
import io
import json
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from coopbench import maps
from coopbench.analysis import AgentEstimate, Aggregate, Comparison, Estimate
from coopbench.report.formats import MISSING, Scale, interval_text, is_point, p_text, scale_of

if TYPE_CHECKING:
    from coopbench.protocol import Protocol, Task
    from coopbench.report.report import Report

__all__ = [
    "Column",
    "Entry",
    "Footnotes",
    "Group",
    "Table",
    "agent_table",
    "aggregate_table",
    "as_csv",
    "as_json",
    "as_markdown",
    "as_text",
    "bullet_facts",
    "comparison_table",
    "escaped",
    "finite",
    "identity",
    "is_long",
    "markdown_table",
    "metrics",
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


def policies(report: "Report") -> tuple[str, ...]:
    """Return all policies in the order of the report, then required ones that are missing."""
    present = tuple(dict.fromkeys(block.cell.policy for block in report.episodes))
    return (*present, *report.protocol.missing(present))


def metrics(report: "Report") -> tuple[str, ...]:
    """Return the metrics that are reported, the score first."""
    reporting = report.protocol.report
    return tuple(dict.fromkeys((reporting.score, *reporting.metrics)))


def is_long(report: "Report") -> bool:
    """Whether there are too many tasks to show all of them in full at once."""
    return len(report.protocol.task) > LONG and not report.protocol.ad_hoc


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
    """Return the interquartile means over all tasks, or those of each group; None if ad hoc."""
    if report.protocol.ad_hoc:
        return None
    found = {(r.group, r.policy): r for r in report.aggregates if r.statistic == "iqm"}
    rows, notes, level = list(found.values()), Footnotes(), _level(report)
    columns = (
        Column("Policy", "who is evaluated", numeric=False),
        Column("IQM", "interquartile mean of normalised scores; 0 and 1 are the bounds"),
        Column(f"{level} interval", "percentile interval of the stratified bootstrap"),
        Column("Tasks", "tasks that are averaged"),
        Column("n", "episodes per task"),
        Column(
            "Acts on",
            "own observations (local), what others in sight do, too (neighbours), the whole state "
            "(global), or none of them",
            numeric=False,
        ),
    )
    groups = []
    for group, meaning in _groups(report).items():
        scale = _scale([row for row in rows if row.group == group], "estimate")
        body = [
            _aggregate_row(found[group, policy], scale, notes)
            if (group, policy) in found
            else (Entry(policy, policy), *_gap(columns))
            for policy in policies(report)
        ]
        groups.append(Group(group if meaning else "", meaning, tuple(body)))
    scope = "the tasks of each group" if len(groups) > 1 else "all tasks"
    return Table(
        title=f"Interquartile mean of the normalised {report.protocol.report.score} over {scope}",
        columns=columns,
        groups=tuple(groups),
        footnotes=notes.all(),
        unit=_unit((row.count for row in rows), " per task"),
        kind="Group",
    )


def _groups(report: "Report") -> dict[str, str]:
    """Groups of the protocol and what to say of them; nothing where there is only one."""
    groups = report.protocol.groups
    if len(groups) == 1:
        return dict.fromkeys(groups, "")
    return {
        name: f"{len(tasks)} task{'s' if len(tasks) > 1 else ''}" for name, tasks in groups.items()
    }


def overview_table(report: "Report") -> Table:
    """Return the mean normalised score of every policy that has any, on every task."""
    found = {
        (row.task, row.policy): row
        for row in report.estimates
        if row.metric == report.protocol.report.score
    }
    names, groups = [name for name in policies(report) if any(p == name for _, p in found)], []
    for group, meaning in _groups(report).items():
        body = [
            (Entry(task.id, task.id), *(_share(task, found.get((task.id, name))) for name in names))
            for task in report.protocol.groups[group]
        ]
        groups.append(Group(group if meaning else "", meaning, tuple(body)))
    return Table(
        title=f"Mean normalised {report.protocol.report.score} on every task",
        columns=(
            Column("Task", "what is played", numeric=False),
            *(Column(name, "mean over episodes; 0 and 1 are the task's bounds") for name in names),
        ),
        groups=tuple(groups),
        footnotes=(),
        unit=_unit((row.count for row in found.values()), " per task and policy"),
        kind="Group",
    )


def model_table(report: "Report") -> Table | None:
    """Return the mean over the models of every method that has several; None if there is none."""
    if not report.models:
        return None
    notes, level, score = Footnotes(), _level(report), report.protocol.report.score
    columns = (
        Column("Task", "what is played; below the tasks of a group, all of them", numeric=False),
        Column("Mean", f"mean over models of their mean {score}; of a group, normalised"),
        Column("SD", "standard deviation over models, divisor n - 1"),
        Column(f"{level} interval", "t interval of the mean over models; sorted by width"),
        Column("n", "models, each trained on another task"),
    )
    groups = []
    for name in dict.fromkeys(row.policy for row in report.models):
        rows = [row for row in report.models if row.policy == name]
        scale = _scale(rows, "mean")
        body = tuple((Entry(r.task, r.task), *_estimate_row(r, scale, notes)[1:]) for r in rows)
        groups.append(Group(name, "", body))
    return Table(
        title=f"{score} of methods with several models, over the models",
        columns=columns,
        groups=tuple(groups),
        footnotes=notes.all(),
        unit="Unit of inference: models of one method, trained on different tasks; not episodes.",
        kind="Method",
    )


def published_table(report: "Report") -> Table | None:
    """Return the returns normalised as published; None where the protocol does not ask for them."""
    if not report.published:
        return None
    found: dict[str, dict[str, list[float]]] = {}
    members = {t.id: name for name, tasks in report.protocol.groups.items() for t in tasks}
    for row in report.published:
        by_group = found.setdefault(row.policy, {})
        by_group.setdefault(members[row.task], []).append(row.normalised)
    names = tuple(report.protocol.groups)
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


def _extra(report: "Report") -> list[Table]:
    """Tables over all tasks that only some protocols have."""
    return [table for table in (model_table(report), published_table(report)) if table is not None]


def _share(task: "Task", row: Estimate | None) -> Entry:
    if row is None:
        return Entry(MISSING)
    return _number((row.mean - task.bounds.low) / (task.bounds.high - task.bounds.low), Scale(3))


def _aggregate_row(row: Aggregate, scale: Scale, notes: Footnotes) -> tuple[Entry, ...]:
    return (
        Entry(row.policy, row.policy),
        _number(row.estimate, scale),
        _interval(row, scale, notes),
        Entry(f"{row.tasks:,}", row.tasks),
        Entry(f"{row.count:,}", row.count),
        _information(row.policy),
    )


def _information(policy: str) -> Entry:
    """What a registered policy uses; of any other nobody has said it."""
    from coopbench.baselines.policy import entries

    entry = entries().get(policy.partition(":")[0])
    return Entry(entry.information, entry.information) if entry else Entry(MISSING)


def _interval(row: Aggregate | Estimate | AgentEstimate, scale: Scale, notes: Footnotes) -> Entry:
    """An interval, sorted by its width, with the reason why it says less than it seems."""
    flag = row.flag or (SAME if is_point(row.low, row.high) else "")
    return Entry(interval_text(row.low, row.high, scale), _width(row), notes.mark(flag))


def _width(row: Aggregate | Estimate | AgentEstimate | Comparison) -> float | None:
    width = row.high - row.low
    return width if math.isfinite(width) else None


def task_table(report: "Report", task: "Task") -> Table:
    """Return mean, deviation, interval and count of every metric and policy on one task."""
    from coopbench.metrics import known_metrics

    found = {(row.policy, row.metric): row for row in report.estimates if row.task == task.id}
    notes, meanings, level = Footnotes(), known_metrics(task.env), _level(report)
    columns = (
        Column("Policy", "who plays all agents, or the focal one", numeric=False),
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


def _estimate_row(row: Estimate, scale: Scale, notes: Footnotes) -> tuple[Entry, ...]:
    return (
        Entry(row.policy, row.policy),
        _number(row.mean, scale),
        _number(row.std, scale),
        _interval(row, scale, notes),
        Entry(f"{row.count:,}", row.count),
    )


def agent_table(report: "Report", task: "Task") -> Table | None:
    """Return return and further metrics of every agent on one task; None if nobody played it."""
    rows = [row for row in report.agents if row.task == task.id]
    if not rows:
        return None
    found = {(row.policy, row.agent, row.metric): row for row in rows}
    names = tuple(dict.fromkeys(row.metric for row in rows))
    scales = {name: _scale([row for row in rows if row.metric == name], "mean") for name in names}
    notes, columns = Footnotes(), _agent_columns(report, task, names)
    groups = []
    for policy in policies(report):
        agents = dict.fromkeys(row.agent for row in rows if row.policy == policy)
        body = tuple(
            _agent_row([found[policy, agent, name] for name in names], scales, notes)
            for agent in agents
        )
        groups.append(Group(policy, "", body or ((Entry("all", "all"), *_gap(columns)),)))
    unit = _unit(row.count for row in rows if row.metric == names[0])
    return Table(f"Agents of {task.id}", columns, tuple(groups), notes.all(), unit, kind="Policy")


def _agent_columns(report: "Report", task: "Task", names: Sequence[str]) -> tuple[Column, ...]:
    from coopbench.metrics import known_agent_metrics

    meanings = known_agent_metrics(task.env)
    return (
        Column("Agent", "one seat of the game", numeric=False),
        Column("Mean return", "mean over episodes in which the policy played the agent"),
        Column(f"{_level(report)} interval", "t interval of the mean return; sorted by width"),
        Column("n", "episodes in which the policy played the agent"),
        *(Column(name, f"mean over episodes of: {meanings.get(name, name)}") for name in names[1:]),
    )


def _agent_row(
    found: Sequence[AgentEstimate], scales: dict[str, Scale], notes: Footnotes
) -> tuple[Entry, ...]:
    first, *others = found
    return (
        Entry(first.agent, first.agent),
        _number(first.mean, scales[first.metric]),
        _interval(first, scales[first.metric], notes),
        Entry(f"{first.count:,}", first.count),
        *(_agent_mean(row, first, scales[row.metric], notes) for row in others),
    )


def _agent_mean(row: AgentEstimate, first: AgentEstimate, scale: Scale, notes: Footnotes) -> Entry:
    """A mean without its interval: marked only where episodes are missing from it."""
    flag = row.flag if row.count < first.count else ""
    return dataclasses.replace(_number(row.mean, scale), marks=notes.mark(flag))


def comparison_table(report: "Report", task: "Task") -> Table | None:
    """Return all pairwise comparisons on one task; None if there is none."""
    rows = [row for row in report.comparisons if row.task == task.id]
    if not rows:
        return None
    score, level = report.protocol.report.score, _level(report)
    notes, scale = Footnotes(), _scale(rows, "difference")
    paired = report.protocol.report.comparison == "paired"
    test = "paired t" if paired else "Welch"
    columns = (
        Column("Comparison", "first vs second", numeric=False),
        Column("Difference", f"mean {score} of the first minus that of the second"),
        Column(f"{level} interval", f"of the difference, {test}; sorted by width"),
        Column("t", "t of the paired differences" if paired else "Welch's t"),
        Column("df", "pairs - 1" if paired else "degrees of freedom, Welch and Satterthwaite"),
        Column("p", "two-sided, unadjusted"),
        Column("Holm p", "adjusted over all tests of this task"),
        Column("Hedges g", "difference in pooled standard deviations, bias-corrected"),
        *([Column("r", "correlation between scores of the same seed")] if paired else []),
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
    row: Comparison, scale: Scale, notes: Footnotes, alpha: float
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
        *([_number(row.correlation, Scale(2))] if row.method == "paired" else []),
    )


def identity(report: "Report") -> dict[str, str]:
    """Return what the protocol is, as {label: text}."""
    found = report.protocol
    return {
        "Protocol": f"{found.protocol.name}, version {found.protocol.version}",
        "Digest": f"{found.digest[:12]} (SHA-256 {found.digest})",
        "Description": found.protocol.description,
        "Citation": found.protocol.citation or "none given",
        **({"Maps": maps.told(found)} if maps.told(found) else {}),
        **({"Training": training_text(found)} if found.training else {}),
    }


def training_text(protocol: "Protocol") -> str:
    """Say in words what learned policies are trained on, and for how long."""
    training = protocol.training
    if training is None:
        return "not fixed by the protocol"
    on = "one model on each task, which plays "
    on += "its own task" if training.plays == "own" else "all tasks"
    if training.on == "any":
        on = f"one model, on any map but {', '.join(training.held_out)}"
    budgets = "; ".join(
        f"{name.replace('_', '-')} {budget.steps:,} steps, evaluated every {budget.interval:,}"
        for name, budget in training.budgets.items()
    )
    return f"{on}; {training.runs} runs; {budgets}; {training.episodes:,} episodes per evaluation"


def task_facts(report: "Report", task: "Task") -> dict[str, str]:
    """Return what is played in a task, as {label: text}."""
    facts = {
        "Environment": task.env,
        "Parameters": _settings(task.parameters) or "defaults",
        "Episodes": f"{report.protocol.episodes(task):,} per policy",
        "Players": _players(task),
    }
    if task.group:
        facts = {"Group": task.group} | facts
    if not report.protocol.ad_hoc:
        low, high = (f"{bound:,.10g}" for bound in (task.bounds.low, task.bounds.high))
        facts["Score bounds"] = f"{low} counts as 0, {high} as 1"
    if task.instances is not None:
        facts["Instances"] = f"{task.instances.file} (SHA-256 {task.instances.sha256})"
    return facts


def _players(task: "Task") -> str:
    """Who sits where in a task, in words."""
    if not task.partners:
        return "the policy in all seats (self-play)"
    return f"the policy in one seat, by turns in each; in the others {', '.join(task.partners)}"


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
    "between episodes of the same seed is zero (Student 1908, Biometrika 6: 1-25). The higher the "
    "correlation r of the two scores over seeds, the more the pairing helps.",
}
_CHARTS = {
    "Charts": "A point is the interquartile mean of a metric over the episodes of all tasks that "
    "stand at that place of the axis; its band is the percentile interval of the stratified "
    "bootstrap. All points stand in charts.csv.",
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
        **(_FOCAL if any(task.partners for task in report.protocol.task) else {}),
        "Agents": "An agent is one seat of a game; its numbers are means over the episodes in "
        f"which the policy played it. {_agent_meanings(report)}",
        "Normalised score": "The score of an episode mapped so that the bounds that the protocol "
        "fixes for each task become 0 and 1; it does not depend on who else was evaluated.",
        "IQM": "The interquartile mean is the mean of the middle half of all normalised scores; "
        f"its interval is the percentile interval of {found.resamples:,} bootstrap resamples of "
        "the episodes within each task (Agarwal et al. 2021, Deep Reinforcement Learning at the "
        "Edge of the Statistical Precipice, NeurIPS 34).",
        "Acts on": "What a policy of this package goes by: what it observes itself (local), also "
        "what others in sight do (neighbours), the whole state (global), or nothing (none). "
        "Policies are to be compared with those that know as much.",
        **(_PAIRED if found.comparison == "paired" else _WELCH),
        "Holm p": "The p value adjusted so that the chance of any false finding among all tests of "
        "one task stays below the level it is compared with (Holm 1979, Scandinavian Journal of "
        f"Statistics 6: 65-70). Those below {found.alpha:g} are set in bold.",
        "Hedges g": "The difference divided by the pooled standard deviation and corrected for the "
        "bias of small samples (Hedges 1981, Journal of Educational Statistics 6: 107-128). It is "
        "huge wherever policies hardly vary, as fixed ones do in deterministic games.",
        **(_CHARTS if report.charts else {}),
    }


def _agent_meanings(report: "Report") -> str:
    """What the metrics of agents mean in the games of this report, as sentences."""
    from coopbench.metrics import known_agent_metrics

    known = {
        k: v for task in report.protocol.task for k, v in known_agent_metrics(task.env).items()
    }
    return " ".join(f"{name}: {text}." for name, text in known.items())


# --- terminal ------------------------------------------------------------------------------------


def as_text(report: "Report", width: int | None = None) -> str:
    """Return the report as plain text; see ``printed``."""
    return printed(lambda console: show(report, console), width)


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
    print_table(aggregate_table(report) or NO_AGGREGATE, console)
    for table in _extra(report):
        say("")
        print_table(table, console)
    if is_long(report):
        say("")
        print_table(overview_table(report), console)
        say("")
        say(f"The files of the saved report show all {len(report.protocol.task)} tasks in full.")
    for task in () if is_long(report) else report.protocol.task:
        say("")
        say(task.id, "bold")
        say("; ".join(f"{label}: {text}" for label, text in task_facts(report, task).items()))
        print_table(task_table(report, task), console)
        say("")
        print_table(comparison_table(report, task) or NO_COMPARISON, console)
    say("")
    for label, text in provenance(report).items():
        say(f"{label}: {text}")
    for note in report.notes:
        say(f"Note: {note}", "yellow")


def print_table(table: Table | str, console: Any) -> None:
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
        grid.add_column(table.kind, overflow="fold")
    grid.add_column(table.columns[0].name, overflow="fold", max_width=longest)
    for k in part:
        column = table.columns[k]
        grid.add_column(column.name, justify="right" if column.numeric else "left", no_wrap=True)
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


def as_markdown(report: "Report", pictures: Sequence[Any] = ()) -> str:
    """Return the report as Markdown; ``pictures`` are linked as files of the folder ``plots``."""
    standing = "Standard report." if report.is_standard else "**Not a standard report:**"
    parts = [f"# {escaped(report.protocol.name)}", standing]
    if report.departures:
        parts.append(_bullets(report.departures))
    parts.append(bullet_facts(identity(report)))
    overall = aggregate_table(report)
    drawn = [picture for picture in pictures if picture.kind == "chart"]
    others = [picture for picture in pictures if picture.kind != "chart"]
    parts += ["## All tasks", *_images(others, None)]
    parts.append(markdown_table(overall) if overall is not None else NO_AGGREGATE)
    parts += map(markdown_table, _extra(report))
    parts += ["## Charts", *_images(drawn, None)] if drawn else []
    if is_long(report):
        parts.append(markdown_table(overview_table(report)))
    for task in report.protocol.task:
        compared, agents = comparison_table(report, task), agent_table(report, task)
        parts += [
            f"## {escaped(task.id)}",
            bullet_facts(task_facts(report, task)),
            markdown_table(task_table(report, task)),
            *_images(pictures, task.id),
            markdown_table(compared) if compared is not None else NO_COMPARISON,
            *([markdown_table(agents)] if agents is not None else []),
        ]
    parts += ["## How to read it", bullet_facts(reading(report))]
    parts += ["## Seeds and versions", bullet_facts(provenance(report))]
    parts += ["## Notes", _bullets(report.notes or ("none",))]
    return "\n\n".join(parts) + "\n"


def markdown_table(table: Table) -> str:
    """Return a table as Markdown, with its notes beneath."""
    names = ([table.kind] if table.grouped else []) + [column.name for column in table.columns]
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
    writer.writerows(finite(row) for row in flat)  # None is written as an empty field
    return out.getvalue()


def finite(row: dict[str, Any]) -> dict[str, Any]:
    """Return a row with None for every number that is not finite."""
    return {name: _defined(value) for name, value in row.items()}


def _defined(value: Any) -> Any:
    """None for a float that is not finite, which neither JSON nor most readers of CSV know."""
    return None if isinstance(value, float) and not math.isfinite(value) else value


_ROWS = ("aggregates", "estimates", "comparisons", "agents", "charts", "models", "published")


def as_json(report: "Report") -> str:
    """Return the report as JSON: everything but the single episodes; null where undefined."""
    from coopbench.store import versions

    rows = {
        name: [finite(dataclasses.asdict(row)) for row in getattr(report, name)] for name in _ROWS
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
