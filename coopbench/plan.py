"""Plan: a protocol and some policies become cells, the units of work and of results."""

from typing import Any

from coopbench.baselines.policy import Game, label, make_policy
from coopbench.episodes import Cell
from coopbench.protocol import Protocol, Task

__all__ = ["game_of", "plan"]


def plan(protocol: Protocol, policies: list[Any]) -> list[tuple[Cell, Any]]:
    """Pair every task with every policy, in the protocol's order, and check that they can play.

    Raises ``ValueError`` before anything runs: for no policies, for two of one name, and for a
    named policy that cannot play a task.
    """
    if not policies:
        raise ValueError("No policies to evaluate: name at least one, for instance 'random'.")
    labels = [policy if isinstance(policy, str) else label(policy) for policy in policies]
    repeated = sorted({name for name in labels if labels.count(name) > 1})
    if repeated:
        raise ValueError(f"Two policies are called {', '.join(repeated)}: give them other names.")
    for task in protocol.task:
        game = game_of(task)
        for policy in policies:
            if isinstance(policy, str):
                make_policy(policy, game)
    return [
        (Cell(task.id, name), policy)
        for task in protocol.task
        for name, policy in zip(labels, policies, strict=True)
    ]


def game_of(task: Task) -> Game:
    """Describe the game of a task to a policy."""
    return Game.at(task.env, **task.parameters)
