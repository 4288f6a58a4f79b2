"""Meetings: how policies score with and against each other, one matrix per task."""

from dataclasses import dataclass

import numpy as np

from coopbench.analysis.rows import ReportRow
from coopbench.protocol.schema import Protocol


@dataclass(frozen=True)
class Places:
    """Words for where the policies of rows and columns play."""

    value: str  # what is averaged
    row: str
    column: str
    rule: str  # who plays what, as a sentence


SEATS = Places(
    "return of the policy's seat",
    "in one seat",
    "in all other seats",
    "the policy has one seat, seat k mod n in episode k of n agents; its partner has all other "
    "seats. If both are the same policy, this is self-play, and only that seat counts",
)


def sides(score: str) -> Places:
    """Return the words for teams that meet as opponents."""
    return Places(
        score,
        "as the agents",
        "as the enemies",
        "the policy plays all agents; its opponent plays the enemies and observes them as its own "
        "agents. If both are the same policy, it plays against itself",
    )


@dataclass(frozen=True, eq=False)
class Meeting(ReportRow):
    """Mean return of one policy's seat with a partner, or score of its team against it."""

    task: str
    policy: str  # in one seat, seat k mod n in episode k, or in all
    partner: str  # in all other seats, or on the other side; the same name means self-play
    count: int  # episodes
    mean: float
    std: float  # over episodes, ddof 1; nan for one episode
    low: float  # t interval of the mean, within seats; nan where it is undefined
    high: float
    flag: str  # why the interval says less than it seems; empty when all is well


@dataclass(frozen=True)
class Meetings:
    """All meetings of some policies on the tasks of a protocol."""

    protocol: Protocol
    policies: tuple[str, ...]
    tasks: tuple[str, ...]  # that were played; tasks of the same game once
    meetings: tuple[Meeting, ...]  # by task, policy, partner
    places: Places = SEATS

    def of(self, task: str) -> tuple[tuple[Meeting, ...], ...]:
        """Return the meetings on one task, a row per policy and a column per partner."""
        size, rows = len(self.policies), [m for m in self.meetings if m.task == task]
        return tuple(tuple(rows[k : k + size]) for k in range(0, len(rows), size))

    def matrix(self, task: str) -> np.ndarray:
        """Return the means on one task, (policies, partners)."""
        return np.array([[meeting.mean for meeting in row] for row in self.of(task)])
