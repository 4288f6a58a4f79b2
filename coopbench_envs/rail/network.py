"""Network: cities with parallel tracks, and lines between them, drawn for every episode.

Tracks are added one transition and its reverse at a time, and only where the cell stays one of the
types. So every exit has a counterpart and every track can be used in both directions.
"""

from typing import NamedTuple

import numpy as np

from coopbench_envs.core import integer, routine, subroutine

__all__ = ["Yard", "connect", "free_of_cities", "lay_city", "pair_of", "seal", "station"]

PLACE, SHAPE, AXIS = range(3)  # of s.city: its middle cell, 100 * tracks + exits, heading


class Yard(NamedTuple):
    """Arrays that rails are laid with; lane first, but for the last two."""

    rail: np.ndarray  # codes of cells
    closed: np.ndarray  # cells that no line leads through: the ring, and cities
    label: np.ndarray  # the search that has last reached a place
    previous: np.ndarray  # the place from which it has been reached
    queue: np.ndarray
    delta: np.ndarray  # (4,) difference of cells of a step in each heading
    is_type: np.ndarray  # (65536,) whether a code is a type of cell


@routine
def pair_of(heading, turn):
    """Return the bits of a track that is entered with ``heading`` and left with ``turn``."""
    forth = np.int64(1) << (4 * (3 - heading) + 3 - turn)
    back = np.int64(1) << (4 * (3 - ((turn + 2) & 3)) + 3 - ((heading + 2) & 3))
    return forth | back


@routine
def fits(yard, i, cell, heading, turn):
    """Tell whether a track can be added to a cell."""
    return yard.is_type[np.int64(yard.rail[i, cell]) | pair_of(heading, turn)]


@routine
def add(yard, i, cell, heading, turn):
    """Add a track to a cell."""
    yard.rail[i, cell] = np.int64(yard.rail[i, cell]) | pair_of(heading, turn)


@routine
def both_fit(yard, i, cell, axis, turn):
    """Tell whether two neighbouring tracks along ``axis`` can be joined, ``cell`` the first's."""
    beside = cell + yard.delta[turn]
    return fits(yard, i, cell, axis, turn) and fits(yard, i, beside, turn, axis)


@routine
def station(city, i, k, track, delta):
    """Return the cell in the middle of a track of city ``k``."""
    tracks, axis = city[i, k, SHAPE] // 100, city[i, k, AXIS]
    side = delta[(axis + 1) & 3]
    return np.int64(city[i, k, PLACE]) + (track - tracks // 2) * side


@subroutine
def lay_city(yard, i, centre, axis, tracks, exits, radius):
    """Lay the parallel tracks of a city around the cell ``centre``, ladders and crossovers.

    The middle ones, as many as there are exits, run through; their ends are connected later.
    """
    along, side = yard.delta[axis], yard.delta[(axis + 1) & 3]
    first = (tracks - exits + 1) // 2
    for k in range(first, first + exits):
        for x in range(1 - radius, radius):
            add(yard, i, centre + x * along + (k - tracks // 2) * side, axis, axis)
    for step in range(1, tracks):  # from the middle outwards: a siding leaves its inner neighbour
        for k in (first - step, first + exits - 1 + step):
            if 0 <= k < tracks:
                lay_siding(yard, i, centre, axis, k, tracks, radius)
    for k in range(first, first + exits - 1):
        lay_crossovers(yard, i, centre + (k - tracks // 2) * side, axis, radius)
    if exits == 1:
        lay_crossover(yard, i, centre + (first - 1 - tracks // 2) * side, axis)


@routine
def lay_siding(yard, i, centre, axis, k, tracks, radius):
    """Lay track ``k``, which leaves its neighbour towards the middle and comes back to it."""
    along, side, middle = yard.delta[axis], yard.delta[(axis + 1) & 3], tracks // 2
    reach = radius - (abs(k - middle) + (k > middle) + 1)
    outward = (axis + 1) & 3 if k >= middle else (axis + 3) & 3
    here = centre + (k - middle) * side
    beside = here - yard.delta[outward]
    for x in range(1 - reach, reach):
        add(yard, i, here + x * along, axis, axis)
    add(yard, i, beside - reach * along, axis, outward)
    add(yard, i, here - reach * along, outward, axis)
    add(yard, i, here + reach * along, axis, (outward + 2) & 3)
    add(yard, i, beside + reach * along, (outward + 2) & 3, axis)


@routine
def lay_crossovers(yard, i, here, axis, radius):
    """Join a track through the city with the next one, at both ends and in both directions."""
    along, turn = yard.delta[axis], (axis + 1) & 3
    beside = here + yard.delta[turn]
    for end in (-1, 1):
        down, up = False, False
        for offset in range(1, radius):
            shift = end * (radius - offset) * along
            if not down and both_fit(yard, i, here + shift, axis, turn):
                add(yard, i, here + shift, axis, turn)
                add(yard, i, beside + shift, turn, axis)
                down = True
            elif not up and both_fit(yard, i, beside + shift, axis, (turn + 2) & 3):
                add(yard, i, beside + shift, axis, (turn + 2) & 3)
                add(yard, i, here + shift, (turn + 2) & 3, axis)
                up = True


@routine
def lay_crossover(yard, i, here, axis):
    """Join the siding of a city with one exit with the next track, beside the station.

    This needs a straight cell there: the inner sidings of cities of radius 2 with four tracks have
    none.
    """
    turn, cell = (axis + 1) & 3, here + yard.delta[axis]
    if yard.rail[i, cell] == pair_of(axis, axis) and both_fit(yard, i, cell, axis, turn):
        add(yard, i, cell, axis, turn)
        add(yard, i, cell + yard.delta[turn], turn, axis)


@subroutine
def connect(yard, i, start, goal, inward, number):
    """Lay a line from the place ``start`` to the cell ``goal``, which it leaves ``inward``.

    It is the shortest one through cells to which its track can be added, and avoids cities.
    Returns whether there is one. ``number`` must be larger than in all searches before.
    """
    last = search_line(yard, i, start, goal, inward, number)
    if last < 0 or crosses_itself(yard, i, start, last, number):
        return False
    turn, place = inward, last
    while True:
        add(yard, i, place >> 2, place & 3, turn)
        if place == start:
            return True
        turn, place = place & 3, np.int64(yard.previous[i, place])


@routine
def search_line(yard, i, start, goal, inward, number):
    """Return the place in ``goal`` that a search has reached first, -1 if there is none."""
    first, last, reached = 0, 1, np.int64(-1)
    yard.queue[i, 0] = start
    yard.label[i, start] = number
    while first < last and reached < 0:
        place = np.int64(yard.queue[i, first])
        first += 1
        cell, heading = place >> 2, place & 3
        if cell == goal:
            reached = place
        for k in range(3):
            turn = (heading + (0 if k == 0 else 2 * k - 1)) & 3
            ahead = 4 * (cell + yard.delta[turn]) + turn
            if reached >= 0 or yard.label[i, ahead] == number:
                continue
            if yard.closed[i, ahead >> 2] and (
                ahead >> 2 != goal or not fits(yard, i, goal, turn, inward)
            ):
                continue
            if not fits(yard, i, cell, heading, turn):
                continue
            yard.label[i, ahead] = number
            yard.previous[i, ahead] = place
            yard.queue[i, last] = ahead
            last += 1
    return reached


@routine
def crosses_itself(yard, i, start, last, number):
    """Tell whether the line that a search has reached ``last`` by visits a cell twice."""
    place, twice = last, False
    while place != start and not twice:
        other = np.int64(yard.previous[i, place])
        while not twice:
            twice = other >> 2 == place >> 2
            if other == start:
                break
            other = np.int64(yard.previous[i, other])
        place = np.int64(yard.previous[i, place])
    return twice


@routine
def seal(yard, i, cell, outward):
    """Turn a cell that no line has reached into a dead end for trains that head ``outward``."""
    if yard.rail[i, cell] == 0:
        yard.rail[i, cell] = np.int64(1) << (4 * (3 - outward) + 3 - ((outward + 2) & 3))


@routine
def free_of_cities(rng, i, closed, height, width, reach):
    """Draw a cell around which the square of ``reach`` cells touches no city and no edge; or -1.

    ``closed`` is 2 where a centre would be too close to another city.
    """
    columns, total = width + 2, np.int64(0)
    for row in range(reach + 1, height - reach + 1):
        for column in range(reach + 1, width - reach + 1):
            total += closed[i, row * columns + column] != 2
    if total == 0:
        return np.int64(-1)
    pick = integer(rng, i, total)
    cell = np.int64(-1)
    for row in range(reach + 1, height - reach + 1):
        for column in range(reach + 1, width - reach + 1):
            if closed[i, row * columns + column] != 2:
                if pick == 0:
                    cell = np.int64(row * columns + column)
                pick -= 1
    return cell
