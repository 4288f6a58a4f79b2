"""Railway: where trains are, and how they keep to their timetable."""

from typing import Any

import numpy as np

from coopbench.report.scenes.course import Course, Places, css, packed
from coopbench_envs.engine import Engine
from coopbench_envs.rendering import GREEN, PALETTE, VERMILION

_TRAIN_BYTES = 6  # of a train in a step: place, heading, flags
_ON_MAP, _BROKEN, _STUCK = 1, 2, 4  # bits of a train's flags
_COLOURS = PALETTE[:5]  # as in the pictures: vermilion is for trains that are broken


class RailwayCourse(Course):
    """Places of trains, and the steps in which they entered the map, stood broken and arrived.

    These steps are exact where only every k-th step is kept, too.
    """

    kind = "railway"

    def __init__(self, engine: Engine) -> None:
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
