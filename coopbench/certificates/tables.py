"""Tables of a protocol's tasks: which rules and partners sit where."""

import math
from typing import Any

import numpy as np

from coopbench.baselines.game import Game
from coopbench.baselines.match import OWN
from coopbench.certificates.arena import Table
from coopbench.protocol.task import Task
from coopbench_envs.roles import members_of_roles


def self_play_table(
    env_id: str, parameters: dict[str, Any], *, all_informed: bool = False
) -> Table:
    """Return the table in which rules sit in all seats."""
    everywhere = np.full((1, len(Game.at(env_id, **parameters).agents)), OWN)
    return Table(env_id, parameters, (), everywhere, all_informed)


def opponent_tables(
    env_id: str, parameters: dict[str, Any], policies: dict[str, str]
) -> dict[str, Table]:
    """Return for each role the table in which one seat plays a rule, all others a policy.

    ``policies`` names the policy of each role.
    """
    agents = Game.at(env_id, **parameters).agents
    members, names = members_of_roles(agents), list(policies)
    tables = {}
    for role, seats in members.items():
        lineup = np.full((1, len(agents)), OWN)
        for other, places in members.items():
            lineup[0, places] = names.index(other)
        lineup[0, seats[0]] = OWN
        tables[role] = Table(env_id, parameters, tuple(policies.values()), lineup)
    return tables


def focal_tables(task: Task) -> dict[str, Table]:
    """Return for each role the table of the line-ups that its seats meet in a task.

    All seats of a role meet the same partners in the order of the other seats: line-ups with the
    same names differ in the seat alone. Partners with a network for each seat play differently.
    """
    agents = Game.at(task.env, **task.parameters).agents
    cycle = math.lcm(*(len(names) for names in task.pools.values()))
    seats, tables = task.seating(cycle * len(agents), agents), {}
    for role, members in members_of_roles(agents).items():
        lineups = []
        for seat in members:
            rows = seats[seat :: len(agents)]
            _, first = np.unique(rows, axis=0, return_index=True)
            lineups.append(rows[np.sort(first)])
        # Seats of the same line-up stand together.
        together = np.stack(lineups, axis=1).reshape(-1, len(agents))
        tables[role] = Table(task.env, dict(task.parameters), task.partner_names, together)
    return tables
