"""Parameter sensitivity: how much scores depend on the parameters of a game."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

from coopbench.analysis.findings import Findings, Part
from coopbench.analysis.rows import ReportRow
from coopbench.analysis.score_matrix import units_of
from coopbench.episodes.grouping import grouped
from coopbench.episodes.table import EpisodeTable
from coopbench.protocol.schema import Protocol
from coopbench.report.numbers import Scale, scale_of_rows
from coopbench.report.section import ReportSection
from coopbench.report.tables.entries import Field, table_of
from coopbench.report.tables.model import Table
from coopbench.statistics.scores import mean_of_defined


@dataclass(frozen=True, eq=False)
class Sensitivity(ReportRow):
    """How much the mean score of a policy depends on the parameters of a game."""

    task: str  # with the parameters of the protocol's own task
    policy: str
    base: float  # mean score there
    low: float  # lowest and highest mean score, over this task and those that vary it
    high: float
    variants: int  # tasks that vary it
    sensitivity: float  # (high - low) / |base|; nan where the base is 0


def _variants(protocol: Protocol) -> dict[str, list[str]]:
    """Return the tasks that vary the parameters of others, by the id of these."""
    return grouped((task.varies, task.id) for task in protocol.task if task.varies is not None)


def asked(protocol: Protocol) -> Mapping[str, str]:
    """Name the tasks that others vary."""
    names = ", ".join(f"`{name}`" for name in _variants(protocol))
    return {"Parameter sensitivity": f"of {names}"} if names else {}


def sensitivities(protocol: Protocol, table: EpisodeTable) -> tuple[Sensitivity, ...]:
    """Return how much the mean score of each policy varies with the parameters of a game.

    Only where tasks of the protocol vary the parameters of others.
    """
    rows = (
        _row(protocol, table, base, variants, policy)
        for base, variants in _variants(protocol).items()
        for policy in table.policies
    )
    return tuple(row for row in rows if row is not None)


def _row(
    protocol: Protocol, table: EpisodeTable, base: str, variants: list[str], policy: str
) -> Sensitivity | None:
    """Return the sensitivity of one policy; None where it has not played all of the tasks."""
    tasks = [protocol.task_of(name) for name in (base, *variants)]
    samples = [units_of(protocol, table, task, policy, protocol.report.score) for task in tasks]
    if not all(len(values) for values in samples):
        return None
    means = [mean_of_defined(values) for values in samples]
    width = max(means) - min(means)
    share = width / abs(means[0]) if means[0] else math.nan
    return Sensitivity(base, policy, means[0], min(means), max(means), len(variants), share)


def sensitivity_table(findings: Findings) -> Table | None:
    """Return how much scores depend on parameters of the games; None where nothing varies them."""
    rows, score = findings.rows(SENSITIVITY), findings.protocol.report.score
    scale = scale_of_rows(rows, "base")
    fields = {
        "policy": Field("Policy", "who is evaluated"),
        "base": Field("Base", f"mean {score} with the task's parameters", scale),
        "low": Field("Lowest", "mean over this task and those that vary its parameters", scale),
        "high": Field("Highest", "the same", scale),
        "sensitivity": Field(
            "Sensitivity", "highest minus lowest, as a share of the base", Scale(3)
        ),
        "variants": Field("Variants", "tasks that vary its parameters", Scale(0)),
    }
    unit = (
        "Learned policies were trained with the task's own parameters. No intervals: those of the "
        "means are in the tables of the tasks."
    )
    return table_of(rows, fields, "Parameter sensitivity", unit, by="task")


SENSITIVITY = Part("sensitivity", sensitivities, rare=True)
SECTION = ReportSection((SENSITIVITY,), {"overall": sensitivity_table}, asked=asked)
