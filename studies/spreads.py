"""Spreads of runs and episodes for ``coopbench plan power``, from stored reference results.

    python -m studies.spreads           write the spreads
    python -m studies.spreads --power   simulate what ten runs of .9 show against .6

The first reads the tables below ``benchmarks/results/tables`` and writes
``coopbench/analysis/spreads.csv``: for every task with a learner of two runs or more, standard
deviations in normalized score. That of run means is the root mean square over learners. That of
differences from episode to episode is the median over pairs: some scripts, such as random play,
vary much more than others. It follows from the deviations of both policies and the correlation of
their scores of the same seed, where it is known; the deviation of a learner is that within a run,
which is not smaller than that of its mean over runs. Where a single learner is stored, its
differences from scripts stand for those between learners. Protocols whose scale is the range of a
table have no such deviations.

The second writes ``benchmarks/results/power.csv``: for groups, and for every task, the share of
simulated reports that decide the difference between a learner with ten runs of .9 and a script, or
another learner, of .6. Groups with a task whose spreads are unknown are left out.
"""

import argparse
import csv
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np

from coopbench.analysis.planning import (
    LEARNER,
    SCRIPT,
    SHIPPED,
    Plan,
    Prospect,
    prospect,
    shipped_variation,
)
from coopbench.protocol.loading import load_protocol
from studies.reference import ROOT, TABLES, source

POWER = ROOT / "benchmarks" / "results" / "power.csv"
RUNS, EFFECT, TRIALS = 10, 0.3, 400  # runs of .9 against .6, simulated reports

Row = Mapping[str, str]


def rows_of(name: str) -> list[dict[str, object]]:
    """Return the spreads on the tasks of one protocol; none without agreed bounds."""
    protocol = load_protocol(source(name))
    if protocol.report.normalisation == "minmax":
        return []
    widths = {task.id: task.bounds.high - task.bounds.low for task in protocol.task}
    estimates = {
        (row["task"], row["policy"]): row
        for row in _read(name, "estimates.csv")
        if row["metric"] == protocol.report.score and row["task"] in widths and row["mean"]
    }
    learners = {key: row for key, row in estimates.items() if row["unit"] == "runs" and row["std"]}
    gaps: dict[tuple[str, bool], list[float]] = defaultdict(list)
    for row in _read(name, "comparisons.csv"):
        sides = [(row["task"], row["first"]), (row["task"], row["second"])]
        learned = sum(side in learners for side in sides)
        if learned and all(side in estimates for side in sides):
            one, two = (_of_episodes(estimates[side]) for side in sides)
            together = 2.0 * float(row["correlation"] or 0.0) * one * two
            gaps[row["task"], learned == 2].append(one**2 + two**2 - together)
    found: dict[str, list[float]] = defaultdict(list)
    for (task, _), row in learners.items():
        found[task].append(float(row["std"]) ** 2)
    return [
        {
            "protocol": name,
            "task": task,
            "runs": float(np.sqrt(np.mean(squares))) / widths[task],
            "from_script": _middle(gaps[task, False]) / widths[task],
            "between": _middle(gaps[task, True] or gaps[task, False]) / widths[task],
            "learners": len(squares),
        }
        for task, squares in found.items()
        if gaps[task, False]
    ]


def _of_episodes(row: Row) -> float:
    return float(row["std_episodes"] or row["std"] or 0.0)


def _middle(squares: list[float]) -> float:
    return float(np.sqrt(np.median(squares)))


def _read(name: str, file: str) -> list[Row]:
    with (TABLES / name / file).open(encoding="utf-8", newline="") as opened:
        return list(csv.DictReader(opened))


def powers_of(name: str) -> Iterator[dict[str, object]]:
    """Yield how often a protocol's reports decide the target, of groups and of their tasks."""
    protocol = load_protocol(source(name))
    spreads = shipped_variation(protocol)
    for group, tasks in protocol.groups.items():
        if any(task.id not in spreads for task in tasks):
            continue
        found: dict[str, Prospect] = {
            rival: prospect(protocol, group, spreads, Plan(RUNS, EFFECT, rival, trials=TRIALS))
            for rival in (SCRIPT, LEARNER)
        }
        head = {"protocol": name, "group": group, "runs": RUNS, "effect": EFFECT}
        yield head | {"task": ""} | {rival: row.over_group for rival, row in found.items()}
        for task in tasks:
            yield head | {"task": task.id} | {k: row.on_tasks[task.id] for k, row in found.items()}


def main() -> None:
    """Write the spreads of all protocols with stored tables, or the power that follows."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--power", action="store_true", help="simulate what ten runs show")
    names = [folder.name for folder in sorted(TABLES.iterdir())]
    if parser.parse_args().power:
        standard = [name for name in names if name.endswith("-standard")]
        _write(POWER, [row for name in standard for row in powers_of(name)])
    else:
        _write(SHIPPED, [row for name in names for row in rows_of(name)])


def _write(path: Path, rows: Sequence[Mapping[str, object]]) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(map(written, rows))


def written(row: Mapping[str, object]) -> dict[str, str]:
    """Return a row as its file has it: numbers with six digits."""
    return {k: f"{v:.6g}" if isinstance(v, float) else str(v) for k, v in row.items()}


if __name__ == "__main__":
    main()
