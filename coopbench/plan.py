"""Plan: a protocol and some policies become cells, the units of work and of results."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from coopbench.baselines.policy import Game, label, make_policy
from coopbench.episodes import Cell
from coopbench.protocol import Protocol, Task
from coopbench_envs.parameters import unknown

__all__ = ["Models", "game_of", "plan"]


@dataclass(frozen=True)
class Models:
    """What a method made of every task of a protocol that trains on each: ``{task: policy}``.

    Where models play all tasks, the one trained on task t is the policy ``name:t``.
    """

    name: str
    trained: Mapping[str, Any]


def plan(protocol: Protocol, policies: list[Any]) -> list[tuple[Cell, Any]]:
    """Pair every task with every policy, in the protocol's order, and check that they can play.

    ``Models`` play their own task or all tasks, as the protocol's training says.

    Raises ``ValueError`` before anything runs: for no policies, for two of one name, for a named
    policy that cannot play a task, and for models that are not those of the protocol.
    """
    if not policies:
        raise ValueError("No policies to evaluate: name at least one, for instance 'random'.")
    columns = [column for policy in policies for column in _columns(protocol, policy)]
    labels = [name for name, _ in columns]
    repeated = sorted({name for name in labels if labels.count(name) > 1})
    if repeated:
        raise ValueError(f"Two policies are called {', '.join(repeated)}: give them other names.")
    for task in protocol.task:
        game = game_of(task)
        for policy in dict.fromkeys(p[task.id] for _, p in columns if isinstance(p[task.id], str)):
            make_policy(policy, game)
    return [
        (Cell(task.id, name), played[task.id]) for task in protocol.task for name, played in columns
    ]


def _columns(protocol: Protocol, policy: Any) -> list[tuple[str, Mapping[str, Any]]]:
    """Names under which a policy stands in the results, each with who plays every task there."""
    tasks = [task.id for task in protocol.task]
    if not isinstance(policy, Models):
        name = policy if isinstance(policy, str) else label(policy)
        return [(name, dict.fromkeys(tasks, policy))]
    training = protocol.training
    if training is None or training.on != "each":
        raise ValueError(
            f"{policy.name} is one model per task; {protocol.name} does not train on each of its "
            f"tasks. Name a single policy."
        )
    for task in policy.trained:
        if task not in tasks:
            raise ValueError(unknown("task", task, tasks, f"the models of {policy.name}"))
    lacking = [task for task in tasks if task not in policy.trained]
    if lacking:
        raise ValueError(f"{policy.name} has no model for {', '.join(lacking)}; train one on each.")
    if training.plays == "own":
        return [(policy.name, policy.trained)]
    return [(f"{policy.name}:{t}", dict.fromkeys(tasks, policy.trained[t])) for t in tasks]


def game_of(task: Task) -> Game:
    """Describe the game of a task to a policy."""
    return Game.at(task.env, **task.parameters)
