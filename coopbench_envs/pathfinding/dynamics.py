"""Dynamics: how actions and the forces of contacts move an agent during one substep.

Every agent has a code for its dynamics: all agents may have the same one, or blocks of agents
different ones.
"""

import math
from collections.abc import Mapping
from typing import Annotated, Any, NamedTuple

import numpy as np

from coopbench_envs.core import routine
from coopbench_envs.parameters import Allowed, between, named, positive, resolve, span
from coopbench_envs.pathfinding.angles import heading, sine_cosine, wrapped

Range = tuple[float, ...]


class Holonomic(NamedTuple):
    """Parameters of ``dynamics="holonomic"``: the action is a force in any direction."""

    accel: Annotated[float, between(0, 1e6, "force per unit of action")] = 5.0
    max_speed: Annotated[float, between(-1e6, 1e6, "highest speed; < 0: no limit")] = 6.0
    damping: Annotated[float, between(0, 1, "fraction of velocity lost per substep")] = 0.25
    mass: Annotated[float, positive(1e6, "mass of an agent")] = 1.0
    dt: Annotated[float, positive(1e3, "duration of a substep")] = 0.01


class DiffDrive(NamedTuple):
    """Parameters of ``dynamics="diffdrive"``: the actions are forward speed and turning rate."""

    linear_speed: Annotated[
        Range, span(-1e6, 1e6, "speed ahead at action -1 and at 1; < 0: back")
    ] = (
        -1.0,
        1.0,
    )
    angular_speed: Annotated[
        Range, span(-1e6, 1e6, "rate of turning at action -1 and at 1; > 0: left")
    ] = (
        -2.0,
        2.0,
    )
    mass: Annotated[float, positive(1e6, "mass of an agent")] = 1.0
    dt: Annotated[float, positive(1e3, "duration of a substep")] = 0.01


class Mixed(NamedTuple):
    """Parameters of ``dynamics="mixed"``: blocks of consecutive agents move in different ways."""

    blocks: Annotated[tuple, Allowed("blocks of agents in order, with these keys")] = ()


class Block(NamedTuple):
    """One entry of ``blocks``."""

    dynamics: Annotated[str, Allowed("how the agents of the block move")] = "holonomic"
    # The name hides a method of tuples, which is not needed here.
    count: Annotated[int, between(1, 10_000, "agents in the block")] = 1  # type: ignore[assignment]
    dynamics_params: Annotated[dict, Allowed("parameters of the block's dynamics")] = {}  # noqa: RUF012


WAYS = {"holonomic": Holonomic, "diffdrive": DiffDrive}
HOLONOMIC, DIFFDRIVE = range(2)  # the code of a kind of dynamics is its position in WAYS
DYNAMICS = {**WAYS, "mixed": Mixed}

Blocks = list[tuple[int, Any]]  # (agents, parameters) in the order of agents


# Which kinds of agents the functions below are compiled for; bound anew for the agents of a task.
PUSHED = True  # holonomic ones
STEERED = True  # differential drives


class Drives(NamedTuple):
    """The dynamics as the kernels read them, ``c.drive``.

    Arrays are over agents, 0 where one does not apply.
    """

    code: np.ndarray  # HOLONOMIC or DIFFDRIVE
    accel: np.ndarray  # force per unit of action
    max_speed: np.ndarray  # < 0: none
    retained: np.ndarray  # share of the velocity that remains after a substep
    impulse: np.ndarray  # velocity gained in a substep per unit of force
    slowest: np.ndarray  # forward speed at action -1
    fastest: np.ndarray  # and at 1
    turn_low: np.ndarray  # rate of turning at action -1
    turn_high: np.ndarray  # and at 1
    terminal_square: np.ndarray  # square of the speed that a constant action of length 1 leads to
    dt: float  # duration of a substep
    substeps: int  # of a step
    step_dt: float  # duration of a step


def read_blocks(name: str, values: Mapping[str, Any], num_agents: int, where: str) -> Blocks:
    """Return the agents' dynamics as blocks, checked; without "mixed" there is one block.

    Raises:
        TypeError: a key is unknown.
        ValueError: a name is unknown, a value is not allowed, or the blocks do not fit together.
    """
    label = f"dynamics {name!r}"
    p = resolve(named("dynamics", name, DYNAMICS, where), values, label)
    if not isinstance(p, Mixed):
        return [(num_agents, p)]
    blocks = [_read_block(block, f"blocks[{k}] of {label}") for k, block in enumerate(p.blocks)]
    counts = [count for count, _ in blocks]
    if sum(counts) != num_agents:
        raise ValueError(
            f"Parameter 'blocks' of {label} had the counts {counts}, together {sum(counts)}; "
            f"allowed: counts that sum to num_agents={num_agents}."
        )
    for k, (_, way) in enumerate(blocks):
        if way.dt != blocks[0][1].dt:
            raise ValueError(
                f"Parameter 'dt' of blocks[{k}] of {label} was {way.dt:g}; allowed: "
                f"{blocks[0][1].dt:g} like blocks[0], because all agents share their substeps."
            )
    return blocks


def _read_block(values: Any, where: str) -> tuple[int, Any]:
    if not isinstance(values, Mapping):
        raise ValueError(
            f"{where} was {values!r}; allowed: a mapping with the keys {', '.join(Block._fields)}."
        )
    block = resolve(Block, values, where)
    way = named("dynamics", block.dynamics, WAYS, where)
    return block.count, resolve(way, block.dynamics_params, f"{where} ({block.dynamics})")


def make_drives(blocks: Blocks, substeps: int) -> Drives:
    """Return the parameters of all blocks, repeated for each agent of a block."""
    counts = [count for count, _ in blocks]
    columns = zip(*(_numbers(way) for _, way in blocks), strict=True)
    arrays = [np.repeat(np.asarray(column), counts) for column in columns]
    dt = blocks[0][1].dt
    return Drives._make([*arrays, dt, substeps, dt * substeps])


def _numbers(p: Any) -> tuple[Any, ...]:
    """Return one agent's entries of the arrays of ``Drives``."""
    impulse = p.dt / p.mass
    if isinstance(p, Holonomic):
        # Where as much is added as is lost; without damping a speed that is never reached.
        terminal = p.accel * impulse / max(p.damping, 1e-9)
        push = HOLONOMIC, p.accel, p.max_speed, 1 - p.damping, impulse
        return *push, 0.0, 0.0, 0.0, 0.0, terminal * terminal
    return DIFFDRIVE, 0.0, -1.0, 0.0, impulse, *p.linear_speed, *p.angular_speed, 0.0


def longest_way(blocks: Blocks, substeps: int) -> float:
    """Return the longest way of any agent in ``substeps``, at full speed and without contacts."""
    return max(_top_speed(way, substeps) * way.dt * substeps for _, way in blocks)


def _top_speed(p: Any, substeps: int) -> float:
    if isinstance(p, DiffDrive):
        return max(map(abs, p.linear_speed))
    speed = 0.0
    for _ in range(min(substeps, 1000)):
        speed = (1 - p.damping) * speed + math.sqrt(2) * p.accel / p.mass * p.dt
        speed = min(speed, p.max_speed) if p.max_speed >= 0 else speed
    return speed


def first_angles(c: Any, agent_pos: np.ndarray, goal_pos: np.ndarray) -> np.ndarray:
    """Return the headings of ``face_goal``, (episodes, agents), from arrays of positions."""
    angles = np.zeros(agent_pos.shape[:-1])
    turning = c.drive.code == DIFFDRIVE
    if turning.any():
        way = (goal_pos - agent_pos)[:, turning]
        angles[:, turning] = np.vectorize(heading, [float])(way[..., 0], way[..., 1])
    return angles


@routine
def face_goal(c, s, i):
    """Set headings towards the goals, and 0 for agents without a heading."""
    goal, pos, angle = s.goal_pos, s.agent_pos, s.agent_angle
    for a in range(c.num_agents):
        angle[i, a] = 0.0
        if STEERED and c.drive.code[a] == DIFFDRIVE:
            dx, dy = goal[i, a, 0] - pos[i, a, 0], goal[i, a, 1] - pos[i, a, 1]
            angle[i, a] = heading(dx, dy)


@routine
def driven(c, a, vx, vy, ahead, aside, push_x, push_y):
    """Return the velocity of holonomic agent ``a`` after a substep, without the limit of speed.

    Its position follows from the new velocity (semi-implicit Euler).
    """
    vx = c.drive.retained[a] * vx + c.drive.impulse[a] * (push_x + c.drive.accel[a] * ahead)
    vy = c.drive.retained[a] * vy + c.drive.impulse[a] * (push_y + c.drive.accel[a] * aside)
    return vx, vy


@routine
def is_too_fast(vx, vy, fastest):
    """Return whether a velocity exceeds the highest speed; a negative one means no limit."""
    return (fastest >= 0.0) & (vx * vx + vy * vy > fastest * fastest)


@routine
def slowed(vx, vy, fastest):
    """Return a velocity that is shortened to the highest speed."""
    slower = fastest / math.sqrt(vx * vx + vy * vy)
    return vx * slower, vy * slower


@routine
def rolled(c, a, angle, action, push_x, push_y):
    """Return the velocity of a differential drive: along its heading, plus the push of contacts.

    The velocity of the step before has no influence.
    """
    speed = forward_speed(c, a, action)
    sine, cosine = sine_cosine(angle)
    return speed * cosine + c.drive.impulse[a] * push_x, speed * sine + c.drive.impulse[a] * push_y


@routine
def forward_speed(c, a, action):
    """Return the speed of a differential drive along its heading."""
    return between_limits(c.drive.slowest[a], c.drive.fastest[a], action)


@routine
def turned(c, a, angle, action):
    """Return the heading of a differential drive after a substep."""
    rate = between_limits(c.drive.turn_low[a], c.drive.turn_high[a], action)
    return wrapped(angle + rate * c.drive.dt)


@routine
def squared_speed(c, s, i, a, actions):
    """Return the square of a speed that agent ``a`` cannot exceed without contacts."""
    if STEERED and c.drive.code[a] == DIFFDRIVE:
        speed = forward_speed(c, a, actions[i, a, 0])
        return speed * speed
    action = actions[i, a, 0] * actions[i, a, 0] + actions[i, a, 1] * actions[i, a, 1]
    vx, vy = s.agent_vel[i, a, 0], s.agent_vel[i, a, 1]
    return max(vx * vx + vy * vy, c.drive.terminal_square[a] * action)


@routine
def between_limits(low, high, action):
    """Map an action in [-1, 1] to [low, high]; beyond that it is clipped."""
    return min(max(0.5 * (high - low) * (action + 1.0) + low, low), high)
