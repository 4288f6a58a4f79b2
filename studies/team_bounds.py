"""Bounds of marl-standard: the returns of random play, and of the best play that is known.

    python -m studies.team_bounds
    python -m studies.team_bounds --write protocols/marl-standard.toml

prints one line per task, as the protocol's file holds it, or writes the bounds into that file. Low
is the mean return of ``random`` in ``EPISODES`` episodes from the seed ``FIRST`` on, which no
protocol uses. High is, for games, the best play of all agents in the game's certificate, times the
number of agents; for battles, the return of a victory; for pathfinding, the highest mean return of
the planners that the protocol requires, in the same episodes.
"""

import argparse
from pathlib import Path

import numpy as np

from coopbench.baselines.game import Game
from coopbench.episodes.metrics import values
from coopbench.episodes.table import Cell
from coopbench.playing.rollout import play
from coopbench.protocol.loading import load_protocol
from coopbench.protocol.schema import Protocol
from coopbench.protocol.task import Task
from studies.bounds import written
from studies.certificates.games import load_certificate
from studies.certificates.pages import bounds_text

NAME = "marl-standard"
FIRST, EPISODES = 1_000_000, 1000
VICTORY = 20.0  # return of a battle that is won


def returns(protocol: Protocol, task: Task, policy: str) -> np.ndarray:
    """Return the scores of a policy in the episodes of the bounds."""
    seeds = np.arange(FIRST, FIRST + EPISODES, dtype=np.uint64)
    block = play(protocol, Cell(task.id, policy, None), policy, seeds=seeds)
    return values(block, protocol.report.score)


def highest(protocol: Protocol, task: Task) -> float:
    """Return the best return that is known on a task."""
    if task.group == "games":
        agents = len(Game.at(task.env, **task.parameters).agents)
        return agents * load_certificate(task.env).bounds()[task.id]["high"]
    if task.group == "battles":
        return VICTORY
    planners = [p for p in protocol.report.fixed if protocol.report.has_play(p, task)]
    return max(float(returns(protocol, task, planner).mean()) for planner in planners)


def bounds() -> dict[str, dict[str, float]]:
    """Return the bounds of all tasks, with the standard error of the low ones."""
    protocol = load_protocol(NAME)
    table = {}
    for task in protocol.task:
        chance = returns(protocol, task, "random")
        numbers = {
            "low": float(chance.mean()),
            "high": highest(protocol, task),
            "low_error": float(chance.std(ddof=1) / np.sqrt(EPISODES)),
        }
        table[task.id] = {key: round(value, 4) for key, value in numbers.items()}
    return table


def main() -> None:
    """Print one line per task, or write the bounds into a file."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--write", type=Path, metavar="FILE", help="the protocol's file")
    file = parser.parse_args().write
    table = bounds()
    if file is not None:
        file.write_text(written(file.read_text(encoding="utf-8"), table), encoding="utf-8")
    for task, numbers in table.items():
        print(f"{task:<20} {bounds_text(numbers)}")


if __name__ == "__main__":
    main()
