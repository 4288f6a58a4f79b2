"""Rewards: those of timetables (flatland-rl 4) and those of the challenge of 2020.

The only floating-point numbers of the game; they are added in the order of flatland-rl 4.3.0.
"""

import math

from coopbench_envs.core import routine
from coopbench_envs.rail.distances import UNREACHABLE, distance_of
from coopbench_envs.rail.trains import ARRIVED, STOPPED, is_on_map

__all__ = ["CHALLENGE_2020", "NEVER", "NO_VISIT", "TIMETABLE", "all_arrived", "is_last", "pay"]

TIMETABLE, CHALLENGE_2020 = range(2)
NEVER = -1  # time of a visit that has not begun
NO_VISIT = -1e18  # value of the best visit before there is one; of real ones none is below -1e16


@routine
def all_arrived(c, s, i):
    """Tell whether every train has arrived."""
    everybody = True
    for a in range(c.num_agents):
        everybody = everybody and s.status[i, a] == ARRIVED
    return everybody


@routine
def is_last(c, s, i):
    """Tell whether the step being played reaches the limit."""
    return s.time[i] + 1 >= min(s.limit[i], c.horizon)


@routine
def pay(c, s, i, rewards):
    """Write the rewards of the step just played, and keep the sums that metrics need."""
    elapsed, everybody = s.time[i] + 1, all_arrived(c, s, i)
    over = everybody or is_last(c, s, i)
    for a in range(c.num_agents):
        if s.status[i, a] != ARRIVED:
            s.open_speed[i] += s.top_speed[i, a]
        if c.rewards.code == TIMETABLE:
            reward = pay_step(c, s, i, a, elapsed)
            if s.arriving[i, a]:
                reward += pay_stops(c, s, i, a)
            elif over and s.status[i, a] != ARRIVED:
                reward += pay_stops(c, s, i, a)
                reward += pay_unfinished(c, s, i, a, elapsed)
        elif everybody:
            reward = 1.0
        else:
            reward = 0.0 if s.status[i, a] == ARRIVED else -s.top_speed[i, a] / c.drive.unit
        rewards[i, a] = reward
        s.earned[i, a] += reward


@routine
def pay_step(c, s, i, a, elapsed):
    """Return the reward of one step: delay at arrival and collisions; note visits of stops."""
    reward = 0.0
    if s.arriving[i, a]:
        reward += min(0, s.due[i, a] - s.arrival[i, a])
    if s.crash[i, a] > 0:
        reward += -(c.rewards.collision_factor * s.crash[i, a]) / c.drive.unit
    if c.rules.num_stops > 0:
        note_visits(c, s, i, a, elapsed)
    return reward


@routine
def note_visits(c, s, i, a, elapsed):
    """Begin and end the visits of train ``a`` at its intermediate stops."""
    place = s.place[i, a] if is_on_map(s.status[i, a]) else -1
    left = s.left[i, a]
    for k in range(c.rules.num_stops):
        for j in range(s.stop_place.shape[3]):
            stop = s.stop_place[i, a, k, j]
            if stop < 0:
                continue
            if left == stop and place != stop:
                value = value_of(c, s, i, a, k, j)
                value += c.rewards.early_factor * min(0, elapsed - s.stop_departure[i, a, k, j])
                s.stop_best[i, a, k, j] = max(s.stop_best[i, a, k, j], value)
                s.stop_since[i, a, k, j] = NEVER
            if place == stop:
                if left != stop:
                    s.stop_since[i, a, k, j] = elapsed
                if s.status[i, a] == STOPPED:
                    s.stop_served[i, a, k, j] = True


@routine
def value_of(c, s, i, a, k, j):
    """Return what the arrival of the present visit at alternative ``j`` of stop ``k`` earns."""
    return c.rewards.late_factor * min(0, s.stop_due[i, a, k, j] - s.stop_since[i, a, k, j])


@routine
def pay_stops(c, s, i, a):
    """Return what train ``a`` earns at its intermediate stops: the best visit of each.

    This is paid once: in the step in which the train arrives, otherwise at the end.
    """
    total = 0.0
    for k in range(c.rules.num_stops):
        best, scheduled = NO_VISIT, False
        for j in range(s.stop_place.shape[3]):
            if s.stop_place[i, a, k, j] < 0:
                continue
            scheduled = True
            if s.stop_served[i, a, k, j]:
                best = max(best, s.stop_best[i, a, k, j])
                if s.stop_since[i, a, k, j] != NEVER:
                    best = max(best, value_of(c, s, i, a, k, j))
        if scheduled:
            total += best if best > NO_VISIT else -c.rewards.not_served_penalty
    return total


@routine
def pay_unfinished(c, s, i, a, elapsed):
    """Return what train ``a``, which has not arrived, earns at the end of the episode."""
    steps = distance_of(c, s, i, a, s.place[i, a])
    waypoints = 0 if steps == UNREACHABLE else steps + 1
    travel = math.ceil(waypoints * c.drive.unit / s.top_speed[i, a])
    if is_on_map(s.status[i, a]):
        return float(min(-c.rewards.min_penalty, s.due[i, a] - elapsed - travel))
    return -c.rewards.cancellation_factor * (travel + c.rewards.cancellation_buffer)
