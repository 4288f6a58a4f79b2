"""Compare own with team reward, and the ends of learning curves: what no report holds.

    python -m studies.questions
    python -m studies.questions --own results/own --team results/team --out FOLDER

writes into the folder, by default results/reference,

    tracks.csv   what the team reward adds to every agent's own return, by task and learner
    rises.csv    by how much scores rise over the last quarter of the training

docs/results.md says what the first one shows. The folders of results are by default those of
reference.py. Both tracks have the same tasks and episodes, so that their runs are compared in one
table, by the comparisons of a report.
"""

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from coopbench.analysis.comparisons import comparisons
from coopbench.episodes.table import Cell, EpisodeTable, Progress
from coopbench.files import write_text
from coopbench.protocol.schema import Protocol
from coopbench.report.serialise import as_csv
from coopbench.results.folder import stored_cells, table_of
from coopbench.results.protocol_file import read_protocol
from coopbench.statistics import Grid, TwoWay, half_widths

ROOT = Path(__file__).resolve().parent.parent
EPISODES = ROOT / "results" / "reference"
Row = dict[str, Any]


def learned(root: Path, track: str) -> tuple[Protocol, EpisodeTable]:
    """Return the runs of a results folder, with the track behind the names of their policies."""
    protocol = read_protocol(root)
    cells = [(cell, s) for cell, s in stored_cells(root, protocol, []) if cell.run is not None]
    table = table_of([stored for _, stored in cells])

    def renamed(cell: Cell) -> Cell:
        return replace(cell, policy=f"{cell.policy} {track}")

    blocks = tuple(replace(block, cell=renamed(block.cell)) for block in table)
    progress = tuple(replace(course, cell=renamed(course.cell)) for course in table.progress)
    return protocol, EpisodeTable(blocks, progress)


def of_tracks(protocol: Protocol, table: EpisodeTable) -> Iterator[Row]:
    """Yield the differences team minus own reward, with the decisions of a report."""
    for row in comparisons(protocol, table):
        (learner, *_), (other, *_) = row.first.rsplit(" ", 1), row.second.rsplit(" ", 1)
        if learner != other:
            continue
        sign = 1.0 if row.first.endswith(" team") else -1.0
        low, high = sorted((sign * row.low, sign * row.high))
        yield {
            "task": row.task,
            "policy": learner,
            "difference": sign * row.difference,
            "low": low,
            "high": high,
            "p_holm": row.p_holm,
            "decided": row.decided,
        }


def of_late_changes(protocol: Protocol, table: EpisodeTable) -> Iterator[Row]:
    """Yield by how much scores rise from the third to the last quarter of the training.

    In self-play and beside the partners of training, in units of the normalised scores there.
    """
    for task in protocol.trained_tasks:
        beside = protocol.tasks_with_partners(task.id)
        played = {task.id: (task, protocol.report.score)}
        played |= {other.id: (other, protocol.score_with_partners or "") for other in beside[:1]}
        for name, (other, metric) in played.items():
            width = other.bounds.high - other.bounds.low
            for policy in dict.fromkeys(course.cell.policy for course in table.progress):
                ends = rise(table.progress_of(task.id, policy), metric, width)
                if ends is not None:
                    rising = dict(zip(("rise", "low", "high"), ends, strict=True))
                    learner, track = policy.rsplit(" ", 1)
                    yield {"task": name, "policy": learner, "reward": track, **rising}


def rise(
    courses: Sequence[Progress], metric: str, width: float
) -> tuple[float, float, float] | None:
    """Return the rise of a metric over the last quarter of the checkpoints, with its interval.

    Runs of fewer than four checkpoints have no last quarter.
    """
    quarter = min((len(course) for course in courses), default=0) // 4
    if quarter == 0:
        return None
    rows = [course.metrics[metric] / width for course in courses]
    late = [row[-quarter:].mean(axis=0) - row[-2 * quarter : -quarter].mean(axis=0) for row in rows]
    two_way = TwoWay([Grid(np.stack(late))])
    half = float(half_widths(two_way.spread(np.eye(1)))[0])
    centre = float(two_way.means[0])
    return centre, centre - half, centre + half


def main() -> None:
    """Write both tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--own", type=Path, default=EPISODES / "coopetition-standard")
    parser.add_argument("--team", type=Path, default=EPISODES / "coopetition-team")
    parser.add_argument("--out", type=Path, default=EPISODES, help="folder of the two files")
    arguments = parser.parse_args()
    protocol, own = learned(arguments.own, "own")
    _, team = learned(arguments.team, "team")
    table = EpisodeTable((*own.blocks, *team.blocks), (*own.progress, *team.progress))
    write_text(arguments.out / "tracks.csv", as_csv(of_tracks(protocol, table)))
    write_text(arguments.out / "rises.csv", as_csv(of_late_changes(protocol, table)))


if __name__ == "__main__":
    main()
