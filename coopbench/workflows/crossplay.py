"""Pairing: cross-play of policies, each in one seat beside each in the rest; a matrix per task."""

from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from coopbench.analysis.estimates import estimate
from coopbench.baselines.match import OWN, seating
from coopbench.episodes.table import Cell, Episodes
from coopbench.playing.backends import BACKENDS
from coopbench.playing.plan import game_of, plan
from coopbench.playing.rollout import PlayJob
from coopbench.protocol.loading import find_protocol
from coopbench.protocol.schema import Protocol
from coopbench.protocol.sections import Task
from coopbench_envs.parameters import named

__all__ = ["CrossPlay", "Meeting", "crossplay"]

Progress = Callable[[str, float], None]  # task, done in [0, 1]


@dataclass(frozen=True)
class Meeting:
    """Mean return of one policy's seat while another policy sits in all other seats."""

    task: str
    policy: str  # in one seat: seat k mod n in episode k
    partner: str  # in all others; the same name means self-play
    count: int  # episodes
    mean: float
    std: float  # over episodes, ddof 1; nan for one episode
    low: float  # t interval of the mean; nan where it is undefined
    high: float
    flag: str  # why the interval says less than it seems; empty when all is well


@dataclass(frozen=True)
class CrossPlay:
    """Result of ``coopbench.crossplay``; print it, or ``save`` it."""

    protocol: Protocol
    policies: tuple[str, ...]
    tasks: tuple[str, ...]  # that were played; tasks of the same game once
    meetings: tuple[Meeting, ...]  # by task, policy, partner

    def of(self, task: str) -> tuple[tuple[Meeting, ...], ...]:
        """Return the meetings on one task, a row per policy and a column per partner."""
        row, rows = len(self.policies), [m for m in self.meetings if m.task == task]
        return tuple(tuple(rows[k : k + row]) for k in range(0, len(rows), row))

    def matrix(self, task: str) -> np.ndarray:
        """Return the mean returns on one task, (policies, partners)."""
        return np.array([[meeting.mean for meeting in row] for row in self.of(task)])

    def __str__(self) -> str:
        from coopbench.report.crossplay import as_text

        return as_text(self)

    def save(self, folder: str | Path) -> dict[str, Path]:
        """Write the matrices below ``folder``; return the files by format.

        ``crossplay.md``, ``crossplay.csv``, ``crossplay.json`` and a heat map per task.
        """
        from coopbench.report.crossplay import save

        return save(self, Path(folder))


def crossplay(
    protocol: str | Path | Protocol,
    policies: Sequence[Any] | None = None,
    tasks: Sequence[str] | None = None,
    progress: Progress | None = None,
    backend: str = "serial",
    workers: int | None = None,
) -> CrossPlay:
    """Play every policy beside every other, and beside itself, on the games of a protocol.

    ``protocol``, ``policies``, ``backend`` and ``workers`` are as in ``evaluate``; by default the
    protocol's baselines and all its tasks. Of a task its environment, parameters and seeds count;
    its partners and group do not, and a game that several tasks have in common is played once,
    under the first one's name. In episode k the policy has seat k mod n, its partner all others;
    with itself it plays all seats and that one counts.
    """
    found = find_protocol(protocol)
    run = named("backend", backend, BACKENDS)
    chosen = [found.task_of(name) for name in tasks or ()]
    games = _games(found, chosen or found.task)
    reduced = found.model_copy(update={"task": games})
    cells = plan(reduced, list(found.report.baselines if policies is None else policies))
    for cell, _ in cells:
        if cell.run is not None:
            raise ValueError(f"{cell.policy} has several training runs; name the policy of one.")
    named_policies = {cell.policy: policy for cell, policy in cells}
    pairs = list(product(named_policies, repeat=2))
    names = tuple(task.id for task in games)
    played = list(product(names, pairs))
    jobs = []
    for task, (name, partner) in played:
        pool = () if name == partner else (named_policies[partner],)
        jobs.append(PlayJob(reduced, Cell(task, name), named_policies[name], pool))
    samples, over = {}, Counter[str]()
    with closing(run(jobs, workers, None)) as results:
        for number, result in results:
            episodes = result.episodes
            samples[number] = _own_returns(episodes)
            task = episodes.cell.task
            over[task] += 1
            if progress is not None:
                progress(task, over[task] / len(pairs))
    meetings = tuple(
        _meeting(task, name, partner, samples[number], found.report.confidence)
        for number, (task, (name, partner)) in enumerate(played)
    )
    return CrossPlay(found, tuple(named_policies), names, meetings)


def _games(protocol: Protocol, tasks: Sequence[Task]) -> tuple[Task, ...]:
    """Tasks that differ in what is played: game, parameters, start positions or episodes."""
    found: dict[str, Task] = {}
    for task in tasks:
        played = (task.env, game_of(task).parameters, task.instances, protocol.episodes(task))
        found.setdefault(repr(played), task)
    return tuple(found.values())


def _own_returns(block: Episodes) -> np.ndarray:
    """Return (episodes,) of the policy's seat."""
    episodes, agents = block.returns.shape
    return block.returns[seating(episodes, agents, 1) == OWN]


def _meeting(
    task: str, policy: str, partner: str, sample: np.ndarray, confidence: float
) -> Meeting:
    row = estimate(task, policy, "own_return", sample, confidence)
    return Meeting(task, policy, partner, row.count, row.mean, row.std, row.low, row.high, row.flag)
