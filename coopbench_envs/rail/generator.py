"""Generator: a network, trains, a timetable and malfunctions for every episode.

A family of its own, in the shape of ``sparse_rail_generator`` and its companions of flatland-rl:
two networks of the same seed differ, their sizes and proportions do not.
"""

import math
from collections.abc import Mapping
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np

from coopbench_envs.core import integer, routine, subroutine
from coopbench_envs.elementary import exponential
from coopbench_envs.rail.cells import TYPES
from coopbench_envs.rail.lines import (
    draw_level_free,
    draw_lines,
    draw_ring,
    draw_strikes,
    draw_times,
    set_releases,
)
from coopbench_envs.rail.network import (
    AXIS,
    PLACE,
    SHAPE,
    Yard,
    connect,
    free_of_cities,
    lay_city,
    seal,
    station,
)

__all__ = ["Plan", "Strikes", "draw_instance", "longest_limit", "plan_of", "strikes_of"]

ATTEMPTS = 100  # networks at most, until one has a way for every line


class Plan(NamedTuple):
    """What networks and trains are drawn from, ``c.plan``."""

    speed_units: np.ndarray  # (speeds,)
    speed_shares: np.ndarray  # (speeds,) cumulated
    num_cities: int  # at most
    pairs: int  # of tracks in a city, at most
    rails_between: int
    grid_centres: np.ndarray  # (cities,) cells; empty: cities are drawn
    level_free_share: float
    is_type: np.ndarray  # (65536,) bool
    radius_city: int


class Strikes(NamedTuple):
    """What malfunctions are drawn from, ``c.strikes``."""

    most: int  # per train and episode
    gaps: np.ndarray  # (steps,) probability that the next malfunction comes by then
    shortest: int  # steps that a malfunction lasts at least
    longest: int  # and at most
    lengths: int  # how many lengths there are


def longest_limit(p: Any) -> int:
    """Return the limit of an episode that the formulas of flatland-rl reach at most."""
    extent = p.height + p.width + p.num_agents / 2
    return int(8 * extent) if p.reward == "challenge2020" else 3 * int(8 * extent)


def strikes_of(p: Any, horizon: int) -> Strikes:
    """Return what the malfunctions of an episode of ``horizon`` steps are drawn from."""
    low, high = p.malfunction_duration
    rate = p.malfunction_rate
    chance = 1.0 - exponential(-rate) if rate > 0 else 0.0
    return Strikes(
        most=math.ceil(horizon / (low + 1)) if rate > 0 else 0,
        gaps=1.0 - np.cumprod(np.full(horizon if rate > 0 else 1, 1.0 - chance)),
        shortest=low + 1,
        longest=high + 1,
        lengths=high - low + 1,
    )


def plan_of(p: Any, shares: Mapping[Fraction, float], unit: int) -> Plan:
    """Return what networks and trains are drawn from; ``ValueError`` for cities that do not fit.

    As many as it allows fit on a map if they are evenly spaced. Drawn ones may leave less room.
    """
    radius = p.rail_pairs_in_city + 2
    rows, columns = ((side - 2) // (2 * (radius + 1)) for side in (p.height, p.width))
    room = rows * columns
    if p.cities > room:
        raise ValueError(
            f"Parameter 'cities' of coopbench/Rail was {p.cities}, but only {room} would fit on "
            f"{p.height} x {p.width}: with 'rail_pairs_in_city' = {p.rail_pairs_in_city} each "
            f"needs {2 * (radius + 1)} x {2 * (radius + 1)} cells, and the map two more rows and "
            f"columns. Give more 'height' and 'width', fewer cities or pairs, or cities=0 for a "
            f"ring of rails."
        )
    if 0 < p.cities < p.line_length:
        raise ValueError(
            f"Parameter 'line_length' of coopbench/Rail was {p.line_length}; with {p.cities} "
            f"cities; allowed: at most as many stops as cities."
        )
    is_type = np.zeros(1 << 16, np.bool_)
    is_type[[code for code, (name, _) in TYPES.items() if name not in _NOT_LAID]] = True
    return Plan(
        speed_units=np.array([int(speed * unit) for speed in shares], np.int64),
        speed_shares=np.cumsum(np.array(list(shares.values()), np.float64)),
        num_cities=p.cities,
        pairs=p.rail_pairs_in_city,
        rails_between=p.rails_between_cities,
        grid_centres=(
            _grid(p, rows, columns, radius) if p.grid_mode and p.cities > 0 else _NOWHERE
        ),
        level_free_share=p.level_free,
        is_type=is_type,
        radius_city=radius,
    )


_NOWHERE = np.zeros(0, np.int64)
_NOT_LAID = ("empty", "symmetric switch", "dead end")


def _grid(p: Any, rows: int, columns: int, radius: int) -> np.ndarray:
    """Return the centres of evenly spaced cities, outer ones at the edges, as in flatland-rl."""
    down = min(rows, math.ceil(math.sqrt(p.cities * p.height / p.width)))
    across = min(columns, math.ceil(p.cities / down))
    down = max(down, math.ceil(p.cities / across))  # narrow maps: flatland-rl leaves cities out
    first = radius + 2  # counted without the ring
    lines, files = (
        np.linspace(first, side - first, number).astype(np.int64) + 1
        for side, number in ((p.height, down), (p.width, across))
    )
    centres: np.ndarray = (lines[None] * (p.width + 2) + files[:, None]).ravel()[: p.cities]
    return centres


@subroutine
def draw_instance(c, s, i, rng):
    """Draw networks until one has a way for every line, then what else an episode needs.

    Without cities, and if no network has, trains run on a ring.
    """
    yard = Yard(s.rail, s.closed, s.label, s.previous, s.queue, c.map.delta, c.plan.is_type)
    attempt, complete, cities = 0, False, np.int64(2)
    while attempt < ATTEMPTS and not complete and c.plan.num_cities > 0:
        attempt += 1
        cities = draw_network(c, s, i, rng, yard)
        complete = cities >= c.rules.num_stops + 2 and draw_lines(c, s, i, rng, cities)
    if not complete:
        cities = np.int64(2)
        draw_ring(c, s, i, rng)
    draw_level_free(c, s, i, rng)
    if c.rules.fair:
        set_releases(c, s, i)
    else:
        draw_times(c, s, i, rng, cities)
    for a in range(c.num_agents):
        draw_strikes(c, s, i, a, rng)
    s.mapped[i] = complete  # a ring leaves only the distances to the last target


@routine
def draw_network(c, s, i, rng, yard):
    """Lay cities and the lines between them; return the number of cities."""
    for cell in range(c.map.cells):
        row, column = cell // c.map.columns, cell % c.map.columns
        s.rail[i, cell] = 0
        inside = 0 < row <= c.map.height and 0 < column <= c.map.width
        s.closed[i, cell] = 0 if inside else 1
    cities = place_cities(c, s, i, rng)
    for k in range(cities, c.plan.num_cities):
        s.city[i, k, PLACE] = 0
    for cell in range(c.map.cells):
        if s.closed[i, cell] == 2:
            s.closed[i, cell] = 0
    for k in range(cities):
        choose_axis(c, s, i, k, cities, rng)
        tracks = 2 * (1 + integer(rng, i, c.plan.pairs))
        doors = 1 + integer(rng, i, min(c.plan.rails_between, tracks))
        s.city[i, k, SHAPE] = 100 * tracks + doors
        centre = np.int64(s.city[i, k, PLACE])
        for row in range(-c.plan.radius_city, c.plan.radius_city + 1):
            for column in range(-c.plan.radius_city, c.plan.radius_city + 1):
                s.closed[i, centre + row * c.map.columns + column] = 3
        lay_city(yard, i, centre, np.int64(s.city[i, k, AXIS]), tracks, doors, c.plan.radius_city)
    join_cities(c, s, i, yard, cities)
    return cities


@routine
def place_cities(c, s, i, rng):
    """Choose the centres of cities, which keep their distance; return how many there are."""
    cities = 0
    if len(c.plan.grid_centres) > 0:
        for k in range(len(c.plan.grid_centres)):
            s.city[i, k, PLACE] = c.plan.grid_centres[k]
        return len(c.plan.grid_centres)
    reach = 2 * (c.plan.radius_city + 1) - 1
    while cities < c.plan.num_cities:
        centre = free_of_cities(rng, i, s.closed, c.map.height, c.map.width, c.plan.radius_city + 1)
        if centre < 0:
            break
        s.city[i, cities, PLACE] = centre
        cities += 1
        for row in range(-reach, reach + 1):
            for column in range(-reach, reach + 1):
                y, x = centre // c.map.columns + row, centre % c.map.columns + column
                if 0 < y <= c.map.height and 0 < x <= c.map.width:
                    s.closed[i, y * c.map.columns + x] = 2
    return cities


@routine
def choose_axis(c, s, i, k, cities, rng):
    """Turn city ``k`` towards the nearest other one; on a grid of cities by chance."""
    if len(c.plan.grid_centres) > 0:
        s.city[i, k, AXIS] = 1 + integer(rng, i, 2)
        return
    nearest = np.int64(1) << 40
    for other in range(cities):
        down, right = apart(c, s.city[i, k, PLACE], s.city[i, other, PLACE])
        if other != k and abs(down) + abs(right) < nearest:
            nearest = abs(down) + abs(right)
            s.city[i, k, AXIS] = 2 if abs(down) > abs(right) else 1


@routine
def apart(c, here, far):
    """Return the rows and columns from one cell to another."""
    first, second = np.int64(here), np.int64(far)
    down = second // c.map.columns - first // c.map.columns
    return down, second % c.map.columns - first % c.map.columns


@routine
def door(c, s, i, k, number, outward):
    """Return the cell of the ``number``-th exit of city ``k`` on its side ``outward``."""
    tracks, doors = s.city[i, k, SHAPE] // 100, s.city[i, k, SHAPE] % 100
    track = (tracks - doors + 1) // 2 + number
    return station(s.city, i, k, track, c.map.delta) + c.plan.radius_city * c.map.delta[outward]


@routine
def join_cities(c, s, i, yard, cities):
    """Lay a line from every exit to the nearest exit of the nearest city in that direction.

    Where none can be laid, the next exits of that city are tried. What stays open is a dead end.
    """
    for k in range(cities):
        for end in range(2):
            outward = (s.city[i, k, AXIS] + 2 * end) & 3
            other = nearest_city(c, s, i, k, outward, cities)
            for number in range(s.city[i, k, SHAPE] % 100):
                if other >= 0:
                    join_door(c, s, i, yard, door(c, s, i, k, number, outward), outward, other)
    for k in range(cities):
        for end in range(2):
            outward = (s.city[i, k, AXIS] + 2 * end) & 3
            for number in range(s.city[i, k, SHAPE] % 100):
                seal(yard, i, door(c, s, i, k, number, outward), outward)


@routine
def join_door(c, s, i, yard, start, outward, other):
    """Lay a line from an exit to the nearest exit of city ``other`` to which there is a way."""
    doors, tried, joined = s.city[i, other, SHAPE] % 100, np.int64(-1), False
    for _ in range(2 * doors):
        goal, inward, rank = np.int64(-1), np.int64(0), np.int64(1) << 40
        for k in range(2 * doors):
            away = (s.city[i, other, AXIS] + 2 * (k % 2)) & 3
            cell = door(c, s, i, other, k // 2, away)
            down, right = apart(c, start, cell)
            value = (abs(down) + abs(right)) * 2 * doors + k
            if tried < value < rank:
                rank = np.int64(value)
                goal, inward = cell, np.int64((away + 2) & 3)
        if not joined and goal >= 0:
            s.search[i] += 1
            joined = connect(yard, i, 4 * start + outward, goal, inward, s.search[i])
        tried = rank


@routine
def nearest_city(c, s, i, k, outward, cities):
    """Return the nearest city that lies ``outward`` of city ``k``.

    If no city lies there, those to the left, to the right and behind come next.
    """
    chosen = np.int64(-1)
    for turn in range(4):
        side = (outward + (0 if turn == 0 else 3 if turn == 1 else 1 if turn == 2 else 2)) & 3
        nearest, searching = np.int64(1) << 40, chosen < 0
        for other in range(cities):
            down, right = apart(c, s.city[i, k, PLACE], s.city[i, other, PLACE])
            length = abs(down) + abs(right)
            if searching and other != k and in_cone(down, right, side) and length < nearest:
                nearest = length
                chosen = np.int64(other)
    return chosen


@routine
def in_cone(down, right, side):
    """Tell whether a difference lies within 45 degrees of a heading."""
    if side == 0:
        return -down >= abs(right)
    if side == 1:
        return right >= abs(down)
    if side == 2:
        return down >= abs(right)
    return -right >= abs(down)
