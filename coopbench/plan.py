"""Plan: a protocol and some policies become cells, the units of work and of results."""

import hashlib
import re
from dataclasses import dataclass
from typing import Any

from coopbench.baselines.policy import Game, label, make_policy
from coopbench.protocol import Protocol, Task

__all__ = ["Cell", "plan"]


@dataclass(frozen=True)
class Cell:
    """One policy on one task; plain data, so that it can be sent to another process."""

    task: str
    policy: str
    run: int | None = None  # training seed of a learned policy; None for a fixed one

    @property
    def folder(self) -> str:
        """Relative folder of the cell's results; different policies never share one."""
        slug = self.policy.replace(":", "@")
        if not re.fullmatch(r"\w[\w.,=-]*(:[\w.,=-]+)?", self.policy):
            digest = hashlib.sha256(self.policy.encode()).hexdigest()[:8]
            slug = re.sub(r"[^\w.-]+", "-", self.policy).strip("-.") + "@" + digest
        return f"{self.task}/{slug}" if self.run is None else f"{self.task}/{slug}/run-{self.run}"


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
    from coopbench_envs.engine import Engine

    return Game.of(Engine(task.env, **task.parameters))
