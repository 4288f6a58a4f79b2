"""Limits of a protocol: how long a policy may take in timed play."""

from collections.abc import Sequence
from typing import Annotated

from pydantic import Field

from coopbench.protocol.base import Strict, later
from coopbench.protocol.task import Task

Seconds = Annotated[float, Field(gt=0, le=1_000_000, allow_inf_nan=False)]


class Limits(Strict):
    """How long a policy may take, in seconds; ``evaluate`` keeps no time."""

    planning: Seconds  # from the policy's creation to its first action of an episode
    step: Seconds  # for each later action
    total: Seconds  # for all episodes of all tasks, including the environments
    timeouts: int = Field(
        default=10, ge=1, le=1_000_000
    )  # consecutive time-outs that end the evaluation
    # Mean share of arrivals ("arrived"): after a task with less, later tasks are not played.
    stop_below: float | None = later(gt=0.0, lt=1.0)

    def __str__(self) -> str:
        stop = f", and so does a task with a mean share arrived below {self.stop_below}"
        return (
            f"{self.planning:g} s to the first action of an episode, {self.step:g} s for each "
            f"later one, {self.total:g} s in all; {self.timeouts} timeouts in a row end it"
            f"{'' if self.stop_below is None else stop}"
        )


LIMITS = {
    "flatland": Limits(planning=600.0, step=10.0, total=28_800.0),
    "flatland-round-1": Limits(planning=300.0, step=5.0, total=28_800.0),
    "flatland-service": Limits(planning=600.0, step=10.0, total=7_200.0),
}


def check_limits(limits: Limits | None, tasks: Sequence[Task]) -> None:
    """Check that a share arrived is asked only of tasks that measure one."""
    for task in tasks if limits is not None and limits.stop_below is not None else ():
        if "arrived" not in task.spec.metrics:
            raise ValueError(
                f"stop_below goes with tasks that have the metric 'arrived', and {task.id!r} has "
                f"none; remove it"
            )
