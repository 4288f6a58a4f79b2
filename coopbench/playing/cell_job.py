"""Cell jobs: the base of jobs that play, check or train for one cell of a protocol."""

from dataclasses import dataclass

from coopbench.episodes.table import Cell
from coopbench.playing.backends.jobs import Resources
from coopbench.playing.plan import game_of
from coopbench.protocol.schema import Protocol
from coopbench.protocol.sections import Task

__all__ = ["CellJob"]


@dataclass(frozen=True, eq=False)
class CellJob:
    """A job for one cell: by default it plays the episodes of the cell once, on one core.

    A subclass adds what it needs and ``__call__``; see ``coopbench.playing.backends.jobs.Job``. Two
    jobs are never equal, because their contents need not be comparable.
    """

    protocol: Protocol
    cell: Cell

    @property
    def task(self) -> Task:
        """The task of the cell, as its policy plays it."""
        return self.protocol.played_in(self.cell)

    @property
    def steps(self) -> int:
        """The largest number of environment steps that the job can take."""
        return self.steps_of(self.protocol.episodes(self.task))

    def steps_of(self, episodes: int) -> int:
        """Return the largest number of steps in this number of episodes of the task."""
        return int(game_of(self.task).constants.horizon) * episodes

    @property
    def cost(self) -> float:
        """The number of agents times ``steps``."""
        return float(len(game_of(self.task).agents) * self.steps)

    @property
    def kind(self) -> str:
        """The module whose kernels the task's environment compiles."""
        return self.task.spec.module

    @property
    def resources(self) -> Resources:
        """One core: episodes are lanes of one engine, which uses one thread."""
        return Resources()

    def __str__(self) -> str:
        run = "" if self.cell.run is None else f", run {self.cell.run},"
        return f"policy {self.cell.policy!r}{run} on task {self.cell.task!r}"
