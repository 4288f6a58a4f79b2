"""Checks of the networks that Rail draws, all lanes at once, and of who can never move again.

``python tests/rail_networks.py 10000`` checks as many seeds of each of six sizes.
"""

import sys

import numpy as np

from coopbench_envs.engine import Engine
from coopbench_envs.rail.cells import TYPES
from coopbench_envs.rail.distances import distances_at
from coopbench_envs.rail.network import AXIS, PLACE, SHAPE
from coopbench_envs.rail.trains import ARRIVED, BROKEN_OFF_MAP

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


def stuck_trains(c, fields):
    """Return which trains can never move again, bool (trains,), by a search in Python."""
    on_map = (fields["status"] > BROKEN_OFF_MAP) & (fields["status"] < ARRIVED)
    places = fields["place"].astype(int)
    held = {_resource(fields, int(places[a])): a for a in np.flatnonzero(on_map).tolist()}
    ways = {a: _blockers(c, fields, int(places[a]), held) for a in held.values()}
    stuck = {a for a, others in ways.items() if None not in others}
    while True:
        free = {a for a in stuck if ways[a] - stuck}
        if not free:
            free = set(list(_in_rings(ways, stuck))[:1])
        if not free:
            break
        stuck -= free
    return np.isin(np.arange(len(places)), sorted(stuck))


def _resource(fields, place):
    return 2 * (place >> 2) + (place & 1) * int(fields["level_free"][place >> 2])


def _blockers(c, fields, place, held):
    """Return the trains in the cells that lead on from ``place``; None for a free cell."""
    code, heading = int(fields["rail"][place >> 2]), place & 3
    ahead = [
        4 * ((place >> 2) + int(c.map.delta[turn])) + turn
        for turn in range(4)
        if (code >> (4 * (3 - heading) + 3 - turn)) & 1
    ]
    return {held.get(_resource(fields, way)) for way in ahead}


def _in_rings(ways, stuck):
    """Yield trains that wait for themselves through at least two others."""
    for first in sorted(stuck):
        for second in _trains(ways[first], stuck):
            queue, seen = [second], {second}
            while queue:
                a = queue.pop()
                for b in _trains(ways[a], stuck):
                    if b == first and a != second:
                        yield first
                    if b != first and b not in seen:
                        seen.add(b)
                        queue.append(b)


def _trains(others, stuck):
    return [b for b in others if b is not None and b in stuck]


if __name__ == "__main__":
    main()
