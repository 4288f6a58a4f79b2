"""What is seen of a railway: for the player of recordings."""

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from coopbench_envs.rail.cells import STEPS
from coopbench_envs.rail.trains import ARRIVED, BROKEN, BROKEN_OFF_MAP
from coopbench_envs.rendering import GREEN, PALETTE, VERMILION
from coopbench_envs.scenes import Course, Places, css, packed

__all__ = ["Railway", "scene"]

_TRAIN_BYTES = 6  # of a train in a step: place, heading, flags
_ON_MAP, _BROKEN, _STUCK = 1, 2, 4  # bits of a train's flags
_COLOURS = PALETTE[:5]  # as in the pictures: vermilion is for trains that are broken
_ROWS = (  # of the timetable
    '<div class="rows"><canvas id="rows" role="img" aria-label="Timetable, malfunctions, arrivals '
    'and delays of all trains"></canvas></div>'
)

_SPAN = 0.4  # of a cell in which trains are drawn, about its middle, as they run through it


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

    @staticmethod
    def course(engine: Any) -> Course:
        """Return what notes an episode for the page."""
        return RailwayCourse(engine)


def scene(constants: Any, state: Any, lane: int) -> Railway:
    """Return what the player of recordings draws of one lane."""
    c, status = constants, state.status[lane]
    places, headings = state.place[lane] >> 2, state.place[lane] & 3
    share = _SPAN * (state.distance[lane] / c.drive.unit - 0.5)
    return Railway(
        rails=state.rail[lane].reshape(c.map.height + 2, c.map.columns)[1:-1, 1:-1],
        places=_middles(c, places) + share[:, None] * np.array(STEPS)[headings],
        headings=headings,
        targets=_middles(c, state.target[lane]),
        departures=state.departure[lane],
        due=state.due[lane],
        arrivals=state.arrival[lane],
        on_map=(status > BROKEN_OFF_MAP) & (status < ARRIVED),
        broken=(status == BROKEN) | (status == BROKEN_OFF_MAP),
        stuck=state.stuck[lane] & (status < ARRIVED),
    )


def _middles(c: Any, cells: np.ndarray) -> np.ndarray:
    """Return (row, column) of the middles of cells, without the ring."""
    return np.stack([cells // c.map.columns - 0.5, cells % c.map.columns - 0.5], axis=-1)


class RailwayCourse(Course):
    """Places of trains, and the steps in which they entered the map, stood broken and arrived.

    These steps are exact where only every k-th step is kept, too.
    """

    file = Path(__file__)
    followed = "a train"
    below = _ROWS

    def __init__(self, engine: Any) -> None:
        super().__init__(engine)
        trains = len(engine.agents)
        self._step = -1
        self._places: list[np.ndarray] = []
        self._headings: list[np.ndarray] = []
        self._flags: list[np.ndarray] = []
        self._entered = np.full(trains, -1)
        self._since = np.full(trains, -1)  # the step in which a train that stands broken broke down
        self._failures: list[list[int]] = []  # train, step before the first and the last step

    def row_bytes(self) -> int:
        """Return the bytes of all trains."""
        return _TRAIN_BYTES * len(self.engine.agents)

    def note(self, shown: bool) -> None:
        """Note places if they are ``shown``, and failures in any case."""
        super().note(shown)
        self._scene = scene = self.drawn()
        self._step += 1
        self._entered[scene.on_map & (self._entered < 0)] = self._step
        for a in np.flatnonzero(scene.broken & (self._since < 0)):
            self._since[a] = self._step
        for a in np.flatnonzero(~scene.broken & (self._since >= 0)):
            self._close(int(a), self._step - 1)
        if shown:
            self._places.append(scene.places.copy())
            self._headings.append(scene.headings.copy())
            flags = _ON_MAP * scene.on_map + _BROKEN * scene.broken + _STUCK * scene.stuck
            self._flags.append(flags)

    def _close(self, a: int, last: int) -> None:
        self._failures.append([a, int(self._since[a]) - 1, last])
        self._since[a] = -1

    def stage(self) -> dict[str, Any]:
        """Return rails, trains, their timetable and how they kept to it."""
        scene = self._scene
        whole = np.array(self._places)
        places = Places(whole, scene.targets)
        standing = [
            [int(a), int(self._since[a]) - 1, self._step] for a in np.flatnonzero(self._since >= 0)
        ]
        return {
            **places.extent(),
            "rails": packed(scene.rails, "<u2"),
            "size": list(scene.rails.shape[::-1]),
            "positions": places.packed(whole),
            "headings": packed(np.array(self._headings), "u1"),
            "flags": packed(np.array(self._flags), "u1"),
            "targets": places.packed(scene.targets),
            "departures": scene.departures.tolist(),
            "due": scene.due.tolist(),
            "entered": self._entered.tolist(),  # step of entering the map; -1: never
            "arrivals": scene.arrivals.tolist(),
            "failures": sorted(self._failures + standing),
            "colours": [css(colour) for colour in _COLOURS],
            "broken": css(VERMILION),
            "arrived": css(GREEN),
        }
