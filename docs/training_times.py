"""How long trainings take, for docs/training.md: from the facts that packed runs hold."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from results_tables import protocol_of, shares

from coopbench.report.markdown import rows_table
from coopbench.results.packed_runs import SUFFIX, read_runs
from studies.reference import packed_files

MILLION, MINUTE = 1_000_000, 60.0


def parts() -> dict[str, str]:
    """Return the generated part of the page: one table for each protocol with packed runs.

    Those at a share of the budget are left out: too few for the fastest to be an undisturbed one.
    """
    whole = {
        name: [file for file in files if shares().get((name, learner_of(file)), 1.0) == 1.0]
        for name, files in packed_files().items()
    }
    tables = [
        f"Minutes of the fastest run for a million steps, tasks of `{name}`:\n\n"
        f"{times(name, files)}"
        for name, files in whole.items()
        if files
    ]
    return {"times": "\n\n".join(tables)}


def times(name: str, files: Sequence[Path]) -> str:
    """Minutes of the fastest run for a million steps, for every task and learner of a protocol."""
    learners = [learner_of(file) for file in files]
    cells: dict[str, dict[str, float]] = {}
    for file, learner in zip(files, learners, strict=True):
        for task, rates in speeds(name, file):
            cells.setdefault(task, {})[learner] = MILLION / max(rates) / MINUTE
    body = [
        (f"`{task}`", *(f"{row[name]:.1f}" if name in row else "—" for name in learners))
        for task, row in cells.items()
    ]
    return rows_table(["Task", *(f"`{name}`" for name in learners)], body)


def learner_of(file: Path) -> str:
    """Return the learner of a file of runs."""
    return file.name.removesuffix(SUFFIX)


def speeds(name: str, file: Path) -> Iterator[tuple[str, list[float]]]:
    """Yield each task with the steps per second of the runs that were trained on it."""
    for task, runs in read_runs(file, protocol_of(name)).trained.items():
        if isinstance(runs, dict):
            yield task, [run.facts["steps_per_second"] for run in runs.values()]
