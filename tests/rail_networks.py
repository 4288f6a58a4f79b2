"""Checks of the networks that Rail draws, all lanes at once.

``python tests/rail_networks.py 10000`` checks as many seeds of each of six sizes.
"""

import sys

import numpy as np

from coopbench_envs.engine import Engine
from coopbench_envs.rail.cells import TYPES
from coopbench_envs.rail.distances import distances_at
from coopbench_envs.rail.network import AXIS, PLACE, SHAPE

SIZES = {
    "smallest": {"num_agents": 2, "height": 22, "width": 22},
    "default": {},
    "wide": {"num_agents": 10, "height": 20, "width": 45, "cities": 4},
    "many tracks": {"height": 40, "width": 40, "rail_pairs_in_city": 3, "rails_between_cities": 4},
    "three stops": {"height": 40, "width": 40, "cities": 4, "line_length": 3},
    "grid": {"height": 40, "width": 40, "cities": 6, "grid_mode": True, "level_free": 0.5},
}
LANES = 250
UNREACHABLE = 65535


def check(engine):
    """Raise ``AssertionError`` unless the networks of all lanes keep what the page promises."""
    c, s = engine.constants, engine.state
    grid = s.rail.reshape(engine.lanes, c.map.height + 2, c.map.width + 2).astype(np.int64)
    assert np.isin(grid, list(TYPES)).all()
    assert not grid[:, [0, -1]].any()
    assert not grid[:, :, [0, -1]].any()
    for heading in range(4):
        entered = (grid >> (4 * (3 - heading))) & 15
        for turn, (down, right) in enumerate(((-1, 0), (0, 1), (1, 0), (0, -1))):
            leaves = entered >> (3 - turn) & 1
            beyond = np.roll(grid, (-down, -right), axis=(1, 2)) >> (4 * (3 - turn)) & 15
            assert (beyond[leaves == 1] > 0).all(), "an exit without a counterpart"
            back = grid >> (4 * (3 - (turn + 2) % 4) + 3 - (heading + 2) % 4) & 1
            np.testing.assert_array_equal(leaves, back, "a track of one direction")
    ways = distances_at(s, s.start)
    assert ((ways > 0) & (ways < UNREACHABLE)).all(), "a train without a way"
    assert ((s.departure >= 0) & (s.departure <= s.due)).all()
    assert ((s.limit > 0) & (s.limit <= c.horizon)).all()
    for cells, parity in ((s.start >> 2, 0), (s.target, 1)):
        numbers = station_numbers(c, s, cells)
        assert (numbers >= 0).all(), "a train that is at no station"
        assert (numbers % 2 == parity).all(), "a station of the wrong number"


def station_numbers(c, s, cells):
    """Return the numbers of the stations in these cells (lanes, trains); -1: there is none."""
    numbers = np.full(cells.shape, -1)
    places = s.city.astype(np.int64)
    for k in range(places.shape[1]):
        centre, shape, axis = (places[:, k, column][:, None] for column in (PLACE, SHAPE, AXIS))
        tracks = shape // 100
        side = c.map.delta[(axis + 1) & 3]
        for track in range(2 * c.plan.pairs):
            here = (track < tracks) & (cells == centre + (track - tracks // 2) * side)
            numbers[here & (centre > 0)] = track
    return numbers


def main():
    """Check the networks of as many seeds as the command line says."""
    seeds = int(sys.argv[1])
    for name, size in SIZES.items():
        engine = Engine("coopbench/Rail-v0", LANES, observation="none", **size)
        for first in range(0, seeds, LANES):
            engine.reset(np.arange(first, first + LANES, dtype=np.uint64))
            check(engine)
        print(f"{name}: {seeds} networks are as they have to be", flush=True)


if __name__ == "__main__":
    main()
