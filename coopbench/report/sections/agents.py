"""Agents: what each seat of a game earns, as a table below those of every task."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace

import numpy as np

from coopbench.analysis.estimates import two_way_estimates
from coopbench.analysis.findings import Findings, Part
from coopbench.analysis.rows import ReportRow
from coopbench.analysis.score_matrix import EPISODES, score_matrix
from coopbench.episodes.metrics import agent_values, known_agent_metrics
from coopbench.episodes.table import EpisodeTable
from coopbench.protocol.schema import Protocol
from coopbench.protocol.task import Task
from coopbench.report.blocks import Details
from coopbench.report.numbers import Scale, level_text, scale_of_rows
from coopbench.report.section import ReportSection
from coopbench.report.tables.entries import (
    count_entry,
    interval_entry,
    missing_entries,
    number_entry,
    policy_text,
    unit_names,
    unit_text,
)
from coopbench.report.tables.model import Column, Entry, Footnotes, Group, Table

READING = """
Agents: An agent is one seat of a game; its numbers are means over the episodes in which the
policy played it.
{% for name, meaning in agent_metrics.items() %}
{{ name }}: {{ meaning }}.
{% endfor %}
"""


@dataclass(frozen=True, eq=False)
class AgentEstimate(ReportRow):
    """Mean of one metric of one agent over the units in which a policy played that agent."""

    task: str
    policy: str
    agent: str
    metric: str
    count: int  # the rest as in Estimate
    mean: float
    std: float
    low: float
    high: float
    flag: str
    unit: str = EPISODES
    episodes: int = 0
    std_episodes: float = math.nan


# Fields of an estimate that one of an agent has, too.
_OF_AGENTS = tuple(field.name for field in fields(AgentEstimate) if field.name != "agent")


def agent_estimates(protocol: Protocol, table: EpisodeTable) -> tuple[AgentEstimate, ...]:
    """Estimate the return and every further metric of each agent for every policy and task.

    Files of other programs say nothing of single agents.
    """
    rows, confidence = list[AgentEstimate](), protocol.report.confidence
    if table.own_episodes:
        return ()
    by_id = {task.id: task for task in protocol.task}
    without = replace(table, failures=())  # a failed run has no agents
    for task, policy in table.pairs:
        blocks = table.runs(task, policy)
        whole = score_matrix(protocol, without, by_id[task], policy, "return")
        if whole is None or whole.note:  # runs with other seeds: there is no common episode table
            continue
        if not np.isfinite(whole.values).any():  # shipped scores say nothing of single agents
            continue
        for seat, agent in enumerate(blocks[0].agents):
            played = np.flatnonzero(blocks[0].seats[:, seat])
            metrics, matrices = ("return", *blocks[0].agent_metrics), []
            for metric in metrics:
                taken = np.array(
                    [
                        np.where(b.seats[:, seat], agent_values(b, metric)[:, seat], np.nan)
                        for b in blocks
                    ]
                )
                values = replace(whole, values=taken[0] if whole.fixed else taken)
                matrices.append(values.on(played))
            for row in map(vars, two_way_estimates(task, metrics, matrices, confidence)):
                parts = {name: row[name] for name in _OF_AGENTS}
                rows.append(AgentEstimate(agent=agent, **parts))
    return tuple(rows)


def agent_table(findings: Findings, task: Task) -> Table | None:
    """Return return and further metrics of every agent on one task; None if no policy played it."""
    rows = [row for row in findings.rows(AGENTS) if row.task == task.id]
    if not rows:
        return None
    by_metric = {(row.policy, row.agent, row.metric): row for row in rows}
    names = tuple(dict.fromkeys(row.metric for row in rows))
    scales = {
        name: scale_of_rows([row for row in rows if row.metric == name], "mean") for name in names
    }
    notes, columns = Footnotes(), _agent_columns(findings, task, names, unit_names(rows))
    groups = []
    for policy in findings.policies:
        agents = dict.fromkeys(row.agent for row in rows if row.policy == policy)
        body = tuple(
            _agent_row([by_metric[policy, agent, name] for name in names], scales, notes, rows)
            for agent in agents
        )
        groups.append(
            Group(
                policy_text(findings, policy),
                "",
                body or ((Entry("all", "all"), *missing_entries(columns)),),
            )
        )
    unit = unit_text((row.unit, row.count) for row in rows if row.metric == names[0])
    return Table(f"Agents of {task.id}", columns, tuple(groups), unit, notes.all(), "Policy")


def _agent_columns(
    findings: Findings, task: Task, names: Sequence[str], over: str
) -> tuple[Column, ...]:
    meanings = known_agent_metrics(task.spec)
    return (
        Column("Agent", "one seat of the game", numeric=False),
        Column("Mean return", f"mean over {over} in which the policy played the agent"),
        Column(
            f"{level_text(findings.protocol)} interval",
            "of the mean return, for new runs and new episodes; sorted by width",
        ),
        Column("n", f"{over} in which the policy played the agent"),
        *(Column(name, f"mean over {over} of: {meanings.get(name, name)}") for name in names[1:]),
    )


def _agent_row(
    estimates: Sequence[AgentEstimate],
    scales: dict[str, Scale],
    notes: Footnotes,
    rows: Sequence[AgentEstimate],
) -> tuple[Entry, ...]:
    """Return the entries of one agent from its estimates, the return first."""
    first, *others = estimates
    return (
        Entry(first.agent, first.agent),
        number_entry(first.mean, scales[first.metric]),
        interval_entry(first, scales[first.metric], notes),
        count_entry(first, rows),
        *(_agent_mean(row, first, scales[row.metric], notes) for row in others),
    )


def _agent_mean(row: AgentEstimate, first: AgentEstimate, scale: Scale, notes: Footnotes) -> Entry:
    """Return a mean without its interval, marked only where episodes are missing from it."""
    flag = row.flag if row.count < first.count else ""
    return replace(number_entry(row.mean, scale), marks=notes.mark(flag))


def of_task(findings: Findings, task: Task) -> Details | None:
    """Return the folded table of a task; None if no policy played it."""
    table = agent_table(findings, task)
    return None if table is None else Details("By agent", (table,))


AGENTS = Part("agents", agent_estimates)
SECTION = ReportSection((AGENTS,), of_task=of_task, reading=READING)
