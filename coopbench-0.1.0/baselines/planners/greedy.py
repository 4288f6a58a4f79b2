"""The greedy policy of pathfinding: straight to the goal, slowing down inside braking distance."""

from typing import Any, NamedTuple

import numpy as np

from coopbench.baselines.planners.goal_pull import Pull
from coopbench.baselines.policy import Entry, Game


class Params(NamedTuple):
    """No parameters."""


class Greedy:
    """Pushes towards its goal with full force, or just enough to arrive within one step.

    It ignores walls and other agents. It uses its own observation and the game's constants alone.
    """

    def __init__(self, game: Game, parameters: Params) -> None:
        self._pull = Pull(game, "greedy")

    def initial(self, game: Game, seeds: np.ndarray) -> None:
        """Return no memory."""

    def act(self, observations: np.ndarray, memory: None) -> tuple[Any, None]:
        """Return (lanes, agents, 2) forces of length at most 1."""
        direction, effort, _ = self._pull(observations)
        return direction * effort, None


ENTRY = Entry(
    "greedy", Greedy, "pathfinding: straight to the goal, brakes in time", "local", Params
)
