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
from coopbench_envs.marks import plain

__all__ = [
    "DISABLED",
    "FEW_AGENTS",
    "LOOK",
    "MANY_LANES",
    "NEXT_STEP",
    "RENEW",
    "RESET",
    "RESTORE",
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

# Up to so many agents a vectorized environment is played in blocks of lanes, and their number is
# compiled in. With more the observations, which are rows of an agent, would be the slow part.
FEW_AGENTS = 8

# From so many lanes on. With fewer, blocks gain little (calls of seven lanes take 2 to 25 % less
# time, of one lane up to 13 % more), and code for one lane serves every number of agents.
MANY_LANES = 8

# Lanes whose state stays in the cache from one part of a step to the next.
_BLOCK = 128

# Highest number of a lane: that it cannot overflow lets the compiler make vectors of loops.
_LANES = 0xFFFFFFFF


def drive(p, s, c, actions, op, start, stop):
    """Do ``op`` in the lanes from ``start`` to ``stop``.

    Returns False, and has done nothing, if an action that a step takes is not finite.
    """
    if op < RESET and not is_finite(actions, start, stop):
        return False
    if fixed_agents > 0 and not has_agents(p, c, fixed_agents):
        return False  # never: it tells the compiler how often every loop over agents runs
    first = start
    while first < stop:
        # A block plays one step in all of its lanes: also in one whose episode is over, if its
        # next one begins right after that. Blocks that end at such lanes would be short.
        through = block > 1 and op == NEXT_STEP
        last = first + 1
        while last < min(first + block, stop) and op < RESET:
            if not through and c.done[last] != c.done[first]:
                break
            last += 1
        plays = op < RESET and (through or not c.done[first])
        begins = lane(first) & lane(_LANES)
        ends = begins + min(lane(last - first), lane(block))
        if plays:
            for i in range(begins, ends):
                c.moved[i] = not c.done[i]
                legalise(c, i, actions)
            play(p, s, c, actions, begins, ends)
            settle(c, begins, ends, common_reward, falling)
            for i in range(begins, ends):
                s.time[i] += 1
                c.truncated[i] = s.time[i] >= min(late(p, s, i), p.horizon)
                c.done[i] = c.ended[i] or c.truncated[i]
                if falling:
                    present(p, s, i, c.alive)
                    if not c.ended[i]:  # who is left at the joint end sees the last state
                        retire(c, i, True)
        for i in range(begins, ends):
            if not (plays and c.moved[i]):
                c.moved[i] = c.chosen[i] if op >= RESET else op == NEXT_STEP
                if c.moved[i]:
                    if op != RESTORE:
                        begin(c, i, op)
                        s.time[i] = 0
                        reset(p, s, i, c.rng)
                    prepare(p, s, i)
                    if falling:
                        present(p, s, i, c.alive)
                elif op < RESET:
                    wait(c, i)
            if c.moved[i]:
                mask(p, s, i, c.masks)
                observe(p, s, i, c.obs)
                if falling:
                    hide(c, i)
                    retire(c, i, op < RESET and c.ended[i])
                measure(p, s, i, c.measures)
            if c.state.shape[1] > 0 and (c.moved[i] or op == LOOK):
                global_state(p, s, i, c.state)
                survey(c, i)
        first = last
    return True


@kernel
def has_agents(p, c, number):
    """Return whether this is a game of so many agents."""
    return (
        p.num_agents == number
        and c.alive.shape[1] == number
        and c.rewards.shape[1] == number
        and c.terminated.shape[1] == number
        and c.returns.shape[1] == number
        and c.obs.shape[1] == number
    )


@kernel
def begin(c, i, op):
    """Start the next episode of lane ``i``, or for RESET the one that the engine has set."""
    if op != RESET:
        c.episode[i] += 1
    c.rng[i] = stream(c.seed[i], np.uint64(c.episode[i]))
    c.done[i] = False
    if op != RENEW:  # which still has to report the step that ended the last episode
        c.truncated[i] = False
        c.ended[i] = False
        c.team[i] = 0.0
    for a in range(c.alive.shape[1]):
        c.alive[i, a] = True
        c.returns[i, a] = 0.0
        c.invalid[i, a] = 0
        if op != RENEW:
            c.rewards[i, a] = 0.0
            c.terminated[i, a] = False


@kernel
def settle(c, first, last, common, fall):
    """Book the step just played in these lanes: dead agents stay dead, and earn nothing.

    ``common``: the first agent's reward is the team's. ``fall``: the dead are not terminated.
    """
    for i in range(first, last):
        c.ended[i] = True
        c.team[i] = c.rewards[i, 0] if common else 0.0
    for a in range(c.alive.shape[1]):
        for i in range(first, last):  # without branches: it runs as vectors
            alive, reward, fallen = c.alive[i, a], c.rewards[i, a], c.terminated[i, a]
            if common:
                reward = c.team[i]
            else:
                reward = reward if alive else 0.0
                c.team[i] += reward
            fallen = fallen or not (alive or fall)
            c.rewards[i, a] = reward
            c.terminated[i, a] = fallen
            c.alive[i, a] = not fallen
            c.returns[i, a] += reward
            c.ended[i] = c.ended[i] and fallen


@kernel
def retire(c, i, stepped):
    """Let nobody take part whom the step just played has terminated."""
    for a in range(c.alive.shape[1]):
        c.alive[i, a] = c.alive[i, a] and not (stepped and c.terminated[i, a])


@kernel
def wait(c, i):
    """Let a finished lane rest: nothing more is earned."""
    c.team[i] = 0.0
    for a in range(c.rewards.shape[1]):
        c.rewards[i, a] = 0.0


@kernel
def hide(c, i):
    """Show absent agents zeros, and leave them the first of their choices."""
    for a in range(c.alive.shape[1]):
        if not c.alive[i, a]:
            for k in range(c.obs.shape[2]):
                c.obs[i, a, k] = 0.0
            for k in range(c.masks.shape[2]):
                c.masks[i, a, k] = k == 0


@kernel
def _no_prepare(p, s, i):
    pass


@kernel
def _no_mask(p, s, i, masks):
    for a in range(masks.shape[1]):
        for k in range(masks.shape[2]):
            masks[i, a, k] = 1


@kernel
def _all_present(p, s, i, alive):
    pass


@kernel
def _at_horizon(p, s, i):
    return p.horizon


@kernel
def _no_global_state(p, s, i, out):
    pass


@kernel
def _all_observations(c, i):
    """Write the observations of all agents, one after the other, as the global state."""
    features = c.obs.shape[2]
    for a in range(c.obs.shape[1]):
        for k in range(features):
            c.state[i, a * features + k] = c.obs[i, a, k]


@kernel
def _is_written(c, i):
    pass


@kernel
def _any_box(c, i, actions):
    pass


@kernel
def _legal_discrete(c, i, actions):
    """Replace what is illegal, or the action of a dead agent, by -1: do nothing."""
    for a in range(c.alive.shape[1]):
        k = actions[i, a]
        if not c.alive[i, a]:
            actions[i, a] = -1
        elif k < 0 or k >= c.masks.shape[2] or c.masks[i, a, k] == 0:
            c.invalid[i, a] += 1
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


def _play(p, s, c, actions, first, last):
    """Play one part of a step in these lanes, and then the rest of it."""
    for i in range(first, last):
        part(p, s, i, c.rng, actions, c.rewards, c.terminated)
    rest(p, s, c, actions, first, last)


def _play_agents(p, s, c, actions, first, last):
    for a in range(p.num_agents):
        for i in range(first, last):
            part(p, s, i, a, c.rng, actions, c.rewards, c.terminated)
    rest(p, s, c, actions, first, last)


def _play_pairs(p, s, c, actions, first, last):
    for a in range(p.num_agents):
        for b in range(p.num_agents):
            for i in range(first, last):
                part(p, s, i, a, b, c.rng, actions, c.rewards, c.terminated)
    rest(p, s, c, actions, first, last)


def _play_agents_by_lane(p, s, c, actions, first, last):
    for i in range(first, last):
        for a in range(p.num_agents):
            part(p, s, i, a, c.rng, actions, c.rewards, c.terminated)
    rest(p, s, c, actions, first, last)


def _play_pairs_by_lane(p, s, c, actions, first, last):
    for i in range(first, last):
        for a in range(p.num_agents):
            for b in range(p.num_agents):
                part(p, s, i, a, b, c.rng, actions, c.rewards, c.terminated)
    rest(p, s, c, actions, first, last)


@kernel
def _played(p, s, c, actions, first, last):
    pass


# By the number of arguments of a part. The innermost loop is over what lies innermost in memory.
_IN_BLOCKS = {7: _play, 8: _play_agents, 9: _play_pairs}
_BY_LANE = {7: _play, 8: _play_agents_by_lane, 9: _play_pairs_by_lane}


@functools.cache
def _played_parts(parts: tuple[Any, ...], in_blocks: bool) -> Any:
    """Return a kernel that plays the parts of a step, each in all lanes before the next."""
    whole = _played
    for part in reversed(parts):
        function = plain(part)
        takes = function.__code__.co_argcount
        if takes not in _BY_LANE:
            raise KernelError(
                f"{function.__name__} in {function.__code__.co_filename}, line "
                f"{function.__code__.co_firstlineno}, is a part of a step and takes {takes} "
                f"arguments; allowed: (c, s, i, rng, actions, rewards, terminated), with an agent "
                f"a, or with two agents a and b, behind i."
            )
        template = (_IN_BLOCKS if in_blocks else _BY_LANE)[takes]
        bindings = template.__globals__ | {"part": part, "rest": whole}
        copy = types.FunctionType(template.__code__, bindings, template.__name__)
        copy.__module__ = template.__module__
        whole = kernel(copy)
    return whole


def driver(kernels: Kernels, discrete: bool, common: bool, agents: int = 0) -> Compiled:
    """Return ``drive``, compiled with the ``kernels`` as its globals.

    ``agents`` is the number of agents of an environment whose lanes lie innermost in memory: it is
    compiled in, and steps are played in blocks of lanes. 0: lane by lane, for any number.

    Environments that have all their kernels in common share one driver.
    """
    own_state = kernels.global_state is not None
    parts = kernels.step if isinstance(kernels.step, tuple) else (kernels.step,)
    names = {
        **{name: getattr(kernels, name) for name in ("reset", "observe", "measure")},
        "play": _played_parts(parts, agents > 0),
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
    return bound(drive, tuple(names.items()), plain(parts[0]).__module__, agents > 0)
