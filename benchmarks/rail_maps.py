"""Networks of Rail beside those of flatland-rl: rails, switches, shortest ways, targets.

``python benchmarks/rail_maps.py [FOLDER]``: the folder holds exported environments of flatland-rl
as npz, by default the recordings of the tests; each is compared with the mean over 200 networks of
its size, trains and estimated number of cities.
"""

import sys
from pathlib import Path

import numpy as np

from coopbench_envs.engine import Engine

RECORDINGS = Path(__file__).resolve().parent.parent / "tests" / "golden" / "rail"
NETWORKS = 200
# Cities of the recorded maps, counted on their pictures.
CITIES = {"g05": 3, "g07": 4, "g09": 3, "g10": 3, "g11": 4, "g12": 9}


def figures(grid, distances, targets):
    """Return rail cells, share of switches and crossings, mean shortest way, and targets."""
    transitions = np.zeros(grid.shape, int)
    for bit in range(16):
        transitions += (grid.astype(int) >> bit) & 1
    rails = (grid > 0).sum()
    return rails, (transitions > 2).sum() / rails, np.mean(distances), len(set(targets))


def of_file(file):
    """Return the figures of an exported environment, and its sizes."""
    with np.load(file, allow_pickle=False) as arrays:
        grid, maps = arrays["grid"], arrays["distance_map"]
        rows, columns = arrays["init_pos"].T
        trains = np.arange(len(rows))
        ways = maps[trains, rows, columns, arrays["init_dir"]]
        return figures(grid, ways, map(tuple, arrays["target"].tolist())), (*grid.shape, len(rows))


def of_networks(height, width, trains, cities):
    """Return the mean figures of drawn networks."""
    engine = Engine(
        "coopbench/Rail-v0",
        num_agents=trains,
        height=height,
        width=width,
        cities=cities,
        observation="none",
    )
    c, s, rows = engine.constants, engine.state, []
    for seed in range(NETWORKS):
        engine.reset(np.array([seed]))
        grid = s.rail[0].reshape(height + 2, width + 2)[1:-1, 1:-1]
        ways = s.distances[0, s.map_of[0], s.start[0]]
        rows.append(figures(grid, ways, s.target[0].tolist()))
    assert c.num_agents == trains
    return np.mean(rows, axis=0)


def main():
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else RECORDINGS
    print(f"{'map':36} {'rails':>13} {'switches':>13} {'way':>13} {'targets':>13}")
    ratios = []
    for file in sorted(folder.glob("g[01]*.npz")):
        theirs, (height, width, trains) = of_file(file)
        ours = of_networks(height, width, trains, CITIES.get(file.stem[:3], 2))
        ratios.append(ours / np.array(theirs))
        pairs = [f"{a:6.3g} {b:6.3g}" for a, b in zip(theirs, ours, strict=True)]
        print(f"{file.stem:36} {' '.join(pairs)}")
    print("mean of ours / theirs:", np.mean(ratios, axis=0).round(2))


if __name__ == "__main__":
    main()
