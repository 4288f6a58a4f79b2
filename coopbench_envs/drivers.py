"""Drivers: the loop over lanes, written once, compiled once per environment.

A driver owns what means the same in every environment: time, truncation, automatic reset, the
random stream of each episode, returns, dead agents and illegal actions. The kernels own the
dynamics.
"""

import functools
import types
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np

from coopbench_envs.compiling import bound
from coopbench_envs.core import Kernels, kernel, stream

__all__ = [
    "DISABLED",
    "LOOK",
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
fit: Any = None
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
lane: Any = None  # type of a lane's number in ``play`` and after it

# Up to this number it is compiled in: a step of two agents then takes two thirds of the time. Games
# of more, which gain less, have a parameter for their number, and would be compiled for each value.
_FEW_AGENTS = 2

# Lanes that every part of a step is played in before the next part: their state stays in the cache.
_BLOCK = 128


def drive(p, s, c, actions, op, start, stop):
    """Do ``op`` in the lanes from ``start`` to ``stop``.

    Returns False, and has done nothing, if an action that a step takes is not finite.
    """
    if op < RESET and not is_finite(actions, start, stop):
        return False
    if fixed_agents > 0 and not (has_agents(p, c, fixed_agents) and fit(s, actions)):
        return False  # never: it tells the compiler how often every loop over agents runs
    # Lanes that go on are played in blocks, other lanes one by one. Every kernel is in one place
    # (one that stands twice is compiled twice), and loops are short: those over many arrays run at
    # half the speed, because the compiler loses sight of which arrays overlap.
    first = start
    while first < stop:
        last = first
        while last < stop and last - first < _BLOCK and op < RESET and not c.done[last]:
            last += 1
        if last > first:
            for i in range(lane(first), lane(last)):
                c.moved[i] = True
                legalise(c, i, actions)
            play(p, s, c, actions, lane(first), lane(last))
            for i in range(lane(first), lane(last)):
                s.time[i] += 1
                settle(c, i, s.time[i] >= min(late(p, s, i), p.horizon), common_reward, falling)
                if falling:
                    present(p, s, i, c.alive)
                    if not c.ended[i]:  # who is left at the joint end sees the last state
                        retire(c, i, True)
            first = last
            continue
        i, first = first, first + 1
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
    for i in range(lane(start), lane(stop)):
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
def settle(c, i, at_limit, common, fall):
    """Book the step just played: dead agents stay dead, and the episode may be over.

    ``common``: the first agent's reward is the team's. ``fall``: the dead are not terminated.
    """
    over, team = True, 0.0
    for a in range(c.alive.shape[1]):  # without a branch: loops over lanes run as vectors
        alive, reward, fallen = c.alive[i, a], c.rewards[i, a], c.terminated[i, a]
        if common:
            reward = c.rewards[i, 0]
        elif not alive:
            reward = 0.0
        fallen = fallen or not (alive or fall)
        c.rewards[i, a] = reward
        c.terminated[i, a] = fallen
        c.alive[i, a] = not fallen
        c.returns[i, a] += reward
        team += reward
        over = over and fallen
    c.team[i] = c.rewards[i, 0] if common else team
    c.ended[i] = over
    c.truncated[i] = at_limit
    c.done[i] = over or at_limit


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
    for i in range(start, stop):
        for a in range(actions.shape[1]):
            for k in range(actions.shape[2]):
                finite &= actions[i, a, k] - actions[i, a, k] == 0.0
    return finite


@kernel
def _finite_discrete(actions, start, stop):
    return True


# What the templates below call, bound anew for every link of a chain of kernels.
part: Any = None
rest: Any = None
field = axis = size = 0


def _play(p, s, c, actions, first, last):
    """Play one part of a step in these lanes, and then the rest of it."""
    for i in range(first, last):
        part(p, s, i, c.rng, actions, c.rewards, c.terminated)
    rest(p, s, c, actions, first, last)


@kernel
def _played(p, s, c, actions, first, last):
    pass


def _fits(s, actions):
    """Return whether one axis of a field of the state has its size, and so have the rest."""
    return s[field].shape[axis] == size and rest(s, actions)


def _acts(s, actions):
    """Return whether one axis of the actions has its size, and so have the rest."""
    return actions.shape[axis] == size and rest(s, actions)


@kernel
def _all_fit(s, actions):
    return True


def _chain(template: Callable[..., Any], links: Iterable[Mapping[str, Any]], end: Any) -> Any:
    """Return a kernel made of copies of ``template``: a link's names are globals of its copy.

    The ``rest`` of each copy is the next one, and that of the last copy is ``end``.
    """
    whole = end
    for names in reversed([*links]):
        bindings = template.__globals__ | dict(names) | {"rest": whole}
        copy = types.FunctionType(template.__code__, bindings, template.__name__)
        copy.__module__ = template.__module__
        whole = kernel(copy)
    return whole


def _step(p, s, i, rng, actions, rewards, terminated):
    """Play one part of a step in this lane, and then the rest of it."""
    part(p, s, i, rng, actions, rewards, terminated)
    rest(p, s, i, rng, actions, rewards, terminated)


@kernel
def _stepped(p, s, i, rng, actions, rewards, terminated):
    pass


@functools.cache
def _played_parts(parts: tuple[Any, ...], apart: bool) -> Any:
    """Return a kernel that plays the parts of a step, each in all lanes, or all lane by lane."""
    links = [{"part": part} for part in parts]
    if not apart and len(parts) > 1:
        links = [{"part": _chain(_step, links, _stepped)}]
    return _chain(_play, links, _played)


@functools.cache
def _same_shapes(axes: tuple[tuple[int, int], ...], agents: int, actions: tuple[int, ...]) -> Any:
    """Return a kernel that says whether actions and state have these sizes.

    ``axes`` are fields of the state and their axes that have the size ``agents``; ``actions`` are
    the sizes of the axes of the actions but the lanes.
    """
    acts = [{"axis": k, "size": n} for k, n in enumerate(actions, 1)]
    links = [{"field": field, "axis": k, "size": agents} for field, k in axes]
    return _chain(_fits, links, _chain(_acts, acts, _all_fit))


def driver(
    kernels: Kernels,
    discrete: bool,
    common: bool,
    agents: int = 0,
    shapes: tuple[tuple[int, ...], ...] = (),
) -> Any:
    """Return ``drive``, compiled with the ``kernels`` as its globals.

    A small number of ``agents`` is compiled in, and with it what ``shapes`` say, those of the
    actions and of the fields of the state: which axes have that number. 0: the driver is for any.

    Environments that have all their kernels in common share one driver.
    """
    own_state = kernels.global_state is not None
    parts = kernels.step if isinstance(kernels.step, tuple) else (kernels.step,)
    few = 0 < agents <= _FEW_AGENTS
    # Other sizes may depend on parameters, for each value of which the code would be compiled.
    axes = tuple(
        (field, k)
        for field, shape in enumerate(shapes[1:])
        for k, size in enumerate(shape)
        if few and k > 0 and size == agents
    )
    actions = shapes[0][1:] if few and shapes else ()
    names = {
        # The parts of a step and the axes are here for the hash in the name of the code in the
        # cache: there all chains look alike. The first kernel's module is in that name.
        **{f"part_{k}": part for k, part in enumerate(parts)},
        **{f"axis_{field}_{k}": agents for field, k in axes},
        **{f"actions_{k}": size for k, size in enumerate(actions)},
        **{name: getattr(kernels, name) for name in ("reset", "observe", "measure")},
        "play": _played_parts(parts, few),
        "fit": _same_shapes(axes, agents, actions),
        # Without a sign a lane's number cannot count from the end of an array, and loops over
        # lanes can run as vectors. It is a type of its own for compiled functions that kernels
        # call, which games of few agents have hardly any of.
        "lane": np.uint64 if few else np.int64,
        "prepare": kernels.prepare or _no_prepare,
        "mask": kernels.mask or _no_mask,
        "late": kernels.late or _at_horizon,
        "present": kernels.present or _all_present,
        "falling": kernels.present is not None,
        "common_reward": common,
        "fixed_agents": agents if few else 0,
        "global_state": kernels.global_state or _no_global_state,
        "survey": _is_written if own_state else _all_observations,
        "legalise": _legal_discrete if discrete else _any_box,
        "is_finite": _finite_discrete if discrete else _finite_box,
    }
    return bound(drive, tuple(names.items()))
