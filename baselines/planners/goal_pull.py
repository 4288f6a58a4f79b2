"""The pull of a goal that an agent observes, for the local policies of pathfinding."""

import numpy as np

from coopbench.baselines.game import Game

__all__ = ["Pull", "require_forces"]


def require_forces(game: Game, policy: str) -> None:
    """Raise ``ValueError`` unless agents see their goals and are moved by forces alone."""
    game.require(policy, "goal")
    if game.constants.drive.code.any():  # a differential drive goes where it heads
        raise ValueError(
            f"Policy {policy!r} cannot play {game.env_id} with dynamics other than 'holonomic': "
            f"it pushes in any direction."
        )


class Pull:
    """Draws agents to their goals with full force, or just enough to arrive within one step."""

    def __init__(self, game: Game, policy: str) -> None:
        require_forces(game, policy)
        c = game.constants
        self._goal, self._window = game.layout["goal"], c.rules.window
        damping = 1.0 - c.drive.retained
        # Way of one step at the speed at which full force and damping balance. Without damping
        # there is no such speed: then it brakes as soon as it sees how far the goal is.
        way = c.drive.accel * c.drive.impulse / np.maximum(damping, 1e-300) * c.drive.step_dt
        way = np.where(damping > 0.0, way, c.rules.window)
        self._braking = np.clip(way, 1e-9, c.rules.window)[:, None]

    def __call__(self, observations: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return directions (lanes, agents, 2), efforts and distances (lanes, agents, 1).

        Efforts are shares of the full force, distances in units of the window, 1 beyond it.
        """
        goal = self._goal.view(observations).astype(np.float64)
        # The goal is seen as a direction of length 1 beyond the window, to scale within it.
        length = np.linalg.norm(goal, axis=2, keepdims=True)
        effort = np.minimum(1.0, length * self._window / self._braking)
        return goal / np.maximum(length, 1e-12), effort, length
