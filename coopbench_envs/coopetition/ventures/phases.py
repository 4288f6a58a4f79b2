"""Phases: the absorbed level and the value of a venture change over time, apart from the regime.

Each phase has a level, the fraction beyond which investments are lost, and a factor on the value of
a unit. The order of the phases is fixed, their lengths are drawn for each episode. Equations:
docs/environments/slcd_v1.md.
"""

import math
from collections.abc import Mapping
from functools import partial
from typing import Annotated, Any, NamedTuple

import numpy as np

from coopbench_envs.coopetition import model
from coopbench_envs.coopetition.ventures import ventures
from coopbench_envs.core import EnvSpec, kernel, uniform
from coopbench_envs.layouts import Part, consecutive
from coopbench_envs.parameters import span
from coopbench_envs.states import array, state

Jitter = Annotated[
    ventures.Range, span(0, 0.9, "largest relative change of a phase's length, drawn per episode")
]

CONSTANTS = {
    "level": "(phases,) fraction beyond which an investment brings nothing, in (0, 1]",
    "factor": "(phases,) factor on the worth of a unit",
    "length": "(phases,) mean lengths, in proportion",
    "jitter": "(2,) range of the largest relative change of a length",
}
METRICS = ventures.METRICS | {
    "phase_matching": "closeness of fractions to the level in the good regime, in [0, 1]",
}


class Phase(NamedTuple):
    """Parameters of a phase."""

    name: str
    length: float  # in proportion to the other phases
    level: float
    factor: float  # on the value of a unit


Constants = model.extended(ventures.Constants, __name__, **CONSTANTS)
State = state(
    __name__,
    ventures.State,
    ends=array("number of steps after which a phase is over", lambda c: len(c.level)),
    missed=array("running sum of mean distances from the level, in the good regime", start=0),
    good_steps=array("steps of the good regime so far", start=0),
    phase=array("phase of the coming step", dtype=np.int64, scratch=True),
    level=array("level of that phase", scratch=True),
)


def make_constants(params: Any, phases: tuple[Phase, ...], **model: Any) -> Any:
    """Assemble the constants of a game with these ``phases``; the rest as in ``ventures``."""
    own: dict[str, Any] = {"kind": Constants, "jitter": np.asarray(params.jitter, np.float64)}
    for name in ("level", "factor", "length"):
        own[name] = np.array([getattr(phase, name) for phase in phases], np.float64)
    return ventures.make_constants(params, **(own | model))


@kernel
def reset(c, s, i, rng):
    """Draw the constants of the episode, the lengths of its phases, and the first regime."""
    ventures.reset(c, s, i, rng)
    draw_lengths(c, s, i, rng)
    find_phase(c, s, i, 0)
    s.productivity[i] *= c.factor[s.phase[i]]


@kernel
def draw_lengths(c, s, i, rng):
    """Vary the mean lengths randomly, and scale them to the horizon in whole steps."""
    width = ventures.within(c.jitter, rng, i)
    total = 0.0
    for p in range(len(c.level)):
        total += c.length[p] * (1.0 + width * (2.0 * uniform(rng, i) - 1.0))
        s.ends[i, p] = total
    for p in range(len(c.level)):
        s.ends[i, p] = math.floor(c.horizon * (s.ends[i, p] / total) + 0.5)


@kernel
def find_phase(c, s, i, played):
    """Set the phase of the step after ``played`` steps; after the last step keep its phase."""
    begun = min(played, c.horizon - 1)
    phase, level = 0, c.level[0]
    for p in range(len(c.level) - 1):
        past = begun >= s.ends[i, p]
        phase, level = p + 1 if past else phase, c.level[p + 1] if past else level
    s.phase[i], s.level[i] = phase, level


@kernel
def prepare(c, s, i):
    ventures.prepare(c, s, i)
    find_phase(c, s, i, s.time[i])


@kernel
def expect(c, s, i, rng, actions, rewards, terminated):
    """Expect a part of the level of the phase, and add up what was missed in the good regime."""
    s.expected[i] *= s.level[i]
    s.good_steps[i] += 1.0 if s.good[i] else 0.0
    s.missed[i] += distance(c, s, i, s.level[i]) if s.good[i] else 0.0


@kernel
def distance(c, s, i, level):
    """Return the mean distance of the fractions from the level, over the largest possible one."""
    total = 0.0
    for a in range(c.num_agents):
        total += abs(s.fraction[i, a] - level)
    return total / (c.num_agents * max(level, 1.0 - level))


@kernel
def earn(c, s, i, rng, actions, rewards, terminated):
    """Pay for investments up to the level; investments beyond it are lost."""
    units = 0.0
    for a in range(c.num_agents):
        units += c.endowment[a] * min(s.fraction[i, a], s.level[i])
    ventures.pay(c, s, i, s.productivity[i] * units, rewards)


@kernel
def judge(c, s, i, rng, actions, rewards, terminated):
    """Judge each investment as it was observed, relative to the level, in the good regime only."""
    for a in range(c.num_agents):
        s.conduct[i, a] = relative(c, s, i, a)
        s.weight[i, a] = c.weight if s.good[i] else 0.0


@kernel
def relative(c, s, i, a):
    """Return the observed investment of ``a`` relative to the level of the phase, at most 1."""
    return min(s.blurred[i, a] / s.level[i], 1.0)


@kernel
def turn(c, s, i, rng, actions, rewards, terminated):
    """Draw the next regime, set the next phase, and announce the coming step."""
    ventures.turn(c, s, i, rng, actions, rewards, terminated)
    find_phase(c, s, i, s.time[i] + 1)
    s.productivity[i] *= c.factor[s.phase[i]]


STEP = (
    ventures.invest,
    expect,
    earn,
    judge,
    ventures.update_records,
    turn,
    model.go_on,
)


@kernel
def observe(c, s, i, obs):
    """Write the common observation, then the phase (one-hot) and its level."""
    ventures.observe(c, s, i, obs)
    first = obs.shape[2] - len(c.level) - 1
    for a in range(c.num_agents):
        for p in range(len(c.level)):
            obs[i, a, first + p] = 1.0 if p == s.phase[i] else 0.0
        obs[i, a, first + len(c.level)] = s.level[i]


@kernel
def global_state(c, s, i, out):
    """Write the common global state, then the phase and its level as agents observe them."""
    ventures.global_state(c, s, i, out)
    first = out.shape[1] - len(c.level) - 1
    for p in range(len(c.level)):
        out[i, first + p] = 1.0 if p == s.phase[i] else 0.0
    out[i, first + len(c.level)] = s.level[i]


@kernel
def measure(c, s, i, measures):
    model.measure(c, s, i, measures)
    # Where the regime was never good nothing was missed, as without any distance.
    measures[i, 4] = 1.0 - s.missed[i] / max(1.0, s.good_steps[i])


KERNELS = ventures.KERNELS._replace(
    state=State,
    reset=reset,
    step=STEP,
    observe=observe,
    measure=measure,
    prepare=prepare,
    global_state=global_state,
)


MEANINGS = ventures.MEANINGS | {
    "phase": "1 at the phase of the next step, else 0",
    "level": "share of endowments that the venture takes in during that phase",
}


def layout(c: Any) -> dict[str, Part]:
    """Named parts of one agent's observation."""
    return consecutive(ventures.sizes(c) | {"phase": len(c.level), "level": 1}, MEANINGS)


def facts(
    phases: tuple[Phase, ...], c: Any, fields: Mapping[str, np.ndarray], agents: tuple[str, ...]
) -> list[str]:
    """Return the lines that a picture shows in addition to those of all games."""
    phase = int((min(fields["time"], c.horizon - 1) >= fields["ends"][:-1]).sum())
    level = 100 * float(c.level[phase])
    count = f"{phase + 1} of {len(phases)}"
    return [f"phase {count}: {phases[phase].name}", f"it takes in {level:.0f} % of endowments"]


def game(*, phases: tuple[Phase, ...], metrics: Mapping[str, str] = METRICS, **own: Any) -> EnvSpec:
    """Describe a game with ``phases``; the rest as in ``ventures``."""
    usual: dict[str, Any] = {
        "kernels": KERNELS,
        "layout": layout,
        "world": lambda c: 2 * c.num_agents + 2 + len(c.level) + 1,
        "facts": partial(facts, phases),
    }
    return ventures.game(metrics=metrics, **(usual | own))
