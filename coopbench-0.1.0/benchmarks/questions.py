"""Answer the questions of the coopetition tracks from results folders, as Markdown with intervals.

    python benchmarks/questions.py
    python benchmarks/questions.py --own results/own --team results/team

prints which games separate own from team reward, which separate learners, what every learner
leaves to its partners, and how exploitable it is. The folders are by default those of reference.py.
Runs of both tracks are compared in one table, since their tasks and episodes are the same.
"""

import argparse
from dataclasses import replace
from itertools import combinations
from pathlib import Path

from coopbench.analysis.comparisons import Comparison, comparisons
from coopbench.analysis.estimates import estimates
from coopbench.episodes.table import EpisodeTable
from coopbench.protocol.schema import Protocol
from coopbench.report.markdown import rows_table
from coopbench.results.folder import protocol_of, stored_cells, table_of

EPISODES = Path(__file__).resolve().parent.parent / "results" / "reference"
Table = tuple[list[str], list[list[str]]]


def learned(root: Path, track: str) -> tuple[Protocol, EpisodeTable]:
    """Return the runs of a results folder, with the track behind the names of their policies."""
    protocol = protocol_of(root)
    stored = [s for cell, s in stored_cells(root, protocol, []) if cell.run is not None]
    blocks = tuple(
        replace(block, cell=replace(block.cell, policy=f"{block.cell.policy} {track}"))
        for block in table_of(stored)
    )
    return protocol, EpisodeTable(blocks)


def difference(rows: list[Comparison], task: str, first: str, second: str) -> str:
    """Return the difference of two policies on a task with its interval; bold if it is shown."""
    for row in rows:
        if row.task == task and {row.first, row.second} == {first, second}:
            sign = 1.0 if row.first == first else -1.0
            ends = sorted((sign * row.low, sign * row.high))
            text = f"{sign * row.difference:+.2f} [{ends[0]:+.2f}, {ends[1]:+.2f}]"
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


def main() -> None:
    """Print all tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--own", type=Path, default=EPISODES / "coopetition-standard")
    parser.add_argument("--team", type=Path, default=EPISODES / "coopetition-team")
    arguments = parser.parse_args()
    parts = [learned(arguments.own, "own"), learned(arguments.team, "team")]
    protocol = parts[0][0]
    table = EpisodeTable(tuple(block for _, part in parts for block in part))
    learners = list(dict.fromkeys(policy.rpartition(" ")[0] for _, policy in table.pairs))
    rows = list(comparisons(protocol, table))
    sections = {
        "Own return with team reward minus with own reward": of_tracks(protocol, rows, learners),
        "Differences between learners, own reward": of_learners(protocol, rows, learners, "own"),
        "Differences between learners, team reward": of_learners(protocol, rows, learners, "team"),
        "Left to the partners met in training": of_regrets(protocol, table, "focal"),
        "Left to the held-out partners": of_regrets(protocol, table, "focal-held-out"),
    }
    for title, (heads, body) in sections.items():
        print(f"## {title}\n\n{rows_table(heads, body)}\n")
    for root in (arguments.own, arguments.team):
        for file in sorted(root.parent.glob(f"{root.name}-exploit-*/exploits.md")):
            print(f"## Exploitability\n\n{file.read_text(encoding='utf-8')}")


if __name__ == "__main__":
    main()
