"""The episode table: what every episode of every cell came to, with named axes."""

import hashlib
import re
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

__all__ = ["Cell", "EpisodeTable", "Episodes"]


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


@dataclass(frozen=True)
class Episodes:
    """All episodes of one cell."""

    cell: Cell
    agents: tuple[str, ...]
    seeds: np.ndarray  # (episodes,) uint64
    lengths: np.ndarray  # (episodes,) int64, steps played
    terminated: np.ndarray  # (episodes,) bool; the others were truncated at the horizon
    seats: np.ndarray  # (episodes, agents) bool, those that the policy played; see rollout
    returns: np.ndarray  # (episodes, agents) float64
    metrics: dict[str, np.ndarray]  # name -> (episodes,), the game's own and trajectories'
    curves: dict[str, np.ndarray]  # name -> (steps + 1,), means over episodes; see rollout
    agent_metrics: dict[str, np.ndarray] = field(default_factory=dict)  # (episodes, agents) each

    def __len__(self) -> int:
        return len(self.seeds)

    def played(self, k: int) -> str:
        """Agents that the policy played in episode k, in words."""
        if self.seats[k].all():
            return "all"
        return " ".join(agent for agent, own in zip(self.agents, self.seats[k], strict=True) if own)


@dataclass(frozen=True)
class EpisodeTable:
    """Episodes of all finished cells; axes task, policy, run, episode, agent."""

    blocks: tuple[Episodes, ...]

    def __len__(self) -> int:
        return sum(len(block) for block in self.blocks)

    def __iter__(self) -> Iterator[Episodes]:
        return iter(self.blocks)

    def of(self, task: str, policy: str) -> Episodes | None:
        """Return the episodes of one cell, or None if it has not been finished."""
        for block in self.blocks:
            if (block.cell.task, block.cell.policy) == (task, policy):
                return block
        return None

    def rows(self) -> Iterator[dict[str, object]]:
        """Iterate over episodes as flat rows, one column per metric and agent."""
        for block in self.blocks:
            for k in range(len(block)):
                row: dict[str, object] = {
                    "task": block.cell.task,
                    "policy": block.cell.policy,
                    "run": block.cell.run,
                    "episode": k,
                    "seed": int(block.seeds[k]),
                    "length": int(block.lengths[k]),
                    "terminated": bool(block.terminated[k]),
                    "seats": block.played(k),
                    "return": float(block.returns[k].sum()),
                }
                row |= {name: float(values[k]) for name, values in block.metrics.items()}
                own = {"return": block.returns} | block.agent_metrics
                row |= {
                    f"{name}_{agent}": float(value)
                    for name, values in own.items()
                    for agent, value in zip(block.agents, values[k], strict=True)
                }
                yield row
