"""Short: a vector of 25 numbers in [-1, 1], for small networks and quick experiments.

This observation has no counterpart in flatland-rl.
"""

import numpy as np

from coopbench_envs.core import routine, subroutine
from coopbench_envs.rail.cells import FORWARD, LEFT, RIGHT, exits, follow
from coopbench_envs.rail.distances import UNREACHABLE, distance_of
from coopbench_envs.rail.trains import STATUSES
from coopbench_envs.rail.tree import mark_trains

__all__ = ["FEATURES", "MEANINGS", "PARTS", "describe", "write"]

PARTS: dict[str, int | tuple[int, ...]] = {"status": 7, "train": 4, "times": 2, "ways": (3, 4)}
MEANINGS = {
    "status": "1 at the own state: waiting, ready, broken off map, moving, stopped, broken, "
    "arrived",
    "train": "speed, top speed, covered share of the cell, steps until repair / longest one",
    "times": "steps until departure and until due, / limit",
    "ways": "forward, left, right: 1 if it exists, cells gained / 8, 1 if a train is there, "
    "1 if that train can come this way",
}
FEATURES = 7 + 4 + 2 + 3 * 4


@subroutine
def write(c, s, i, obs):
    """Write what all trains see."""
    mark_trains(c, s, i)
    for a in range(c.num_agents):
        look(c, s, i, a, obs)


@routine
def look(c, s, i, a, obs):
    """Write what train ``a`` sees: itself, its times, and the cell ahead on the three ways."""
    describe(c, s, i, a, obs)
    place = s.place[i, a]
    taken = np.int64(-1)
    for k in range(3):
        action = FORWARD if k == 0 else LEFT if k == 1 else RIGHT
        ahead = follow(s.rail, i, c.map.delta, place, action)
        if k > 0 and ahead == taken:  # left and right stand for forward where they do not exist
            ahead = np.int64(-1)
        if k == 0:
            taken = ahead
        look_along(c, s, i, a, 13 + 4 * k, ahead, obs)


@routine
def describe(c, s, i, a, obs):
    """Write the status of train ``a``, how it runs, and its times."""
    limit = max(s.limit[i], 1)
    for k in range(len(STATUSES)):
        obs[i, a, k] = s.status[i, a] == k
    obs[i, a, 7] = s.speed[i, a] / c.drive.unit
    obs[i, a, 8] = s.top_speed[i, a] / c.drive.unit
    obs[i, a, 9] = s.distance[i, a] / c.drive.unit
    obs[i, a, 10] = min(s.broken[i, a] / c.strikes.longest, 1.0)
    obs[i, a, 11] = until(s.departure[i, a] - s.time[i], limit)
    obs[i, a, 12] = until(s.due[i, a] - s.time[i], limit)


@routine
def look_along(c, s, i, a, entry, ahead, obs):
    """Write one way: whether it exists, how much nearer it leads, and who is in its cell."""
    for k in range(4):
        obs[i, a, entry + k] = 0.0
    if ahead < 0:
        return
    obs[i, a, entry] = 1.0
    now, then = distance_of(c, s, i, a, s.place[i, a]), distance_of(c, s, i, a, ahead)
    gain = -1.0 if then == UNREACHABLE else min(max(np.float64(now - then), -8.0), 8.0) / 8.0
    obs[i, a, entry + 1] = gain
    other = s.train_at[i, ahead >> 2]
    if other >= 0:
        obs[i, a, entry + 2] = 1.0
        opposite = exits(s.rail[i, ahead >> 2], s.place[i, other] & 3) >> (3 - ((ahead + 2) & 3))
        obs[i, a, entry + 3] = opposite & 1


@routine
def until(steps, limit):
    """Return a time from now as a share of the limit, in [-1, 1]."""
    return min(max(steps / limit, -1.0), 1.0)
