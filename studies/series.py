"""How closely policies reproduce a series of investments of your own, which no package holds.

    python -m studies.series SLCD-v1 mine.csv constant:0.5 tit_for_tat --episodes 100 --seed 0

A file holds one line of agents' names, then one line for each step with the fraction of its
endowment that each agent invested, separated by commas. Every policy plays all seats; episodes are
as long as the series. Prints the mean matching of each, 1 for exactly the series, with Student's t
interval over the episodes.
"""

import argparse
import csv
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from coopbench.baselines.game import Game
from coopbench.baselines.match import Match
from coopbench.baselines.player import Player
from coopbench.statistics import t_interval
from coopbench_envs.engine import Engine
from coopbench_envs.registration import spec


def read_series(path: Path, agents: Sequence[str]) -> np.ndarray:
    """Return the fractions (steps, agents) of a file, whose columns may stand in any order.

    Raises ``ValueError`` unless there is one number in [0, 1] for every agent and step.
    """
    # utf-8-sig: spreadsheets write a byte order mark, which is no part of the first name.
    with path.open(encoding="utf-8-sig", newline="") as lines:
        header, *body = [row for row in csv.reader(lines) if any(map(str.strip, row))] or [[]]
    names = [cell.strip() for cell in header]
    if sorted(names) != sorted(agents):
        raise ValueError(f"{path} names {names}; allowed: each of {', '.join(agents)} once.")
    if not body or any(len(row) != len(names) for row in body):
        raise ValueError(f"{path} must hold {len(names)} numbers in each of one or more lines.")
    values = np.array(body, dtype=np.float64)
    if not ((values >= 0.0) & (values <= 1.0)).all():
        raise ValueError(f"{path} holds numbers that do not lie in [0, 1].")
    return values[:, [names.index(agent) for agent in agents]]


def series_matching(fractions: np.ndarray, series: np.ndarray) -> np.ndarray:
    """Return the closeness in [0, 1] of fractions (..., steps, agents) to a series: (...).

    1 - the mean over steps and agents of |a - x| / max(x, 1 - x), with the fraction a played and
    the fraction x of the series: 1 if both are equal, 0 if every fraction is as far from the series
    as it can be.
    """
    distances = np.abs(fractions - series) / np.maximum(series, 1.0 - series)
    result: np.ndarray = 1.0 - distances.mean(axis=(-2, -1))
    return result


def match(env_id: str, path: Path, policy: Any, episodes: int = 100, seed: int = 0) -> np.ndarray:
    """Play a policy in all seats; return its matching of the series in each episode, (episodes,).

    Episodes are seeded ``seed``, ``seed + 1``, ... Raises ``ValueError`` for games without
    investments, for a series of other agents, and for episodes that end before the series does.
    """
    trace = spec(env_id).trace
    if trace is None:
        raise ValueError(f"{env_id} has no investments that could match a series.")
    series = read_series(path, Engine(env_id).agents)
    engine = Engine(env_id, episodes, horizon=len(series))
    game, course = Match(engine, [Player(policy, Game.of(engine))]), []
    game.begin(np.arange(seed, seed + episodes, dtype=np.uint64))
    for _ in game.steps():
        course.append(np.array(trace(engine.constants, engine.state)["fraction"]))
    if (engine.state.time < len(series)).any():
        raise ValueError(f"An episode of {policy!r} ended before step {len(series)} of {path}.")
    return series_matching(np.stack(course, axis=1), series)


def main() -> None:
    """Print the matching of every policy."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("env", help="a game with investments")
    parser.add_argument("data", type=Path, help="the file with the series")
    parser.add_argument("policies", nargs="+", metavar="POLICY")
    parser.add_argument("--episodes", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0, help="of the first episode")
    options = parser.parse_args()
    for policy in options.policies:
        matching = match(options.env, options.data, policy, options.episodes, options.seed)
        interval = t_interval(matching)
        ends = f"95 % t interval {interval.low:.4f} to {interval.high:.4f}"
        print(f"{policy:<28}series matching {interval.estimate:.4f}, {ends}")


if __name__ == "__main__":
    main()
