"""The potential_field policy of pathfinding: attracted by the goal, repelled by obstacles.

Attraction and repulsion as in Khatib 1986, the latter weaker near the goal (Ge & Cui 2000), and a
force along obstacles that leads around them instead of letting the two balance.
"""

from typing import Annotated, Any, NamedTuple

import numpy as np

from coopbench.baselines.planners.goal_pull import Pull
from coopbench.baselines.policy import Entry, Game
from coopbench_envs.parameters import between


class Params(NamedTuple):
    """Parameters of the policy; forces in units of the goal's attraction."""

    repulsion: Annotated[float, between(0, 1e3, "force of an object at touch")] = 1.0
    steepness: Annotated[
        float, between(1, 100, "exponent by which it falls with the object's distance")
    ] = 4.0
    circulation: Annotated[
        float, between(0, 1e3, "force along obstacles per force of repulsion")
    ] = 2.0
    hold: Annotated[
        float, between(0, 1e3, "repulsion from which on an agent keeps to its way around")
    ] = 0.4


class PotentialField:
    """Pushes along the sum of attraction, repulsion and circulation.

    An agent that an obstacle repels from its goal takes the way around that leads more towards the
    goal, to the left or to the right, and continues on it until it is clear of obstacles.
    It uses its own observation and the game's constants alone.
    """

    def __init__(self, game: Game, parameters: Params) -> None:
        self._pull = Pull(game, "potential_field")
        self._objects = Objects(game)
        self._p = parameters

    def initial(self, game: Game, seeds: np.ndarray) -> np.ndarray:
        """Return the sides taken (lanes, agents, 1): 1 right of what is near, -1 left, 0 none."""
        return np.zeros((len(seeds), len(game.agents), 1))

    def act(self, observations: np.ndarray, memory: np.ndarray) -> tuple[Any, np.ndarray]:
        """Return (lanes, agents, 2) forces of length at most 1."""
        p = self._p
        direction, effort, distance = self._pull(observations)
        away, closeness = self._objects(observations)
        repulsion = p.repulsion * (away * closeness**p.steepness).sum(axis=2)
        size = np.linalg.norm(repulsion, axis=2, keepdims=True)
        normal = repulsion / np.maximum(size, 1e-12)
        along = np.stack([-normal[:, :, 1], normal[:, :, 0]], axis=2)
        side = np.where(_dot(along, direction) >= 0.0, 1.0, -1.0)
        driven_off = _dot(normal, direction) < 0.0
        side = np.where((memory == 0.0) & driven_off, side, memory)
        side = np.where(size > p.hold, side, 0.0)
        around = p.circulation * size * side * along
        force = direction + distance * (repulsion + around)
        return effort * force / np.maximum(np.linalg.norm(force, axis=2, keepdims=True), 1.0), side


class Objects:
    """Reads what an agent sees around it, in either version of the observation."""

    def __init__(self, game: Game) -> None:
        c, layout = game.constants, game.layout
        self._parts = ("objects",) if "objects" in layout else ("agents", "obstacles")
        game.require("potential_field", "goal", *self._parts)
        self._layout, self._window, self._disc_rad = layout, c.rules.window, c.map.landmark_rad
        # Agents do not see their own radius: take the middle of what is possible.
        self._rad = 0.5 * (c.map.agent_rad_low + c.map.agent_rad_high)

    def __call__(self, observations: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return directions away from objects (lanes, agents, objects, 2) and how close they are.

        Closeness is (lanes, agents, objects, 1): 1 at touch, 0 at the end of sight.
        """
        vectors = np.concatenate([self._away(observations, part) for part in self._parts], axis=2)
        closeness = np.linalg.norm(vectors, axis=3, keepdims=True)
        return vectors / np.maximum(closeness, 1e-12), closeness

    def _away(self, observations: np.ndarray, part: str) -> np.ndarray:
        """Return vectors away from the objects of one part, whose length is their closeness."""
        seen: np.ndarray = self._layout[part].view(observations).astype(np.float64)
        if part == "objects":
            return seen
        rad = seen[..., 4:5] * self._window if part == "agents" else self._disc_rad
        share = np.linalg.norm(seen[..., :2], axis=3, keepdims=True)
        distance = share * (self._window + self._rad + rad)
        closeness = (self._window + rad - distance) / (self._window - self._rad)
        closeness = np.maximum(closeness, 0.0) * seen[..., -1:]
        away: np.ndarray = -seen[..., :2] / np.maximum(share, 1e-12) * closeness
        return away


def _dot(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Return scalar products of vectors, (lanes, agents, 1)."""
    products: np.ndarray = (one * other).sum(axis=2, keepdims=True)
    return products


ENTRY = Entry(
    "potential_field",
    PotentialField,
    "pathfinding: attracted by the goal, repelled by obstacles, follows their edges",
    "local",
    Params,
)
