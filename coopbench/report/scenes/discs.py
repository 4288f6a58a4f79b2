"""Discs: positions, headings, goals and contacts of agents in the plane."""

from itertools import pairwise
from typing import Any

import numpy as np

from coopbench.report.scenes.course import Course, Places, css, packed, turns
from coopbench_envs.engine import Engine
from coopbench_envs.rendering import PALETTE, VERMILION

AGENT_BYTES = 11  # of an agent in a step: position, goal where goals move, heading, flags
_BEYOND = 1.25  # of the world's extent is shown if agents get out of it
_ON_GOAL, _IN_CONTACT = 1, 2  # bits of an agent's flags
_COLOURS = PALETTE[:5]  # as in the pictures: vermilion is for contacts


class DiscsCourse(Course):
    """Positions, headings and goals of discs; contacts also of steps that are not shown."""

    kind = "discs"

    def __init__(self, engine: Engine) -> None:
        super().__init__(engine)
        self._positions: list[np.ndarray] = []
        self._goals: list[np.ndarray] = []
        self._headings: list[np.ndarray] = []
        self._flags: list[np.ndarray] = []
        self._touched = np.zeros(len(engine.agents), np.bool_)

    def row_bytes(self) -> int:
        """Return the bytes of all agents."""
        return AGENT_BYTES * len(self.engine.agents)

    def note(self, shown: bool) -> None:
        """Note positions if they are ``shown``, and contacts in any case."""
        super().note(shown)
        self._scene = scene = self.drawn()
        self.duration = scene.duration
        self._touched |= scene.touching
        if not shown:
            return
        self._positions.append(scene.positions.copy())
        self._goals.append(scene.goals.copy())
        if scene.headings is not None:
            self._headings.append(scene.headings.copy())
        self._flags.append(_ON_GOAL * scene.arrived + _IN_CONTACT * self._touched)
        self._touched[:] = False

    def stage(self) -> dict[str, Any]:
        """Return everything as packed arrays; places as parts of their extent."""
        scene, agents, goals = self._scene, np.array(self._positions), np.array(self._goals)
        places = Places(agents, goals, scene.walls)
        world = np.array(scene.world)
        edge = world + scene.wall_radius  # where walls around the world end
        moved = [k for k, (a, b) in enumerate(pairwise(goals), 1) if (a != b).any()]
        headings = np.array(self._headings)
        return {
            **places.extent(),
            "world": world.tolist(),
            "from": np.clip(places.low, -_BEYOND * edge, -edge).tolist(),
            "to": np.clip(places.low + places.span, edge, _BEYOND * edge).tolist(),
            "walls": places.packed(scene.walls),
            "wallRadius": scene.wall_radius,
            "positions": places.packed(agents),
            "radii": packed(scene.radii, "<f4"),
            "goals": places.packed(goals[[0, *moved]]),
            "goalsFrom": [0, *moved],  # kept steps from which each row of goals holds
            "goalRadii": packed(scene.goal_radii, "<f4"),
            "flags": packed(np.array(self._flags), "u1"),
            "headings": packed(turns(headings), "<u2") if headings.any() else None,
            "colours": [css(colour) for colour in _COLOURS],
            "contact": css(VERMILION),
        }
