"""Distances: cells from every place to every target, one map for trains with the same target."""

import numpy as np

from coopbench_envs.core import routine, subroutine
from coopbench_envs.rail.cells import exits

__all__ = ["UNREACHABLE", "distance_of", "map_targets"]

UNREACHABLE = 65535


@routine
def distance_of(s, i, a, place):
    """Return how many cells train ``a`` is from its target at ``place``; ``UNREACHABLE``: none."""
    return np.int64(s.distances[i, s.map_of[i, a], place])


@routine
def map_targets(c, s, i):
    """Write the distances to the targets of all trains."""
    maps = 0
    for a in range(c.num_agents):
        s.map_of[i, a] = -1
        for b in range(a):
            same_cell = s.target[i, b] == s.target[i, a]
            if same_cell and s.target_headings[i, b] == s.target_headings[i, a]:
                s.map_of[i, a] = s.map_of[i, b]
                break
        if s.map_of[i, a] < 0:
            s.map_of[i, a] = maps
            search(
                s.distances,
                s.queue,
                s.rail,
                i,
                maps,
                s.target[i, a],
                s.target_headings[i, a],
                c.map.delta,
            )
            maps += 1


@subroutine
def search(distances, queue, rail, i, row, cell, headings, delta):
    """Write ``distances[i, row]``, breadth first and backwards from the target's headings."""
    for place in range(distances.shape[2]):
        distances[i, row, place] = UNREACHABLE
    first, last = 0, 0
    for heading in range(4):
        if (headings >> heading) & 1 and exits(rail[i, cell], heading) != 0:
            distances[i, row, 4 * cell + heading] = 0
            queue[i, last] = 4 * cell + heading
            last += 1
    while first < last:
        place = queue[i, first]
        first += 1
        heading = place & 3
        before = (place >> 2) - delta[heading]
        steps = distances[i, row, place] + 1
        code = np.int64(rail[i, before])
        if code == 0:
            continue
        for entered in range(4):
            way = 4 * before + entered
            opens = (code >> (4 * (3 - entered) + 3 - heading)) & 1
            if opens and distances[i, row, way] == UNREACHABLE:
                distances[i, row, way] = steps
                queue[i, last] = way
                last += 1
