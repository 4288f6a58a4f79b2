"""Price of anarchy: what selfish play costs in one step of a game, whoever plays it."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any

from coopbench.analysis.rows import ReportRow
from coopbench.episodes.table import EpisodeTable
from coopbench.protocol.schema import Protocol
from coopbench_envs.foreign_names import is_foreign
from coopbench_envs.parameters import resolve
from coopbench_envs.registration import spec

FILE = "anarchy.json"  # ``python -m studies.equilibria --store`` writes it
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
    played = {task for task, _ in table.pairs}
    rows = []
    for task in protocol.task:
        if task.id not in played or is_foreign(task.env):
            continue
        env_id = spec(task.env).id
        for parameters, figures in _stored().get(env_id, ()):
            if _resolved(env_id, parameters) == _resolved(env_id, task.parameters):
                rows.append(Anarchy(task=task.id, **figures))
    return tuple(rows)


def step_parameters(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parameters of a game on which one of its steps can depend."""
    return {name: value for name, value in parameters.items() if name not in _OF_EPISODES}


def _resolved(env_id: str, parameters: Mapping[str, Any]) -> Any:
    """Return all parameters of a game's steps, defaults included."""
    return resolve(spec(env_id).params, step_parameters(parameters), env_id)


@cache
def _stored() -> dict[str, list[tuple[dict[str, Any], dict[str, Any]]]]:
    """Return the stored parameters and figures of every game by id."""
    games: dict[str, list[tuple[dict[str, Any], dict[str, Any]]]] = {}
    file = resources.files("coopbench.analysis") / FILE
    for row in json.loads(file.read_text(encoding="utf-8")):
        games.setdefault(row.pop("env"), []).append((row.pop("parameters"), row))
    return games
