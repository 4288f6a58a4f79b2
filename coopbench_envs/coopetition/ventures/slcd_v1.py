"""SLCD: two rivals share a plant, and in each phase only one of them observes the regime.

Modelled on the joint venture S-LCD of Samsung and Sony; the timeline is stylised, not history.
Page: docs/environments/slcd_v1.md.
"""

from typing import Any, NamedTuple

import numpy as np

from coopbench_envs.coopetition import model
from coopbench_envs.coopetition.ventures import phases, ventures
from coopbench_envs.coopetition.ventures.phases import Phase
from coopbench_envs.core import kernel
from coopbench_envs.states import array, state

PHASES = (
    Phase("planning", length=0.20, level=0.5, factor=0.96),
    Phase("ramp-up", length=0.25, level=0.8, factor=1.00),
    Phase("peak", length=0.35, level=1.0, factor=1.04),
    Phase("decline", length=0.20, level=0.6, factor=0.96),
)
SAMSUNG, SONY = 0, 1
INFORMED = (SAMSUNG, SAMSUNG, SONY, SONY)  # of each phase: who builds, then who sells
WEIGHT, DRIFT, REST = 0.25, 0.03, 0.75  # of records: see ``ventures.update_records``

Constants = model.extended(
    phases.Constants,
    __name__,
    knows="(phases,) int64, firm that observes the regime in a phase",
)
State = state(
    __name__,
    phases.State,
    informed=array(
        "observes the productivity of the coming step",
        "num_agents",
        dtype=np.bool_,
        scratch=True,
    ),
    received=array(
        "observed investment of the other before the last step, over the level of that "
        "step, at most 1",
        "num_agents",
        start=0,
    ),
    due=array("fraction that was expected of an agent in the last step", "num_agents", start=0),
)


class Params(NamedTuple):
    """Parameters of one task; every field can be given to ``make`` and in a protocol."""

    horizon: model.Horizon = 80
    initial_trust: ventures.InitialTrust = (0.7, 0.9)
    high: ventures.High = (1.5, 1.6)
    low: ventures.Low = (0.05, 0.15)
    good: ventures.Good = 0.65
    persistence: ventures.Persistence = (0.94, 0.97)
    shock: ventures.Shock = (0.0, 0.02)
    noise: ventures.Noise = (0.0, 0.1)
    trembles: ventures.Trembles = 0.05
    delay: ventures.Delay = 0
    jitter: phases.Jitter = (0.2, 0.4)


def constants(p: Params) -> Any:
    """Samsung, then Sony."""
    return phases.make_constants(
        p,
        PHASES,
        kind=Constants,
        endowment=[1.0, 1.0],
        share=[0.5, 0.5],
        public=False,
        weight=WEIGHT,
        drift=DRIFT,
        rest=REST,
        knows=np.array(INFORMED),
    )


@kernel
def reset(c, s, i, rng):
    phases.reset(c, s, i, rng)
    inform(c, s, i)


@kernel
def prepare(c, s, i):
    phases.prepare(c, s, i)
    inform(c, s, i)


@kernel
def inform(c, s, i):
    """Set who observes the regime of the coming step."""
    for a in range(c.num_agents):
        s.informed[i, a] = c.knows[s.phase[i]] == a


@kernel
def turn(c, s, i, rng, actions, rewards, terminated):
    """Draw the next regime, set the next phase, and inform about the coming step."""
    phases.turn(c, s, i, rng, actions, rewards, terminated)
    inform(c, s, i)


@kernel
def receive(c, s, i, rng, actions, rewards, terminated):
    """Note what each firm observes of the other before it acts, over the level of the phase."""
    for a in range(c.num_agents):
        s.received[i, a] = min(s.seen[i, 1 - a] / s.level[i], 1.0)


@kernel
def expect(c, s, i, rng, actions, rewards, terminated):
    """Expect of the informed firm the norm of the regime, of the other an answer."""
    norm = c.norm * s.level[i]
    for a in range(c.num_agents):
        s.due[i, a] = s.expected[i] if s.informed[i, a] else norm * s.received[i, a]


@kernel
def judge(c, s, i, rng, actions, rewards, terminated):
    """Judge answers, relative to the level."""
    ventures.judge_answers(c, s, i, s.received)
    for a in range(c.num_agents):
        s.conduct[i, a] = phases.relative(c, s, i, a)


STEP = (
    receive,
    ventures.invest,
    phases.expect,
    expect,
    phases.earn,
    judge,
    ventures.update_records,
    turn,
    model.go_on,
)


def trace(c: Any, s: Any) -> dict[str, np.ndarray]:
    """Return the input of the trajectory metrics; an uninformed firm is expected to follow."""
    return ventures.trace(c, s) | {"baseline": s.due}


SPEC = phases.game(
    phases=PHASES,
    id="coopbench/SLCD-v1",
    module=__name__,
    kernels=phases.KERNELS._replace(state=State, reset=reset, prepare=prepare, step=STEP),
    params=Params,
    constants=constants,
    agents=lambda c: ("samsung_0", "sony_0"),
    trace=trace,
)
