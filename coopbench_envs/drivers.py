"""Drivers: the loop over lanes, written once, compiled once per environment.

A driver owns what means the same in every environment: time, truncation, automatic reset, the
random stream of each episode, returns, dead agents and illegal actions. The kernels own the
dynamics.
"""

from typing import Any, NamedTuple

import numpy as np

from coopbench_envs.compiling import bound
from coopbench_envs.core import Kernels, kernel, stream

__all__ = [
    "DISABLED",
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
# the last step to be reported; look again at a state that was given.
RESET, RENEW, RESTORE = 2, 3, 4


class Control(NamedTuple):
    """What the driver keeps per lane; axis 0 is the lane, ``agents`` follows where it applies."""

    seed: np.ndarray  # (lanes,) uint64, of the lane's environment
    episode: np.ndarray  # (lanes,) int64, 0 for the first after a seeded reset
    rng: np.ndarray  # (lanes,) uint64, state of the episode's random stream
    done: np.ndarray  # (lanes,) bool, episode is over
    alive: np.ndarray  # (lanes, agents) bool
    returns: np.ndarray  # (lanes, agents) float64, sum of rewards so far
    invalid: np.ndarray  # (lanes, agents) int64, illegal actions so far
    chosen: np.ndarray  # (lanes,) bool, lanes that RESET, RENEW and RESTORE act on
    moved: np.ndarray  # (lanes,) bool, lanes that the present call has changed
    rewards: np.ndarray  # (lanes, agents) float64
    terminated: np.ndarray  # (lanes, agents) bool
    truncated: np.ndarray  # (lanes,) bool
    ended: np.ndarray  # (lanes,) bool, all agents are terminated
    team: np.ndarray  # (lanes,) float64, sum of the agents' rewards
    obs: np.ndarray  # (lanes, agents, features) float32
    measures: np.ndarray  # (lanes, metrics) float64
    masks: np.ndarray  # (lanes, agents, actions) int8, 1 = legal; last axis empty for Box


# What the templates below call, bound anew for every environment: its kernels, or these stand-ins.
reset: Any = None
step: Any = None
observe: Any = None
measure: Any = None
global_state: Any = None
prepare: Any = None
mask: Any = None
legalise: Any = None


def drive(p, s, c, actions, op, start, stop):
    """Do ``op`` in the lanes from ``start`` to ``stop``."""
    # Two loops, and every kernel in one place: as one loop it runs at half the speed, because the
    # compiler loses sight of so many arrays, and a kernel that stands twice is compiled twice.
    for i in range(start, stop):
        starting = c.chosen[i] if op >= RESET else c.done[i] and op == NEXT_STEP
        c.moved[i] = starting or (op < RESET and not c.done[i])
        if starting:
            if op != RESTORE:
                begin(c, i, op)
                s.time[i] = 0
                reset(p, s, i, c.rng)
            prepare(p, s, i)
        elif c.moved[i]:
            legalise(c, i, actions)
            step(p, s, i, c.rng, actions, c.rewards, c.terminated)
            s.time[i] += 1
            settle(c, i, s.time[i] >= p.horizon)
        elif op < RESET:
            wait(c, i)
    for i in range(start, stop):
        if c.moved[i]:
            mask(p, s, i, c.masks)
            observe(p, s, i, c.obs)
            measure(p, s, i, c.measures)


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
def settle(c, i, late):
    """Book the step just played: dead agents stay dead, and the episode may be over."""
    over = True
    c.team[i] = 0.0
    for a in range(c.alive.shape[1]):
        if not c.alive[i, a]:
            c.rewards[i, a] = 0.0
            c.terminated[i, a] = True
        c.alive[i, a] = not c.terminated[i, a]
        c.returns[i, a] += c.rewards[i, a]
        c.team[i] += c.rewards[i, a]
        over = over and c.terminated[i, a]
    c.ended[i] = over
    c.truncated[i] = late
    c.done[i] = over or late


@kernel
def wait(c, i):
    """Let a finished lane rest: nothing more is earned."""
    c.team[i] = 0.0
    for a in range(c.rewards.shape[1]):
        c.rewards[i, a] = 0.0


@kernel
def _no_prepare(p, s, i):
    pass


@kernel
def _no_mask(p, s, i, masks):
    for a in range(masks.shape[1]):
        for k in range(masks.shape[2]):
            masks[i, a, k] = 1


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


def world(p, s, out):
    """Write the global state of every lane."""
    for i in range(out.shape[0]):
        global_state(p, s, i, out)


def driver(kernels: Kernels, name: str, discrete: bool) -> Any:
    """Return ``drive`` or ``world``, compiled with the ``kernels`` as its globals.

    Environments that have all their kernels in common share one driver.
    """
    needed = ("global_state",) if name == "world" else ("reset", "step", "observe", "measure")
    names = {kernel_name: getattr(kernels, kernel_name) for kernel_name in needed}
    if name == "drive":
        names["legalise"] = _legal_discrete if discrete else _any_box
        names["prepare"] = kernels.prepare or _no_prepare
        names["mask"] = kernels.mask or _no_mask
    return bound({"drive": drive, "world": world}[name], tuple(names.items()))
