"""The backend 'ray': each job is a task of Ray, on the machines of a cluster."""

import pickle
import platform
from collections.abc import Sequence
from typing import Any

from coopbench.playing.jobs import (
    Answer,
    Job,
    Resources,
    Results,
    TellNumber,
    answer_to,
    check_portable,
    check_workers,
    results_of,
    thread_limits,
)
from coopbench.provenance import versions


def ray_tasks(jobs: Sequence[Job], workers: int | None, tell: TellNumber | None) -> Results:
    """Do each job as a task of Ray, with the cores and GPUs that it asks for, on a cluster.

    That is the one this process is connected to, the one at ``RAY_ADDRESS``, or the one that runs
    on this machine (``ray start``); it is left running. Without any, Ray is started on this machine
    and stopped at the end. ``workers`` tasks are given out at a time, by default as many as the
    cluster has cores. Errors, deaths and the end of the iterator mean what ``results_of`` says; a
    job tells its progress only when it is done.
    """
    check_workers(workers)
    try:
        import ray
    except ModuleNotFoundError as error:
        raise ValueError(
            "The backend 'ray' needs Ray, which is not installed here: "
            "pip install \".[ray]\" in a checkout, or choose backend 'processes'."
        ) from error
    for job in jobs:
        check_portable(job, ray.cloudpickle.dumps)
    return results_of(_RayTasks(ray, workers), jobs, tell)


class _RayTasks:
    """Tasks of Ray, each with one job."""

    def __init__(self, ray: Any, most: int | None) -> None:
        self._ray, self._most = ray, most
        self._versions = versions()
        self._started = False  # whether Ray was started here
        self._tasks: dict[Resources, Any] = {}  # remote functions that reserve these
        self._at_work: dict[Any, int] = {}  # reference to the answer of a task -> number of its job

    def start(self, jobs: int) -> None:
        if jobs and not self._ray.is_initialized():
            self._ray.init()
            self._started = True

    def submit(self, number: int, job: Job) -> bool:
        if len(self._at_work) >= (self._most or self._cores()):
            return False
        content = self._ray.cloudpickle.dumps(job)
        reference = self._task(job.resources).remote(content, self._versions)
        self._at_work[reference] = number
        return True

    def _task(self, resources: Resources) -> Any:
        """Return the remote function for jobs that occupy these resources."""
        if resources not in self._tasks:
            # Without max_retries Ray would try again silently, after some deaths without end.
            self._tasks[resources] = self._ray.remote(
                num_cpus=resources.cores,
                num_gpus=resources.gpus,
                max_retries=0,
                runtime_env={"env_vars": thread_limits(resources.cores)},
            )(_task)
        return self._tasks[resources]

    def _cores(self) -> int:
        """Count the cores of the cluster now: machines come and go."""
        return max(1, int(self._ray.cluster_resources().get("CPU", 1)))

    def wait(self) -> list[tuple[int, Answer]]:
        done, _ = self._ray.wait(list(self._at_work))
        return [answer for reference in done for answer in self._ended(reference)]

    def _ended(self, reference: Any) -> list[tuple[int, Answer]]:
        """Return the answer of a task that has ended."""
        number, died = self._at_work.pop(reference), self._ray.exceptions
        try:
            answer = pickle.loads(self._ray.get(reference))
        except (
            died.WorkerCrashedError,
            died.NodeDiedError,
            died.OutOfMemoryError,
            died.ObjectLostError,  # its machine died before the answer came here
        ) as error:
            return [(number, Answer("died", type(error).__name__))]
        return [(number, Answer("progress", 1.0)), (number, answer)]

    def stop(self) -> None:
        for reference in self._at_work:
            self._ray.cancel(reference, force=True)
        if self._started:
            self._ray.shutdown()


def _task(content: bytes, expected: dict[str, str]) -> bytes:
    """Do a job on any machine; the answer is bytes, so that it does not stay in Ray's memory."""
    installed = versions()
    if installed == expected:
        return pickle.dumps(answer_to(content, None))
    names = [n for n in expected | installed if expected.get(n) != installed.get(n)]
    differences = ", ".join(f"{n} {installed.get(n)} instead of {expected.get(n)}" for n in names)
    text = (
        f"The machine {platform.node()} has {differences}: its results could differ. Install the "
        f"same versions on all machines of the cluster."
    )
    return pickle.dumps(Answer("error", (RuntimeError(text), text)))
