"""Motion: the substeps of one step, for all agents of a lane.

Only agents that may touch something influence each other. They move together, substep by substep;
every other agent moves through all substeps at once, which is faster and gives the same bits.
"""

from coopbench_envs.core import routine
from coopbench_envs.pathfinding.contacts import push_apart
from coopbench_envs.pathfinding.dynamics import move, squared_speed
from coopbench_envs.pathfinding.neighbours import is_within, survey


@routine
def advance(c, s, i, actions):
    """Move all agents by one step; mark those that hit an agent or a wall during it.

    Agents that have arrived stay where they are if ``stops``: they are in the way, and cannot be
    pushed. The list of possible contacts is that of the observation before.
    """
    for a in range(c.num_agents):
        s.hit_agent[i, a] = False
        s.hit_wall[i, a] = False
    left = c.substeps - play(c, s, i, actions, c.substeps)
    while left > 0:
        survey(c, s, i)
        left -= play(c, s, i, actions, left)
    for a in range(c.num_agents):
        s.collided[i, a] = s.hit_agent[i, a] or s.hit_wall[i, a]


@routine
def play(c, s, i, actions, substeps):
    """Play as many substeps as the list of possible contacts holds for; return their number."""
    together = divide(c, s, i, actions, substeps)
    played, holds, reach = 0, True, 0.5 * c.skin
    while holds and played < substeps:
        push_apart(c, s, i)
        for k in range(together):
            a = s.turns[i, k]
            push_x, push_y = s.force[i, a, 0], s.force[i, a, 1]
            s.force[i, a, 0], s.force[i, a, 1] = 0.0, 0.0
            move_or_hold(c, s, i, a, actions, push_x, push_y, 1, True)
            holds &= is_within(
                s.agent_pos, i, a, s.survey_pos[i, a, 0], s.survey_pos[i, a, 1], reach
            )
        played += 1
    for k in range(together, c.num_agents):
        move_or_hold(c, s, i, s.turns[i, k], actions, 0.0, 0.0, played, False)
    return played


@routine
def divide(c, s, i, actions, substeps):
    """Put into ``turns`` the agents that move together, whose number is returned, then the others.

    Together move all that are in the list of possible contacts, that may go so far that it no
    longer holds, or that may become faster than they are allowed to be.
    """
    n, together, alone, seconds = c.num_agents, 0, 0, c.dt * substeps
    for a in range(n):
        # Either end of what is not filled yet is written, and one of them is kept.
        s.turns[i, together] = a
        s.turns[i, n - 1 - alone] = a
        square = squared_speed(c, s, i, a, actions)
        is_near = square * seconds * seconds <= 0.25 * c.skin * c.skin
        is_slow = (c.max_speed[a] < 0.0) | (square <= c.max_speed[a] * c.max_speed[a])
        joins = s.crowded[i] | s.listed[i, a] | (not is_near & is_slow)
        together += joins
        alone += not joins
    return together


@routine
def move_or_hold(c, s, i, a, actions, push_x, push_y, substeps, is_limited):
    """Move agent ``a``, unless it has arrived and stops."""
    if c.stops and s.on_goal[i, a]:
        s.agent_vel[i, a, 0], s.agent_vel[i, a, 1] = 0.0, 0.0
    else:
        move(c, s, i, a, actions, push_x, push_y, substeps, is_limited)
