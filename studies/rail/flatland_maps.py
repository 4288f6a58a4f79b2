"""Maps of flatland-rl 4.3.0 in figures, beside which ``studies/rail/maps.py`` puts ours.

    python studies/rail/flatland_maps.py studies/rail/flatland_maps.csv [--maps 200]

Needs flatland-rl, which is no dependency of this package, and nothing of this package: copy the
file to where flatland-rl is installed. Every kind of map is drawn with the seeds 0, 1, 2, ...;
its row has the means over maps, and their standard errors: cells with rails, the share of them
that are switches or crossings, moves of the shortest way from start to target (mean over trains
that have one), and the number of distinct targets. Rows that the file has are left as they are.
"""

import argparse
import csv
import sys
import time
import warnings
from collections import deque
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

FIGURES = ("rails", "switches", "way", "targets")
_STEPS = ((-1, 0), (0, 1), (1, 0), (0, -1))  # north, east, south, west


class Kind(NamedTuple):
    """What a map is drawn from, in the words of this package's parameters."""

    height: int
    width: int
    num_agents: int
    cities: int
    rails_between_cities: int = 2
    rail_pairs_in_city: int = 2
    grid_mode: int = 0


KINDS = (
    Kind(25, 25, 5, 2),
    Kind(30, 30, 7, 2),
    Kind(30, 30, 20, 3),
    Kind(30, 35, 80, 5),
    Kind(40, 40, 20, 4, grid_mode=1),
    Kind(40, 40, 20, 4, rails_between_cities=4, rail_pairs_in_city=3),
    Kind(60, 40, 80, 9),
    Kind(60, 60, 80, 17),
)


def drawn(kind: Kind, seed: int) -> Any:
    """Return an environment of flatland-rl after its reset."""
    from flatland.core.env_observation_builder import DummyObservationBuilder
    from flatland.envs.line_generators import sparse_line_generator
    from flatland.envs.rail_env import RailEnv
    from flatland.envs.rail_generators import sparse_rail_generator

    env = RailEnv(
        width=kind.width,
        height=kind.height,
        rail_generator=sparse_rail_generator(
            max_num_cities=kind.cities,
            grid_mode=bool(kind.grid_mode),
            max_rails_between_cities=kind.rails_between_cities,
            max_rail_pairs_in_city=kind.rail_pairs_in_city,
        ),
        line_generator=sparse_line_generator(),
        number_of_agents=kind.num_agents,
        obs_builder_object=DummyObservationBuilder(),
        random_seed=seed,
    )
    env.reset(random_seed=seed)
    return env


def figures(env: Any) -> list[float]:
    """Return the figures of one map, in the order of FIGURES."""
    grid = np.asarray(env.rail.grid).astype(int)
    transitions = sum((grid >> bit) & 1 for bit in range(16))
    rails = int((grid > 0).sum())
    starts = [
        (*agent.initial_configuration[0], int(agent.initial_configuration[1]))
        for agent in env.agents
    ]
    targets = [tuple(next(iter(agent.targets))[0]) for agent in env.agents]
    ways = {target: distances(grid, target) for target in set(targets)}
    lengths = [ways[target].get(start) for start, target in zip(starts, targets, strict=True)]
    reached = [length for length in lengths if length is not None]
    return [rails, float((transitions > 2).sum()) / rails, float(np.mean(reached)), len(ways)]


def distances(grid: np.ndarray, target: tuple[int, int]) -> dict[tuple[int, int, int], int]:
    """Return the moves from every (row, column, heading) that leads to a target."""
    moves = {(*target, heading): 0 for heading in range(4) if leaves(grid, *target, heading)}
    queue = deque(moves)
    while queue:
        row, column, heading = queue.popleft()
        before = row - _STEPS[heading][0], column - _STEPS[heading][1]
        if not (0 <= before[0] < grid.shape[0] and 0 <= before[1] < grid.shape[1]):
            continue
        for former in range(4):
            place = (*before, former)
            if leaves(grid, *before, former) >> (3 - heading) & 1 and place not in moves:
                moves[place] = moves[row, column, heading] + 1
                queue.append(place)
    return moves


def leaves(grid: np.ndarray, row: int, column: int, heading: int) -> int:
    """Return the four bits of the exits for a heading, north first."""
    return int(grid[row, column]) >> (4 * (3 - heading)) & 15


def main(arguments: Sequence[str] | None = None) -> None:
    """Draw the maps of all kinds that the file lacks."""
    parser = argparse.ArgumentParser(description="Figures of the maps of flatland-rl 4.3.0.")
    parser.add_argument("file", type=Path)
    parser.add_argument("--maps", type=int, default=200, help="of every kind")
    options = parser.parse_args(arguments)
    warnings.simplefilter("ignore")
    rows = []
    if options.file.is_file():
        with options.file.open(encoding="utf-8") as file:
            rows = list(csv.DictReader(file))
    kept = {tuple(int(row[name]) for name in Kind._fields) for row in rows}
    for kind in KINDS:
        if tuple(kind) in kept:
            continue
        began = time.process_time()
        table = np.array([figures(drawn(kind, seed)) for seed in range(options.maps)])
        errors = table.std(axis=0, ddof=1) / np.sqrt(len(table))
        row = {name: str(value) for name, value in kind._asdict().items()} | {"maps": len(table)}
        for name, mean, error in zip(FIGURES, table.mean(axis=0), errors, strict=True):
            row |= {name: f"{mean:.5g}", f"{name}_error": f"{error:.2g}"}
        rows.append(row)
        with options.file.open("w", encoding="utf-8", newline="") as file:
            writer = csv.DictWriter(file, list(row), lineterminator="\n")
            writer.writeheader()
            writer.writerows(rows)
        print(f"{kind}: {time.process_time() - began:.0f} s", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
