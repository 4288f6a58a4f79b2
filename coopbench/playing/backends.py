"""Backends: where jobs are done, in this process, in several, or on several machines.

A job is a value that can be pickled and called: ``job(tell)`` works, tells its progress in [0, 1]
and returns a result; ``str(job)`` names it in errors. A backend checks what it is given, starts
nothing before its results are asked for, and yields (number of the job, result) as jobs finish.
"""

import multiprocessing
import os
import pickle
import platform
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

from coopbench.errors import WorkerError
from coopbench.provenance import usable_cores, versions

__all__ = ["BACKENDS", "Job", "hire", "how_ended", "start_failure"]

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
    _check_workers(workers)
    for job in jobs:
        _check_portable(job, pickle.dumps)
    return _Crew(_Ledger(jobs, tell), workers or usable_cores()).results()


def ray_tasks(jobs: Sequence[Job], workers: int | None, tell: Tell | None) -> Results:
    """Do each job as a task of Ray, with one core, on the machines of a cluster.

    That is the one this process is connected to, the one at ``RAY_ADDRESS``, or the one that runs
    on this machine (``ray start``); it is left running. Without any, Ray is started on this machine
    and stopped at the end. ``workers`` tasks are given out at a time, by default as many as the
    cluster has cores. Errors, deaths and the end of the iterator mean what they do for
    ``processes``; a job tells its progress only when it is done.
    """
    _check_workers(workers)
    try:
        import ray
    except ModuleNotFoundError as error:
        raise ValueError(
            "The backend 'ray' needs Ray, which is not installed here: "
            "pip install \"coopbench[ray]\", or choose backend 'processes'."
        ) from error
    for job in jobs:
        _check_portable(job, ray.cloudpickle.dumps)
    return _RayTasks(ray, _Ledger(jobs, tell), workers).results()


BACKENDS: dict[str, Callable[[Sequence[Job], int | None, Tell | None], Results]] = {
    "serial": serial,
    "processes": processes,
    "ray": ray_tasks,
}


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


def _check_workers(workers: int | None) -> None:
    whole = isinstance(workers, int) and not isinstance(workers, bool)
    if workers is not None and not (whole and workers >= 1):
        raise ValueError(f"'workers' was {workers!r}; allowed: a whole number >= 1, or None.")


def _check_portable(job: Job, dumps: Callable[[Job], bytes]) -> None:
    try:
        dumps(job)
    except Exception as error:  # whatever an object raises while it is pickled
        raise TypeError(f"Cannot send {job} to another process ({error}). {_REMEDY}") from error


# --- the process that hands out jobs --------------------------------------------------------------


class _Ledger:
    """Which jobs are still to be given out, and what became of those that were."""

    def __init__(self, jobs: Sequence[Job], tell: Tell | None) -> None:
        self.jobs, self._tell = jobs, tell
        self.queue = deque(_in_turn(jobs))
        self._deaths: Counter[int] = Counter()
        self._failure: BaseException | None = None

    def begin(self) -> int:
        """Take the next job from the queue and return its number."""
        number = self.queue.popleft()
        self.tell(number, 0.0)
        return number

    def tell(self, number: int, done: float) -> None:
        """Pass the progress of a job on."""
        if self._tell is not None:
            self._tell(number, done)

    def settle(self, number: int, answer: tuple[str, Any]) -> Results:
        """Yield the result in the answer of a worker, or remember its error."""
        what, content = answer
        if what == "result":
            yield number, content
        else:
            error, text = content
            error.__cause__ = WorkerTraceback(text)
            error.add_note(_origin(self.jobs[number]))
            self.fail(error)

    def lose(self, number: int, how: str) -> None:
        """A worker died with a job: it is given out again, unless that was done too often."""
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


@dataclass(eq=False)
class _Worker:
    process: Any
    pipe: Connection
    job: int | None = None  # number of the job at work


class _Crew:
    """Worker processes, each with a pipe of its own and at most one job."""

    def __init__(self, ledger: _Ledger, size: int) -> None:
        self._ledger, self._size = ledger, size
        self._workers: list[_Worker] = []
        self._hired: list[Any] = []  # every process that was ever started

    def results(self) -> Results:
        try:
            for _ in range(min(self._size, len(self._ledger.queue))):
                self._hire()
            while self._workers:
                pipes = {worker.pipe: worker for worker in self._workers}
                for pipe in wait(list(pipes)):
                    yield from self._hear(pipes[pipe])  # type: ignore[index]
            self._ledger.close()
        finally:
            for process in self._hired:
                process.kill()
            for process in self._hired:
                process.join()

    def _hire(self) -> None:
        process, ours = hire(_work, len(self._hired))
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
            if number is not None:
                self._ledger.tell(number, content)
            return
        worker.job = None
        if number is not None:
            yield from self._ledger.settle(number, (what, content))
        self._employ(worker)

    def _employ(self, worker: _Worker) -> None:
        """Give a free worker the next job, or let it go."""
        if not self._ledger.queue:
            self._workers.remove(worker)
            worker.pipe.close()
            return
        worker.job = self._ledger.begin()
        try:
            worker.pipe.send_bytes(pickle.dumps(self._ledger.jobs[worker.job]))
        except OSError:  # it died while it had nothing to do
            self._lose(worker)

    def _lose(self, worker: _Worker) -> None:
        """A worker has died: its job goes to a new one, unless it was given out too often."""
        self._workers.remove(worker)
        worker.pipe.close()
        worker.process.join()
        status = worker.process.exitcode
        if worker.job is None or status == _UNGUARDED:
            self._ledger.fail(WorkerError(start_failure(status)))
            return
        self._ledger.lose(worker.job, how_ended(status))
        if self._ledger.queue:
            self._hire()


def hire(work: Callable[[Connection], None], number: int) -> tuple[Any, Connection]:
    """Start a process that does ``work(pipe)``; return it and our end of the pipe.

    It ends when this process does, and its ``number`` is part of its name.
    """
    ours, theirs = multiprocessing.Pipe()
    process = multiprocessing.get_context("spawn").Process(
        target=_enter, args=(work, theirs), name=f"{_NAME} {number}", daemon=True
    )
    with _inherited():
        process.start()
    theirs.close()  # so that the pipe ends when the worker does
    return process, ours


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


def start_failure(status: int) -> str:
    """Say why a worker process did not begin to work, from its exit status."""
    if status == _UNGUARDED:
        return (
            "The backend 'processes' was called from one of its own worker processes: each of them "
            "loads the script that started it. Put what the script does under "
            "\"if __name__ == '__main__':\", or choose backend 'serial'."
        )
    return (
        f"A worker process ended before it began to work ({how_ended(status)}); what it wrote to "
        f"the error stream says why. Each of them loads the script that started it: that must be "
        f"possible without arguments and input."
    )


def _death(job: Job, how: str) -> str:
    return (
        f"The worker process died {TRIES} times with {job} (last: {how}). Perhaps there is not "
        f"enough memory: try fewer workers. With backend 'serial' it runs in this process."
    )


def how_ended(status: int) -> str:
    """Say how a process ended, from its exit status."""
    if status >= 0:
        return f"exit status {status}"
    return f"signal {-status}, {signal.strsignal(-status)}"


# --- the process that does them -------------------------------------------------------------------


def _enter(work: Callable[[Connection], None], pipe: Connection) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    work(pipe)


def _work(pipe: Connection) -> None:
    """Do what comes through the pipe until it is closed; keep nothing of a job that is done."""
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


def _answer(content: bytes, tell: Callable[[float], None] | None) -> tuple[str, Any]:
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


# --- a cluster that does them ---------------------------------------------------------------------


class _RayTasks:
    """Tasks of Ray, each with one job."""

    def __init__(self, ray: Any, ledger: _Ledger, workers: int | None) -> None:
        self._ray, self._ledger, self._workers = ray, ledger, workers
        self._versions = versions()
        self._at_work: dict[Any, int] = {}  # reference to the answer of a task -> number of its job

    def results(self) -> Results:
        if not self._ledger.queue:
            return
        connected = self._ray.is_initialized()
        if not connected:
            self._ray.init()
        try:
            # Ray itself would try again without a word, for some deaths without end.
            task = self._ray.remote(
                num_cpus=1, max_retries=0, runtime_env={"env_vars": dict(_SINGLE)}
            )(_task)
            self._give_out(task)
            while self._at_work:
                done, _ = self._ray.wait(list(self._at_work))
                for reference in done:
                    yield from self._hear(reference)
                self._give_out(task)
            self._ledger.close()
        finally:
            for reference in self._at_work:
                self._ray.cancel(reference, force=True)
            if not connected:
                self._ray.shutdown()

    def _give_out(self, task: Any) -> None:
        while self._ledger.queue and len(self._at_work) < (self._workers or self._cores()):
            number = self._ledger.begin()
            content = self._ray.cloudpickle.dumps(self._ledger.jobs[number])
            self._at_work[task.remote(content, self._versions)] = number

    def _cores(self) -> int:
        """Count the cores of the cluster now: machines come and go."""
        return max(1, int(self._ray.cluster_resources().get("CPU", 1)))

    def _hear(self, reference: Any) -> Results:
        """Take the answer of a task that has ended and do what follows from it."""
        number, died = self._at_work.pop(reference), self._ray.exceptions
        try:
            answer = pickle.loads(self._ray.get(reference))
        except (
            died.WorkerCrashedError,
            died.NodeDiedError,
            died.OutOfMemoryError,
            died.ObjectLostError,  # its machine died before the answer came here
        ) as error:
            self._ledger.lose(number, type(error).__name__)
            return
        self._ledger.tell(number, 1.0)
        yield from self._ledger.settle(number, answer)


def _task(content: bytes, expected: dict[str, str]) -> bytes:
    """Do a job on any machine; the answer is bytes, so that it does not stay in Ray's memory."""
    installed = versions()
    if installed == expected:
        return pickle.dumps(_answer(content, None))
    other = [name for name in expected | installed if expected.get(name) != installed.get(name)]
    told = ", ".join(f"{n} {installed.get(n)} instead of {expected.get(n)}" for n in other)
    text = (
        f"The machine {platform.node()} has {told}: its results could differ. Install the same "
        f"versions on all machines of the cluster."
    )
    return pickle.dumps(("error", (RuntimeError(text), text)))
