"""Export: draws environments with flatland-rl 4.3.0 and writes them as npz files.

    python studies/rail/export_flatland.py rail-published-1 FOLDER --tests 0-4
    python studies/rail/export_flatland.py rail-challenge-2020-1 FOLDER --levels 50

Needs flatland-rl, which is no dependency of this package, and nothing of this package: copy the
file to where flatland-rl is installed. Every environment becomes a file, ``Test_03/Level_07.npz``,
with the arrays that ``coopbench rail import`` reads, drawn with the seed 1000 * test + level; where
a train could not reach its target, with the first of the seeds 100, 200, ... higher where all can.
Files that exist are left as they are, so an interrupted export goes on. With ``--pickles`` the
pickle of flatland-rl is written beside each.
"""

import argparse
import math
import os
import sys
import time
import warnings
from collections.abc import Iterator, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

ONE_SPEED = {1.0: 1.0}
FOUR_SPEEDS = {1.0: 0.25, 0.5: 0.25, 0.33: 0.25, 0.25: 0.25}
LEVELS = 10
DRAWS = 1_000_000  # numbers that flatland-rl draws ahead for malfunctions

# Flatland 3, both rounds: trains, columns, rows, cities.
PUBLISHED = (
    *((7, 30, 30, 2), (10, 30, 30, 2), (20, 30, 30, 3), (50, 30, 35, 3), (80, 35, 30, 5)),
    *((80, 45, 35, 7), (80, 40, 60, 9), (80, 60, 40, 13), (80, 60, 60, 17), (100, 80, 120, 21)),
    *((100, 100, 80, 25), (200, 100, 100, 29), (200, 150, 150, 33), (400, 150, 150, 37)),
    (425, 158, 158, 41),
)
# Challenge of 2020, Round 1: trains, columns, rows, cities, steps between malfunctions.
ROUND_1 = (
    *((5, 25, 25, 2, 50), (10, 30, 30, 2, 100), (20, 30, 30, 3, 200), (50, 20, 35, 3, 500)),
    *((80, 35, 20, 5, 800), (80, 35, 35, 5, 800), (80, 40, 60, 9, 800), (80, 60, 40, 13, 800)),
    *((80, 60, 60, 17, 800), (100, 80, 120, 21, 1000), (100, 100, 80, 25, 1000)),
    *((200, 100, 100, 29, 2000), (200, 150, 150, 33, 2000), (400, 150, 150, 37, 4000)),
)
ROUND_2_TESTS = 22


class Layout(NamedTuple):
    """What one environment is drawn from."""

    trains: int
    columns: int
    rows: int
    cities: int
    interval: float  # steps between malfunctions of a train; infinite: none
    speeds: dict[float, float]
    timetable: bool  # those of 4.3.0; otherwise the limit of 2020, and trains depart at once


def published(speeds: dict[float, float]) -> list[list[Layout]]:
    """Return the layouts of Flatland 3 by test and level."""
    return [[Layout(*sizes, 540, speeds, True)] * LEVELS for sizes in PUBLISHED]


def round_1() -> list[list[Layout]]:
    """Return the layouts of Round 1 of 2020; its first level has no malfunctions."""
    return [
        [
            Layout(n, x, y, cities, interval if level else math.inf, ONE_SPEED, False)
            for level in range(LEVELS)
        ]
        for n, x, y, cities, interval in ROUND_1
    ]


def round_2() -> list[list[Layout]]:
    """Return the layouts of Round 2 of 2020 by the rule that makes its published table."""
    tests, trains = [], 1
    for _ in range(ROUND_2_TESTS):
        cities = trains // 10 + 2
        side = math.ceil(math.sqrt((2 * (math.ceil(4 / 2) + 3)) ** 2 * 1.5 * cities)) + 7
        intervals = [math.inf, *(250 * level for level in range(1, LEVELS))]
        tests.append([Layout(trains, side, side, cities, k, ONE_SPEED, False) for k in intervals])
        trains += math.ceil(0.75 * 10 ** (len(str(trains)) - 1))
    return tests


SETS = {
    "rail-published-1": published(ONE_SPEED),
    "rail-published-2": published(FOUR_SPEEDS),
    "rail-challenge-2020-1": round_1(),
    "rail-challenge-2020-2": round_2(),
}


def draw(layout: Layout, seed: int) -> Any:
    """Return an environment of flatland-rl after its reset."""
    from flatland.core.env_observation_builder import DummyObservationBuilder
    from flatland.envs.line_generators import sparse_line_generator
    from flatland.envs.malfunction_generators import MalfunctionParameters, ParamMalfunctionGen
    from flatland.envs.rail_env import RailEnv
    from flatland.envs.rail_generators import sparse_rail_generator

    rate = 0.0 if math.isinf(layout.interval) else 1.0 / layout.interval
    env = RailEnv(
        width=layout.columns,
        height=layout.rows,
        rail_generator=sparse_rail_generator(
            max_num_cities=layout.cities,
            grid_mode=False,
            max_rails_between_cities=2,
            max_rail_pairs_in_city=2,
        ),
        malfunction_generator=ParamMalfunctionGen(MalfunctionParameters(rate, 20, 50)),
        line_generator=sparse_line_generator(speed_ratio_map=layout.speeds),
        number_of_agents=layout.trains,
        obs_builder_object=DummyObservationBuilder(),
        random_seed=seed,
    )
    env.reset(random_seed=seed)
    if not layout.timetable:
        size = layout.rows + layout.columns + layout.trains / layout.cities
        env._max_episode_steps = int(4 * 2 * size)
        for agent in env.agents:
            agent.earliest_departure, agent.latest_arrival = 0, env._max_episode_steps
            agent.waypoints_earliest_departure[0] = 0
            agent.waypoints_latest_arrival[-1] = env._max_episode_steps
    return env


def is_solvable(env: Any) -> bool:
    """Tell whether every train has a way to its target."""
    distances = env.distance_map.get()
    starts = [agent.initial_configuration for agent in env.agents]
    return all(np.isfinite(distances[a, *cell, int(h)]) for a, (cell, h) in enumerate(starts))


def arrays_of(env: Any) -> dict[str, np.ndarray]:
    """Return the arrays of an environment that has been reset and not been stepped."""
    agents = env.agents
    grid = np.asarray(env.rail.grid, np.uint16)
    cells = [a.initial_configuration[0] for a in agents]
    targets = [sorted(a.targets) for a in agents]
    top = [Fraction(a.speed_counter.max_speed) for a in agents]
    now = [Fraction(a.speed_counter.speed) for a in agents]
    level_free = sorted(getattr(env.resource_map, "level_free_positions", ()))
    return {
        "grid": grid,
        "level_free": np.array(level_free, np.int16).reshape(-1, 2),
        "init_pos": np.array(cells, np.int16),
        "init_dir": np.array([int(a.initial_configuration[1]) for a in agents], np.int8),
        "target": np.array([places[0][0] for places in targets], np.int16),
        "target_dirs": np.array([_headings(grid, places) for places in targets], np.int8),
        "max_speed": np.array([v.as_integer_ratio() for v in top], np.int16),
        "init_speed": np.array([v.as_integer_ratio() for v in now], np.int16),
        "earliest_departure": np.array([a.earliest_departure for a in agents], np.int16),
        "latest_arrival": np.array([a.latest_arrival for a in agents], np.int16),
        "waypoints": np.array(list(_waypoints(agents)), np.int16).reshape(-1, 7),
        "max_episode_steps": np.array(env._max_episode_steps, np.int16),
        "strikes": np.array(list(_strikes(env)), np.int16).reshape(-1, 3),
    }


def _headings(grid: np.ndarray, places: Sequence[Any]) -> list[int]:
    """Return for each heading whether a train arrives with it: its cell has to have it."""
    code = int(grid[places[0][0]])
    headings = {int(heading) for _, heading in places}
    return [int(h in headings and (code >> (4 * (3 - h))) & 15 > 0) for h in range(4)]


def _waypoints(agents: Sequence[Any]) -> Iterator[tuple[int, ...]]:
    """Yield a row for every place that serves a stop between start and target."""
    for a, agent in enumerate(agents):
        if len(agent.waypoints) <= 2:
            continue
        for stop, places in enumerate(agent.waypoints):
            times = agent.waypoints_earliest_departure[stop], agent.waypoints_latest_arrival[stop]
            for place in places:
                heading = -1 if place.direction is None else int(place.direction)
                rest = [-1 if time is None else time for time in times]
                yield (a, stop, *place.position, heading, *rest)


def _strikes(env: Any) -> Iterator[tuple[int, int, int]]:
    """Yield step, train and steps of every malfunction: they do not depend on actions."""
    parameters = env.malfunction_generator.get_process_data()
    rate, shortest, longest = parameters
    if rate <= 0:
        return
    random = np.random.RandomState(0)
    random.set_state(env.np_random.get_state())
    # An environment that has played an episode goes on with the numbers that were drawn for it.
    generator, ahead = env.malfunction_generator, random
    if generator._cached_random_state is not None:
        ahead = np.random.RandomState(0)
        ahead.set_state(generator._cached_random_state)
    broken = ahead.rand(DRAWS) < 1 - np.exp(-rate)
    trains = len(env.agents)
    first = generator._rand_idx + 1
    used = (first + np.arange(env._max_episode_steps * trains)) % DRAWS
    for k in np.flatnonzero(broken[used]).tolist():
        yield k // trains + 1, k % trains, int(random.randint(shortest, longest + 1)) + 1


def write(env: Any, file: Path, *, pickles: bool = False) -> None:
    """Write an environment; the file appears when it is complete."""
    partial = file.with_suffix(".partial")
    with partial.open("wb") as out:
        np.savez_compressed(out, **arrays_of(env))
    if pickles:
        from flatland.envs.persistence import RailEnvPersister

        RailEnvPersister.save(env, str(file.with_suffix(".pkl")))
    os.replace(partial, file)


def _span(text: str) -> range:
    """Read "3" or "0-4"."""
    first, _, last = text.partition("-")
    return range(int(first), int(last or first) + 1)


def main(arguments: Sequence[str] | None = None) -> None:
    """Export the tests of a set."""
    parser = argparse.ArgumentParser(description="Draw environments with flatland-rl 4.3.0.")
    parser.add_argument("set", choices=SETS)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--tests", type=_span, help='for instance "0-4"; default: all')
    parser.add_argument("--levels", type=int, default=LEVELS, help="environments of a test")
    parser.add_argument("--pickles", action="store_true", help="also write flatland-rl's pickles")
    options = parser.parse_args(arguments)
    tests = SETS[options.set]
    warnings.simplefilter("ignore")
    for test in options.tests or range(len(tests)):
        for level in range(options.levels):
            file = options.folder / f"Test_{test:02}" / f"Level_{level:02}.npz"
            if file.exists():
                continue
            file.parent.mkdir(parents=True, exist_ok=True)
            began = time.process_time()
            # Further levels repeat the malfunctions of the first ten.
            layout, seed = tests[test][level % LEVELS], 1000 * test + level
            env = draw(layout, seed)
            while not is_solvable(env):
                seed += 100
                env = draw(layout, seed)
            write(env, file, pickles=options.pickles)
            seconds = time.process_time() - began
            print(f"{file}: seed {seed}, {seconds:.1f} s", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
