"""Answer the questions of the coopetition tracks from results folders, as Markdown with intervals.

    python benchmarks/questions.py --out baselines/results/coopetition-standard/answers.md
    python benchmarks/questions.py --own results/own --team results/team

prints which games separate own from team reward, which separate learners, what every learner
leaves to its partners, where curves still rise at the end of the training, and how exploitable a
learner is; with --out into a file, of which docs/results.md shows the tables. The folders are by
default those of reference.py; without a folder of the team track its questions are left out. Runs
of both tracks are compared in one table, since their tasks and episodes are the same. Learners
whose runs ship with the package take part without runs in the folder.
"""

import argparse
from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations
from pathlib import Path

import numpy as np

from coopbench.analysis.comparisons import Comparison, comparisons
from coopbench.analysis.estimates import estimates
from coopbench.episodes.table import Cell, EpisodeTable, Progress
from coopbench.files import write_text
from coopbench.protocol.schema import Protocol
from coopbench.report.markdown import rows_table
from coopbench.results.folder import is_results_folder, protocol_of, stored_cells, table_of
from coopbench.results.reference import reference_runs
from coopbench.statistics import Crossed, Grid, half_widths

EPISODES = Path(__file__).resolve().parent.parent / "results" / "reference"
Table = tuple[list[str], list[list[str]]]


def learned(root: Path, track: str) -> tuple[Protocol, EpisodeTable]:
    """Return the runs of a results folder, with the track behind the names of their policies.

    Shipped runs stand for those of required learners that the folder lacks.
    """
    protocol = protocol_of(root)
    cells = [(cell, s) for cell, s in stored_cells(root, protocol, []) if cell.run is not None]
    _, shipped, _ = reference_runs(protocol, [cell.policy for cell, _ in cells])
    table = table_of([stored for _, stored in (*cells, *shipped)])

    def renamed(cell: Cell) -> Cell:
        return replace(cell, policy=f"{cell.policy} {track}")

    blocks = tuple(replace(block, cell=renamed(block.cell)) for block in table)
    progress = tuple(replace(course, cell=renamed(course.cell)) for course in table.progress)
    return protocol, EpisodeTable(blocks, progress)


def difference(rows: list[Comparison], task: str, first: str, second: str) -> str:
    """Return the difference of two policies on a task with its interval; bold if it is shown."""
    for row in rows:
        if row.task == task and {row.first, row.second} == {first, second}:
            sign = 1.0 if row.first == first else -1.0
            ends = sorted((sign * row.low, sign * row.high))
            text = f"{sign * row.difference:+z.2f} [{ends[0]:+z.2f}, {ends[1]:+z.2f}]"
            return f"**{text}**" if row.shown else text
    return "—"


def of_tracks(protocol: Protocol, rows: list[Comparison], learners: list[str]) -> Table:
    """Return what the team reward adds to every agent's own return, for every task and learner."""
    body = [
        [f"`{task.id}`", *(difference(rows, task.id, f"{n} team", f"{n} own") for n in learners)]
        for task in protocol.task
    ]
    return ["Task", *learners], body


def of_learners(
    protocol: Protocol, rows: list[Comparison], learners: list[str], track: str
) -> Table:
    """Return the differences between learners of one track, on every task."""
    pairs = list(combinations(learners, 2))
    body = [
        [
            f"`{task.id}`",
            *(difference(rows, task.id, f"{a} {track}", f"{b} {track}") for a, b in pairs),
        ]
        for task in protocol.task
    ]
    return ["Task", *(f"{a} - {b}" for a, b in pairs)], body


def of_regrets(protocol: Protocol, table: EpisodeTable, group: str) -> Table:
    """Return what is left to gain beside the partners of a group: 1 - normalised return."""
    ids = [task.id for task in protocol.task if task.group == group]
    cells: dict[tuple[str, str], str] = {}
    for row in estimates(protocol, table):
        if row.task not in ids or row.metric != protocol.report.score:
            continue
        bounds = protocol.task_of(row.task).bounds
        width = bounds.high - bounds.low
        left, low, high = ((bounds.high - value) / width for value in (row.mean, row.high, row.low))
        cells[row.task, row.policy] = f"{left:.2f} [{low:.2f}, {high:.2f}]"
    policies = list(dict.fromkeys(policy for _, policy in cells))
    body = [[f"`{name}`", *(cells.get((name, p), "—") for p in policies)] for name in ids]
    return ["Task", *policies], body


def of_late_changes(protocol: Protocol, table: EpisodeTable) -> Table:
    """Return by how much scores rise from the third to the last quarter of the training.

    In self-play and beside the partners of training, in units of the normalised scores there.
    """
    policies = list(dict.fromkeys(course.cell.policy for course in table.progress))
    body = []
    for task in protocol.trained_tasks:
        beside = protocol.tasks_beside(task.id)
        played = {task.id: (task, protocol.report.score)}
        played |= {other.id: (other, protocol.score_beside or "") for other in beside[:1]}
        for name, (other, metric) in played.items():
            width = other.bounds.high - other.bounds.low
            rises = [rise(table.progress_of(task.id, p), metric, width) for p in policies]
            body.append([f"`{name}`", *rises])
    return ["Task", *policies], body


def rise(courses: Sequence[Progress], metric: str, width: float) -> str:
    """Return the rise of a metric over the last quarter of the checkpoints, with its interval.

    Runs of fewer than four checkpoints have no last quarter.
    """
    quarter = min((len(course) for course in courses), default=0) // 4
    if quarter == 0:
        return "—"
    rows = [course.metrics[metric] / width for course in courses]
    late = [row[-quarter:].mean(axis=0) - row[-2 * quarter : -quarter].mean(axis=0) for row in rows]
    crossed = Crossed([Grid(np.stack(late))])
    half = float(half_widths(crossed.spread(np.eye(1)))[0])
    centre = float(crossed.means[0])
    text = f"{centre:+z.2f} [{centre - half:+z.2f}, {centre + half:+z.2f}]"
    return f"**{text}**" if abs(centre) > half else text


def main() -> None:
    """Print all tables, or write them into a file."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--own", type=Path, default=EPISODES / "coopetition-standard")
    parser.add_argument("--team", type=Path, default=EPISODES / "coopetition-team")
    parser.add_argument("--out", type=Path, help="file to write; default: print")
    arguments = parser.parse_args()
    parts = [learned(arguments.own, "own")]
    if is_results_folder(arguments.team):
        parts.append(learned(arguments.team, "team"))
    protocol = parts[0][0]
    table = EpisodeTable(
        tuple(block for _, part in parts for block in part),
        tuple(course for _, part in parts for course in part.progress),
    )
    learners = list(dict.fromkeys(policy.rpartition(" ")[0] for _, policy in table.pairs))
    rows = list(comparisons(protocol, table))
    sections = {
        "Own return with team reward minus with own reward": of_tracks(protocol, rows, learners),
        "Differences between learners, own reward": of_learners(protocol, rows, learners, "own"),
        "Differences between learners, team reward": of_learners(protocol, rows, learners, "team"),
        "Left to the partners met in training": of_regrets(protocol, table, "focal"),
        "Left to the held-out partners": of_regrets(protocol, table, "focal-held-out"),
        "Rise over the last quarter of the training": of_late_changes(protocol, table),
    }
    texts = [
        f"## {title}\n\n{rows_table(heads, body)}\n"
        for title, (heads, body) in sections.items()
        if any(cell != "—" for row in body for cell in row[1:])  # else there are no such runs yet
    ]
    for root in (arguments.own, arguments.team):
        for file in sorted(root.parent.glob(f"{root.name}-exploit-*/exploits.md")):
            texts.append(f"## Exploitability\n\n{file.read_text(encoding='utf-8')}")
    if arguments.out is None:
        print("\n".join(texts))
    else:
        write_text(arguments.out, "\n".join(texts))


if __name__ == "__main__":
    main()
