"""The overview: the mean normalized score of every policy on every task."""

from coopbench.analysis.estimates import Estimate
from coopbench.analysis.findings import Findings
from coopbench.analysis.score_matrix import Scale as ScoreScale
from coopbench.analysis.score_matrix import score_scales
from coopbench.report.numbers import (
    MISSING,
    Scale,
)
from coopbench.report.tables.entries import (
    bounds_text,
    group_meanings,
    number_entry,
    played_tasks,
    policy_text,
    unit_names,
    unit_text,
)
from coopbench.report.tables.model import Column, Entry, Group, Table


def overview_table(findings: Findings) -> Table:
    """Return the mean normalized score of every policy that has any, on every played task."""
    score, played = findings.protocol.report.score, played_tasks(findings)
    scales = score_scales(findings.protocol, findings.episodes)
    rows = {(row.task, row.policy): row for row in findings.estimates if row.metric == score}
    names = [name for name in findings.policies if any(policy == name for _, policy in rows)]
    groups = []
    for group, meaning in group_meanings(findings.protocol).items():
        body = [
            (
                Entry(task.id, task.id),
                *(_share(scales.get(task.id), rows.get((task.id, name))) for name in names),
            )
            for task in findings.protocol.groups[group]
            if task in played
        ]
        if body:
            whole = len(body) == len(findings.protocol.groups[group])
            size = meaning if whole else f"{len(body)} of {meaning or len(findings.protocol.task)}"
            groups.append(Group(group if meaning else "", size, tuple(body)))
    means = f"mean over {unit_names(rows.values())}; {bounds_text(findings)}"
    return Table(
        title=f"Mean normalized {score} on every task",
        columns=(
            Column("Task", "what is played", numeric=False),
            *(Column(policy_text(findings, name), means) for name in names),
        ),
        groups=tuple(groups),
        footnotes=(),
        unit=unit_text(((row.unit, row.count) for row in rows.values()), " per task and policy"),
        kind="Group",
        matrix=True,
    )


def _share(scale: ScoreScale | None, row: Estimate | None) -> Entry:
    """Return a mean as normalized score; a dash where the policy has not played the task."""
    if row is None or scale is None:
        return Entry(MISSING)
    return number_entry((row.mean - scale.low) / scale.width, Scale(3))
