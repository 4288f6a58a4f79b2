"""Price of anarchy: what selfish play costs in a step of the published games."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any

from coopbench.analysis.findings import Findings, Part
from coopbench.analysis.rows import ReportRow
from coopbench.episodes.table import EpisodeTable
from coopbench.protocol.schema import Protocol
from coopbench.report.numbers import Scale
from coopbench.report.section import ReportSection
from coopbench.report.tables.entries import Field, table_of
from coopbench.report.tables.model import Table
from coopbench_envs.choices import resolved
from coopbench_envs.foreign_names import is_foreign
from coopbench_envs.registration import spec

FILE = "anarchy.json"  # beside this one; ``python -m studies.equilibria --store`` writes it
_OF_EPISODES = ("horizon",)  # parameters that no step depends on


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
    """Look up the price of anarchy of the tasks that were played, where the package has it.

    It is that of a published game with the task's parameters, except for its horizon.
    """
    played, rows = {task for task, _ in table.pairs}, list[Anarchy]()
    for task in protocol.task:
        if task.id in played and not is_foreign(task.env):
            game = spec(task.env)
            given = resolved(game, step_parameters(task.parameters))
            rows += [
                Anarchy(task=task.id, **figures)
                for env_id, parameters, figures in _stored()
                if env_id == game.id and resolved(game, step_parameters(parameters)) == given
            ]
    return tuple(rows)


def step_parameters(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parameters of a game on which one of its steps can depend."""
    return {name: value for name, value in parameters.items() if name not in _OF_EPISODES}


@cache
def _stored() -> tuple[tuple[str, dict[str, Any], dict[str, Any]], ...]:
    """Return id, parameters and figures of every stored game."""
    rows = json.loads((resources.files(__package__) / FILE).read_text(encoding="utf-8"))
    return tuple((row.pop("env"), row.pop("parameters"), row) for row in rows)


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
