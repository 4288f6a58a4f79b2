"""Neighbours: who may touch whom in the coming substeps, and which objects an agent sees.

Landmarks are sorted into square bins once per episode, agents after every move; an agent looks at the
bins around it instead of at everybody. What is found holds until some agent has moved further than
half the skin; the caller then surveys again. Objects are numbered agents first, then landmarks.
"""

import math

import numpy as np

from coopbench_envs.core import kernel

SLACK = 1e-4  # length; covers the rounding of float32 positions where radii of search are compared


@kernel
def bin_of(x, low, size, bins):
    """Index of the bin that ``x`` falls into; what lies outside (or is not a number) is clamped."""
    v = (x - low) / size
    if not v > 0.0:
        return 0
    return bins - 1 if v >= bins else int(v)


@kernel
def sort_landmarks(c, s, i):
    """Counting sort of the landmarks by bin; within a bin they stay in order."""
    bins = c.bins_x * c.bins_y
    for b in range(bins):
        s.bin_agent[i, b] = -1
    for b in range(bins + 1):
        s.bin_first[i, b] = 0
    for k in range(c.num_landmarks):
        s.bin_first[i, bin_at(c, s.landmark_pos[i, k, 0], s.landmark_pos[i, k, 1]) + 1] += 1
    for b in range(bins):
        s.bin_first[i, b + 1] += s.bin_first[i, b]
    for k in range(c.num_landmarks - 1, -1, -1):
        b = bin_at(c, s.landmark_pos[i, k, 0], s.landmark_pos[i, k, 1])
        s.bin_first[i, b + 1] -= 1
        s.bin_landmark[i, s.bin_first[i, b + 1]] = k
    # The loop above has moved every entry down to the beginning of the bin before its own.
    for b in range(bins):
        s.bin_first[i, b] = s.bin_first[i, b + 1]
    s.bin_first[i, bins] = c.num_landmarks


@kernel
def bin_at(c, x, y):
    """Number of the bin at a point, row by row along x."""
    column = bin_of(x, -0.5 * c.width, c.bin_size, c.bins_x)
    return bin_of(y, -0.5 * c.height, c.bin_size, c.bins_y) * c.bins_x + column


@kernel
def survey(c, s, i):
    """Find every agent's possible contacts and its nearest visible objects where it is now."""
    n = c.num_agents
    largest = 0.0
    for a in range(n - 1, -1, -1):  # chains then run upwards
        b = bin_at(c, s.agent_pos[i, a, 0], s.agent_pos[i, a, 1])
        s.next_agent[i, a] = s.bin_agent[i, b]
        s.bin_agent[i, b] = a
        largest = max(largest, s.agent_rad[i, a])
    s.crowded[i] = False
    s.touch_first[i, 0] = 0
    for a in range(n):
        look_around(c, s, i, a, largest)
    for a in range(n):
        s.bin_agent[i, bin_at(c, s.agent_pos[i, a, 0], s.agent_pos[i, a, 1])] = -1


@kernel
def look_around(c, s, i, a, largest):
    """Fill the lists of agent ``a`` from the bins that its longest radius of search reaches."""
    x, y, rad = s.agent_pos[i, a, 0], s.agent_pos[i, a, 1], s.agent_rad[i, a]
    s.survey_pos[i, a, 0], s.survey_pos[i, a, 1] = x, y
    s.touch_first[i, a + 1] = s.touch_first[i, a]
    for k in range(c.max_obs):
        s.seen[i, a, k] = -1
        s.seen_distance[i, a, k] = np.inf
    sight = c.window + rad + max(rad, c.landmark_rad) + SLACK
    reach = rad + max(largest + c.skin, c.landmark_rad + 0.5 * c.skin) + SLACK
    r = max(sight, reach)
    x_0 = bin_of(x - r, -0.5 * c.width, c.bin_size, c.bins_x)
    x_1 = bin_of(x + r, -0.5 * c.width, c.bin_size, c.bins_x)
    y_0 = bin_of(y - r, -0.5 * c.height, c.bin_size, c.bins_y)
    y_1 = bin_of(y + r, -0.5 * c.height, c.bin_size, c.bins_y)
    for row in range(y_0 * c.bins_x, (y_1 + 1) * c.bins_x, c.bins_x):
        for b in range(row + x_0, row + x_1 + 1):
            other = s.bin_agent[i, b]
            while other >= 0:
                if other != a:
                    meet_agent(c, s, i, a, other, sight)
                other = s.next_agent[i, other]
        for k in range(s.bin_first[i, row + x_0], s.bin_first[i, row + x_1 + 1]):
            meet_landmark(c, s, i, a, s.bin_landmark[i, k], sight)


@kernel
def meet_agent(c, s, i, a, other, sight):
    dx = s.agent_pos[i, other, 0] - s.agent_pos[i, a, 0]
    dy = s.agent_pos[i, other, 1] - s.agent_pos[i, a, 1]
    square = dx * dx + dy * dy
    reach = s.agent_rad[i, a] + s.agent_rad[i, other] + c.skin + SLACK
    if other > a and square <= reach * reach:  # a pair stands in the list of its first agent
        note_touch(c, s, i, a, other)
    if square <= sight * sight:
        note_sight(c, s, i, a, other, s.agent_pos[i, other, 0], s.agent_pos[i, other, 1])


@kernel
def meet_landmark(c, s, i, a, k, sight):
    dx = s.landmark_pos[i, k, 0] - s.agent_pos[i, a, 0]
    dy = s.landmark_pos[i, k, 1] - s.agent_pos[i, a, 1]
    square = dx * dx + dy * dy
    reach = s.agent_rad[i, a] + c.landmark_rad + 0.5 * c.skin + SLACK  # it does not move
    if square <= reach * reach:
        note_touch(c, s, i, a, c.num_agents + k)
    if square <= sight * sight:
        x, y = s.landmark_pos[i, k, 0], s.landmark_pos[i, k, 1]
        note_sight(c, s, i, a, c.num_agents + k, x, y)


@kernel
def note_touch(c, s, i, a, o):
    """Insert object ``o`` into the sorted list of ``a``; a full list makes the lane ``crowded``."""
    k = s.touch_first[i, a + 1]
    if k == s.touch.shape[1]:
        s.crowded[i] = True
        return
    while k > s.touch_first[i, a] and s.touch[i, k - 1] > o:
        s.touch[i, k] = s.touch[i, k - 1]
        k -= 1
    s.touch[i, k] = o
    s.touch_first[i, a + 1] += 1


@kernel
def note_sight(c, s, i, a, o, x, y):
    """Insert object ``o`` at (x, y) among the nearest of ``a``: by float32 distance, then number."""
    dx = np.float32(x) - np.float32(s.agent_pos[i, a, 0])
    dy = np.float32(y) - np.float32(s.agent_pos[i, a, 1])
    distance = np.float32(math.sqrt(dx * dx + dy * dy))
    k = c.max_obs
    while k > 0 and (
        distance < s.seen_distance[i, a, k - 1]
        or (distance == s.seen_distance[i, a, k - 1] and o < s.seen[i, a, k - 1])
    ):
        if k < c.max_obs:
            s.seen[i, a, k] = s.seen[i, a, k - 1]
            s.seen_distance[i, a, k] = s.seen_distance[i, a, k - 1]
        k -= 1
    if k < c.max_obs:
        s.seen[i, a, k] = o
        s.seen_distance[i, a, k] = distance
