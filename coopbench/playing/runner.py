"""Runner: where jobs are done, by how many workers, and who is told of their progress."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import Any, Literal, Protocol, TypeVar

from coopbench.episodes.table import Cell
from coopbench.playing.bars import CellProgress
from coopbench.playing.jobs import Job, Results, TellNumber, one_by_one
from coopbench.playing.processes import processes, where_it_pays
from coopbench.playing.ray_tasks import ray_tasks
from coopbench.provenance import usable_cores
from coopbench_envs.parameters import named

# What happens to a job: it is at work, its result has been taken over, or needs no work.
Event = Literal["plays", "done", "kept"]
TellJob = Callable[[Any, float, Event], None]  # job, share done in [0, 1], event

J = TypeVar("J", bound=Job)


class HasCells(Protocol):
    """A job for cells."""

    @property
    def cells(self) -> Sequence[Cell]:
        """The cells that the job works on."""


def serial(jobs: Sequence[Job], workers: int | None, tell: TellNumber | None) -> Results:
    """Do one job after the other in this process; an error ends it at once."""
    if workers is not None:
        raise ValueError(
            f"'workers' was {workers!r} with backend 'serial', which has none; choose "
            f"backend 'processes' or leave it out."
        )
    return one_by_one(jobs, tell)


BACKENDS: dict[str, Callable[[Sequence[Job], int | None, TellNumber | None], Results]] = {
    "auto": where_it_pays,
    "serial": serial,
    "processes": processes,
    "ray": ray_tasks,
}


@dataclass(frozen=True)
class Runner:
    """Does jobs on a backend; ``progress`` is told of each of them.

    Raises ``ValueError`` for a backend that does not exist.
    """

    backend: str = "serial"
    workers: int | None = None  # None: as many as the backend has by default
    progress: TellJob | None = None  # called with (job, share, event)

    def __post_init__(self) -> None:
        named("backend", self.backend, BACKENDS)

    @property
    def places(self) -> int:
        """How many jobs it does at a time, as far as that is known."""
        return 1 if self.backend == "serial" else self.workers or usable_cores()

    @contextmanager
    def run(self, jobs: Sequence[J]) -> Iterator[Iterator[tuple[J, Any]]]:
        """Check the jobs; within the context, do them and yield (job, result) as they finish.

        Nothing starts before the first result is asked for, and leaving the context ends all
        work. A job counts as done when its result has been taken over: at the next iteration. One
        whose result is an empty tuple is not done; the caller finds another way.
        """

        def tell_job(number: int, share: float) -> None:
            self.tell(jobs[number], share, "plays")

        tell = None if self.progress is None else tell_job
        with closing(BACKENDS[self.backend](jobs, self.workers, tell)) as results:
            yield self._results(jobs, results)

    def _results(self, jobs: Sequence[J], results: Results) -> Iterator[tuple[J, Any]]:
        for number, result in results:
            yield jobs[number], result
            if result != ():
                self.tell(jobs[number], 1.0, "done")

    def tell(self, job: Job, share: float, event: Event) -> None:
        """Tell the progress of a job, for instance of one whose result is kept."""
        if self.progress is not None:
            self.progress(job, share, event)


def by_cell(progress: CellProgress | None) -> Callable[[HasCells, float, Event], None] | None:
    """Adapt a callback (cell, share, text) to jobs that have cells."""
    if progress is None:
        return None

    def tell(job: HasCells, share: float, event: Event) -> None:
        for cell in job.cells:
            progress(cell, share, event)

    return tell
