"""The backend 'processes': each job runs in one of several worker processes on this machine."""

import io
import multiprocessing
import os
import pickle
import signal
import sys
import threading
import types
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from functools import partial
from multiprocessing import resource_tracker
from multiprocessing.context import SpawnContext, SpawnProcess
from typing import Any

from coopbench.errors import WorkerError
from coopbench.playing.jobs import (
    Job,
    Results,
    TellNumber,
    Workers,
    answer_to,
    check_jobs,
    check_workers,
    one_by_one,
    results_of,
    thread_limits,
)
from coopbench.provenance import usable_cores
from coopbench_envs.foreign_names import permitted
from coopbench_envs.registration import added, restore

_NAME = "coopbench worker"
_UNGUARDED = 78  # exit status of a worker in which the script that started it starts workers again
_SAFE_PATH = "PYTHONSAFEPATH"
_WORTHWHILE = 5_000_000.0  # agent-steps, about five seconds; a process takes one to start
# Packages whose code every worker can load.
_REQUIRED = {*sys.stdlib_module_names, "coopbench", "coopbench_envs", "numpy", "pydantic"}
_STEP = 0.01  # share of a job after which its progress is sent again


def processes(jobs: Sequence[Job], workers: int | None, tell: TellNumber | None) -> Results:
    """Do each job in one of ``workers`` processes; by default as many as there are usable cores.

    Errors, deaths of workers and the end of the iterator mean what ``results_of`` says; an
    interruption ends all processes at once.
    """
    if multiprocessing.current_process().name.startswith(_NAME):
        sys.exit(_UNGUARDED)  # the process that started this one says what to do
    check_jobs(jobs, workers, pickle.dumps)
    return results_of(partial(_Processes, workers or usable_cores()), jobs, tell)


def where_it_pays(jobs: Sequence[Job], workers: int | None, tell: TellNumber | None) -> Results:
    """Do jobs in processes where these pay and no code of the user's is needed, else in this one.

    They pay for two or more jobs and cores, and for costs of ``_WORTHWHILE`` or more in all. Jobs
    that hold an object or an environment of the user's are done in this process, where such an
    object stays the one that the user has, and no process loads the script that started this one.
    """
    check_workers(workers)
    places = min(workers or usable_cores(), len(jobs))
    in_worker = multiprocessing.current_process().name.startswith(_NAME)
    pays = places > 1 and sum(job.cost for job in jobs) >= _WORTHWHILE
    if in_worker or not pays or permitted() or not all(map(_is_ours, jobs)):
        return one_by_one(jobs, tell)
    return results_of(partial(_Processes, places, loads_script=False), jobs, tell)


class _OurPickler(pickle.Pickler):
    """Refuses everything whose code is neither of this package nor of what it requires."""

    def reducer_override(self, obj: Any) -> Any:
        """Raise ``PicklingError`` for an object of other code; leave all others to pickle."""
        named = obj if isinstance(obj, type | types.FunctionType) else type(obj)
        if named.__module__.partition(".")[0] not in _REQUIRED:
            raise pickle.PicklingError(f"{named.__module__} is code from elsewhere.")
        return NotImplemented


def _is_ours(job: Job) -> bool:
    """Whether another process can load a job without code from elsewhere."""
    if job.kind.partition(".")[0] not in _REQUIRED:  # the module of its environment
        return False
    try:
        _OurPickler(io.BytesIO()).dump(job)
    except Exception:  # whatever an object raises while it is pickled
        return False
    return True


# --- the process that hands out jobs --------------------------------------------------------------


class _Processes(Workers):
    """A pool of processes: if one of them dies, all work ends."""

    deaths = (BrokenProcessPool,)

    def __init__(self, most: int, loads_script: bool = True) -> None:
        self.places, self._context = most, WorkerContext(loads_script)
        self._told = self._context.SimpleQueue()  # (number of a job, its progress)
        self._pool = ProcessPoolExecutor(most, self._context, _connect, (self._told,))
        self._works = False  # whether a process has begun to work
        self._status: int | None = None  # with which the first process died

    def submit(self, number: int, job: Job) -> Future[bytes]:
        try:
            return self._pool.submit(_do, number, pickle.dumps(job))
        except BrokenProcessPool as error:  # a process died while it had nothing to do
            future: Future[bytes] = Future()
            future.set_exception(error)
            return future

    def progress(self) -> Iterator[tuple[int, float]]:
        """Also end all work if a process has died: the pool does not notice that of a new one."""
        while not self._told.empty():
            self._works = True
            yield self._told.get()
        if self._look():
            self._kill()

    def death(self, error: BaseException) -> str:
        """Say how a process died; raises ``WorkerError`` if none of them ever began to work."""
        self._pool.shutdown()  # then all exit statuses are known
        self._look()
        if not self._works or self._status == _UNGUARDED:
            raise WorkerError(start_failure(self._status))
        return how_ended(self._status)

    def stop(self) -> None:
        try:
            self._kill()
        finally:
            self._pool.shutdown(cancel_futures=True)

    def _look(self) -> bool:
        """Note with which status a process died, and return whether one has."""
        statuses = [worker.exitcode for worker in self._context.workers]
        ended = [status for status in statuses if status is not None]
        if self._status is None and ended:  # the pool ends the others with SIGTERM
            self._status = next((s for s in ended if s != -signal.SIGTERM), ended[0])
        return bool(ended)

    def _kill(self) -> None:
        for worker in self._context.workers:
            if worker.pid is not None:  # else it could not be started
                worker.kill()


class WorkerProcess(SpawnProcess):
    """A process that ends with the one that started it; Ctrl-C does not reach it.

    Numerical libraries use one thread in it. Environments of the user's files are registered in it.
    Python starts in its safe-path mode, so that no folder in which it is started replaces a module
    of the standard library; then it has the path of the process that started it. ``loads_script``
    is whether it loads the script of that process.
    """

    def __init__(self, *arguments: Any, loads_script: bool = True, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.name = f"{_NAME} {self.name}"
        self._environments, self._loads_script = added(), loads_script
        self._safe_path = os.environ.get(_SAFE_PATH)

    def start(self) -> None:
        """Start the process with what it inherits."""
        main = sys.modules["__main__"]
        with _inherited():
            if not self._loads_script:  # a new process loads what stands here
                sys.modules["__main__"] = types.ModuleType("__main__")
            try:
                super().start()
            finally:
                sys.modules["__main__"] = main

    def run(self) -> None:
        """Do in the process what it was made for, once it is set up."""
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        threading.Thread(target=_end_with_parent, daemon=True).start()
        if self._safe_path is None:  # what a policy starts is started as usual
            os.environ.pop(_SAFE_PATH, None)
        restore(self._environments)
        super().run()


class WorkerContext(SpawnContext):
    """Starts workers for an executor, and remembers them."""

    def __init__(self, loads_script: bool = True) -> None:
        super().__init__()
        self._loads_script = loads_script
        self.workers: list[WorkerProcess] = []
        if os.name == "posix":
            with _inherited():  # the process that cleans up after the others is started first
                resource_tracker.ensure_running()

    def Process(self, *arguments: Any, **options: Any) -> WorkerProcess:  # type: ignore[override] # noqa: N802
        """Return a process that is not started yet."""
        self.workers.append(WorkerProcess(*arguments, loads_script=self._loads_script, **options))
        return self.workers[-1]


@contextmanager
def _inherited() -> Iterator[None]:
    """Set what a process that is started now inherits: one thread, safe path, no Ctrl-C.

    Libraries count their threads when they are loaded. A terminal sends Ctrl-C to all processes;
    the one that hands out jobs ends the others.
    """
    limits = thread_limits() | {_SAFE_PATH: "1"}
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

_told: Any = None  # queue through which a worker tells progress


def _connect(told: Any) -> None:
    global _told
    _told = told


def _do(number: int, content: bytes) -> bytes:
    """Do a job and tell its progress, at most a hundred times."""
    last = -_STEP

    def tell(share: float) -> None:
        nonlocal last
        if share >= last + _STEP:
            last = share
            _told.put((number, share))

    tell(0.0)  # it has begun to work
    return answer_to(content, tell)


def _end_with_parent() -> None:
    """End this process when the one that started it has ended, even by a kill."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
