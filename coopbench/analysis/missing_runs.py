"""Training runs that a report lacks in whole or in part: listed, never filled in."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from coopbench.episodes.table import EpisodeTable

if TYPE_CHECKING:
    from coopbench.protocol.schema import Task
    from coopbench.report.report import Report

__all__ = ["MissingRun", "missing_runs"]


@dataclass(frozen=True)
class MissingRun:
    """A training run of a policy on a task that is not there, or not whole."""

    task: str
    policy: str
    run: int  # training seed
    state: str  # "failed", "missing" or "partial"
    reason: str


def missing_runs(report: "Report") -> tuple[MissingRun, ...]:
    """List what is not there of the runs of every learned policy, task by task.

    Runs are expected for the protocol's training seeds, as in ``departures``, and for every further
    seed that the policy has on any task. Failed runs take no part in any estimate;
    partial ones, which have fewer checkpoints than others of the policy, do. Checkpoints are
    expected on the tasks that are trained on, and not on those that name one of them.
    """
    expected = _expected(report)
    return tuple(
        row
        for task in report.protocol.task
        for policy, runs in expected.items()
        for row in _of(report.episodes, task, policy, runs)
    )


def _expected(report: "Report") -> dict[str, list[int]]:
    """Training seeds of every learned policy: the protocol's, and all that it has on any task."""
    training = report.protocol.seeds.training
    cells = [block.cell for block in report.episodes]
    cells += [failure.cell for failure in report.episodes.failures]
    found: dict[str, set[int]] = {}
    for cell in cells:
        if cell.run is not None:
            found.setdefault(cell.policy, set(training)).add(cell.run)
    return {policy: sorted(runs) for policy, runs in found.items()}


def _of(table: EpisodeTable, played: "Task", policy: str, runs: list[int]) -> Iterator[MissingRun]:
    """What is not there of the runs of one policy on one task."""
    task = played.id
    failed = {
        failure.cell.run: failure.reason
        for failure in table.failures
        if (failure.cell.task, failure.cell.policy) == (task, policy)
    }
    followed = table.progress_of(task, policy) if played.trained_on is None else ()
    courses = {each.cell.run: each.steps for each in followed}
    longest = max((len(steps) for steps in courses.values()), default=0)
    there = [block.cell.run for block in table.runs(task, policy)]
    for run in runs:
        if run in failed:
            yield MissingRun(task, policy, run, "failed", failed[run])
        elif run not in there:
            yield MissingRun(task, policy, run, "missing", "no result")
        elif longest and run not in courses:
            yield MissingRun(task, policy, run, "partial", f"no checkpoints; others have {longest}")
        elif longest and len(courses[run]) < longest:
            reach = f"{len(courses[run])} of {longest} checkpoints, to step {courses[run][-1]:,}"
            yield MissingRun(task, policy, run, "partial", reach)
