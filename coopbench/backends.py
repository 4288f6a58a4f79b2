"""Backends: where jobs are done, in this process or in several.

A job is a value that can be pickled and called: ``job(tell)`` works, tells its progress in [0, 1]
and returns a result; ``str(job)`` names it in errors. A backend checks what it is given, starts
nothing before its results are asked for, and yields (number of the job, result) as jobs finish.
"""

import multiprocessing
import os
import pickle
import signal
import sys
import threading
import traceback
import warnings
from collections import Counter, deque
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from multiprocessing.connection import Connection, wait
from typing import Any, Protocol

__all__ = ["BACKENDS", "Job", "WorkerError", "usable_cores"]

Tell = Callable[[int, float], None]  # number of a job, done in [0, 1]
Results = Generator[tuple[int, Any], None, None]

TRIES = 3  # a job whose worker process died is given to another one, this often in all
_NAME = "coopbench worker"
_REMEDY = (
    "Make the policy a function or an object of a class at the top level of a module, name a "
    "registered policy, or choose backend 'serial'."
)
_UNGUARDED = 78  # exit status of a worker in which the script that started it starts workers again
_SINGLE = dict.fromkeys(
    (
        "NUMBA_NUM_THREADS",
        "OMP_NUM_THREADS",
        "OPENBLAS_NUM_THREADS",
        "MKL_NUM_THREADS",
        "VECLIB_MAXIMUM_THREADS",
    ),
    "1",
)


class Job(Protocol):
    """A piece of work for a backend."""

    @property
    def cost(self) -> float:
        """How long it takes, in any unit: large jobs begin first."""

    @property
    def kind(self) -> str:
        """What it compiles: two workers do not begin with jobs of the same kind."""

    def __call__(self, tell: Callable[[float], None] | None) -> Any:
        """Do the work and return its result."""


class WorkerError(RuntimeError):
    """A worker process that could not be started, or died; the message names its job."""


class WorkerTraceback(Exception):  # noqa: N818 - shown as the cause of an error, never raised
    """Where in a worker process an error came from, as text."""

    def __str__(self) -> str:
        return f"\n{self.args[0]}"


def serial(jobs: Sequence[Job], workers: int | None, tell: Tell | None) -> Results:
    """Do one job after the other in this process; an error ends it at once."""
    if workers is not None:
        raise ValueError(
            f"'workers' was {workers!r} with backend 'serial', which has none; choose "
            f"backend 'processes' or leave it out."
        )
    return _one_by_one(jobs, tell)


def processes(jobs: Sequence[Job], workers: int | None, tell: Tell | None) -> Results:
    """Do each job in one of ``workers`` processes; by default as many as there are usable cores.

    After an error the jobs at work are finished, then it is raised. A job whose process died is
    done again, three times in all, before ``WorkerError`` names it. Closing the iterator, or an
    interruption, ends all processes at once.
    """
    if multiprocessing.current_process().name.startswith(_NAME):
        sys.exit(_UNGUARDED)  # the process that started this one says what to do
    count = usable_cores() if workers is None else workers
    if not isinstance(count, int) or isinstance(count, bool) or count < 1:
        raise ValueError(f"'workers' was {workers!r}; allowed: a whole number >= 1, or None.")
    for job in jobs:
        _check_portable(job)
    return _Crew(jobs, count, tell).results()


BACKENDS: dict[str, Callable[[Sequence[Job], int | None, Tell | None], Results]] = {
    "serial": serial,
    "processes": processes,
}


def usable_cores() -> int:
    """Count the cores that this process may run on."""
    if hasattr(os, "sched_getaffinity"):  # not everywhere
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _one_by_one(jobs: Sequence[Job], tell: Tell | None) -> Results:
    for number, job in enumerate(jobs):
        told = None if tell is None else partial(tell, number)
        if told is not None:
            told(0.0)
        try:
            result = job(told)
        except Exception as error:
            error.add_note(_origin(job))
            raise
        yield number, result


def _origin(job: Job) -> str:
    return f"It came from {job}."


def _check_portable(job: Job) -> None:
    try:
        pickle.dumps(job)
    except Exception as error:  # whatever an object raises while it is pickled
        raise TypeError(f"Cannot send {job} to another process ({error}). {_REMEDY}") from error


# --- the process that hands out jobs --------------------------------------------------------------


@dataclass(eq=False)
class _Worker:
    process: Any
    pipe: Connection
    job: int | None = None  # number of the job at work


class _Crew:
    """Worker processes, each with a pipe of its own and at most one job."""

    def __init__(self, jobs: Sequence[Job], size: int, tell: Tell | None) -> None:
        self._jobs, self._size, self._tell = jobs, size, tell
        self._queue = deque(_in_turn(jobs))
        self._deaths: Counter[int] = Counter()
        self._workers: list[_Worker] = []
        self._hired: list[Any] = []  # every process that was ever started
        self._failure: BaseException | None = None

    def results(self) -> Results:
        try:
            for _ in range(min(self._size, len(self._queue))):
                self._hire()
            while self._workers:
                pipes = {worker.pipe: worker for worker in self._workers}
                for pipe in wait(list(pipes)):
                    yield from self._hear(pipes[pipe])  # type: ignore[index]
            if self._failure is not None:
                raise self._failure
        finally:
            for process in self._hired:
                process.kill()
            for process in self._hired:
                process.join()

    def _hire(self) -> None:
        ours, theirs = multiprocessing.Pipe()
        process = multiprocessing.get_context("spawn").Process(
            target=_work, args=(theirs,), name=f"{_NAME} {len(self._hired)}", daemon=True
        )
        with _inherited():
            process.start()
        theirs.close()  # so that the pipe ends when the worker does
        self._hired.append(process)
        self._workers.append(_Worker(process, ours))

    def _hear(self, worker: _Worker) -> Results:
        """Take one message of a worker and do what follows from it."""
        try:
            what, content = worker.pipe.recv()
        except (EOFError, OSError):  # it ended, perhaps in the middle of a message
            self._lose(worker)
            return
        number = worker.job
        if what == "progress":
            if self._tell is not None and number is not None:
                self._tell(number, content)
            return
        worker.job = None
        if what == "result" and number is not None:
            yield number, content
        elif what == "error" and number is not None:
            error, text = content
            error.__cause__ = WorkerTraceback(text)
            error.add_note(_origin(self._jobs[number]))
            self._fail(error)
        self._employ(worker)

    def _employ(self, worker: _Worker) -> None:
        """Give a free worker the next job, or let it go."""
        if not self._queue:
            self._workers.remove(worker)
            worker.pipe.close()
            return
        worker.job = self._queue.popleft()
        if self._tell is not None:
            self._tell(worker.job, 0.0)
        try:
            worker.pipe.send_bytes(pickle.dumps(self._jobs[worker.job]))
        except OSError:  # it died while it had nothing to do
            self._lose(worker)

    def _lose(self, worker: _Worker) -> None:
        """A worker has died: its job goes to a new one, unless it was given out too often."""
        self._workers.remove(worker)
        worker.pipe.close()
        worker.process.join()
        status = worker.process.exitcode
        if worker.job is None or status == _UNGUARDED:
            self._fail(WorkerError(_start_failure(status)))
            return
        job = self._jobs[worker.job]
        self._deaths[worker.job] += 1
        if self._deaths[worker.job] == TRIES:
            self._fail(WorkerError(_death(job, status)))
        else:
            warnings.warn(
                f"The worker process with {job} died ({_words(status)}); it is done again.",
                RuntimeWarning,
                stacklevel=2,
            )
            self._queue.appendleft(worker.job)
        if self._queue:
            self._hire()

    def _fail(self, error: BaseException) -> None:
        """Remember the first error and begin no further job."""
        self._failure = self._failure or error
        self._queue.clear()


def _in_turn(jobs: Sequence[Job]) -> list[int]:
    """Order numbers of jobs: one of each kind, so that each is compiled once, then the others.

    Large ones come first in both parts: what is left at the end is short.
    """
    numbers = sorted(range(len(jobs)), key=lambda number: -jobs[number].cost)
    first: dict[str, int] = {}
    for number in numbers:
        first.setdefault(jobs[number].kind, number)
    ahead = set(first.values())
    return sorted(numbers, key=lambda number: number not in ahead)


@contextmanager
def _inherited() -> Iterator[None]:
    """Set what a process that is started now inherits: one thread per library, no Ctrl-C.

    Libraries count their threads when they are loaded. A terminal sends Ctrl-C to all processes;
    the one that hands out jobs ends the others.
    """
    kept = {name: os.environ.get(name) for name in _SINGLE}
    blockable = hasattr(signal, "pthread_sigmask")  # not everywhere
    if blockable:
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    os.environ.update(_SINGLE)
    try:
        yield
    finally:
        for name, value in kept.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
        if blockable:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _start_failure(status: int) -> str:
    if status == _UNGUARDED:
        return (
            "The backend 'processes' was called from one of its own worker processes: each of them "
            "loads the script that started it. Put what the script does under "
            "\"if __name__ == '__main__':\", or choose backend 'serial'."
        )
    return (
        f"A worker process ended before it began to work ({_words(status)}); what it wrote to the "
        f"error stream says why. Each of them loads the script that started it: that must be "
        f"possible without arguments and input."
    )


def _death(job: Job, status: int) -> str:
    return (
        f"The worker process died {TRIES} times with {job} (last: {_words(status)}). Perhaps there "
        f"is not enough memory: try fewer workers. With backend 'serial' it runs in this process."
    )


def _words(status: int) -> str:
    if status >= 0:
        return f"exit status {status}"
    return f"signal {-status}, {signal.strsignal(-status)}"


# --- the process that does them -------------------------------------------------------------------


def _work(pipe: Connection) -> None:
    """Do what comes through the pipe until it is closed; keep nothing of a job that is done."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    answer: tuple[str, Any] | None = ("ready", None)
    while True:
        pipe.send(answer)
        answer = None
        try:
            content = pipe.recv_bytes()
        except EOFError:  # nothing is left to do
            return
        answer = _answer(content, _Teller(pipe))
        del content


def _answer(content: bytes, tell: Callable[[float], None]) -> tuple[str, Any]:
    try:
        return "result", _loaded(content)(tell)
    except Exception as error:  # of whatever kind: the other side raises it again
        text = "".join(traceback.format_exception(error))
        return "error", (_portable(error), text)


def _loaded(content: bytes) -> Any:
    try:
        return pickle.loads(content)
    except Exception as error:  # above all: the module or the name is not there
        raise TypeError(f"A worker process cannot load its job ({error}). {_REMEDY}") from error


class _Teller:
    """Sends the progress of a job, at most a hundred times."""

    def __init__(self, pipe: Connection) -> None:
        self._pipe, self._last = pipe, 0.0

    def __call__(self, done: float) -> None:
        if done >= self._last + 0.01:
            self._last = done
            self._pipe.send(("progress", done))


def _portable(error: Exception) -> Exception:
    """Return the error, or one with its text if it would not survive the way."""
    try:
        return pickle.loads(pickle.dumps(error))
    except Exception:  # whatever its class raises
        return RuntimeError(f"{type(error).__name__}: {error}")


def _end_with_parent() -> None:
    """End this process when the one that started it has ended, even by a kill."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
