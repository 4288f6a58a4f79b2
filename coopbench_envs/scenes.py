"""Scenes: what the player of recordings draws of one lane at one time, as data.

A game's ``EnvSpec.scene`` returns one of these kinds. The arrays may be views of the state.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np

__all__ = ["Bars", "Battle", "Discs", "Grid", "Panels", "Railway", "Scene", "Scripted", "Table"]


class Discs(NamedTuple):
    """A game in the plane, as the player of recordings draws it: one lane at one time.

    Agents, their goals and walls are discs, in the units of the world, whose origin is its middle.
    The arrays may be views of the state.
    """

    world: tuple[float, float]  # half of its width and of its height
    positions: np.ndarray  # (agents, 2)
    radii: np.ndarray  # (agents,)
    goals: np.ndarray  # (agents, 2)
    goal_radii: np.ndarray  # (agents,)
    walls: np.ndarray  # (walls, 2), the same throughout an episode
    wall_radius: float
    arrived: np.ndarray  # (agents,) bool, on their goals
    touching: np.ndarray  # (agents,) bool, in contact during the last step
    headings: np.ndarray | None = None  # (agents,) radians; None or all 0: agents have no front
    duration: float | None = None  # of a step, in units of time of the model


class Battle(NamedTuple):
    """Two armies in the plane. Lengths are in cells; x points right and y up, from a corner.

    Arrays over units hold the agents and then the enemies. ``ground``, ``kinds``, ``letters``,
    ``reserves``, ``radii``, ``sight`` and ``view`` are the same throughout an episode.
    """

    ground: np.ndarray  # (rows, columns) bool, cells that can be walked on; row 0 is the lowest
    num_agents: int
    kinds: tuple[str, ...]  # (units,) words
    letters: tuple[str, ...]  # (units,) one for each kind
    reserves: tuple[str, ...]  # (units,) shield, energy, or nothing: ""
    radii: np.ndarray  # (units,)
    places: np.ndarray  # (units, 2) of their centres
    health: np.ndarray  # (units,) share that is left, in [0, 1]
    reserve: np.ndarray  # (units,) share that is left of what ``reserves`` names, in [0, 1]
    living: np.ndarray  # (units,) bool
    targets: np.ndarray  # (units,) unit that is aimed at; -1: none
    sight: np.ndarray  # (agents,) how far agents see
    view: float  # radians that an agent sees, half of them on each side; 2 pi: all around
    headings: np.ndarray | None = None  # (units,) radians, the middle of the view; None: no matter


class Railway(NamedTuple):
    """Trains on rails. Places are (row, column) in cells from the upper left corner of the map.

    Times are steps of the episode. ``rails``, ``targets``, ``departures`` and ``due`` are the same
    throughout an episode.
    """

    # (rows, columns) uint16, bit 15 - (4 * heading + turn): a train that enters in a heading may
    # leave in a turn; both are 0 north, 1 east, 2 south, 3 west. 0: no rail.
    rails: np.ndarray
    places: np.ndarray  # (trains, 2)
    headings: np.ndarray  # (trains,) 0 to 3
    targets: np.ndarray  # (trains, 2)
    departures: np.ndarray  # (trains,) earliest step
    due: np.ndarray  # (trains,) latest step of arrival that is on time
    arrivals: np.ndarray  # (trains,) -1: has not arrived
    on_map: np.ndarray  # (trains,) bool
    broken: np.ndarray  # (trains,) bool, stood still in the last step because it is broken
    stuck: np.ndarray  # (trains,) bool, can never move again


class Grid(NamedTuple):
    """A world of cells. Places are (row, column) from the upper left corner of the map.

    ``ground``, ``grounds`` and ``kinds`` are the same throughout an episode.
    """

    ground: np.ndarray  # (rows, columns) int, place of a cell's kind in ``grounds``
    grounds: tuple[str, ...]  # a word for each kind; the first one is free floor
    places: np.ndarray  # (agents, 2)
    things: np.ndarray  # (things, 2) places of what is no agent; -1 for one that is not there
    kinds: tuple[str, ...]  # (things,) a word for each; equal ones have one colour
    numbers: np.ndarray  # (agents + things,) written on each, such as levels; -1: nothing
    headings: np.ndarray | None = None  # (agents,) 0 north, 1 east, 2 south, 3 west
    marked: np.ndarray | None = None  # (agents,) bool, drawn with a ring, such as those with a load


class Bars(NamedTuple):
    """A panel with a bar for each agent. All but ``title`` and ``end`` may change in an episode."""

    title: str
    end: str  # what a full bar means
    shares: np.ndarray  # (agents,) of the bar that are filled; 1 is the end
    ticks: np.ndarray  # (agents,) share from which a bar is blue; below it is red
    words: tuple[str, ...]  # (agents,) the number of each bar


class Table(NamedTuple):
    """A panel with what each agent (row) thinks of each other one (column)."""

    title: str
    values: np.ndarray  # (agents, agents) from 0 to 1; the diagonal says nothing
    colour: tuple[int, int, int]  # of 1


class Panels(NamedTuple):
    """A game without places: numbers of all agents, in panels side by side."""

    facts: tuple[tuple[str, ...], ...]  # lines of short texts
    panels: tuple[Bars | Table, ...]


class Scripted(NamedTuple):
    """A scene of a kind of one's own: arrays, and the script that draws them.

    The script is a file that defines ``function Scene(model)``; what it is given and what it has to
    have is described in docs/own-environments.md. ``script`` and ``legend`` are the same throughout
    an episode, as are names, shapes and types of the arrays.
    """

    script: Path
    arrays: Mapping[str, np.ndarray]  # numbers or bool, of this step
    legend: str = ""  # what the colours and forms mean, below the values of the present step


Scene = Discs | Battle | Railway | Grid | Panels | Scripted
