"""Jobs: what a backend does, and what all backends have in common.

A job is a value that can be pickled and called: ``job(tell)`` works, tells its progress in [0, 1]
and returns a result; ``str(job)`` names it in errors. A backend checks its jobs, starts nothing
before its results are asked for, and yields (number of the job, result) as jobs finish.
"""

import pickle
import traceback
import warnings
from collections import Counter, deque
from collections.abc import Callable, Generator, Sequence
from typing import Any, NamedTuple, Protocol

from coopbench.errors import WorkerError

__all__ = [
    "TRIES",
    "Answer",
    "Backend",
    "Job",
    "Ledger",
    "Resources",
    "Results",
    "Tell",
    "TellNumber",
    "answer_to",
    "check_portable",
    "check_workers",
    "origin",
    "thread_limits",
]

Tell = Callable[[float], None]  # progress of a job, in [0, 1]
TellNumber = Callable[[int, float], None]  # number of a job and its progress
Results = Generator[tuple[int, Any], None, None]  # number of a job and its result
Answer = tuple[str, Any]  # ("result", what the job returned) or ("error", (exception, traceback))

TRIES = 3  # a job whose worker process died is given to another one, this often in all
_REMEDY = (
    "Make the policy a function or an object of a class at the top level of a module, name a "
    "registered policy, or choose backend 'serial'."
)
_THREADS = (
    "NUMBA_NUM_THREADS",
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
)


class Resources(NamedTuple):
    """What a job occupies while it is at work."""

    cores: int = 1
    gpus: float = 0.0  # a share of one may be enough


class Job(Protocol):
    """A piece of work for a backend."""

    @property
    def cost(self) -> float:
        """How long it takes, in any unit: large jobs begin first."""

    @property
    def kind(self) -> str:
        """What it compiles: two workers do not begin with jobs of the same kind."""

    @property
    def resources(self) -> Resources:
        """What it occupies; the backend 'ray' reserves that, the others run one job per worker."""

    def __call__(self, tell: Tell | None) -> Any:
        """Do the work and return its result."""


Backend = Callable[[Sequence[Job], int | None, TellNumber | None], Results]


class WorkerTraceback(Exception):  # noqa: N818 - shown as the cause of an error, never raised
    """Where in a worker process an error came from, as text."""

    def __str__(self) -> str:
        return f"\n{self.args[0]}"


def thread_limits(cores: int = 1) -> dict[str, str]:
    """Return environment variables that limit the threads of numerical libraries."""
    return dict.fromkeys(_THREADS, str(cores))


def origin(job: Job) -> str:
    """Say which job an error came from."""
    return f"It came from {job}."


def check_workers(workers: int | None) -> None:
    """Raise ``ValueError`` unless this is a number of workers, or None."""
    whole = isinstance(workers, int) and not isinstance(workers, bool)
    if workers is not None and not (whole and workers >= 1):
        raise ValueError(f"'workers' was {workers!r}; allowed: a whole number >= 1, or None.")


def check_portable(job: Job, dumps: Callable[[Job], bytes]) -> None:
    """Raise ``TypeError`` if a job cannot be sent to another process."""
    try:
        dumps(job)
    except Exception as error:  # whatever an object raises while it is pickled
        raise TypeError(f"Cannot send {job} to another process ({error}). {_REMEDY}") from error


# --- the process that hands out jobs --------------------------------------------------------------


class Ledger:
    """Keeps the queue of jobs, counts deaths of workers, and remembers the first error."""

    def __init__(self, jobs: Sequence[Job], tell: TellNumber | None) -> None:
        self.jobs, self._tell = jobs, tell
        self.queue = deque(in_turn(jobs))
        self._deaths: Counter[int] = Counter()
        self._failure: BaseException | None = None

    def begin(self) -> int:
        """Take the next job from the queue and return its number."""
        number = self.queue.popleft()
        self.tell(number, 0.0)
        return number

    def tell(self, number: int, share: float) -> None:
        """Pass on the progress of a job."""
        if self._tell is not None:
            self._tell(number, share)

    def settle(self, number: int, answer: Answer) -> Results:
        """Yield the result in the answer of a worker, or remember its error."""
        what, content = answer
        if what == "result":
            yield number, content
        else:
            error, text = content
            error.__cause__ = WorkerTraceback(text)
            error.add_note(origin(self.jobs[number]))
            self.fail(error)

    def lose(self, number: int, how: str) -> None:
        """Give a job whose worker died out again, unless that was done too often."""
        job = self.jobs[number]
        self._deaths[number] += 1
        if self._deaths[number] == TRIES:
            self.fail(WorkerError(_death(job, how)))
        else:
            warnings.warn(
                f"The worker process with {job} died ({how}); it is done again.",
                RuntimeWarning,
                stacklevel=2,
            )
            self.queue.appendleft(number)

    def fail(self, error: BaseException) -> None:
        """Remember the first error and begin no further job."""
        self._failure = self._failure or error
        self.queue.clear()

    def close(self) -> None:
        """Raise the error that was remembered."""
        if self._failure is not None:
            raise self._failure


def in_turn(jobs: Sequence[Job]) -> list[int]:
    """Order numbers of jobs: one of each kind, so that each is compiled once, then the others.

    Large ones come first in both parts, so that what is left at the end is short.
    """
    numbers = sorted(range(len(jobs)), key=lambda number: -jobs[number].cost)
    first: dict[str, int] = {}
    for number in numbers:
        first.setdefault(jobs[number].kind, number)
    ahead = set(first.values())
    return sorted(numbers, key=lambda number: number not in ahead)


def _death(job: Job, how: str) -> str:
    return (
        f"The worker process died {TRIES} times with {job} (last: {how}). Perhaps there is not "
        f"enough memory: try fewer workers. With backend 'serial' it runs in this process."
    )


# --- the process that does them -------------------------------------------------------------------


def answer_to(content: bytes, tell: Tell | None) -> Answer:
    """Do the job that ``content`` holds; return its result, or its error with the traceback."""
    try:
        return "result", _loaded(content)(tell)
    except Exception as error:  # of whatever kind: the other side raises it again
        text = "".join(traceback.format_exception(error))
        return "error", (_portable(error), text)


def _loaded(content: bytes) -> Job:
    try:
        job: Job = pickle.loads(content)
    except Exception as error:  # above all: the module or the name does not exist
        raise TypeError(f"A worker process cannot load its job ({error}). {_REMEDY}") from error
    return job


def _portable(error: Exception) -> Exception:
    """Return the error, or one with its text if it cannot be pickled and loaded again."""
    try:
        copy: Exception = pickle.loads(pickle.dumps(error))
    except Exception:  # whatever its class raises
        return RuntimeError(f"{type(error).__name__}: {error}")
    return copy
