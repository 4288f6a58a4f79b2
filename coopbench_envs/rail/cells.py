"""Cells: the 30 types of rail cells, their exits, and where an action leads.

Headings are 0 north, 1 east, 2 south, 3 west. A cell's code is a number of 16 bits: four groups of
four bits, the first group for trains that head north; in a group the highest bit is the exit to the
north. A place is ``4 * cell + heading``, on a grid with an empty ring around it.
"""

import numpy as np

from coopbench_envs.core import routine

__all__ = [
    "ACTIONS",
    "BASES",
    "DEAD_END",
    "DIAMOND",
    "FORWARD",
    "LEFT",
    "RIGHT",
    "STEPS",
    "STOP",
    "TYPES",
    "count",
    "exits",
    "follow",
    "lone",
    "rotated",
    "steps",
]

ACTIONS = ("do nothing", "left", "forward", "right", "stop")
LEFT, FORWARD, RIGHT, STOP = range(1, 5)
STEPS = ((-1, 0), (0, 1), (1, 0), (0, -1))  # rows and columns of a step in each heading

# One cell of every kind, in the order of drawing; the others are its rotations.
BASES = {
    "empty": 0,
    "straight": 0b1000_0000_0010_0000,
    "simple switch, left": 0b1001_0010_0010_0000,
    "simple switch, right": 0b1100_0000_0010_0010,
    "diamond": 0b1000_0100_0010_0001,
    "single slip": 0b1001_0110_0010_0001,
    "double slip": 0b1100_1100_0011_0011,
    "symmetric switch": 0b0101_0010_0000_0010,
    "dead end": 0b0010_0000_0000_0000,
    "turn": 0b0100_0000_0000_0010,
}


def rotated(code: int, quarters: int = 1) -> int:
    """Return the code of a cell turned clockwise by ``quarters`` quarter turns."""
    for _ in range(quarters % 4):
        groups = [(code >> (4 * (3 - heading))) & 15 for heading in range(4)]
        turned = [(group >> 1) | ((group & 1) << 3) for group in groups]
        turned = [turned[3], *turned[:3]]
        code = sum(group << (4 * (3 - heading)) for heading, group in enumerate(turned))
    return code


# Every code that a cell can have -> (name of its base, quarters that it is turned clockwise).
TYPES: dict[int, tuple[str, int]] = {}
for _name, _base in BASES.items():
    for _quarters in range(4):
        TYPES.setdefault(rotated(_base, _quarters), (_name, _quarters))
DEAD_END, DIAMOND = BASES["dead end"], BASES["diamond"]


def steps(columns: int) -> np.ndarray:
    """Return the difference of cells of one step north, east, south and west, int64 (4,)."""
    return np.array([-columns, 1, columns, -1], np.int64)


@routine
def exits(code, heading):
    """Return the exits for a heading as four bits, that to the north highest."""
    return (np.int64(code) >> (4 * (3 - heading))) & 15


@routine
def count(bits):
    """Count the exits among four bits."""
    return (bits & 1) + ((bits >> 1) & 1) + ((bits >> 2) & 1) + ((bits >> 3) & 1)


@routine
def lone(bits):
    """Return the heading of the only exit; -1 if there is none, or more than one."""
    if bits == 8:
        return 0
    if bits == 4:
        return 1
    if bits == 2:
        return 2
    return 3 if bits == 1 else -1


@routine
def follow(rail, i, delta, place, action):
    """Return the place that ``action`` leads to from ``place``, or -1 if it leads nowhere.

    Where a cell has one exit for the heading, every action takes it. Left and right stand for
    forward where they do not exist.
    """
    heading = place & 3
    bits = exits(rail[i, place >> 2], heading)
    turn = np.int64(lone(bits))
    if turn < 0:
        turn = heading
        if action == LEFT:
            turn = (heading + 3) & 3
        elif action == RIGHT:
            turn = (heading + 1) & 3
        if (bits >> (3 - turn)) & 1 == 0:
            turn = heading
        if (bits >> (3 - turn)) & 1 == 0:
            return np.int64(-1)
    cell = (place >> 2) + delta[turn]
    return 4 * cell + turn if exits(rail[i, cell], turn) != 0 else np.int64(-1)
