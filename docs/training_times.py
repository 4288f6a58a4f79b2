"""How long trainings take: from the facts that packed runs hold.

For docs/training.md, where a reader plans a training, and docs/compute.md, which sums the hours.
"""

from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from statistics import median
from typing import Any

from stored_results import protocol_of

from coopbench.report.markdown import rows_table
from coopbench.results.packed_runs import SUFFIX, read_runs
from studies.reference import packed_files

MILLION, MINUTE = 1_000_000, 60.0


def parts() -> dict[str, str]:
    """Return the generated part of the page: one table for each protocol with packed runs."""
    tables = [
        f"Minutes for a million steps, of the fastest run (and of the median run), tasks of "
        f"`{name}`:\n\n{times(name, files)}"
        for name, files in packed_files().items()
    ]
    return {"times": "\n\n".join(tables)}


def times(name: str, files: Sequence[Path]) -> str:
    """Minutes for a million steps, of the fastest and the median run of every task and learner."""
    learners = [learner_of(file) for file in files]
    cells: dict[str, dict[str, str]] = {}
    for file, learner in zip(files, learners, strict=True):
        for task, runs in facts(name, file).items():
            rates = [run["steps_per_second"] for run in runs]
            least, middle = (MILLION / rate / MINUTE for rate in (max(rates), median(rates)))
            cells.setdefault(task, {})[learner] = f"{least:.1f} ({middle:.1f})"
    body = [
        (f"`{task}`", *(row.get(name, "—") for name in learners)) for task, row in cells.items()
    ]
    return rows_table(["Task", *(f"`{name}`" for name in learners)], body)


def learner_of(file: Path) -> str:
    """Return the learner of a file of runs."""
    return file.name.removesuffix(SUFFIX)


@cache
def facts(name: str, file: Path) -> Mapping[str, Sequence[Mapping[str, Any]]]:
    """Return each trained task with the facts of the runs that were trained on it."""
    protocol = protocol_of(name)
    trained = read_runs(file, protocol).trained
    if protocol.training is not None and protocol.training.on == "any":
        trained = {protocol.training_tasks[0].id: trained}
    return {task: [run.facts for run in runs.values()] for task, runs in trained.items()}
