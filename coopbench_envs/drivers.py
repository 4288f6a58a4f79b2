"""Drivers: the loop over lanes, written once, compiled once per environment.

A driver owns what means the same in every environment: time, truncation, automatic reset, the
random stream of each episode, returns, dead agents and illegal actions. The kernels own the
dynamics.
"""

import functools
import types
from typing import Any, NamedTuple

import numpy as np

from coopbench_envs.compiling import Compiled, bound
from coopbench_envs.core import Kernels, kernel, stream
from coopbench_envs.errors import KernelError
from coopbench_envs.marks import PER_AGENT, PER_LANE, PER_PAIR, plain
from coopbench_envs.states import clearing

__all__ = [
    "DISABLED",
    "FEW_AGENTS",
    "LOOK",
    "MANY_LANES",
    "NEXT_STEP",
    "RENEW",
    "RESET",
    "RESTORE",
    "TAKES",
    "Control",
    "driver",
]

# What one call of a driver does. Step: a finished lane begins its next episode, or rests.
NEXT_STEP, DISABLED = 0, 1
# In the chosen lanes: begin the episode that is set; begin the next one but leave the outcome of
# the last step to be reported; recompute what follows from a state that was restored. In all lanes:
# write the global state and change nothing.
RESET, RENEW, RESTORE, LOOK = 2, 3, 4, 5


class Control(NamedTuple):
    """What the driver keeps per lane; axis 0 is the lane, ``agents`` follows where it applies."""

    seed: np.ndarray  # (lanes,) uint64, of the lane's environment
    episode: np.ndarray  # (lanes,) int64, 0 for the first after a seeded reset
    rng: np.ndarray  # (lanes,) uint64, state of the episode's random stream
    done: np.ndarray  # (lanes,) bool, episode is over
    alive: np.ndarray  # (lanes, agents) bool, takes part in the coming step
    returns: np.ndarray  # (lanes, agents) float64, sum of rewards so far
    invalid: np.ndarray  # (lanes, agents) int64, illegal actions so far
    chosen: np.ndarray  # (lanes,) bool, lanes that RESET, RENEW and RESTORE act on
    moved: np.ndarray  # (lanes,) bool, lanes that the present call has changed
    rewards: np.ndarray  # (lanes, agents) float64
    terminated: np.ndarray  # (lanes, agents) bool
    truncated: np.ndarray  # (lanes,) bool
    ended: np.ndarray  # (lanes,) bool, all agents are terminated
    team: np.ndarray  # (lanes,) float64, sum of the agents' rewards, or their common one
    obs: np.ndarray  # (lanes, agents, features) float32
    measures: np.ndarray  # (lanes, metrics) float64
    masks: np.ndarray  # (lanes, agents, actions) int8, 1 = legal; last axis empty for Box
    state: np.ndarray  # (lanes, size) float32, global state; empty unless the engine keeps it


# What the template below calls, bound anew for every environment: its kernels, or these stand-ins.
clear: Any = None
reset: Any = None
play: Any = None
observe: Any = None
measure: Any = None
global_state: Any = None
prepare: Any = None
mask: Any = None
present: Any = None
late: Any = None
legalise: Any = None
is_finite: Any = None
survey: Any = None
common_reward = False  # EnvSpec.common_reward
falling = False  # whether agents may be absent from an episode that goes on
fixed_agents = 0  # number of agents that is compiled in, or 0 for any number
block = 1  # lanes in which every part of a step is played before the next one
lane: Any = None  # type of a lane's number

# Up to this number of agents a vectorized environment plays in blocks of lanes, and the number is
# compiled in. With more the observations, which are rows of an agent, would be the slow part.
FEW_AGENTS = 8

# And with at least this number of lanes. With fewer, blocks gain little (calls of seven lanes take
# 2 to 25 % less time, of one lane up to 13 % more), and code for one lane serves any number of
# agents.
MANY_LANES = 8

# Lanes whose state stays in the cache from one part of a step to the next.
_BLOCK = 128

# Highest number of a lane: that it cannot overflow lets the compiler make vectors of loops.
_LANES = 0xFFFFFFFF


def drive(c, s, control, actions, op, start, stop):
    """Do ``op`` in the lanes from ``start`` to ``stop``.

    Returns False, and has done nothing, if an action that a step takes is not finite.
    """
    if op < RESET and not is_finite(actions, start, stop):
        return False
    if fixed_agents > 0 and not has_agents(c, control, fixed_agents):
        return False  # never: it tells the compiler how often every loop over agents runs
    first = start
    while first < stop:
        # A block plays one step in all of its lanes: also in one whose episode is over, if its
        # next one begins right after that. Blocks that end at such lanes would be short.
        through = block > 1 and op == NEXT_STEP
        last = first + 1
        while last < min(first + block, stop) and op < RESET:
            if not through and control.done[last] != control.done[first]:
                break
            last += 1
        plays = op < RESET and (through or not control.done[first])
        begins = lane(first) & lane(_LANES)
        ends = begins + min(lane(last - first), lane(block))
        if plays:
            for i in range(begins, ends):
                control.moved[i] = not control.done[i]
                legalise(control, i, actions)
            play(c, s, control, actions, begins, ends)
            settle(control, begins, ends, common_reward, falling)
            for i in range(begins, ends):
                s.time[i] += 1
                control.truncated[i] = s.time[i] >= min(late(c, s, i), c.horizon)
                control.done[i] = control.ended[i] or control.truncated[i]
                if falling:
                    present(c, s, i, control.alive)
                    if not control.ended[i]:  # who is left at the joint end sees the last state
                        retire(control, i, True)
        for i in range(begins, ends):
            if not (plays and control.moved[i]):
                control.moved[i] = control.chosen[i] if op >= RESET else op == NEXT_STEP
                if control.moved[i]:
                    if op != RESTORE:
                        begin(control, i, op)
                        clear(c, s, i)
                        reset(c, s, i, control.rng)
                    prepare(c, s, i)
                    if falling:
                        present(c, s, i, control.alive)
                elif op < RESET:
                    wait(control, i)
            if control.moved[i]:
                mask(c, s, i, control.masks)
                observe(c, s, i, control.obs)
                if falling:
                    hide(control, i)
                    retire(control, i, op < RESET and control.ended[i])
                measure(c, s, i, control.measures)
            if control.state.shape[1] > 0 and (control.moved[i] or op == LOOK):
                global_state(c, s, i, control.state)
                survey(control, i)
        first = last
    return True


@kernel
def has_agents(c, control, number):
    """Return whether every array has ``number`` agents."""
    return (
        c.num_agents == number
        and control.alive.shape[1] == number
        and control.rewards.shape[1] == number
        and control.terminated.shape[1] == number
        and control.returns.shape[1] == number
        and control.obs.shape[1] == number
    )


@kernel
def begin(control, i, op):
    """Start the next episode of lane ``i``, or for RESET the one that the engine has set."""
    if op != RESET:
        control.episode[i] += 1
    control.rng[i] = stream(control.seed[i], np.uint64(control.episode[i]))
    control.done[i] = False
    if op != RENEW:  # which still has to report the step that ended the last episode
        control.truncated[i] = False
        control.ended[i] = False
        control.team[i] = 0.0
    for a in range(control.alive.shape[1]):
        control.alive[i, a] = True
        control.returns[i, a] = 0.0
        control.invalid[i, a] = 0
        if op != RENEW:
            control.rewards[i, a] = 0.0
            control.terminated[i, a] = False


@kernel
def settle(control, first, last, common, fall):
    """Book the step just played in these lanes: dead agents stay dead, and earn nothing.

    ``common``: the first agent's reward is the team's. ``fall``: the dead are not terminated.
    """
    for i in range(first, last):
        control.ended[i] = True
        control.team[i] = control.rewards[i, 0] if common else 0.0
    for a in range(control.alive.shape[1]):
        for i in range(first, last):  # without branches: it runs as vectors
            alive, fallen = control.alive[i, a], control.terminated[i, a]
            reward = control.rewards[i, a]
            if common:
                reward = control.team[i]
            else:
                reward = reward if alive else 0.0
                control.team[i] += reward
            fallen = fallen or not (alive or fall)
            control.rewards[i, a] = reward
            control.terminated[i, a] = fallen
            control.alive[i, a] = not fallen
            control.returns[i, a] += reward
            control.ended[i] = control.ended[i] and fallen


@kernel
def retire(control, i, stepped):
    """Drop agents that this step terminated."""
    for a in range(control.alive.shape[1]):
        control.alive[i, a] = control.alive[i, a] and not (stepped and control.terminated[i, a])


@kernel
def wait(control, i):
    """Let a finished lane rest: nothing more is earned."""
    control.team[i] = 0.0
    for a in range(control.rewards.shape[1]):
        control.rewards[i, a] = 0.0


@kernel
def hide(control, i):
    """Show absent agents zeros, and leave them the first of their choices."""
    for a in range(control.alive.shape[1]):
        if not control.alive[i, a]:
            for k in range(control.obs.shape[2]):
                control.obs[i, a, k] = 0.0
            for k in range(control.masks.shape[2]):
                control.masks[i, a, k] = k == 0


@kernel
def _no_reset(c, s, i, rng):
    pass


@kernel
def _no_prepare(c, s, i):
    pass


@kernel
def _no_mask(c, s, i, masks):
    for a in range(masks.shape[1]):
        for k in range(masks.shape[2]):
            masks[i, a, k] = 1


@kernel
def _all_present(c, s, i, alive):
    pass


@kernel
def _at_horizon(c, s, i):
    return c.horizon


@kernel
def _no_global_state(c, s, i, out):
    pass


@kernel
def _all_observations(control, i):
    """Write the observations of all agents, one after the other, as the global state."""
    features = control.obs.shape[2]
    for a in range(control.obs.shape[1]):
        for k in range(features):
            control.state[i, a * features + k] = control.obs[i, a, k]


@kernel
def _is_written(control, i):
    pass


@kernel
def _any_box(control, i, actions):
    pass


@kernel
def _legal_discrete(control, i, actions):
    """Replace what is illegal, or the action of a dead agent, by -1: do nothing."""
    for a in range(control.alive.shape[1]):
        k = actions[i, a]
        if not control.alive[i, a]:
            actions[i, a] = -1
        elif k < 0 or k >= control.masks.shape[2] or control.masks[i, a, k] == 0:
            control.invalid[i, a] += 1
            actions[i, a] = -1


@kernel
def _finite_box(actions, start, stop):
    finite = True
    for a in range(actions.shape[1]):
        for k in range(actions.shape[2]):
            for i in range(start, stop):
                finite &= actions[i, a, k] - actions[i, a, k] == 0.0
    return finite


@kernel
def _finite_discrete(actions, start, stop):
    return True


# What the templates below call, bound anew for every part of a step.
part: Any = None
rest: Any = None


def _play(c, s, control, actions, first, last):
    """Play one part of a step in these lanes, and then the rest of it."""
    for i in range(first, last):
        part(c, s, i, control.rng, actions, control.rewards, control.terminated)
    rest(c, s, control, actions, first, last)


def _play_agents(c, s, control, actions, first, last):
    for a in range(c.num_agents):
        for i in range(first, last):
            part(c, s, i, a, control.rng, actions, control.rewards, control.terminated)
    rest(c, s, control, actions, first, last)


def _play_pairs(c, s, control, actions, first, last):
    for a in range(c.num_agents):
        for b in range(c.num_agents):
            for i in range(first, last):
                part(c, s, i, a, b, control.rng, actions, control.rewards, control.terminated)
    rest(c, s, control, actions, first, last)


def _play_agents_by_lane(c, s, control, actions, first, last):
    for i in range(first, last):
        for a in range(c.num_agents):
            part(c, s, i, a, control.rng, actions, control.rewards, control.terminated)
    rest(c, s, control, actions, first, last)


def _play_pairs_by_lane(c, s, control, actions, first, last):
    for i in range(first, last):
        for a in range(c.num_agents):
            for b in range(c.num_agents):
                part(c, s, i, a, b, control.rng, actions, control.rewards, control.terminated)
    rest(c, s, control, actions, first, last)


@kernel
def _played(c, s, control, actions, first, last):
    pass


# By what a part is played for. The innermost loop is over what lies innermost in memory.
_IN_BLOCKS = {PER_LANE: _play, PER_AGENT: _play_agents, PER_PAIR: _play_pairs}
_BY_LANE = {PER_LANE: _play, PER_AGENT: _play_agents_by_lane, PER_PAIR: _play_pairs_by_lane}
# What it takes.
TAKES = {
    PER_LANE: "(c, s, i, rng, actions, rewards, terminated)",
    PER_AGENT: "(c, s, i, a, rng, actions, rewards, terminated)",
    PER_PAIR: "(c, s, i, a, b, rng, actions, rewards, terminated)",
}


@functools.cache
def _played_parts(parts: tuple[Any, ...], in_blocks: bool) -> Any:
    """Return a kernel that plays the parts of a step, each in all lanes before the next."""
    whole = _played
    for part in reversed(parts):
        played = getattr(part, "played", PER_LANE)
        _check_arguments(plain(part), played)
        template = (_IN_BLOCKS if in_blocks else _BY_LANE)[played]
        bindings = template.__globals__ | {"part": part, "rest": whole}
        copy = types.FunctionType(template.__code__, bindings, template.__name__)
        copy.__module__ = template.__module__
        whole = kernel(copy)
    return whole


def _check_arguments(function: types.FunctionType, played: str) -> None:
    """Raise ``KernelError`` for a part of a step that takes what no part is given."""
    code, takes = function.__code__, TAKES[played]
    if code.co_argcount != takes.count(",") + 1:
        raise KernelError(
            f"{function.__name__} in {code.co_filename}, line {code.co_firstlineno}, is a part of "
            f"a step that is played {played}, and takes {code.co_argcount} arguments; allowed: "
            f"{takes}. Mark it @per_agent if it takes an agent a behind i, @per_pair if two."
        )


def driver(kernels: Kernels, discrete: bool, common: bool, agents: int = 0) -> Compiled:
    """Return ``drive``, compiled with the ``kernels`` as its globals.

    ``agents`` is the number of agents of an environment whose lanes lie innermost in memory: it is
    compiled in, and steps are played in blocks of lanes. 0: lane by lane, for any number.

    Environments that have all their kernels in common share one driver.
    """
    own_state = kernels.global_state is not None
    names = {
        **{name: getattr(kernels, name) for name in ("observe", "measure")},
        "clear": clearing(kernels.state),
        "reset": kernels.reset or _no_reset,
        "play": _played_parts(kernels.parts, agents > 0),
        # Without a sign a lane's number cannot count from the end of an array, and loops over
        # lanes can run as vectors. It is a type of its own for compiled functions that kernels
        # call, which environments of this kind have hardly any of.
        "lane": np.uint64 if agents > 0 else np.int64,
        "block": _BLOCK if agents > 0 else 1,
        "fixed_agents": agents,
        "prepare": kernels.prepare or _no_prepare,
        "mask": kernels.mask or _no_mask,
        "late": kernels.late or _at_horizon,
        "present": kernels.present or _all_present,
        "falling": kernels.present is not None,
        "common_reward": common,
        "global_state": kernels.global_state or _no_global_state,
        "survey": _is_written if own_state else _all_observations,
        "legalise": _legal_discrete if discrete else _any_box,
        "is_finite": _finite_discrete if discrete else _finite_box,
    }
    return bound(drive, tuple(names.items()), plain(kernels.parts[0]).__module__, agents > 0)
