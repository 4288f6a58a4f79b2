"""Forces that move a team of holonomic agents along the places of a plan.

A plan is a sequence of rounds; in each, all agents go straight from one place to the next on one
clock, so that what was planned clear of contacts stays so. Between two steps the motion of an agent
that touches nothing is linear in its velocity and in the force: the force that leads to a place
within one step is known exactly, and the clock runs as fast as all can follow.
"""

import math
from typing import NamedTuple

import numpy as np

from coopbench.baselines.game import Game
from coopbench_envs.core import routine, subroutine

_PATIENCE = 20  # steps that the clock waits for an agent that does not get where it should be
_MISSED = 0.02  # of a cell, by which an agent may miss its place
_STRAY = 0.1  # of a cell, by which rounded forces may keep an agent from its place
_SLACK = 0.05  # of a cell, by which braking may take longer than one step
_HALVINGS = 6  # of the clock's step, in search of one that all can follow


class Drive(NamedTuple):
    """How agents answer to forces, and how plans are timed."""

    glide: np.ndarray  # (agents,) way of one step without force, per velocity
    gain: np.ndarray  # (agents,) way of one step from rest, per force
    disc: bool  # forces are shortened to length 1, instead of each component on its own
    pace: float  # way of one step that every agent can keep up, in the measure of ``size``
    rate: float  # share of a round that a step of the clock lasts at most
    reach: np.ndarray  # (agents,) size of the forces that the clock demands at most
    missed: np.ndarray  # (agents,) distance from its place from which an agent is late
    stop: bool  # agents that arrive cannot move any more


class Track(NamedTuple):
    """Position of each team in its plan; axis 0 is the lane."""

    clock: np.ndarray  # (lanes,) share of the present round that is over, in [0, 1)
    late: np.ndarray  # (lanes, agents) int32, steps in a row that an agent missed its place
    place: np.ndarray  # (lanes, agents, 3, 2) at the start and end of this round and of the next


def make_track(lanes: int, agents: int) -> Track:
    """Allocate the tracks of new lanes."""
    late = np.zeros((lanes, agents), np.int32)
    return Track(np.zeros(lanes), late, np.zeros((lanes, agents, 3, 2)))


def make_drive(game: Game, policy: str, steps: float | None = None) -> Drive:
    """Derive the answer to forces; a round leads to the next cell, or takes about ``steps``.

    Raises:
        ValueError: the game is not pathfinding, or agents do not move by forces.
    """
    game.require(policy, "goal")
    c = game.constants
    if c.drive.code.any():
        raise ValueError(
            f"Policy {policy!r} cannot play {game.env_id} with dynamics other than 'holonomic': "
            f"it steers by forces."
        )
    side = c.map.width / c.map.columns
    powers = c.drive.retained[:, None] ** np.arange(c.drive.substeps + 1)
    # A force of one substep acts in that one and in all that follow.
    pushes = np.cumsum(powers[:, :-1], 1).sum(1)
    speeds = c.drive.accel * c.drive.impulse / np.maximum(1.0 - c.drive.retained, 1e-300)
    speeds = np.where(c.drive.max_speed >= 0.0, np.minimum(speeds, c.drive.max_speed), speeds)
    braking = 2.0 * c.drive.accel * c.drive.impulse / c.drive.dt * _SLACK * side
    pace = float(np.minimum(speeds, np.sqrt(braking)).min() * c.drive.step_dt)
    gain = c.drive.dt * c.drive.accel * c.drive.impulse * pushes
    rounding = _rounding(game)
    # A team must not stop waiting for agents that are late only because their forces are rounded.
    # What rounding withholds in one step must not slow the team in the next, where there is room.
    room = _STRAY * side / np.maximum(gain, 1e-300) - rounding
    return Drive(
        glide=c.drive.dt * powers[:, 1:].sum(1),
        gain=gain,
        disc=c.rules.shortens,
        pace=pace,
        rate=min(1.0, pace / side if steps is None else 1.0 / steps),
        reach=1.0 + np.clip(room, 0.0, rounding),
        missed=_MISSED * side + gain * rounding,
        stop=c.rules.stops,
    )


def _rounding(game: Game) -> np.ndarray:
    """Return the largest distance of a force from the nearest choice; 0 without action_levels."""
    if game.levels is None:
        return np.zeros(len(game.agents))
    gaps = (game.high - game.low) / (np.asarray(game.levels.levels) - 1)
    distances: np.ndarray = 0.5 * np.linalg.norm(gaps, axis=1)
    return distances


@routine
def size(drive, x, y):
    """Return the size of a force in the measure that must not exceed 1."""
    if drive.disc:
        return math.sqrt(x * x + y * y)
    return max(abs(x), abs(y))


@subroutine
def follow(drive, track, i, pos, velocity, on_goal, actions):
    """Advance the clock as far as all can follow; push every agent to its place at that time."""
    note_late(drive, track, i, pos)
    low, high = 0.0, drive.rate
    if all_follow(drive, track, i, pos, velocity, on_goal, high):
        low = high
    else:
        for _ in range(_HALVINGS):
            middle = 0.5 * (low + high)
            if all_follow(drive, track, i, pos, velocity, on_goal, middle):
                low = middle
            else:
                high = middle
    track.clock[i] += low
    for a in range(pos.shape[1]):
        x, y = force(drive, track, i, a, pos, velocity, track.clock[i])
        scale = 1.0 / max(size(drive, x, y), 1.0)
        actions[i, a, 0] = x * scale
        actions[i, a, 1] = y * scale


@routine
def note_late(drive, track, i, pos):
    """Count for how many steps in a row every agent has not been in its place."""
    for a in range(pos.shape[1]):
        x = pos[i, a, 0] - place_at(track, i, a, 0, track.clock[i])
        y = pos[i, a, 1] - place_at(track, i, a, 1, track.clock[i])
        late = x * x + y * y > drive.missed[a] * drive.missed[a]
        track.late[i, a] = track.late[i, a] + 1 if late else 0


@subroutine
def all_follow(drive, track, i, pos, velocity, on_goal, ahead):
    """Return whether every agent reaches its place if the clock advances by ``ahead``.

    Where forces are rounded, they may fall short of what leads there by ``reach`` - 1. Agents that
    cannot move and those that have been late for too long do not count.
    """
    for a in range(pos.shape[1]):
        if track.late[i, a] > _PATIENCE or (drive.stop and on_goal[i, a]):
            continue
        x, y = force(drive, track, i, a, pos, velocity, track.clock[i] + ahead)
        if size(drive, x, y) > drive.reach[a]:
            return False
    return True


@routine
def force(drive, track, i, a, pos, velocity, time):
    """Return the force that takes agent ``a`` within one step to its place at ``time``."""
    x = place_at(track, i, a, 0, time) - pos[i, a, 0] - drive.glide[a] * velocity[i, a, 0]
    y = place_at(track, i, a, 1, time) - pos[i, a, 1] - drive.glide[a] * velocity[i, a, 1]
    gain = max(drive.gain[a], 1e-300)
    return x / gain, y / gain


@routine
def place_at(track, i, a, k, time):
    """Return the coordinate ``k`` of agent ``a``'s place at a time in [0, 2), counted in rounds."""
    part = 0 if time < 1.0 else 1
    one, other = track.place[i, a, part, k], track.place[i, a, part + 1, k]
    return one + (time - part) * (other - one)
