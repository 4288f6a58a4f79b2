"""Neighbours: pairs that may touch in the coming substeps, and the objects that an agent observes.

Agents are sorted into square bins at every survey, landmarks into bins half as wide once per
episode; an agent searches the bins around it instead of all objects. The list of possible contacts
holds until some agent has moved by half the skin. Objects are numbered: agents, then landmarks.
"""

import math
from typing import NamedTuple

import numpy as np

from coopbench_envs.core import routine
from coopbench_envs.pathfinding.maps.common import ABSENT

SLACK = 1e-4  # length added to search radii; covers the rounding of float32 positions
NARROW = 2  # bins of landmarks in the width of a bin of agents
# What an agent sees is one number for each object, which orders objects by distance in float32 and
# then by number: the bits of the distance, and below them the number.
_NUMBER = np.int64(0xFFFFFFFF)
NOTHING = np.int64(0x7F800000FFFFFFFF)  # farther than everything
_SIZE = np.int32(0x7FFFFFFF)  # without the sign, which a nan has on some machines


class Bins(NamedTuple):
    """Where objects are looked for, ``c.bins``: square bins, and lists of possible contacts."""

    x_low: float  # corner of the bins
    y_low: float
    per_length: float  # bins per unit of length
    along_x: int  # number of bins
    along_y: int
    skin: float  # extra range of the lists of possible contacts; affects speed, not results
    room: int  # entries in the lists of possible contacts of all agents together


@routine
def bin_of(x, low, per_length, bins):
    """Return the index of the bin that contains ``x``; the nearest if outside, 0 for nan."""
    v = (x - low) * per_length
    if not v > 0.0:
        return 0
    return bins - 1 if v >= bins else int(v)


@routine
def bin_at(bins, x, y):
    """Return the number of the bin at a point; bins are numbered row by row along x."""
    column = bin_of(x, bins.x_low, bins.per_length, bins.along_x)
    return bin_of(y, bins.y_low, bins.per_length, bins.along_y) * bins.along_x + column


@routine
def narrow_bin_of(bins, x):
    """Return the column of narrow bins, those of landmarks, that contains ``x``."""
    return bin_of(x, bins.x_low, NARROW * bins.per_length, NARROW * bins.along_x)


@routine
def narrow_bin_at(bins, x, y):
    """Return the number of the narrow bin at a point."""
    row = bin_of(y, bins.y_low, bins.per_length, bins.along_y)
    return row * NARROW * bins.along_x + narrow_bin_of(bins, x)


@routine
def sort_landmarks(c, s, i):
    """Sort the landmarks by narrow bin (counting sort); in one they keep their order."""
    first, order, pos = s.bin_first, s.bin_landmark, s.landmark_pos
    for b in range(c.bins.along_x * c.bins.along_y):
        s.bin_agent[i, b] = c.num_agents
    bins = NARROW * c.bins.along_x * c.bins.along_y
    for b in range(bins):
        first[i, b] = 0
    present = 0
    for k in range(pos.shape[1]):
        if pos[i, k, 0] != ABSENT:
            first[i, narrow_bin_at(c.bins, pos[i, k, 0], pos[i, k, 1])] += 1
            present += 1
    for b in range(1, bins):  # counts become ends
        first[i, b] += first[i, b - 1]
    first[i, bins] = present
    for k in range(pos.shape[1] - 1, -1, -1):  # ends become beginnings
        if pos[i, k, 0] != ABSENT:
            b = narrow_bin_at(c.bins, pos[i, k, 0], pos[i, k, 1])
            first[i, b] -= 1
            order[i, first[i, b]] = k


@routine
def survey(c, s, i):
    """List all possible contacts and every agent's nearest visible objects at present positions."""
    n, pos, rad, head = c.num_agents, s.agent_pos, s.agent_rad, s.bin_agent
    largest = 0.0
    for a in range(n - 1, -1, -1):  # chains then run upwards
        b = bin_at(c.bins, pos[i, a, 0], pos[i, a, 1])
        s.next_agent[i, a] = head[i, b]
        head[i, b] = a
        largest = max(largest, rad[i, a])
        s.paired[i, a] = False
    s.crowded[i] = False
    s.touches[i] = 0
    for a in range(n):
        look_around(c, s, i, a, largest)
    for a in range(n):
        head[i, bin_at(c.bins, pos[i, a, 0], pos[i, a, 1])] = n


@routine
def look_around(c, s, i, a, largest):
    """List the contacts and sights of agent ``a`` from the bins within its largest search radius.

    Most objects in these bins are out of reach, unpredictably: they are sorted out without a
    branch, since a wrongly predicted one takes longer than all that is done with an object.
    """
    first, order, head, after = s.bin_first, s.bin_landmark, s.bin_agent, s.next_agent
    x, y, rad = s.agent_pos[i, a, 0], s.agent_pos[i, a, 1], s.agent_rad[i, a]
    sight = c.rules.window + rad + max(largest, c.map.landmark_rad) + SLACK
    r = max(sight, rad + max(largest, c.map.landmark_rad) + c.bins.skin + SLACK)
    x_0 = bin_of(x - r, c.bins.x_low, c.bins.per_length, c.bins.along_x)
    x_1 = bin_of(x + r, c.bins.x_low, c.bins.per_length, c.bins.along_x)
    y_0 = bin_of(y - r, c.bins.y_low, c.bins.per_length, c.bins.along_y)
    y_1 = bin_of(y + r, c.bins.y_low, c.bins.per_length, c.bins.along_y)
    forget(s.seen, i, a)
    forget(s.seen_walls, i, a)
    begin = s.touches[i]
    for row in range(y_0 * c.bins.along_x, (y_1 + 1) * c.bins.along_x, c.bins.along_x):
        for b in range(row + x_0, row + x_1 + 1):
            o = head[i, b]
            while o < c.num_agents:
                if o != a:
                    meet_agent(c, s, i, a, o, sight, begin)
                o = after[i, o]
    x_0, x_1, near = narrow_bin_of(c.bins, x - r), narrow_bin_of(c.bins, x + r), 0
    width = NARROW * c.bins.along_x
    for row in range(y_0 * width, (y_1 + 1) * width, width):
        for k in range(first[i, row + x_0], first[i, row + x_1 + 1]):
            s.near[i, near] = order[i, k]
            near += is_within(s.landmark_pos, i, order[i, k], x, y, r)
    for k in range(near):
        meet_landmark(c, s, i, a, s.near[i, k], sight, begin)


@routine
def is_within(places, i, o, x, y, r):
    """Return whether object ``o`` is at most ``r`` away from a point."""
    dx, dy = places[i, o, 0] - x, places[i, o, 1] - y
    return dx * dx + dy * dy <= r * r


@routine
def meet_agent(c, s, i, a, o, sight, begin):
    """Add agent ``o`` to the possible contacts and the visible objects of ``a`` if it is."""
    pos, rad = s.agent_pos, s.agent_rad
    dx, dy = pos[i, o, 0] - pos[i, a, 0], pos[i, o, 1] - pos[i, a, 1]
    close = rad[i, a] + rad[i, o] + c.bins.skin + SLACK
    # A pair is listed for its first agent only.
    if o > a and dx * dx + dy * dy <= close * close:
        note_touch(s, i, a, o, begin)
        s.paired[i, a], s.paired[i, o] = True, True
    if dx * dx + dy * dy <= sight * sight:
        note_sight(s.seen, i, a, sight_of(o, distance32(pos, pos, i, a, o)))


@routine
def meet_landmark(c, s, i, a, o, sight, begin):
    """Add landmark ``o`` to the possible contacts and the visible objects of ``a`` if it is."""
    pos, landmarks = s.agent_pos, s.landmark_pos
    dx, dy = landmarks[i, o, 0] - pos[i, a, 0], landmarks[i, o, 1] - pos[i, a, 1]
    # Only one of the two moves.
    close = s.agent_rad[i, a] + c.map.landmark_rad + 0.5 * c.bins.skin + SLACK
    if dx * dx + dy * dy <= close * close:
        note_touch(s, i, a, c.num_agents + o, begin)
    if dx * dx + dy * dy <= sight * sight:
        distance = distance32(pos, landmarks, i, a, o)
        note_sight(s.seen_walls, i, a, sight_of(c.num_agents + o, distance))


@routine
def distance32(one, other, i, a, o):
    """Return a distance as the published code does: float32, from positions in float32."""
    dx = np.float32(other[i, o, 0]) - np.float32(one[i, a, 0])
    dy = np.float32(other[i, o, 1]) - np.float32(one[i, a, 1])
    return np.float32(math.sqrt(dx * dx + dy * dy))


@routine
def note_touch(s, i, a, o, begin):
    """Insert the pair of agent ``a`` and object ``o`` into the sorted list of possible contacts.

    The pairs of ``a`` start at ``begin``. If the list is full the lane becomes ``crowded``.
    """
    k = s.touches[i]
    if k == s.touch.shape[1]:
        s.crowded[i] = True
        return
    s.touch_agent[i, k] = a
    while k > begin and s.touch[i, k - 1] > o:
        s.touch[i, k] = s.touch[i, k - 1]
        k -= 1
    s.touch[i, k] = o
    s.touches[i] += 1


@routine
def sight_of(o, distance):
    """Return the number that stands for object ``o`` at a float32 ``distance``."""
    return (np.int64(np.float32(distance).view(np.int32) & _SIZE) << 32) | np.int64(o)


@routine
def object_of(sight):
    """Return the object that a number stands for, or -1."""
    return -1 if sight == NOTHING else sight & _NUMBER


@routine
def distance_of(sight):
    """Return the float32 distance of the object that a number stands for."""
    return np.int32(sight >> 32).view(np.float32)


@routine
def forget(seen, i, a):
    """Empty the list of visible objects of agent ``a``."""
    for k in range(seen.shape[2]):
        seen[i, a, k] = NOTHING


@routine
def note_sight(seen, i, a, sight):
    """Insert an object among the nearest of ``a``, without a branch; the farthest one drops out."""
    for k in range(seen.shape[2]):
        other = seen[i, a, k]
        seen[i, a, k] = min(other, sight)
        sight = max(other, sight)
