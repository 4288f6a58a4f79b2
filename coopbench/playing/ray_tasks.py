"""The backend 'ray': each job is a task of Ray, on the machines of a cluster."""

import os
import pickle
import platform
import sys
from collections.abc import Sequence
from concurrent.futures import Future
from contextlib import chdir
from functools import partial
from pathlib import Path
from typing import Any

from coopbench.playing import jobs as work
from coopbench.playing.jobs import Job, Results, TellNumber
from coopbench.provenance import versions

_DEATHS = ("WorkerCrashedError", "NodeDiedError", "LocalRayletDiedError", "OutOfMemoryError")


def ray_tasks(jobs: Sequence[Job], workers: int | None, tell: TellNumber | None) -> Results:
    """Do each job as a task on a cluster, with the cores and GPUs that the job asks for.

    Without a cluster at ``RAY_ADDRESS`` or on this machine, one is started and stopped at the end.
    By default as many tasks are given out at a time as it has cores at the start.
    """
    try:
        import ray
    except ModuleNotFoundError as error:
        missing = "The backend 'ray' needs Ray: pip install \".[ray]\", or choose 'processes'."
        raise ValueError(missing) from error
    work.check_jobs(jobs, workers, ray.cloudpickle.dumps)
    return work.results_of(partial(_RayTasks, ray, workers), jobs, tell)


class _RayTasks(work.Workers):
    """Tasks of Ray, whose workers look for modules where this process does.

    Ray puts the folder in which it is started before all others, where a file of a stranger's
    folder would replace a module of this package. So it is started in the root folder.
    """

    def __init__(self, ray: Any, most: int | None) -> None:
        self._ray, self._tasks = ray, dict[Future[bytes], Any]()
        self.deaths = tuple(getattr(ray.exceptions, name) for name in _DEATHS)
        folder = str(Path.cwd())
        self._place = folder, [place or folder for place in sys.path]
        with chdir(os.sep):
            self._started = not ray.is_initialized() and ray.init() is not None
        self.places = most or max(1, int(ray.cluster_resources().get("CPU", 1)))

    def submit(self, number: int, job: Job) -> Future[bytes]:
        cores, gpus = job.resources
        threads = {"env_vars": work.thread_limits(cores)}
        remote = self._ray.remote(num_cpus=cores, num_gpus=gpus, max_retries=0, runtime_env=threads)
        content = self._ray.cloudpickle.dumps(job)
        task = remote(_task).remote(content, versions(), *self._place)
        future: Future[bytes] = task.future()
        self._tasks[future] = task
        future.add_done_callback(self._tasks.pop)
        return future

    def stop(self) -> None:
        for task in list(self._tasks.values()):
            self._ray.cancel(task, force=True)
        if self._started:
            self._ray.shutdown()


def _task(content: bytes, expected: dict[str, str], folder: str, path: Sequence[str]) -> bytes:
    """Do a job where the versions are those of the machine that gave it out.

    The worker stands in the ``folder`` of the process there, if it has it, and imports modules
    from that one's ``path`` after its own.
    """
    import ray

    if Path(folder).is_dir():
        os.chdir(folder)
    sys.path += [place for place in path if place not in sys.path]
    installed = versions()
    if installed == expected:
        return work.answer_to(content, None, ray.cloudpickle.dumps)
    needed = ", ".join(f"{name} {n}" for name, n in sorted(expected.items() - installed.items()))
    error = RuntimeError(f"{platform.node()} lacks {needed}: results may differ.")
    return pickle.dumps(work.Answer(error=error))
