"""Training runs that results lack in whole or in part: listed, never filled in."""

from collections.abc import Iterator
from dataclasses import dataclass

from coopbench.episodes.table import EpisodeTable
from coopbench.protocol.schema import Protocol
from coopbench.protocol.task import Task


@dataclass(frozen=True)
class MissingRun:
    """A training run of a policy on a task that is missing, or incomplete."""

    task: str
    policy: str
    run: int  # training seed
    state: str  # "failed", "missing" or "partial"
    reason: str


def missing_runs(protocol: Protocol, table: EpisodeTable) -> tuple[MissingRun, ...]:
    """List the missing runs of every learned policy, task by task.

    Runs are expected for the protocol's training seeds, as in ``deviations``, and for every further
    seed that the policy has on any task. Failed runs take no part in any estimate;
    partial ones, which have fewer checkpoints than others of the policy, do. Checkpoints are
    expected on the tasks that are trained on, and not on those that name one of them.
    """
    expected = _expected(protocol, table)
    return tuple(
        row
        for task in protocol.task
        for policy, runs in expected.items()
        for row in _missing(table, task, policy, runs)
    )


def _expected(protocol: Protocol, table: EpisodeTable) -> dict[str, list[int]]:
    """Training seeds of every learned policy: the protocol's, and all that it has on any task."""
    cells = [block.cell for block in table]
    cells += [failure.cell for failure in table.failures]
    expected: dict[str, set[int]] = {}
    for cell in cells:
        if cell.run is not None:
            expected.setdefault(cell.policy, set(protocol.seeds.training)).add(cell.run)
    return {policy: sorted(runs) for policy, runs in expected.items()}


def _missing(table: EpisodeTable, task: Task, policy: str, runs: list[int]) -> Iterator[MissingRun]:
    """Iterate over the runs of one policy that are missing on one task."""
    name = task.id
    failed = {
        failure.cell.run: failure.reason
        for failure in table.failures
        if (failure.cell.task, failure.cell.policy) == (name, policy)
    }
    followed = table.progress_of(name, policy) if task.trained_on is None else ()
    courses = {progress.cell.run: progress.steps for progress in followed}
    longest = max((len(steps) for steps in courses.values()), default=0)
    played = [block.cell.run for block in table.runs(name, policy)]
    for run in runs:
        if run in failed:
            yield MissingRun(name, policy, run, "failed", failed[run])
        elif run not in played:
            yield MissingRun(name, policy, run, "missing", "no result")
        elif longest and run not in courses:
            yield MissingRun(name, policy, run, "partial", f"no checkpoints; others have {longest}")
        elif longest and len(courses[run]) < longest:
            reach = f"{len(courses[run])} of {longest} checkpoints, to step {courses[run][-1]:,}"
            yield MissingRun(name, policy, run, "partial", reach)
