"""Tree: what a train sees along the branches ahead, as in flatland-rl 4.3.0.

A branch leads from a switch, or from the train, to the next switch, dead end or target. A node has
twelve features; the nodes are written in the order node, left, forward, right, back. The feature
"distance to a potential conflict" is always infinite, as in flatland-rl since 2022.
"""

import numpy as np

from coopbench_envs.core import routine, subroutine
from coopbench_envs.rail.cells import DIAMOND, count, exits, lone
from coopbench_envs.rail.distances import UNREACHABLE, distance_of
from coopbench_envs.rail.trains import BROKEN_OFF_MAP, is_on_map

__all__ = ["BRANCHES", "FEATURES", "mark_trains", "plant", "sizes", "tracks_of"]

BRANCHES, FEATURES = 4, 12
OWN_TARGET, OTHER_TARGET, OTHER_TRAIN, CONFLICT, UNUSABLE, BRANCHING = range(6)
# Features of the third group: how many trains, of which kind, and what holds them up.
SAME, OPPOSITE, DOWN, SLOWEST, DEPARTING = range(5)


def sizes(depth: int) -> tuple[np.ndarray, np.ndarray]:
    """Return level and size of the subtree of every node of a tree, both int64 (nodes,)."""
    total = [(BRANCHES ** (depth - level + 1) - 1) // 3 for level in range(depth + 1)]
    levels: list[int] = []

    def visit(level: int) -> None:
        levels.append(level)
        for _ in range(BRANCHES if level < depth else 0):
            visit(level + 1)

    visit(0)
    return np.array(levels, np.int64), np.array([total[level] for level in levels], np.int64)


# What the parts of observations are, one row per node: this one, left, forward, right, back.
MEANINGS = {
    "distances": "to the own target, another train's target, another train, a potential conflict, "
    "a switch that the train cannot use, the next branching",
    "to_target": "distance from the end of the branch to the own target",
    "trains": "on the branch: how many go the same way, the opposite one; longest malfunction, "
    "lowest speed, how many wait to depart",
    "flags": "1 if a train on the branch is deadlocked, 1 if a shortest way takes the branch",
}


@routine
def mark_trains(c, s, i):
    """Note which train stands in which cell, and how many wait to enter it."""
    for a in range(c.num_agents):
        cell = s.seen_cell[i, a]
        s.train_at[i, cell] = -1
        s.waiting_at[i, cell] = 0
    for a in range(c.num_agents):
        cell = s.place[i, a] >> 2
        s.seen_cell[i, a] = cell
        if is_on_map(s.status[i, a]):
            s.train_at[i, cell] = a
        elif s.status[i, a] <= BROKEN_OFF_MAP:
            s.waiting_at[i, cell] += 1


@subroutine
def plant(c, s, i, raw, obs):
    """Write the trees of all trains, with infinities if they are to be ``raw``."""
    mark_trains(c, s, i)
    for a in range(c.num_agents):
        grow(c, s, i, a, obs)
        if not raw:
            normalise(c, a, i, obs)


@routine
def grow(c, s, i, a, obs):
    """Write the tree of train ``a``, as it is upstream: with infinities."""
    nodes = len(c.shown.node_level)
    for k in range(FEATURES * nodes):
        obs[i, a, k] = -np.inf
    for m in range(1, nodes):
        s.node_place[i, m] = -1
    root(c, s, i, a, obs)
    for m in range(1, nodes):
        if s.node_place[i, m] >= 0:
            explore(c, s, i, a, m, obs)


@routine
def root(c, s, i, a, obs):
    """Write the node of the train itself, and where its branches begin."""
    nodes, place = len(c.shown.node_level), s.place[i, a]
    for k in range(6):
        obs[i, a, k] = 0.0
    for k in range(5):
        obs[i, a, 7 * nodes + k] = 0.0
    obs[i, a, 6 * nodes] = shown(distance_of(c, s, i, a, place))
    obs[i, a, 7 * nodes + DOWN] = s.broken[i, a]
    obs[i, a, 7 * nodes + SLOWEST] = s.speed[i, a] / c.drive.unit
    cell, heading = place >> 2, place & 3
    bits = exits(s.rail[i, cell], heading)
    front = np.int64(lone(bits))
    if front < 0:
        front = np.int64(heading)
    for k in range(BRANCHES):
        branch(c, s, i, 0, k, cell, (front + 3 + k) & 3, bits, 1)


@routine
def branch(c, s, i, m, k, cell, heading, bits, steps):
    """Let the ``k``-th branch of node ``m`` begin beyond ``cell``, if ``bits`` has that exit."""
    if c.shown.node_size[m] > 1 and (bits >> (3 - heading)) & 1:
        child = m + 1 + k * c.shown.node_size[m + 1]
        s.node_place[i, child] = 4 * (cell + c.map.delta[heading]) + heading
        s.node_steps[i, child] = steps


@routine
def shown(steps):
    """Return a distance as it is observed."""
    return np.inf if steps == UNREACHABLE else np.float64(steps)


@routine
def explore(c, s, i, a, m, obs):
    """Follow the branch of node ``m`` to its end, and write what is met on it."""
    nodes, base, goal = len(c.shown.node_level), 6 * m, s.target[i, a]
    rest = 7 * nodes + 5 * m
    place, steps = np.int64(s.node_place[i, m]), np.int64(s.node_steps[i, m])
    for k in range(6):
        obs[i, a, base + k] = np.inf
    for k in range(5):
        obs[i, a, rest + k] = 0.0
    obs[i, a, rest + SLOWEST] = 1.0
    s.walk[i] += 1
    walk = s.walk[i]
    ends, dead_end, at_target, lost = False, False, False, False
    while True:
        cell, heading = place >> 2, place & 3
        meet(c, s, i, a, cell, heading, steps, base, rest, obs)
        if s.targets_at[i, cell] > 0 and cell != goal and obs[i, a, base + OTHER_TARGET] > steps:
            obs[i, a, base + OTHER_TARGET] = steps
        if cell == goal and obs[i, a, base + OWN_TARGET] > steps:
            obs[i, a, base + OWN_TARGET] = steps
        if s.walked[i, place] == walk:
            lost = True
            break
        s.walked[i, place] = walk
        if cell == goal:
            at_target = True
            break
        code = np.int64(s.rail[i, cell])
        bits = exits(code, heading)
        total, n = s.tracks_at[i, cell], count(bits)
        if total > 2 > n and obs[i, a, base + UNUSABLE] > steps:
            obs[i, a, base + UNUSABLE] = steps
        if n != 1:
            ends, lost = n > 1, n == 0
            break
        if total == 1:
            dead_end = True
            break
        turn = np.int64(lone(bits))
        place = 4 * (cell + c.map.delta[turn]) + turn
        steps += 1
    if not lost:
        obs[i, a, base + BRANCHING] = steps
    obs[i, a, 6 * nodes + m] = 0.0 if at_target else shown(distance_of(c, s, i, a, place))
    if ends or dead_end:
        divide(c, s, i, m, place, dead_end, steps + 1)


@routine
def tracks_of(code):
    """Count all transitions of a cell; those of a diamond as two."""
    if code == DIAMOND:
        return np.int64(2)
    total = np.int64(0)
    for heading in range(4):
        total += count(exits(code, heading))
    return total


@routine
def meet(c, s, i, a, cell, heading, steps, base, rest, obs):
    """Note the train in ``cell``, if there is one, in the features of a node."""
    other = s.train_at[i, cell]
    if other < 0:
        return
    obs[i, a, base + OTHER_TRAIN] = min(obs[i, a, base + OTHER_TRAIN], np.float32(steps))
    obs[i, a, rest + DOWN] = max(obs[i, a, rest + DOWN], np.float32(s.broken[i, other]))
    obs[i, a, rest + DEPARTING] += s.waiting_at[i, cell]
    if s.place[i, other] & 3 == heading:
        obs[i, a, rest + SAME] += 1.0
        pace = np.float32(s.speed[i, other] / c.drive.unit)
        obs[i, a, rest + SLOWEST] = min(obs[i, a, rest + SLOWEST], pace)
    else:
        obs[i, a, rest + OPPOSITE] += 1.0


@routine
def divide(c, s, i, m, place, dead_end, steps):
    """Let the branches behind node ``m`` begin; from a dead end the train goes back."""
    cell, heading = place >> 2, place & 3
    bits = exits(s.rail[i, cell], heading)
    for k in range(BRANCHES):
        turn = (heading + 3 + k) & 3
        branch(c, s, i, m, k, cell, (turn + 2) & 3 if dead_end else turn, bits, steps)


@routine
def normalise(c, a, i, obs):
    """Bring the features of a tree into [-1, 1], as flatland-rl does, in place."""
    nodes = len(c.shown.node_level)
    for k in range(6 * nodes):
        obs[i, a, k] = clipped(obs[i, a, k] / np.float64(c.shown.radius))
    largest, smallest = 1.0, np.inf
    for k in range(6 * nodes, 7 * nodes):
        x = np.float64(obs[i, a, k])
        if x < 1000.0:
            largest = max(largest, x)
        if x >= 0.0:
            smallest = min(smallest, x)
    largest += 1.0
    for k in range(6 * nodes, 7 * nodes):
        x = np.float64(obs[i, a, k])
        if largest == smallest:
            x = x / largest
        elif smallest < np.inf:
            x = (x - smallest) / (largest - smallest)
        obs[i, a, k] = clipped(x)
    for k in range(7 * nodes, FEATURES * nodes):
        obs[i, a, k] = clipped(np.float64(obs[i, a, k]))


@routine
def clipped(x):
    """Return x within [-1, 1]."""
    return min(max(x, -1.0), 1.0)
