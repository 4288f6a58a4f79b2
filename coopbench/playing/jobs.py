"""Jobs: what a backend does, and the loop that all backends with workers have in common.

A job is a value that can be pickled and called: ``job(tell)`` works, tells its progress in [0, 1]
and returns a result; ``str(job)`` names it in errors. A backend checks its jobs, starts nothing
before its results are asked for, and yields (number of the job, result) as jobs finish.
"""

import pickle
import sysconfig
import traceback
import warnings
from collections import Counter, deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Literal, NamedTuple, Protocol

from coopbench.errors import WorkerError

Tell = Callable[[float], None]  # progress of a job, in [0, 1]
TellNumber = Callable[[int, float], None]  # number of a job and its progress
Results = Generator[tuple[int, Any], None, None]  # number of a job and its result

ATTEMPTS = 3  # at a job whose worker process dies
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

    def __call__(self, tell: Tell | None) -> Any:
        """Do the work and return its result."""


class Answer(NamedTuple):
    """What a worker says of a job: its progress, its result, its error, or how the worker died."""

    what: Literal["progress", "result", "error", "died"]
    content: Any  # of an error: (exception, traceback)


class Workers(Protocol):
    """Where jobs are done, several at a time: processes, or the machines of a cluster."""

    def start(self, jobs: int) -> None:
        """Get ready for this number of jobs."""

    def submit(self, number: int, job: Job) -> bool:
        """Give a job to a free worker; return False if there is none."""

    def wait(self) -> Iterable[tuple[int, Answer]]:
        """Wait for news of submitted jobs, and return them with the numbers of the jobs."""

    def stop(self) -> None:
        """End all work at once."""


class WorkerTraceback(Exception):  # noqa: N818 - shown as the cause of an error, never raised
    """Where in a worker process an error came from, as text."""

    def __str__(self) -> str:
        return f"\n{self.args[0]}"


def thread_limits(cores: int = 1) -> dict[str, str]:
    """Return environment variables that limit the threads of numerical libraries."""
    return dict.fromkeys(_THREADS, str(cores))


def source_of_error(job: Job) -> str:
    """Say which job an error came from."""
    return f"It came from {job}."


def note_own_line(error: Exception) -> None:
    """Add the innermost line of the user's own code that an error passed, if any, as a note."""
    lines = [
        frame
        for frame, module in _frames(error)
        if module.partition(".")[0] not in _OURS and not frame.filename.startswith(_INSTALLED)
    ]
    if lines:
        file, number, function, text = lines[-1]
        error.add_note(f"{_OWN}{Path(file).name}, line {number}, in {function}: {text}")


def comes_from_own_code(error: Exception) -> bool:
    """Whether ``note_own_line`` has found a line of the user's own code."""
    return any(note.startswith(_OWN) for note in getattr(error, "__notes__", ()))


def _frames(error: Exception) -> Iterator[tuple[traceback.FrameSummary, str]]:
    """Yield every frame of an error with the name of its module, the innermost last."""
    walked = traceback.walk_tb(error.__traceback__)
    names = [str(frame.f_globals.get("__name__")) for frame, _ in walked]
    yield from zip(traceback.extract_tb(error.__traceback__), names, strict=True)


def check_workers(workers: int | None) -> None:
    """Raise ``ValueError`` unless this is a number of workers, or None."""
    whole = isinstance(workers, int) and not isinstance(workers, bool)
    if workers is not None and not (whole and workers >= 1):
        raise ValueError(f"'workers' was {workers!r}; allowed: a whole number >= 1, or None.")


def check_portable(job: Any, dumps: Callable[[Any], bytes]) -> None:
    """Raise ``TypeError`` if a job cannot be sent to another process."""
    try:
        dumps(job)
    except Exception as error:  # whatever an object raises while it is pickled
        raise TypeError(f"Cannot send {job} to another process ({error}). {_REMEDY}") from error


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
            error.add_note(source_of_error(job))
            raise
        yield number, result


# --- the process that hands out jobs --------------------------------------------------------------


def results_of(workers: Workers, jobs: Sequence[Job], tell: TellNumber | None) -> Results:
    """Do jobs with workers and yield (number, result) as they finish.

    After an error the jobs at work are finished, then it is raised. A job whose worker died is done
    again, up to ``ATTEMPTS`` times in all, before ``WorkerError`` names it. Closing the iterator
    ends all work.
    """
    queue = deque(in_turn(jobs))
    at_work, deaths = set[int](), Counter[int]()
    failure: Exception | None = None
    try:
        workers.start(len(jobs))
        while queue or at_work:
            while queue and workers.submit(queue[0], jobs[queue[0]]):
                at_work.add(queue[0])
                _pass_on(tell, queue.popleft(), 0.0)
            for number, (what, content) in workers.wait():
                if what == "progress":
                    _pass_on(tell, number, content)
                    continue
                at_work.remove(number)
                if what == "result":
                    yield number, content
                elif what == "error":
                    failure = failure or _error(jobs[number], *content)
                elif deaths[number] + 1 == ATTEMPTS:
                    failure = failure or WorkerError(_last_death(jobs[number], content))
                else:
                    deaths[number] += 1
                    _warn_of_death(jobs[number], content)
                    queue.appendleft(number)
            if failure is not None:
                queue.clear()
    finally:
        workers.stop()
    if failure is not None:
        raise failure


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


def _error(job: Job, error: Exception, text: str) -> Exception:
    """Return the error of a job with the traceback of its worker."""
    error.__cause__ = WorkerTraceback(text)
    error.add_note(source_of_error(job))
    return error


def _warn_of_death(job: Job, how: str) -> None:
    warnings.warn(
        f"The worker process with {job} died ({how}); it is done again.",
        RuntimeWarning,
        stacklevel=3,
    )


def _last_death(job: Job, how: str) -> str:
    return (
        f"The worker process died {ATTEMPTS} times with {job} (last: {how}). Perhaps there is not "
        f"enough memory: try fewer workers. With backend 'serial' it runs in this process."
    )


# --- the process that does them -------------------------------------------------------------------


def answer_to(content: bytes, tell: Tell | None) -> Answer:
    """Do the job that ``content`` holds; return its result, or its error with the traceback."""
    try:
        return Answer("result", _loaded(content)(tell))
    except Exception as error:  # of whatever kind: the other side raises it again
        note_own_line(error)
        text = "".join(traceback.format_exception(error))
        return Answer("error", (_portable(error), text))


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
        copy = RuntimeError(f"{type(error).__name__}: {error}")
        for note in getattr(error, "__notes__", ()):
            copy.add_note(note)
    return copy
