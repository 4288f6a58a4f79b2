"""The greedy policy of pathfinding: straight to the goal, slowing down inside braking distance."""

from typing import Any, NamedTuple

import numpy as np

from coopbench.baselines.policy import Entry, Game


class Params(NamedTuple):
    """No parameters."""


class Greedy:
    """Pushes towards its goal with full force, or just enough to arrive within one step.

    It ignores walls and other agents. It uses its own observation and the game's constants alone.
    """

    def __init__(self, game: Game, parameters: Params) -> None:
        game.require("greedy", "goal")
        self._goal = game.layout["goal"]
        c = game.constants
        self._window = c.window
        if c.dynamics_code.any():  # without its heading a differential drive cannot be steered
            raise ValueError(
                f"Policy 'greedy' cannot play {game.env_id} with dynamics other than 'holonomic': "
                f"it pushes in the direction that it sees its goal in."
            )
        damping = 1.0 - c.kept
        # Way of one step at the speed at which full force and damping balance. Without damping
        # there is no such speed: then it brakes as soon as it sees how far the goal is.
        way = c.accel * c.impulse / np.maximum(damping, 1e-300) * c.step_dt
        way = np.where(damping > 0.0, way, c.window)
        self._braking = np.clip(way, 1e-9, c.window)[:, None]

    def initial(self, game: Game, seeds: np.ndarray) -> None:
        """Return no memory."""

    def act(self, observations: np.ndarray, memory: None) -> tuple[Any, None]:
        """Return (lanes, agents, 2) forces of length at most 1."""
        goal = observations[:, :, self._goal].astype(np.float64)
        # The goal is seen as a direction of length 1 beyond the window, to scale within it.
        length = np.linalg.norm(goal, axis=2, keepdims=True)
        direction = goal / np.maximum(length, 1e-12)
        effort = np.minimum(1.0, length * self._window / self._braking)
        return direction * effort, None


ENTRY = Entry(
    "greedy", Greedy, "pathfinding: straight to the goal, brakes in time", "local", Params
)
