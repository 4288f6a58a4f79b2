"""Solvable instances: unsuitable starts and goals are drawn again until every goal can be reached.

Everything works on lane ``i`` of the state of Routing-v1, after an instance has been drawn.
"""

from coopbench_envs.core import integer, routine, subroutine
from coopbench_envs.pathfinding.contacts import apart
from coopbench_envs.pathfinding.lattice import cell_at, explore

_TRIES = 16  # draws per cell for one agent or goal before the instance is drawn again


@subroutine
def settle(c, s, i, rng):
    """Move agents and goals that stand badly; tell whether all of them now stand well."""
    part = explore(c, s, i)
    s.explored[i] = True
    for a in range(c.num_agents):
        if c.map.starts.shape[1] == 0 and not place(c, s, i, a, part, s.agent_pos, rng):
            return False
        agent = s.agent_pos
        home = s.floor[i, cell_at(c.map.centres, c.map.columns, agent[i, a, 0], agent[i, a, 1])]
        if home == 0:
            return False
        if c.map.goals.shape[1] == 0 and not place(c, s, i, a, home, s.goal_pos, rng):
            return False
    return True


@routine
def place(c, s, i, a, part, places, rng):
    """Keep agent ``a``'s place (start or goal), or draw others until one suits; tell if one did."""
    k = cell_at(c.map.centres, c.map.columns, places[i, a, 0], places[i, a, 1])
    for _ in range(_TRIES * c.map.num_free):
        if s.floor[i, k] == part:
            places[i, a, 0], places[i, a, 1] = c.map.centres[k, 0], c.map.centres[k, 1]
            if clear(s, i, a, places):
                return True
        k = s.deck[i, integer(rng, i, c.map.num_free)]
    return False


@routine
def clear(s, i, a, places):
    """Tell whether place ``a`` is clear of those before it, and a goal of its agent's start."""
    rad = s.agent_rad
    for b in range(a):
        dx, dy = places[i, a, 0] - places[i, b, 0], places[i, a, 1] - places[i, b, 1]
        if dx * dx + dy * dy < (rad[i, a] + rad[i, b]) ** 2:
            return False
    # For a start this looks at the goal as it was drawn, which is moved later if need be.
    away = apart(s.goal_pos, s.agent_pos, i, a)
    return away >= rad[i, a] + s.goal_rad[i, a]
