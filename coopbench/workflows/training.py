"""Training: a protocol and a learner become training runs, and these become results.

A run has the folder of its cell; what its training needs lies there in ``training/`` (see
``run_folder``). Which runs there are is decided in ``training_plan``, one run is ``training_run``.
"""

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import Any

from coopbench.playing.bars import CellProgress, with_bars
from coopbench.playing.runner import Runner, by_cell
from coopbench.protocol.loading import find_protocol
from coopbench.protocol.schema import Protocol
from coopbench.report.loading import load_report
from coopbench.report.report import Report
from coopbench.results.folder import write_protocol
from coopbench.results.manifest import write_manifest
from coopbench.workflows.evaluation import write_report
from coopbench.workflows.training_plan import Scope, runs
from coopbench.workflows.training_run import TrainJob


def train(
    protocol: str | Path | Protocol,
    learner: str,
    out: str | Path,
    *,
    tasks: Sequence[str] | None = None,
    seeds: Sequence[int] | None = None,
    steps: int | None = None,
    smoke: bool = False,
    backend: str = "serial",
    workers: int | None = None,
    progress: CellProgress | bool | None = None,
    **hyperparameters: Any,
) -> Report:
    """Train a learner on the tasks of a protocol, evaluate the trained policies, and report.

    There is one run for every trained task and training seed of the protocol, or for ``tasks`` and
    ``seeds`` if they are named. A run is trained for the protocol's budget; after every interval
    its policy plays the selection episodes without exploration, and the best of these policies (the
    last, if the protocol has no selection seeds) is evaluated on every task that its model plays.
    The report covers everything in the folder ``out``, including fixed policies, and is written
    there; ``progress`` is that of ``evaluate``.

    A run that was stopped is resumed from its last saved interval, and its metadata say so. A run
    whose results are in the folder is not trained again. A run whose numbers became infinite or
    undefined is recorded as failed.

    ``steps`` changes the budget. ``smoke`` takes a hundredth of it, to test whether everything
    works, and changes hyperparameters so that something is learned within it; the report then says
    that it is not a standard report. Hyperparameters that are not named are those that this package
    has for the protocol, or the learner's defaults.

    Raises ``ValueError`` and ``TypeError`` for tasks that the learner cannot be trained on and for
    arguments that are not allowed, before training begins.
    """
    loaded, root = find_protocol(protocol), Path(out)
    jobs = runs(loaded, learner, root, Scope(tasks, seeds, steps, smoke), hyperparameters)
    with run_bars(progress, jobs, root) as tell:
        report = train_runs(loaded, jobs, root, Runner(backend, workers, by_cell(tell)))
    return write_report(report, root)


def run_bars(
    progress: CellProgress | bool | None, jobs: Sequence[TrainJob], root: Path
) -> AbstractContextManager[CellProgress | None]:
    """Return the context of ``with_bars``; bars stand below a line on what is trained."""
    budgets = list(dict.fromkeys((job.budget.steps, job.budget.interval) for job in jobs))
    lengths = "; ".join(f"{steps:,} steps, evaluated every {every:,}" for steps, every in budgets)
    steps = budgets[0][0] if len(budgets) == 1 else 0
    count = f"{len(jobs)} training run{'' if len(jobs) == 1 else 's'}"
    return with_bars(progress, len(jobs), steps, f"{count} of {lengths}, into {root}")


def train_runs(protocol: Protocol, jobs: Sequence[TrainJob], root: Path, runner: Runner) -> Report:
    """Train the runs of ``runs`` into the folder ``root``, and report on everything in it."""
    if root.exists() and not root.is_dir():
        raise ValueError(f"{root} is not a folder; name one, existing or new, for the results.")
    _check_fixed(root, jobs)
    open_jobs = [job for job in jobs if not job.is_finished()]
    with runner.run(open_jobs) as finished:
        write_protocol(root, protocol)
        for job in jobs:
            if job not in open_jobs:
                runner.tell(job, 1.0, "kept")
        for _ in finished:
            pass  # a run writes its results itself
    write_manifest(root, protocol)
    return load_report(root)


def _check_fixed(root: Path, jobs: Sequence[TrainJob]) -> None:
    """Raise ``ValueError`` where a folder holds a fixed policy of the learner's name."""
    for cell in (cell for job in jobs for cell in job.plays):
        fixed = root / replace(cell, run=None).folder / "meta.json"
        if fixed.exists():
            raise ValueError(
                f"{fixed.parent} holds a fixed policy of the name {cell.policy!r}; choose another "
                f"folder."
            )
