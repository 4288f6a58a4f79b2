"""Lines: which stations a train serves, when, and when it breaks down, drawn per episode."""

import math

import numpy as np

from coopbench_envs.core import integer, routine, uniform
from coopbench_envs.rail.cells import DIAMOND, exits
from coopbench_envs.rail.distances import UNREACHABLE, chart_of, number_places, row_at, search
from coopbench_envs.rail.network import AXIS, SHAPE, pair_of, station
from coopbench_envs.rail.rewards import CHALLENGE_2020

__all__ = [
    "FAR",
    "draw_level_free",
    "draw_lines",
    "draw_ring",
    "draw_strikes",
    "draw_times",
    "set_releases",
]

FAR = 2**30  # a step that no episode reaches
TRIES = 60  # choices of stations at most, per train and network


@routine
def draw_lines(c, s, i, rng, cities):
    """Draw start, stops and target of every train; return whether each has a way.

    Trains come in pairs: the second serves the cities of the first in reverse order.
    """
    number_places(s.rail, s.numbers, s.row_length, i)
    length = np.int64(s.row_length[i])
    first = length
    for a in range(c.num_agents):
        s.map_of[i, a] = -1
        for _ in range(TRIES):
            if s.map_of[i, a] < 0:
                if a % 2 == 0:
                    draw_route(c, s, i, rng, cities)
                draw_line(c, s, i, a, rng, row_at(s, i, first))
        if s.map_of[i, a] < 0:
            return False
        first = max(first, s.map_of[i, a] + length)
        s.top_speed[i, a] = draw_speed(c, i, rng)
    return True


@routine
def draw_route(c, s, i, rng, cities):
    """Draw as many different cities as a line has stops."""
    for k in range(cities):
        s.route[i, k] = k
    for k in range(c.rules.num_stops + 2):
        other = k + integer(rng, i, cities - k)
        city = s.route[i, other]
        s.route[i, other] = s.route[i, k]
        s.route[i, k] = city


@routine
def draw_speed(c, i, rng):
    """Draw the top speed of a train by the shares."""
    x, k = uniform(rng, i), 0
    while k < len(c.plan.speed_units) - 1 and c.plan.speed_shares[k] <= x:
        k += 1
    return c.plan.speed_units[k]


@routine
def draw_line(c, s, i, a, rng, first):
    """Draw the stations of train ``a``; without a way it gets no row.

    ``first`` is where the row of a new target begins, or 0 if there is no room for one.
    It starts on a track of even number and ends on one of odd number, as in flatland-rl.
    """
    stops = c.rules.num_stops + 2
    origin = s.route[i, 0 if a % 2 == 0 else stops - 1]
    final = s.route[i, stops - 1 if a % 2 == 0 else 0]
    tracks = s.city[i, origin, SHAPE] // 100
    start = station(s.city, i, origin, (2 * integer(rng, i, 10)) % tracks, c.map.delta)
    tracks = s.city[i, final, SHAPE] // 100
    target = station(s.city, i, final, (2 * integer(rng, i, 10) + 1) % tracks, c.map.delta)
    s.target[i, a] = target
    s.target_headings[i, a] = 5 << s.city[i, final, AXIS] % 2
    row = first
    for b in range(a):
        if s.target[i, b] == target:
            row = np.int64(s.map_of[i, b])
    if row == first:
        search(chart_of(c, s), i, row, target, s.target_headings[i, a])
    heading = (s.city[i, origin, AXIS] + 2 * integer(rng, i, 2)) & 3
    for _ in range(2):
        if s.map_of[i, a] < 0 and draw_way(c, s, i, a, rng, 4 * start + heading, row):
            s.start[i, a] = 4 * start + heading
            s.map_of[i, a] = row
        heading = (heading + 2) & 3


@routine
def draw_way(c, s, i, a, rng, place, row):
    """Draw the stops between start and target; return whether the train can serve them all.

    ``stop_departure`` counts the cells from the start, ``stop_due`` those to the target.
    """
    stops, cells = c.rules.num_stops, np.int64(0)
    for k in range(stops):
        city = s.route[i, 1 + k if a % 2 == 0 else stops - k]
        track = integer(rng, i, s.city[i, city, SHAPE] // 100)
        cell = station(s.city, i, city, track, c.map.delta)
        axis = s.city[i, city, AXIS] % 2
        search(chart_of(c, s), i, 0, cell, 5 << axis)
        length = np.int64(s.distances[i, s.numbers[i, place]])
        if length == UNREACHABLE:
            return False
        cells += length
        place = descend(c, s, i, place)
        for j in range(s.stop_place.shape[3]):
            s.stop_place[i, a, k, j] = 4 * cell + axis + 2 * j if j < 2 else -1
            s.stop_departure[i, a, k, j] = cells
    if row == 0 and stops > 0:
        search(chart_of(c, s), i, 0, s.target[i, a], s.target_headings[i, a])
    length = np.int64(s.distances[i, row + s.numbers[i, place]])
    for k in range(stops):
        for j in range(s.stop_place.shape[3]):
            s.stop_due[i, a, k, j] = cells + length - s.stop_departure[i, a, k, j]
    s.wish[i, a] = cells + length + 1
    return length != UNREACHABLE


@routine
def descend(c, s, i, place):
    """Follow the distances of the first row from ``place`` to where they are 0."""
    while s.distances[i, s.numbers[i, place]] > 0:
        bits = exits(s.rail[i, place >> 2], place & 3)
        after, least = place, s.distances[i, s.numbers[i, place]]
        for turn in range(4):
            ahead = 4 * ((place >> 2) + c.map.delta[turn]) + turn
            if (bits >> (3 - turn)) & 1 and s.distances[i, s.numbers[i, ahead]] < least:
                after, least = ahead, s.distances[i, s.numbers[i, ahead]]
        place = after
    return place


@routine
def draw_ring(c, s, i, rng):
    """Lay a ring of rails along the edge; trains run from its upper to its lower side.

    For tasks without cities, whose instances are all imported.
    """
    for cell in range(c.map.cells):
        row, column = cell // c.map.columns, cell % c.map.columns
        upper, lower = (
            row == 1 and 0 < column <= c.map.width,
            row == c.map.height and 0 < column <= c.map.width,
        )
        left, right = (
            column == 1 and 0 < row <= c.map.height,
            column == c.map.width and 0 < row <= c.map.height,
        )
        code = np.int64(0)
        if upper or lower:
            code = pair_of(1, 1)
        elif left or right:
            code = pair_of(0, 0)
        if upper and left:
            code = pair_of(0, 1)
        elif upper and right:
            code = pair_of(1, 2)
        elif lower and right:
            code = pair_of(2, 3)
        elif lower and left:
            code = pair_of(3, 0)
        s.rail[i, cell] = code
    number_places(s.rail, s.numbers, s.row_length, i)
    for a in range(c.num_agents):
        start = c.map.columns + 2 + integer(rng, i, c.map.width - 2)
        target = c.map.columns * c.map.height + 2 + integer(rng, i, c.map.width - 2)
        s.start[i, a] = 4 * start + 1 + 2 * integer(rng, i, 2)
        s.target[i, a] = target
        s.target_headings[i, a] = 10
        search(chart_of(c, s), i, 0, target, 10)
        s.wish[i, a] = s.distances[i, s.numbers[i, s.start[i, a]]] + 1
        s.top_speed[i, a] = draw_speed(c, i, rng)
        for k in range(c.rules.num_stops):
            for j in range(s.stop_place.shape[3]):
                s.stop_place[i, a, k, j] = -1
                s.stop_departure[i, a, k, j] = 0
                s.stop_due[i, a, k, j] = 0


@routine
def draw_level_free(c, s, i, rng):
    """Choose the share of diamonds whose tracks lie on different levels."""
    total = np.int64(0)
    for cell in range(c.map.cells):
        s.level_free[i, cell] = 0
        total += s.rail[i, cell] == DIAMOND
    if c.plan.level_free_share <= 0.0 or total == 0:
        return
    share = c.plan.level_free_share * total
    wanted = np.int64(math.floor(share))
    wanted += uniform(rng, i) < share - wanted
    for cell in range(c.map.cells):
        if s.rail[i, cell] == DIAMOND:
            if integer(rng, i, total) < wanted:
                s.level_free[i, cell] = 1
                wanted -= 1
            total -= 1


@routine
def draw_times(c, s, i, rng, cities):
    """Set the limit, and draw when trains depart and are due, by the formulas of flatland-rl."""
    n, total, longest = c.num_agents, 0.0, 0.0
    for a in range(n):
        time = s.wish[i, a] * c.drive.unit / s.top_speed[i, a]
        total += time
        longest = max(longest, time)
    slack = 0.2 * (total / n)
    extent = c.map.height + c.map.width + n / cities
    limit = min(math.ceil(1.5 * longest) + slack, 3 * math.floor(8.0 * extent))
    if c.rewards.code == CHALLENGE_2020:
        limit = 8.0 * extent
    steps = min(np.int64(limit), c.horizon)
    s.limit[i] = steps
    for a in range(n):
        s.departure[i, a] = 0
        s.due[i, a] = steps
        if c.rewards.code != CHALLENGE_2020:
            time = s.wish[i, a] * c.drive.unit / s.top_speed[i, a]
            travel = np.int64(math.ceil(1.3 * time + slack))
            window = max(steps - np.int64(0.05 * steps) - travel, 1)
            s.departure[i, a] = integer(rng, i, window)
            s.due[i, a] = s.departure[i, a] + travel
        for k in range(c.rules.num_stops):
            for j in range(s.stop_place.shape[3]):
                s.stop_departure[i, a, k, j] += s.departure[i, a]
                s.stop_due[i, a, k, j] = s.due[i, a] - s.stop_due[i, a, k, j]


@routine
def set_releases(c, s, i):
    """Set the limit, departures and due times of a game that all trains can win.

    Trains that share a start cell depart one after the other, as long after the one before as that
    one needs for a cell. The limit leaves twice the longest way, and the time of all such queues.
    """
    n, total, longest, queues = c.num_agents, 0.0, 0.0, np.int64(0)
    for a in range(n):
        s.departure[i, a] = 0
        gap = np.int64(0)
        for b in range(a):
            if s.start[i, b] >> 2 == s.start[i, a] >> 2:
                gap = np.int64(math.ceil(c.drive.unit / s.top_speed[i, b]))
                s.departure[i, a] = s.departure[i, b] + gap
        queues += gap
        time = s.wish[i, a] * c.drive.unit / s.top_speed[i, a]
        total += time
        longest = max(longest, time)
    limit = min(np.int64(math.ceil(2.0 * longest)) + queues + 20, c.horizon)
    s.limit[i] = limit
    for a in range(n):
        time = s.wish[i, a] * c.drive.unit / s.top_speed[i, a]
        travel = np.int64(math.ceil(1.3 * time + 0.2 * (total / n)))
        s.due[i, a] = min(s.departure[i, a] + travel, limit)


@routine
def draw_strikes(c, s, i, a, rng):
    """Draw the malfunctions of train ``a``: at every step with the same chance.

    In version 0 none comes before the repair of the one before. Under fair rules play decides which
    ones strike, so that every step can have one: see ``trains.strike``.
    """
    step, k = np.int64(0), 0
    while k < c.strikes.most:
        x, low, high = uniform(rng, i), 0, len(c.strikes.gaps)
        while low < high:
            middle = (low + high) // 2
            if c.strikes.gaps[middle] <= x:
                low = middle + 1
            else:
                high = middle
        step += low + 1
        if low == len(c.strikes.gaps) or step > s.limit[i]:
            break
        s.strike_time[i, a, k] = step
        s.strike_length[i, a, k] = c.strikes.shortest + integer(rng, i, c.strikes.lengths)
        if not c.rules.fair:
            step += s.strike_length[i, a, k] - 1
        k += 1
    while k < c.strikes.most:
        s.strike_time[i, a, k] = FAR
        s.strike_length[i, a, k] = 0
        k += 1
