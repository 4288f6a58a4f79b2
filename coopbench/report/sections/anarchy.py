"""Price of anarchy: what selfish play costs in a step of the published games."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from coopbench import theory
from coopbench.analysis.findings import Findings, Part
from coopbench.analysis.rows import ReportRow
from coopbench.episodes.table import EpisodeTable
from coopbench.protocol.schema import Protocol
from coopbench.protocol.task import Task
from coopbench.report.numbers import Scale
from coopbench.report.section import ReportSection
from coopbench.report.tables.entries import Field, table_of
from coopbench.report.tables.model import Table
from coopbench_envs.choices import LEVELS, without_levels
from coopbench_envs.foreign_names import is_foreign
from coopbench_envs.registration import spec

_SOURCE = "Coopetition-Gym"  # of the published games


@dataclass(frozen=True, eq=False)
class Anarchy(ReportRow):
    """What selfish play costs in one step of a task's game, by the private payoffs.

    Investments are texts in units of every agent in order, ``24.68 x 4`` for four agents alike;
    welfare is the sum of the payoffs of a step. The figures follow from the game, not from the
    report's episodes.
    """

    task: str
    nash: str  # investments at the Nash equilibrium of least welfare
    nash_welfare: float
    optimum: str  # investments with the largest welfare
    optimum_welfare: float
    price: float  # welfare of the optimum over that of the equilibrium, at least 1


def prices_of_anarchy(protocol: Protocol, table: EpisodeTable) -> tuple[Anarchy, ...]:
    """Compute the price of anarchy of the published games that were played, with their parameters.

    There is none of a game whose agents choose between levels, nor where no equilibrium is found.
    """
    played = {task for task, _ in table.pairs}
    rows = [_row(task) for task in protocol.task if task.id in played and not is_foreign(task.env)]
    return tuple(row for row in rows if row is not None)


def _row(task: Task) -> Anarchy | None:
    """Return the price on a task; digits on which the searches of two machines differ are dropped.

    None where there is none.
    """
    game, given = spec(task.env), without_levels(task.parameters)
    if not game.source.startswith(_SOURCE) or task.parameters.get(LEVELS) is not None:
        return None
    try:
        nash, best = theory.worst_nash(game.id, **given), theory.social_optimum(game.id, **given)
    except RuntimeError:  # a report is not lost with a search that does not converge
        return None
    worst, optimum = ((units(one.actions), round(one.welfare, 4)) for one in (nash, best))
    return Anarchy(task.id, *worst, *optimum, round(best.welfare / nash.welfare, 6))


def units(actions: np.ndarray) -> str:
    """Write investments in order, runs of equal ones as one number with a count."""
    runs: list[list[Any]] = []
    for text in (f"{action:.2f}" for action in actions):
        if runs and runs[-1][0] == text:
            runs[-1][1] += 1
        else:
            runs.append([text, 1])
    return ", ".join(text if count == 1 else f"{text} x {count}" for text, count in runs)


def anarchy_table(findings: Findings) -> Table | None:
    """Return what selfish play costs in a step of the published games; None without such games."""
    fields = {
        "task": Field("Task", "what is played"),
        "nash": Field("Nash", "units that the agents invest; x 4: four alike"),
        "nash_welfare": Field("Its welfare", "sum of the private payoffs of a step", Scale(1)),
        "optimum": Field("Optimum", "units that the agents invest"),
        "optimum_welfare": Field("Welfare", "sum of the private payoffs of a step", Scale(1)),
        "price": Field(
            "Price of anarchy", "welfare of the optimum over that of the equilibrium", Scale(4)
        ),
    }
    unit = (
        "The largest welfare of a step over that of its worst Nash equilibrium, by private "
        "payoffs: 1 means that selfish play loses nothing. It follows from the game alone."
    )
    return table_of(findings.rows(PRICES), fields, "Price of anarchy of the games", unit)


PRICES = Part("anarchy", prices_of_anarchy, rare=True)
SECTION = ReportSection((PRICES,), {"by task": anarchy_table})
