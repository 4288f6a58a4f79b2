"""Distances: cells from every place with rails to every target, one row for each target.

Places with rails are numbered from 1, and a row holds a distance for each of them; its first entry
stands for all places without rails. The first row of all is for a search whose outcome is needed
once. There is room for all rows of the networks that are drawn. Where a network with more rails and
targets is imported, some targets get no row: their distances are searched whenever they are asked
for, in the first row.
"""

from typing import Any, NamedTuple

import numpy as np

from coopbench_envs.core import routine, subroutine
from coopbench_envs.rail.cells import exits

__all__ = [
    "UNREACHABLE",
    "cells_from",
    "chart_of",
    "check_rows",
    "distance_of",
    "distances_at",
    "map_targets",
    "number_places",
    "room",
    "search",
]

UNREACHABLE = 65535
_SHARE = 12  # drawn networks take up to 1 / 19 of the rows of all trains over all places
_LEAST = 1 << 16  # distances that there is always room for, if there can be so many


def room(trains: int, cells: int) -> int:
    """Return how many distances are kept: all on small maps, on others a share of them."""
    row = 4 * cells + 1
    return min((trains + 1) * row, max(row, _LEAST, (trains + 1) * row // _SHARE))


class Chart(NamedTuple):
    """What distances are searched with; lane first, but for the last one."""

    rail: np.ndarray  # codes of cells
    numbers: np.ndarray  # numbers of places
    row_length: np.ndarray
    distances: np.ndarray
    queue: np.ndarray
    delta: np.ndarray  # (4,) difference of cells of a step in each heading


@routine
def chart_of(c, s):
    """Return what distances are searched with."""
    return Chart(s.rail, s.numbers, s.row_length, s.distances, s.queue, c.map.delta)


@routine
def cells_from(s, i, a, place):
    """Return how many cells train ``a`` is from its target at ``place``; it must have a row."""
    return np.int64(s.distances[i, s.map_of[i, a] + s.numbers[i, place]])


@routine
def distance_of(c, s, i, a, place):
    """Return how many cells train ``a`` is from its target at ``place``; ``UNREACHABLE``: none."""
    if s.map_of[i, a] == 0 and s.searched[i] != a:
        search(chart_of(c, s), i, 0, s.target[i, a], s.target_headings[i, a])
        s.searched[i] = a
    return cells_from(s, i, a, place)


def distances_at(s: Any, places: np.ndarray) -> np.ndarray:
    """Return how many cells trains would be from their targets at ``places``, (lanes, trains).

    Raises:
        ValueError: the network has more rails and targets than distances are kept for.
    """
    check_rows(s)
    lanes = np.arange(len(places))[:, None]
    steps: np.ndarray = s.distances[lanes, s.map_of + s.numbers[lanes, places]].astype(np.int64)
    return steps


def check_rows(s: Any) -> None:
    """Raise ``ValueError`` unless the targets of all trains have rows."""
    for lane, train in np.argwhere(np.asarray(s.map_of) == 0)[:1]:
        rows = s.distances.shape[1] // int(s.row_length[lane]) - 1
        raise ValueError(
            f"The network of lane {lane} has {s.row_length[lane] - 1} places with rails, and there "
            f"is room for distances to at most {rows} of its targets; train {train} has another "
            f"one. Policies that read distances need all: give fewer targets or rails."
        )


@subroutine
def number_places(rail, numbers, row_length, i):
    """Number the places with rails, in order."""
    last = 0
    for place in range(numbers.shape[1]):
        numbers[i, place] = 0
        if exits(rail[i, place >> 2], place & 3) != 0:
            last += 1
            numbers[i, place] = last
    row_length[i] = last + 1


@routine
def map_targets(c, s, i):
    """Number the places, and write the distances to the targets of all trains that have room."""
    number_places(s.rail, s.numbers, s.row_length, i)
    first = s.row_length[i]
    for a in range(c.num_agents):
        s.map_of[i, a] = -1
        for b in range(a):
            same_cell = s.target[i, b] == s.target[i, a]
            if same_cell and s.target_headings[i, b] == s.target_headings[i, a]:
                s.map_of[i, a] = s.map_of[i, b]
                break
        if s.map_of[i, a] < 0:
            s.map_of[i, a] = row_at(s, i, first)
            if s.map_of[i, a] > 0:
                search(chart_of(c, s), i, first, s.target[i, a], s.target_headings[i, a])
                first += s.row_length[i]


@routine
def row_at(s, i, first):
    """Return where a row begins that may begin at ``first``: there, or at 0 if it has no room."""
    return first if first + s.row_length[i] <= s.distances.shape[1] else 0


@subroutine
def search(chart, i, first, cell, headings):
    """Write the row that begins at ``first``, breadth first and backwards from the target."""
    rail, numbers, distances, queue = chart.rail, chart.numbers, chart.distances, chart.queue
    for k in range(first, first + chart.row_length[i]):
        distances[i, k] = UNREACHABLE
    begin, end = 0, 0
    for heading in range(4):
        if (headings >> heading) & 1 and exits(rail[i, cell], heading) != 0:
            distances[i, first + numbers[i, 4 * cell + heading]] = 0
            queue[i, end] = 4 * cell + heading
            end += 1
    while begin < end:
        place = queue[i, begin]
        begin += 1
        heading = place & 3
        before = (place >> 2) - chart.delta[heading]
        steps = distances[i, first + numbers[i, place]] + 1
        code = np.int64(rail[i, before])
        if code == 0:
            continue
        for entered in range(4):
            way = 4 * before + entered
            opens = (code >> (4 * (3 - entered) + 3 - heading)) & 1
            if opens and distances[i, first + numbers[i, way]] == UNREACHABLE:
                distances[i, first + numbers[i, way]] = steps
                queue[i, end] = way
                end += 1
