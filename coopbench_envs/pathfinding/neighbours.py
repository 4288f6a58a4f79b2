"""Neighbours: who may touch whom in the coming substeps, and which objects an agent sees.

Landmarks are sorted into square bins once per episode, agents at every survey; an agent looks at the
bins around it instead of at everybody. The list of possible contacts holds until some agent has moved
by half the skin; then the state is ``stale``. Objects are numbered agents first, then landmarks.

The smallest kernels take the arrays they touch instead of the whole state: they compile much faster.
"""

import math

import numpy as np

from coopbench_envs.core import kernel

SLACK = 1e-4  # length; covers the rounding of float32 positions where radii of search are compared


@kernel
def bin_of(x, low, per_length, bins):
    """Index of the bin that ``x`` falls into; what lies outside (or is not a number) is clamped."""
    v = (x - low) * per_length
    if not v > 0.0:
        return 0
    return bins - 1 if v >= bins else int(v)


@kernel
def bin_at(c, x, y):
    """Number of the bin at a point, row by row along x."""
    column = bin_of(x, c.x_low, c.bins_per_length, c.bins_x)
    return bin_of(y, c.y_low, c.bins_per_length, c.bins_y) * c.bins_x + column


@kernel
def sort_landmarks(c, s, i):
    """Counting sort of the landmarks by bin; within a bin they stay in order."""
    bins = c.bins_x * c.bins_y
    for b in range(bins):
        s.bin_agent[i, b] = -1
        s.bin_first[i, b] = 0
    for k in range(c.num_landmarks):
        s.bin_first[i, bin_at(c, s.landmark_pos[i, k, 0], s.landmark_pos[i, k, 1])] += 1
    for b in range(1, bins + 1):  # counts become ends, the last of them beyond all bins
        s.bin_first[i, b] = s.bin_first[i, b - 1] + (s.bin_first[i, b] if b < bins else 0)
    for k in range(c.num_landmarks - 1, -1, -1):  # ends become beginnings
        b = bin_at(c, s.landmark_pos[i, k, 0], s.landmark_pos[i, k, 1])
        s.bin_first[i, b] -= 1
        s.bin_landmark[i, s.bin_first[i, b]] = k
    s.stale[i] = True


@kernel
def survey(c, s, i):
    """Find every agent's possible contacts and its nearest visible objects where it is now."""
    largest = 0.0
    for a in range(c.num_agents - 1, -1, -1):  # chains then run upwards
        b = bin_at(c, s.agent_pos[i, a, 0], s.agent_pos[i, a, 1])
        s.next_agent[i, a] = s.bin_agent[i, b]
        s.bin_agent[i, b] = a
        largest = max(largest, s.agent_rad[i, a])
        s.survey_pos[i, a, 0] = s.agent_pos[i, a, 0]
        s.survey_pos[i, a, 1] = s.agent_pos[i, a, 1]
    s.stale[i] = False
    s.crowded[i] = False
    s.touch_first[i, 0] = 0
    for a in range(c.num_agents):
        look_around(c, s, i, a, largest)
    for a in range(c.num_agents):
        s.bin_agent[i, bin_at(c, s.agent_pos[i, a, 0], s.agent_pos[i, a, 1])] = -1


@kernel
def look_around(c, s, i, a, largest):
    """Fill the lists of agent ``a`` from the bins that its longest radius of search reaches."""
    x, y, rad = s.agent_pos[i, a, 0], s.agent_pos[i, a, 1], s.agent_rad[i, a]
    s.touch_first[i, a + 1] = s.touch_first[i, a]
    for k in range(c.max_obs):
        s.seen[i, a, k] = -1
        s.seen_distance[i, a, k] = np.inf
    sight = c.window + rad + max(rad, c.landmark_rad) + SLACK
    reach = rad + c.landmark_rad + 0.5 * c.skin + SLACK  # landmarks do not move
    r = max(sight, reach, rad + largest + c.skin + SLACK)
    x_0 = bin_of(x - r, c.x_low, c.bins_per_length, c.bins_x)
    x_1 = bin_of(x + r, c.x_low, c.bins_per_length, c.bins_x)
    y_0 = bin_of(y - r, c.y_low, c.bins_per_length, c.bins_y)
    y_1 = bin_of(y + r, c.y_low, c.bins_per_length, c.bins_y)
    for row in range(y_0 * c.bins_x, (y_1 + 1) * c.bins_x, c.bins_x):
        for b in range(row + x_0, row + x_1 + 1):
            o = s.bin_agent[i, b]
            while o >= 0:
                if o != a:
                    close = rad + s.agent_rad[i, o] + c.skin + SLACK
                    close = close if o > a else -1.0  # a pair stands in the list of its first agent
                    meet(c, s, i, a, o, s.agent_pos[i, o, 0], s.agent_pos[i, o, 1], sight, close)
                o = s.next_agent[i, o]
        for k in range(s.bin_first[i, row + x_0], s.bin_first[i, row + x_1 + 1]):
            o = s.bin_landmark[i, k]
            x_o, y_o = s.landmark_pos[i, o, 0], s.landmark_pos[i, o, 1]
            meet(c, s, i, a, c.num_agents + o, x_o, y_o, sight, reach)


@kernel
def meet(c, s, i, a, o, x, y, sight, close):
    """Note object ``o`` at (x, y) among those that agent ``a`` may touch or sees."""
    dx = x - s.agent_pos[i, a, 0]
    dy = y - s.agent_pos[i, a, 1]
    square = dx * dx + dy * dy
    if close > 0.0 and square <= close * close:
        note_touch(s.touch_first, s.touch, s.crowded, i, a, o)
    if square <= sight * sight:
        dx32 = np.float32(x) - np.float32(s.agent_pos[i, a, 0])
        dy32 = np.float32(y) - np.float32(s.agent_pos[i, a, 1])
        distance = np.float32(math.sqrt(dx32 * dx32 + dy32 * dy32))
        note_sight(s.seen, s.seen_distance, i, a, o, distance)


@kernel
def note_touch(first, touch, crowded, i, a, o):
    """Insert object ``o`` into the sorted list of ``a``; a full list makes the lane ``crowded``."""
    k = first[i, a + 1]
    if k == touch.shape[1]:
        crowded[i] = True
        return
    while k > first[i, a] and touch[i, k - 1] > o:
        touch[i, k] = touch[i, k - 1]
        k -= 1
    touch[i, k] = o
    first[i, a + 1] += 1


@kernel
def note_sight(seen, distances, i, a, o, distance):
    """Insert object ``o`` among the nearest of ``a``: by float32 distance, then by number."""
    k = seen.shape[2] - 1
    last = distances[i, a, k]
    if distance > last or (distance == last and o > seen[i, a, k]):
        return
    while k > 0 and (
        distance < distances[i, a, k - 1]
        or (distance == distances[i, a, k - 1] and o < seen[i, a, k - 1])
    ):
        seen[i, a, k] = seen[i, a, k - 1]
        distances[i, a, k] = distances[i, a, k - 1]
        k -= 1
    seen[i, a, k] = o
    distances[i, a, k] = distance
