"""The orca policy of pathfinding: agents that share the effort of avoiding each other.

Optimal reciprocal collision avoidance (van den Berg, Guy, Lin & Manocha 2011): of the velocities
that keep clear of walls and of everybody who does likewise, the one nearest to straight ahead.
"""

from typing import Annotated, Any, NamedTuple

import numpy as np

from coopbench.baselines.planners.goal_pull import require_forces
from coopbench.baselines.planners.velocity_obstacles import Rules, World, allocate, plan
from coopbench.baselines.policy import Entry, Game
from coopbench_envs.parameters import between


class Params(NamedTuple):
    """Parameters of the policy."""

    ahead: Annotated[float, between(0, 1e3, "time for which agents are avoided", above=True)] = 1.5
    wall_ahead: Annotated[
        float, between(0, 1e3, "time for which walls are avoided", above=True)
    ] = 0.25
    margin: Annotated[float, between(0, 1e3, "distance kept from others, disc to disc")] = 0.005
    neighbours: Annotated[int, between(1, 1000, "nearest agents that are minded")] = 10


class Orca:
    """Steers straight to the goal with the least detour around walls and other agents at hand.

    Of the state it uses what an agent's window covers: positions, velocities and radii. It does not
    know the others' goals, nor a way around a wall: behind one that is straight across it stays.
    """

    uses_state = True

    def __init__(self, game: Game, parameters: Params) -> None:
        require_forces(game, "orca")
        c = game.constants
        # A step makes of velocity v and action a the velocity kept * v + gain * a.
        substep = c.drive.retained ** np.arange(c.drive.substeps)[:, None]
        self._retained = (c.drive.retained**c.drive.substeps)[:, None]
        self._gain = (c.drive.accel * c.drive.impulse * substep.sum(axis=0))[:, None]
        top = self._gain[:, 0]
        self._rules = Rules(
            bins=c.bins,
            disc_rad=c.map.landmark_rad,
            step_dt=c.drive.step_dt,
            top=np.where(c.drive.max_speed >= 0.0, np.minimum(top, c.drive.max_speed), top),
            ahead=parameters.ahead,
            wall_ahead=parameters.wall_ahead,
            margin=parameters.margin,
            sight=c.rules.window,
            largest=c.map.agent_rad_high,
        )
        bins = c.bins.along_x * c.bins.along_y
        self._scratch = allocate(bins, len(game.agents), parameters.neighbours)

    def initial(self, game: Game, seeds: np.ndarray) -> None:
        """Return no memory."""

    def act(self, observations: np.ndarray, memory: None, state: Any) -> tuple[Any, None]:
        """Return (lanes, agents, 2) forces of length at most 1."""
        world = World(
            state.agent_pos,
            state.agent_vel,
            state.agent_rad,
            state.goal_pos,
            state.landmark_pos,
            state.bin_first,
            state.bin_landmark,
        )
        velocities = np.empty_like(state.agent_pos)
        rules = self._rules._replace(largest=state.agent_rad.max())
        plan(world, rules, self._scratch, velocities)
        force = velocities - self._retained * state.agent_vel
        force /= np.maximum(self._gain, 1e-300)
        return force / np.maximum(np.linalg.norm(force, axis=2, keepdims=True), 1.0), None


ENTRY = Entry(
    "orca",
    Orca,
    "pathfinding: straight to the goal, each agent takes half the avoidance (reciprocal)",
    "neighbours",
    Params,
)
