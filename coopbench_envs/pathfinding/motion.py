"""Motion: the substeps of one step, for all agents of a lane.

Only agents in contact, or that may meet another one, influence each other or have to be looked at
in every substep. They move together; every other agent moves through all substeps at once, which is
faster and gives the same bits.
"""

import numpy as np

from coopbench_envs.core import routine
from coopbench_envs.pathfinding.contacts import (
    ANGLE,
    BATCH,
    CLOSE,
    FROM_X,
    FROM_Y,
    PUSH_X,
    PUSH_Y,
    RAD,
    VX,
    VY,
    X,
    Y,
    push_apart,
)
from coopbench_envs.pathfinding.dynamics import (
    HOLONOMIC,
    PUSHED,
    STEERED,
    driven,
    is_too_fast,
    rolled,
    slowed,
    squared_speed,
    turned,
)
from coopbench_envs.pathfinding.neighbours import is_within, survey

HEADING, VELOCITY_X, VELOCITY_Y = range(3)  # rows of ``State.course``
# Times the square of the highest speed: rounding, or speed that no damping takes away, may lift an
# agent from just below the limit above it.
_BELOW = 0.9999
_FAR = 1e6


@routine
def advance(c, s, i, actions):
    """Move all agents by one step; mark those that hit an agent or a wall during it.

    Agents that have arrived stay where they are if ``stops``: they are in the way, and cannot be
    pushed. The list of possible contacts is that of the observation before.
    """
    for a in range(c.num_agents):
        s.hit_agent[i, a] = False
        s.hit_wall[i, a] = False
    left = c.drive.substeps
    while left > 0:
        if left < c.drive.substeps:
            survey(c, s, i)
        left -= play(c, s, i, actions, left)
    for a in range(c.num_agents):
        s.collided[i, a] = s.hit_agent[i, a] or s.hit_wall[i, a]


@routine
def play(c, s, i, actions, substeps):
    """Play as many substeps as the list of possible contacts holds for; return their number."""
    together = divide(c, s, i, actions, substeps)
    played, holds = 0, True
    while holds and played < substeps:
        push_apart(c, s, i)
        for k in range(together):
            holds &= move(c, s, i, s.turns[i, k], actions)
        played += 1
    for k in range(together):
        put_back(s, i, s.turns[i, k])
    if played < substeps:  # the others have gone too far
        for k in range(together, c.num_agents):
            a = np.int64(s.turns[i, k])
            put_back(s, i, a)
            fly(c, s, i, a, actions, played, np.int64(0), np.int64(0))
    return played


@routine
def divide(c, s, i, actions, substeps):
    """Move the agents that move alone by all substeps; return the number of the others.

    Those are the first in ``turns``: all that may meet an agent, that may go so far that the list
    of possible contacts no longer holds, that may become faster than they are allowed to be, or
    that touch a landmark. The list is reduced to their contacts.
    """
    n, together, alone, contacts, last = c.num_agents, 0, 0, 0, 0
    seconds = c.drive.dt * substeps
    for a in range(n):
        first = last
        while last < s.touches[i] and s.touch_agent[i, last] == a:
            last += 1
        square = squared_speed(c, s, i, a, actions)
        is_near = square * seconds * seconds <= 0.25 * c.bins.skin * c.bins.skin
        limit = _BELOW * c.drive.max_speed[a] * c.drive.max_speed[a]
        is_slow = (c.drive.max_speed[a] < 0.0) | (square <= limit)
        may_fly = is_near & is_slow & is_exact(s, i, a) & (not (s.crowded[i] | s.paired[i, a]))
        if may_fly and fly(c, s, i, a, actions, substeps, first, last):
            alone += 1
            s.turns[i, n - alone] = a
        else:
            take_up(s, i, a)
            s.turns[i, together] = a
            together += 1
            for k in range(first, last):
                s.touch_agent[i, contacts], s.touch[i, contacts] = a, s.touch[i, k]
                contacts += 1
    s.touches[i] = contacts
    return together


@routine
def is_exact(s, i, a):
    """Return whether agent ``a`` moves by what its speed says: farther out rounding moves it, too.

    No play leads there; states can be set to it.
    """
    return (
        (abs(s.agent_pos[i, a, 0]) <= _FAR)
        & (abs(s.agent_pos[i, a, 1]) <= _FAR)
        & (abs(s.agent_angle[i, a]) <= _FAR)
    )


@routine
def fly(c, s, i, a, actions, substeps, first, last):
    """Move agent ``a`` alone by some substeps, unless it touches a landmark; return whether it did.

    The landmarks in question are those from ``first`` to ``last`` - 1 in the list. ``body``
    keeps where the agent was before.
    """
    x, y, angle = s.agent_pos[i, a, 0], s.agent_pos[i, a, 1], s.agent_angle[i, a]
    vx, vy, dt = s.agent_vel[i, a, 0], s.agent_vel[i, a, 1], c.drive.dt
    ahead, aside = actions[i, a, 0], actions[i, a, 1]
    # The compiler moves this condition out of loops: agents without walls nearby run shorter ones.
    has_walls, touches = first < last, False
    if c.rules.stops and s.on_goal[i, a]:
        touches = touches_wall(c, s, i, a, x, y, first, last)
        vx, vy = 0.0, 0.0
    elif not STEERED or (PUSHED and c.drive.code[a] == HOLONOMIC):
        for _ in range(substeps):
            if has_walls:
                touches |= touches_wall(c, s, i, a, x, y, first, last)
            vx, vy = driven(c, a, vx, vy, ahead, aside, 0.0, 0.0)
            x += vx * dt
            y += vy * dt
    else:
        for begin in range(0, substeps, BATCH):
            batch = min(substeps - begin, BATCH)
            angle = set_course(c, s, i, a, angle, actions, batch)
            for k in range(batch):
                if has_walls:
                    touches |= touches_wall(c, s, i, a, x, y, first, last)
                vx, vy = s.course[i, VELOCITY_X, k], s.course[i, VELOCITY_Y, k]
                x += vx * dt
                y += vy * dt
    if touches:
        return False
    copy_out(s, i, a)
    s.agent_pos[i, a, 0], s.agent_pos[i, a, 1], s.agent_angle[i, a] = x, y, angle
    s.agent_vel[i, a, 0], s.agent_vel[i, a, 1] = vx, vy
    return True


@routine
def set_course(c, s, i, a, angle, actions, batch):
    """Compute the velocities of agent ``a`` in a ``batch`` of substeps, if nothing pushes it.

    Returns its heading after them. Headings follow from each other and come first; their sines and
    cosines, most of the work, do not.
    """
    for k in range(s.course.shape[2]):
        s.course[i, HEADING, k] = angle
        if k < batch:
            angle = turned(c, a, angle, actions[i, a, 1])
    ahead = actions[i, a, 0]
    for k in range(s.course.shape[2]):  # all places: a fixed number runs as vectors
        vx, vy = rolled(c, a, s.course[i, HEADING, k], ahead, 0.0, 0.0)
        s.course[i, VELOCITY_X, k], s.course[i, VELOCITY_Y, k] = vx, vy
    return angle


@routine
def touches_wall(c, s, i, a, x, y, first, last):
    """Return whether agent ``a`` may touch one of these landmarks of the list at (x, y)."""
    touches, reach = False, CLOSE * (s.agent_rad[i, a] + c.map.landmark_rad)
    for k in range(first, last):
        o = np.uint64(np.int64(s.touch[i, k]) - c.num_agents)
        touches |= is_within(s.landmark_pos, i, o, x, y, reach)
    return touches


@routine
def move(c, s, i, a, actions):
    """Move agent ``a`` by one substep, unless it has arrived and stops; its force is then zero.

    Returns whether it is still so near that the list of possible contacts holds.
    """
    body = s.body
    push_x, push_y = body[i, a, PUSH_X], body[i, a, PUSH_Y]
    body[i, a, PUSH_X], body[i, a, PUSH_Y] = 0.0, 0.0
    if c.rules.stops and s.on_goal[i, a]:
        body[i, a, VX], body[i, a, VY] = 0.0, 0.0
        return True
    one, two = actions[i, a, 0], actions[i, a, 1]
    if not STEERED or (PUSHED and c.drive.code[a] == HOLONOMIC):
        vx, vy = driven(c, a, body[i, a, VX], body[i, a, VY], one, two, push_x, push_y)
    else:
        vx, vy = rolled(c, a, body[i, a, ANGLE], one, push_x, push_y)
        body[i, a, ANGLE] = turned(c, a, body[i, a, ANGLE], two)
    # Stored in either case: else the compiler computes the slower velocity every time, too.
    body[i, a, VX], body[i, a, VY] = vx, vy
    if is_too_fast(vx, vy, c.drive.max_speed[a]):
        vx, vy = slowed(vx, vy, c.drive.max_speed[a])
        body[i, a, VX], body[i, a, VY] = vx, vy
    x, y = body[i, a, X] + vx * c.drive.dt, body[i, a, Y] + vy * c.drive.dt
    body[i, a, X], body[i, a, Y] = x, y
    dx, dy = x - body[i, a, FROM_X], y - body[i, a, FROM_Y]
    return dx * dx + dy * dy <= 0.25 * c.bins.skin * c.bins.skin


@routine
def take_up(s, i, a):
    """Put agent ``a`` into ``body``, for substeps together with others."""
    copy_out(s, i, a)
    s.body[i, a, FROM_X], s.body[i, a, FROM_Y] = s.agent_pos[i, a, 0], s.agent_pos[i, a, 1]
    s.body[i, a, PUSH_X], s.body[i, a, PUSH_Y] = 0.0, 0.0
    s.body[i, a, RAD] = s.agent_rad[i, a]


@routine
def copy_out(s, i, a):
    """Copy place, velocity and heading of agent ``a`` to ``body``."""
    s.body[i, a, X], s.body[i, a, Y] = s.agent_pos[i, a, 0], s.agent_pos[i, a, 1]
    s.body[i, a, VX], s.body[i, a, VY] = s.agent_vel[i, a, 0], s.agent_vel[i, a, 1]
    s.body[i, a, ANGLE] = s.agent_angle[i, a]


@routine
def put_back(s, i, a):
    """Copy them back from ``body``."""
    s.agent_pos[i, a, 0], s.agent_pos[i, a, 1] = s.body[i, a, X], s.body[i, a, Y]
    s.agent_vel[i, a, 0], s.agent_vel[i, a, 1] = s.body[i, a, VX], s.body[i, a, VY]
    s.agent_angle[i, a] = s.body[i, a, ANGLE]
