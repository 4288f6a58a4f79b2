"""Scenes: what the player of recordings draws of one lane at one time, as data.

A game's ``EnvSpec.scene`` returns one of the kinds below, whose arrays may be views of the state,
or an object of a class of its own, whose ``course`` says how an episode is noted and drawn.
"""

import base64
import math
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np

__all__ = [
    "MOST_BYTES",
    "Bars",
    "Course",
    "Drawn",
    "Grid",
    "Panels",
    "Places",
    "Scene",
    "Scripted",
    "Table",
    "css",
    "packed",
    "turns",
]

MOST_BYTES = 6_000_000  # of scenes or pictures; a third more as text
_TICKS = 65_535  # places are stored as whole parts of their extent


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


class Drawn(Protocol):
    """A scene of a class of its own."""

    @staticmethod
    def course(engine: Any) -> "Course":
        """Return what notes an episode of an engine, lane 0, for the page."""


Scene = Grid | Panels | Scripted | Drawn


class Course:
    """What is noted of every kind of game: returns and metrics. A kind of scene adds what is seen.

    Beside the file of a kind of scene stands a script of the same name, which draws what ``stage``
    returns, and a template of what a page shows next to the drawing.
    """

    file: Path  # of the kind of scene
    followed = ""  # what is followed by a click; "": nothing
    below = ""  # HTML of what stands below the time line
    duration: float | None = None  # of a step, in units of time of the model

    def __init__(self, engine: Any) -> None:
        self.engine = engine
        self._returns: list[float] = []
        self._measures: list[np.ndarray] = []

    def stride(self, steps: int, share: float) -> int:
        """Return k such that every k-th of so many steps fits into a share of the size."""
        rows = int(share * MOST_BYTES) // self.row_bytes()
        return math.ceil(steps / max(1, rows - 1))  # the first and the last step are always kept

    def row_bytes(self) -> int:
        """Return the bytes of a kept step."""
        raise NotImplementedError

    def note(self, shown: bool) -> None:
        """Note the present step; one that is not ``shown`` only for what must not be missed."""
        if shown:
            returns = self.engine.control.returns[0]
            common = self.engine.spec.common_reward
            self._returns.append(float(returns[0] if common else returns.sum()))
            self._measures.append(self.engine.control.measures[0].copy())

    def drawn(self) -> Any:
        """Return the scene of the present step."""
        draw = self.engine.spec.scene
        assert draw is not None
        return draw(self.engine.constants, self.engine.state, 0)

    def fitting(self, steps: list[int], share: float) -> list[int]:
        """Drop steps until the rest fits; return those that remain."""
        return steps

    def stage(self) -> dict[str, Any]:
        """Return what is seen, for the script."""
        raise NotImplementedError

    def script(self) -> str:
        """Return the script that draws the scene."""
        return self.file.with_suffix(".js").read_text(encoding="utf-8")

    def beside(self) -> str:
        """Return the Jinja template of options, and of what colours and forms mean.

        It is given ``sight``, whether a page begins by showing what agents see, and ``legend``.
        """
        return self.file.with_suffix(".html").read_text(encoding="utf-8")

    def legend(self) -> str:
        """Return what this game's colours and forms mean in addition."""
        return ""

    def courses(self) -> dict[str, Any]:
        """Return courses over the kept steps, and the duration of a step if the scene has one."""
        spec = self.engine.spec
        values = {"return": np.array(self._returns)}
        values |= dict(zip(spec.metrics, np.array(self._measures).T, strict=True))
        whose = "agents and steps of the rewards"
        if spec.common_reward:
            whose = "steps of the team's reward"
        meanings = {"return": f"sum over {whose} so far", **spec.metrics}
        return {
            "series": {name: packed(course, "<f4") for name, course in values.items()},
            "meanings": meanings,
            "duration": self.duration,
        }


class Places:
    """How places are stored: as whole parts of the extent of all of them."""

    def __init__(self, *places: np.ndarray) -> None:
        points = np.concatenate([array.reshape(-1, 2) for array in places])
        self.low = points.min(axis=0)
        self.span = np.maximum(np.ptp(points, axis=0), 1e-9)

    def packed(self, places: np.ndarray) -> str:
        """Return places (..., 2), two unsigned numbers of 16 bits each."""
        return packed(np.rint((places - self.low) / self.span * _TICKS), "<u2")

    def extent(self) -> dict[str, list[float]]:
        """Return what the script needs to unpack places."""
        return {"low": self.low.tolist(), "span": self.span.tolist()}


def turns(angles: np.ndarray) -> np.ndarray:
    """Return angles as whole parts of a turn, for 16 bits."""
    whole: np.ndarray = np.rint(angles / (2 * np.pi) * (_TICKS + 1)) % (_TICKS + 1)
    return whole


def packed(array: np.ndarray, kind: str) -> str:
    """Return an array as text, of the numbers that ``kind`` names."""
    return base64.b64encode(np.ascontiguousarray(array).astype(kind).tobytes()).decode()


def css(colour: Iterable[int]) -> str:
    """Return a colour as a page writes it."""
    return "#" + "".join(f"{part:02x}" for part in colour)
