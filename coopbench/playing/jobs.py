"""Jobs: what a backend does, and the loop that all backends with workers have in common.

A job is a value that can be pickled and called: ``job(tell)`` works, tells its progress in [0, 1]
and returns a result; ``str(job)`` names it in errors. A backend checks its jobs, starts nothing
before its results are asked for, and yields (number of the job, result) as jobs finish.
"""

import pickle
import sysconfig
import traceback
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from coopbench.errors import WorkerError
from coopbench_envs.parameters import check_count

Tell = Callable[[float], None]  # progress of a job, in [0, 1]
TellNumber = Callable[[int, float], None]  # number of a job and its progress
Results = Generator[tuple[int, Any], None, None]  # number of a job and its result

_EVERY = 0.1  # seconds between two looks at the progress of jobs
_REMEDY = (
    "Make the policy a function or an object of a class at the top level of a module, name a "
    "registered policy, or choose backend 'serial'."
)
_OURS = ("coopbench", "coopbench_envs")
_INSTALLED = ("<", *(sysconfig.get_path(name) for name in ("stdlib", "purelib", "platlib")))
_OWN = "Your code: "  # begins the note on a line
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

    def name_after(self, text: str) -> str:
        """Return its name for a sentence after ``text``, without a policy that the text names."""

    def __call__(self, tell: Tell | None) -> Any:
        """Do the work and return its result."""


class Answer(NamedTuple):
    """What a worker says of a job: its result, or its error and where that came from."""

    result: Any = None
    error: Exception | None = None
    traceback: str = ""


class Workers(ABC):
    """Where jobs are done, several at a time: processes, or the machines of a cluster."""

    places: int  # how many jobs may be at work at a time
    deaths: tuple[type[BaseException], ...]  # errors of futures whose workers died

    @abstractmethod
    def submit(self, number: int, job: Job) -> Future[bytes]:
        """Give out a job; the future has what ``answer_to`` returns, or an error of the backend."""

    def progress(self) -> Iterable[tuple[int, float]]:
        """Return the numbers of jobs and their progress, told since the last call."""
        return ()

    def death(self, error: BaseException) -> str:
        """Say how the worker died whose future raised this error."""
        return f"{type(error).__name__}: {error}"

    @abstractmethod
    def stop(self) -> None:
        """End all work at once."""


class WorkerTraceback(Exception):  # noqa: N818 - shown as the cause of an error, never raised
    """Where in a worker process an error came from, as text."""

    def __str__(self) -> str:
        return f"\n{self.args[0]}"


def thread_limits(cores: int = 1) -> dict[str, str]:
    """Return environment variables that limit the threads of numerical libraries."""
    return dict.fromkeys(_THREADS, str(cores))


def source_of_error(job: Job, error: BaseException) -> str:
    """Say which job an error came from; a policy that its message names is not named again."""
    return f"It came from {job.name_after(str(error))}."


def note_own_line(error: BaseException) -> None:
    """Add the innermost line of the user's own code that an error passed, if any, as a note."""
    walked = list(traceback.walk_tb(error.__traceback__))
    names = [str(frame.f_globals.get("__name__")) for frame, _ in walked]
    lines = [
        frame
        for frame, module in zip(traceback.extract_tb(error.__traceback__), names, strict=True)
        if module.partition(".")[0] not in _OURS and not frame.filename.startswith(_INSTALLED)
    ]
    if lines:
        file, number, function, text = lines[-1]
        error.add_note(f"{_OWN}{Path(file).name}, line {number}, in {function}: {text}")


def comes_from_own_code(error: Exception) -> bool:
    """Whether ``note_own_line`` has found a line of the user's own code."""
    return any(note.startswith(_OWN) for note in getattr(error, "__notes__", ()))


def check_workers(workers: int | None) -> None:
    """Raise ``ValueError`` unless this is a number of workers, or None."""
    if workers is not None:
        check_count("workers", workers)


def check_portable(job: Any, dumps: Callable[[Any], bytes]) -> None:
    """Raise ``TypeError`` if a job cannot be sent to another process."""
    try:
        dumps(job)
    except Exception as error:  # whatever an object raises while it is pickled
        raise TypeError(f"Cannot send {job} to another process ({error}). {_REMEDY}") from error


def check_jobs(jobs: Sequence[Job], workers: int | None, dumps: Callable[[Any], bytes]) -> None:
    """Check the jobs and the number of workers of a backend whose workers are other processes.

    Raises what ``check_workers`` and ``check_portable`` raise.
    """
    check_workers(workers)
    for job in jobs:
        check_portable(job, dumps)


def one_by_one(jobs: Sequence[Job], tell: TellNumber | None) -> Results:
    """Do one job after the other in this process; an error ends it at once."""
    for number, job in enumerate(jobs):
        tell_share = None if tell is None else partial(tell, number)
        if tell_share is not None:
            tell_share(0.0)
        try:
            result = job(tell_share)
        except Exception as error:
            note_own_line(error)
            error.add_note(source_of_error(job, error))
            raise
        yield number, result


# --- the process that hands out jobs --------------------------------------------------------------


def results_of(
    open_workers: Callable[[], Workers], jobs: Sequence[Job], tell: TellNumber | None
) -> Results:
    """Do jobs with workers and yield (number, result) as they finish.

    After an error or the death of a worker the other jobs at work are finished, as far as their
    workers live, then it is raised; ``WorkerError`` names the jobs whose workers died. Closing the
    iterator ends all work.
    """
    queue = in_turn(jobs)[::-1]
    at_work: dict[Future[bytes], int] = {}
    failure: Exception | None = None
    lost, death = list[int](), ""
    workers = open_workers()
    try:
        while queue or at_work:
            while queue and len(at_work) < workers.places:
                number = queue.pop()
                _pass_on(tell, number, 0.0)
                at_work[workers.submit(number, jobs[number])] = number
            done, _ = wait(at_work, _EVERY, FIRST_COMPLETED)
            for number, share in workers.progress():
                _pass_on(tell, number, share)
            for future in done:
                number = at_work.pop(future)
                error = future.exception()
                if isinstance(error, workers.deaths):
                    lost.append(number)
                    death = death or workers.death(error)
                elif (answer := _answer_of(future)).error is not None:
                    failure = failure or _error(jobs[number], answer.error, answer.traceback)
                else:
                    yield number, answer.result
            if failure is not None or lost:
                queue.clear()
    finally:
        workers.stop()
    if failure is not None:
        raise failure
    if lost:
        raise WorkerError(_of_death([jobs[number] for number in sorted(lost)], death))


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


def _pass_on(tell: TellNumber | None, number: int, share: float) -> None:
    if tell is not None:
        tell(number, share)


def _answer_of(future: Future[bytes]) -> Answer:
    try:
        answer: Answer = pickle.loads(future.result())
    except Exception as error:  # of the backend, or of a result that cannot be loaded
        return Answer(error=error)
    return answer


def _error(job: Job, error: Exception, text: str) -> Exception:
    """Return the error of a job with the traceback of its worker, if it comes from there."""
    if text:
        error.__cause__ = WorkerTraceback(text)
    error.add_note(source_of_error(job, error))
    return error


def _of_death(lost: Sequence[Job], how: str) -> str:
    return (
        f"A worker died ({how}) at work on {' and '.join(map(str, lost))}. Perhaps there is not "
        f"enough memory: try fewer workers. With backend 'serial' it runs in this process. A "
        f"results folder keeps what is finished, and the same call resumes there."
    )


# --- the process that does them -------------------------------------------------------------------


def answer_to(
    content: bytes, tell: Tell | None, dumps: Callable[[Any], bytes] = pickle.dumps
) -> bytes:
    """Do the job that ``content`` holds; return its ``Answer``, pickled by ``dumps``.

    That has the result, or the error with its traceback: also of a result that cannot be pickled.
    """
    try:
        return dumps(Answer(_loaded(content)(tell)))
    except (Exception, SystemExit) as error:  # the other side raises it again
        note_own_line(error)
        text = "".join(traceback.format_exception(error))
        return dumps(Answer(error=_portable(error), traceback=text))


def _loaded(content: bytes) -> Job:
    try:
        job: Job = pickle.loads(content)
    except Exception as error:  # above all: the module or the name does not exist
        raise TypeError(f"A worker process cannot load its job ({error}). {_REMEDY}") from error
    return job


def _portable(error: Exception | SystemExit) -> Exception:
    """Return the error, or one with its text if it is an exit or cannot be pickled and loaded."""
    try:
        if isinstance(error, Exception):
            copy: Exception = pickle.loads(pickle.dumps(error))
            return copy
    except Exception:  # whatever its class raises
        pass
    copy = RuntimeError(f"{type(error).__name__}: {error}")
    for note in getattr(error, "__notes__", ()):
        copy.add_note(note)
    return copy
