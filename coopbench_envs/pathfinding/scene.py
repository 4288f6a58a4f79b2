"""What is seen of discs in the plane: for the player of recordings."""

from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from coopbench_envs.rendering import PALETTE, VERMILION
from coopbench_envs.scenes import Course, Places, css, packed, turns

__all__ = ["AGENT_BYTES", "Discs", "scene"]

AGENT_BYTES = 11  # of an agent in a step: position, goal where goals move, heading, flags
_BEYOND = 1.25  # of the world's extent is shown if agents get out of it
_ON_GOAL, _IN_CONTACT = 1, 2  # bits of an agent's flags
_COLOURS = PALETTE[:5]  # as in the pictures: vermilion is for contacts


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

    @staticmethod
    def course(engine: Any) -> Course:
        """Return what notes an episode for the page."""
        return DiscsCourse(engine)


def scene(constants: Any, state: Any, lane: int) -> Discs:
    """Return what the player of recordings draws of one lane."""
    walls = state.landmark_pos[lane]
    # Where maps have different numbers of landmarks, those that are left over lie far outside.
    inside = (np.abs(walls) <= np.array([constants.map.width, constants.map.height])).all(axis=1)
    return Discs(
        world=(0.5 * constants.map.width, 0.5 * constants.map.height),
        positions=state.agent_pos[lane],
        radii=state.agent_rad[lane],
        goals=state.goal_pos[lane],
        goal_radii=state.goal_rad[lane],
        walls=walls[inside],
        wall_radius=constants.map.landmark_rad,
        arrived=state.on_goal[lane],
        touching=state.collided[lane],
        headings=state.agent_angle[lane],
        duration=constants.drive.step_dt,
    )


class DiscsCourse(Course):
    """Positions, headings and goals of discs; contacts also of steps that are not shown."""

    file = Path(__file__)
    followed = "an agent"

    def __init__(self, engine: Any) -> None:
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
