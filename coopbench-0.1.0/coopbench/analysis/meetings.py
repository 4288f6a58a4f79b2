"""Meetings: how policies score beside each other, a matrix for every task."""

from dataclasses import dataclass

import numpy as np

from coopbench.protocol.schema import Protocol

__all__ = ["Meeting", "Meetings"]


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
class Meetings:
    """All meetings of some policies on the tasks of a protocol."""

    protocol: Protocol
    policies: tuple[str, ...]
    tasks: tuple[str, ...]  # that were played; tasks of the same game once
    meetings: tuple[Meeting, ...]  # by task, policy, partner

    def of(self, task: str) -> tuple[tuple[Meeting, ...], ...]:
        """Return the meetings on one task, a row per policy and a column per partner."""
        size, rows = len(self.policies), [m for m in self.meetings if m.task == task]
        return tuple(tuple(rows[k : k + size]) for k in range(0, len(rows), size))

    def matrix(self, task: str) -> np.ndarray:
        """Return the mean returns on one task, (policies, partners)."""
        return np.array([[meeting.mean for meeting in row] for row in self.of(task)])
