"""The backends by name."""

from collections.abc import Sequence
from functools import partial

from coopbench.playing.backends.jobs import Backend, Job, Results, TellNumber, origin
from coopbench.playing.backends.processes import processes
from coopbench.playing.backends.ray_tasks import ray_tasks

__all__ = ["BACKENDS", "serial"]


def serial(jobs: Sequence[Job], workers: int | None, tell: TellNumber | None) -> Results:
    """Do one job after the other in this process; an error ends it at once."""
    if workers is not None:
        raise ValueError(
            f"'workers' was {workers!r} with backend 'serial', which has none; choose "
            f"backend 'processes' or leave it out."
        )
    return _one_by_one(jobs, tell)


def _one_by_one(jobs: Sequence[Job], tell: TellNumber | None) -> Results:
    for number, job in enumerate(jobs):
        tell_share = None if tell is None else partial(tell, number)
        if tell_share is not None:
            tell_share(0.0)
        try:
            result = job(tell_share)
        except Exception as error:
            error.add_note(origin(job))
            raise
        yield number, result


BACKENDS: dict[str, Backend] = {
    "serial": serial,
    "processes": processes,
    "ray": ray_tasks,
}
