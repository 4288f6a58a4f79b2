"""Battle: units with their health, where they are, and whom they aim at."""

import math
from typing import Any

import numpy as np

from coopbench.report.scenes.course import Course, Places, css, packed, turns
from coopbench_envs.engine import Engine
from coopbench_envs.rendering import BLUE, GREEN, SKY, VERMILION

_UNIT_BYTES = 11  # of a unit in a step: place, health, reserve, target, whether it lives, heading
_SHARES = 255  # parts of a health or reserve


class BattleCourse(Course):
    """Places, health, reserves, targets and deaths of units."""

    kind = "battle"

    def __init__(self, engine: Engine) -> None:
        super().__init__(engine)
        self._scenes: list[Any] = []  # of type ``Battle``

    def row_bytes(self) -> int:
        """Return the bytes of all units."""
        return _UNIT_BYTES * len(self.drawn().living)

    def note(self, shown: bool) -> None:
        """Note the battle if it is ``shown``; deaths stay visible until the end."""
        super().note(shown)
        if shown:
            scene = self.drawn()
            views = scene._asdict().items()
            copies: dict[str, Any] = {n: v.copy() for n, v in views if isinstance(v, np.ndarray)}
            self._scenes.append(scene._replace(**copies))

    def stage(self) -> dict[str, Any]:
        """Return ground, units and their courses as packed arrays."""
        scene = self._scenes[0]
        whole = np.array([one.places for one in self._scenes])
        places, seen = Places(whole), scene.view < 2 * math.pi
        return {
            **places.extent(),
            "ground": packed(scene.ground, "u1"),
            "size": list(scene.ground.shape[::-1]),
            "agents": scene.num_agents,
            "kinds": scene.kinds,
            "letters": scene.letters,
            "radii": packed(scene.radii, "<f4"),
            "positions": places.packed(whole),
            "health": self._shares("health"),
            "reserve": self._shares("reserve"),
            "reserves": scene.reserves,
            "living": self._packed("living", "u1"),
            "targets": self._packed("targets", "<i2"),
            "sight": packed(scene.sight, "<f4"),
            "view": scene.view,
            "headings": packed(turns(self._course("headings")), "<u2") if seen else None,
            "sides": [css(BLUE), css(VERMILION)],
            "healthColour": css(GREEN),
            "reserveColour": css(SKY),
        }

    def _course(self, name: str) -> np.ndarray:
        return np.array([getattr(scene, name) for scene in self._scenes])

    def _packed(self, name: str, kind: str) -> str:
        return packed(self._course(name), kind)

    def _shares(self, name: str) -> str:
        # A unit that is almost dead still shows something.
        return packed(np.ceil(_SHARES * self._course(name)), "u1")
