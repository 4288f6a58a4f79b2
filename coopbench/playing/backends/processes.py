"""The backend 'processes': each job runs in one of several worker processes on this machine."""

import multiprocessing
import os
import pickle
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess

from coopbench.errors import WorkerError
from coopbench.playing.backends.jobs import (
    Answer,
    Job,
    Ledger,
    Results,
    TellNumber,
    answer_to,
    check_portable,
    check_workers,
    thread_limits,
)
from coopbench.provenance import usable_cores
from coopbench_envs.registration import added, restore

__all__ = ["hire", "how_ended", "processes", "start_failure"]

_NAME = "coopbench worker"
_UNGUARDED = 78  # exit status of a worker in which the script that started it starts workers again


def processes(jobs: Sequence[Job], workers: int | None, tell: TellNumber | None) -> Results:
    """Do each job in one of ``workers`` processes; by default as many as there are usable cores.

    After an error the jobs at work are finished, then it is raised. A job whose process died is
    done again, three times in all, before ``WorkerError`` names it. Closing the iterator, or an
    interruption, ends all processes at once.
    """
    if multiprocessing.current_process().name.startswith(_NAME):
        sys.exit(_UNGUARDED)  # the process that started this one says what to do
    check_workers(workers)
    for job in jobs:
        check_portable(job, pickle.dumps)
    return _Crew(Ledger(jobs, tell), workers or usable_cores()).results()


# --- the process that hands out jobs --------------------------------------------------------------


@dataclass(eq=False)
class _Worker:
    process: BaseProcess
    pipe: Connection
    job: int | None = None  # number of the job at work


class _Crew:
    """Worker processes, each with a pipe of its own and at most one job."""

    def __init__(self, ledger: Ledger, size: int) -> None:
        self._ledger, self._size = ledger, size
        self._workers: list[_Worker] = []
        self._hired: list[BaseProcess] = []  # every process that was ever started

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
        """Give the job of a worker that died to a new one, unless that was done too often."""
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


def hire(work: Callable[[Connection], None], number: int) -> tuple[BaseProcess, Connection]:
    """Start a process that does ``work(pipe)``; return it and our end of the pipe.

    It ends when this process does, and its ``number`` is part of its name.
    """
    ours, theirs = multiprocessing.Pipe()
    process = multiprocessing.get_context("spawn").Process(
        target=_enter, args=(work, theirs, added()), name=f"{_NAME} {number}", daemon=True
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
    limits = thread_limits()
    before = {name: os.environ.get(name) for name in limits}
    blockable = hasattr(signal, "pthread_sigmask")  # not everywhere
    if blockable:
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    os.environ.update(limits)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
        if blockable:
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)


def start_failure(status: int | None) -> str:
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


def how_ended(status: int | None) -> str:
    """Say how a process ended, from its exit status; None if that is not known."""
    if status is None or status >= 0:
        return f"exit status {'unknown' if status is None else status}"
    return f"signal {-status}, {signal.strsignal(-status)}"


# --- the process that does them -------------------------------------------------------------------


def _enter(
    work: Callable[[Connection], None], pipe: Connection, environments: dict[str, str]
) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    restore(environments)
    work(pipe)


def _work(pipe: Connection) -> None:
    """Do the jobs that come through the pipe until it is closed."""
    answer: Answer | None = ("ready", None)
    while True:
        pipe.send(answer)
        answer = None
        try:
            content = pipe.recv_bytes()
        except EOFError:  # nothing is left to do
            return
        answer = answer_to(content, _Teller(pipe))
        del content  # nothing of a job that is done stays in memory


class _Teller:
    """Sends the progress of a job, at most a hundred times."""

    def __init__(self, pipe: Connection) -> None:
        self._pipe, self._last = pipe, 0.0

    def __call__(self, share: float) -> None:
        if share >= self._last + 0.01:
            self._last = share
            self._pipe.send(("progress", share))


def _end_with_parent() -> None:
    """End this process when the one that started it has ended, even by a kill."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
