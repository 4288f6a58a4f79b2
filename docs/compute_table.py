"""Hours behind the stored tables, for docs/compute.md: from the facts that packed runs hold."""

import json
from collections.abc import Mapping
from pathlib import Path

from checkout import ROOT
from stored_results import names
from training_times import facts, learner_of

from coopbench.report.markdown import rows_table
from studies.reference import TRAININGS, packed_files

HOUR = 3600.0  # seconds
TRIALS = ROOT / "benchmarks" / "results"


def parts() -> dict[str, str]:
    """Return the generated part of the page."""
    return {"hours": hours(), "trials": trials()}


def hours() -> str:
    """Hours of every stored table: of the trainings that are stored, and of those still planned."""
    files, rows, total = packed_files(), [], 0.0
    for name in names():
        stored = {learner_of(file): training_hours(name, file) for file in files.get(name, ())}
        planned = {
            one.learner: one.hours
            for one in TRAININGS
            if one.protocol == name and one.learner not in stored
        }
        total += sum(stored.values())
        rows.append((f"[{name}](results/{name}.md)", listed(stored), listed(planned)))
    rows.append(("together", f"{total:.1f}", ""))
    return rows_table(["Table", "Hours of the stored runs", "Hours of runs that are planned"], rows)


def listed(of_learners: Mapping[str, float]) -> str:
    """Return the sum of hours with those of each learner."""
    if not of_learners:
        return "—"
    each = ", ".join(f"`{name}` {value:.1f}" for name, value in of_learners.items())
    return f"{sum(of_learners.values()):.1f}: {each}" if len(of_learners) > 1 else each


def training_hours(name: str, file: Path) -> float:
    """Return the hours that all runs of a file took to train and to play their checkpoints."""
    runs = [run for of_task in facts(name, file).values() for run in of_task]
    return sum(run["seconds"] + run["evaluation_seconds"] for run in runs) / HOUR


def trials() -> str:
    """Hours of the stored trials of hyperparameters."""
    rows = []
    for file in sorted(TRIALS.glob("tuning_*.jsonl")):
        made = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
        spent = sum(trial["processor_seconds"] for trial in made) / HOUR
        rows.append((f"`{file.name}`", str(len(made)), f"{spent:.1f}"))
    return rows_table(["File in `benchmarks/results`", "Trials", "Hours"], rows)
