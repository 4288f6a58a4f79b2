"""Trains: one step of all of them, in the order of flatland-rl 4.3.0.

Speeds and distances within a cell are in units of ``1 / c.drive.unit`` of a cell per step.
"""

from coopbench_envs.core import routine
from coopbench_envs.rail.cells import FORWARD, LEFT, RIGHT, STOP, follow
from coopbench_envs.rail.motion import DENIED, GRANTED, resolve_claims

__all__ = [
    "ARRIVED",
    "BROKEN",
    "BROKEN_OFF_MAP",
    "MOVING",
    "READY",
    "STATUSES",
    "STOPPED",
    "WAITING",
    "advance",
    "is_on_map",
    "resource",
]

STATUSES = ("waiting", "ready", "broken off map", "moving", "stopped", "broken", "arrived")
WAITING, READY, BROKEN_OFF_MAP, MOVING, STOPPED, BROKEN, ARRIVED = range(7)

# What ``plan`` finds out for ``finish``: bits of s.outlook.
VALID, LEAVES, MOVES, STOPS = 1, 2, 4, 8


@routine
def is_on_map(status):
    """Tell whether a train of this status occupies a cell."""
    return MOVING <= status <= BROKEN


@routine
def resource(c, s, i, place):
    """Return the number of what a train at ``place`` occupies."""
    cell = place >> 2
    return 2 * cell + (place & 1) * s.level_free[i, cell]


@routine
def advance(c, s, i, actions):
    """Play one step of all trains: plans, claims for cells, and what becomes of them."""
    elapsed = s.time[i] + 1
    for a in range(c.num_agents):
        strike(c, s, i, a, elapsed)
        plan(c, s, i, a, actions[i, a], elapsed)
    if c.rules.fair:
        sort_by_waiting(s, i, c.num_agents)
    resolve_claims(s, i, c.num_agents)
    if c.rules.fair:
        note_waiting(s, i, c.num_agents)
    for a in range(c.num_agents):
        finish(c, s, i, a, elapsed)


@routine
def sort_by_waiting(s, i, n):
    """Sort the trains in ``s.order``: who has waited longest is first, then the lowest rank."""
    for k in range(1, n):
        a, j = s.order[i, k], k
        while j > 0:
            b = s.order[i, j - 1]
            longer = s.waited[i, a] > s.waited[i, b]
            equal = s.waited[i, a] == s.waited[i, b]
            if not (longer or (equal and s.rank[i, a] < s.rank[i, b])):
                break
            s.order[i, j] = b
            j -= 1
        s.order[i, j] = a


@routine
def note_waiting(s, i, n):
    """Count for how many steps in a row trains have claimed a resource and not got it."""
    for a in range(n):
        claims = s.claim[i, a] >= 0 and s.claim[i, a] != s.held[i, a]
        if claims and s.verdict[i, a] == DENIED:
            s.waited[i, a] += 1
        else:
            s.waited[i, a] = 0


@routine
def strike(c, s, i, a, elapsed):
    """Let train ``a`` break down if its schedule says so and it is not broken already.

    Under fair rules this happens on the map only. Their schedule has strikes at all steps with the
    same chance, so that this is the chance per step of a train that runs, however long it waits.
    """
    k = s.next_strike[i, a]
    if k < c.strikes.most and s.strike_time[i, a, k] == elapsed:
        s.next_strike[i, a] = k + 1
        if s.broken[i, a] == 0 and (not c.rules.fair or is_on_map(s.status[i, a])):
            s.broken[i, a] = s.strike_length[i, a, k]
            if s.status[i, a] != ARRIVED:
                s.malfunctions[i, a] += 1


@routine
def plan(c, s, i, a, action, elapsed):
    """Work out where train ``a`` wants to be, at which speed, and what it holds and claims."""
    status, place = s.status[i, a], s.place[i, a]
    s.held[i, a] = -1
    s.claim[i, a] = -1
    s.wish[i, a] = -1
    s.outlook[i, a] = 0
    if status == ARRIVED:
        return
    ahead = follow(s.rail, i, c.map.delta, place, action)
    moves, stops, valid = LEFT <= action <= RIGHT, action == STOP, ahead >= 0
    pace = paced(c, s, i, a, action, ahead)
    s.pace[i, a] = pace
    leaves = s.distance[i, a] + pace >= c.drive.unit
    fit = s.broken[i, a] == 0
    wish = -1
    if is_on_map(status):
        wish = place
        goes_on = status == MOVING and not ((stops or not valid) and pace == 0)
        starts = status != MOVING and moves and valid
        if leaves and fit and (goes_on or starts):
            wish = ahead
        s.held[i, a] = resource(c, s, i, place)
    elif valid and (
        (status == READY and moves)
        or (status == BROKEN_OFF_MAP and fit and s.departure[i, a] <= elapsed and (moves or stops))
    ):
        wish = place
    if wish >= 0:
        s.claim[i, a] = resource(c, s, i, wish)
    s.wish[i, a] = wish
    s.outlook[i, a] = VALID * valid + LEAVES * leaves + MOVES * moves + STOPS * stops


@routine
def paced(c, s, i, a, action, ahead):
    """Return the speed that train ``a`` would have after this step if it moved."""
    if ahead < 0:
        return 0
    pace, status = s.speed[i, a], s.status[i, a]
    starts = status in (STOPPED, BROKEN) and LEFT <= action <= RIGHT
    straight = (ahead ^ s.place[i, a]) & 1 == 0  # neither a curve nor a turn
    if starts or (action == FORWARD and straight):
        pace += c.drive.acceleration
    elif action == STOP:
        pace -= c.drive.braking
    return min(max(pace, 0), s.top_speed[i, a])


@routine
def finish(c, s, i, a, elapsed):
    """Let train ``a`` take its next status, and move if that is to move."""
    old = s.status[i, a]
    s.arriving[i, a] = False
    s.crash[i, a] = 0
    s.left[i, a] = s.place[i, a] if is_on_map(old) else -1
    if old != ARRIVED:
        outlook, granted = s.outlook[i, a], s.verdict[i, a] == GRANTED
        allowed = outlook & VALID != 0 and (granted or (is_on_map(old) and outlook & LEAVES == 0))
        new = status_after(c, s, i, a, allowed, elapsed)
        s.status[i, a] = new
        stopping = outlook & STOPS != 0 and s.pace[i, a] == 0
        if old == MOVING and new == STOPPED and not (stopping and allowed):
            s.crash[i, a] = s.speed[i, a]
        if new == MOVING:
            move(c, s, i, a, old)
        if s.status[i, a] in (STOPPED, BROKEN):
            s.speed[i, a] = 0
            s.fresh[i, a] = False
        if s.status[i, a] == ARRIVED:
            s.arriving[i, a] = True
            s.arrival[i, a] = elapsed
    s.broken[i, a] = max(s.broken[i, a] - 1, 0)


@routine
def status_after(c, s, i, a, allowed, elapsed):
    """Return the next status of train ``a``; ``allowed``: it may do what it plans."""
    old, fit, outlook = s.status[i, a], s.broken[i, a] == 0, s.outlook[i, a]
    due, moves = s.departure[i, a] <= elapsed, outlook & MOVES != 0 and allowed
    stops = outlook & STOPS != 0
    if not fit:
        return BROKEN if is_on_map(old) else BROKEN_OFF_MAP
    if old == WAITING:
        return READY if due else WAITING
    if old == READY:
        return MOVING if moves else READY
    if old == BROKEN_OFF_MAP:
        if not due:
            return WAITING
        return MOVING if moves else STOPPED if stops and allowed else READY
    if old == MOVING:
        return STOPPED if (stops and s.pace[i, a] == 0) or not allowed else MOVING
    return MOVING if moves else STOPPED


@routine
def move(c, s, i, a, old):
    """Put train ``a`` where it wants to be, and let it arrive if that is its target."""
    s.place[i, a] = s.wish[i, a]
    if old not in (READY, BROKEN_OFF_MAP):  # to enter the map takes the whole step
        pace = s.pace[i, a]
        s.speed[i, a] = pace
        s.distance[i, a] = (s.distance[i, a] + pace) % c.drive.unit
        s.fresh[i, a] = s.distance[i, a] < pace
    place = s.place[i, a]
    if place >> 2 == s.target[i, a] and (s.target_headings[i, a] >> (place & 3)) & 1:
        s.status[i, a] = ARRIVED
