"""RenaultNissan: an alliance of two car makers goes through the four phases of its history.

Each new phase pulls trust towards its own level and sets the dependence of the makers; the
timeline is stylised. Page: docs/environments/renault_nissan_v1.md.
"""

from typing import Annotated, Any, NamedTuple

import numpy as np

from coopbench_envs.coopetition.published import dynamics
from coopbench_envs.coopetition.ventures import phases, ventures
from coopbench_envs.coopetition.ventures.phases import Phase
from coopbench_envs.core import kernel, uniform
from coopbench_envs.parameters import span

PHASES = (
    Phase("formation", length=0.15, level=0.7, factor=0.98),
    Phase("mature", length=0.45, level=1.0, factor=1.00),
    Phase("crisis", length=0.15, level=0.6, factor=0.95),
    Phase("strained", length=0.25, level=0.9, factor=0.98),
)
# As published for version 0, phase by phase: trust; dependence of Nissan, of Renault.
TRUST = (0.45, 0.70, 0.30, 0.40)
DEPENDENCE = ((0.78, 0.66), (0.51, 0.66), (0.35, 0.72), (0.28, 0.65))

Constants = dynamics.extended(
    phases.Constants,
    __name__,
    phase_trust="(phases,) trust that a phase draws towards",
    phase_dependence="(phases, agents) dependence before an episode's own shift",
    pull="(2,) range of the part of the way that trust goes when a phase begins",
    shift="(2,) range of the largest shift of dependence",
)
State = dynamics.extended(
    phases.State,
    __name__,
    pull="(lanes,) part of the way that trust goes when a phase begins",
    shift="(lanes, agents) what the episode adds to every phase's dependence",
)


class Params(NamedTuple):
    """Parameters of one task; every field can be given to ``make`` and in a protocol."""

    horizon: ventures.Horizon = 60
    initial_trust: ventures.InitialTrust = (0.35, 0.55)
    shift: Annotated[
        ventures.Range, span(0, 1, "largest shift of dependence, drawn for each episode")
    ] = (0.0, 0.1)
    pull: Annotated[
        ventures.Range, span(0, 1, "fraction of the way to a new phase's trust, drawn per episode")
    ] = (0.4, 0.6)
    high: ventures.High = (1.75, 1.87)
    low: ventures.Low = (0.1, 0.3)
    persistence: ventures.Persistence = (0.80, 0.90)
    shock: ventures.Shock = (0.0, 0.02)
    noise: ventures.Noise = (0.0, 0.1)
    jitter: phases.Jitter = (0.2, 0.4)


def constants(p: Params) -> Any:
    """Nissan, then Renault."""
    return phases.make_constants(
        p,
        PHASES,
        kind=Constants,
        endowment=[0.9, 1.0],
        share=[0.48, 0.52],
        dependence=[0.0, 0.0],  # set by the phase, whatever is drawn
        phase_trust=np.asarray(TRUST),
        phase_dependence=np.asarray(DEPENDENCE),
        pull=np.asarray(p.pull, np.float64),
        shift=np.asarray(p.shift, np.float64),
    )


def allocate(c: Any, lanes: int) -> Any:
    """Allocate the state of ``lanes`` games."""
    shift = np.zeros((lanes, c.num_agents))
    return State(**phases.common(c, lanes), pull=np.zeros(lanes), shift=shift)


@kernel
def reset(c, s, i, rng):
    phases.reset(c, s, i, rng)
    s.pull[i] = ventures.within(c.pull, rng, i)
    width = ventures.within(c.shift, rng, i)
    for a in range(c.num_agents):
        s.shift[i, a] = width * (2.0 * uniform(rng, i) - 1.0)
    need(c, s, i)


@kernel
def step(c, s, i, rng, actions, rewards, terminated):
    before = s.phase[i]
    phases.step(c, s, i, rng, actions, rewards, terminated)
    if s.phase[i] != before:
        draw_trust(c, s, i)
        need(c, s, i)


@kernel
def draw_trust(c, s, i):
    """Move all trust part of the way to that of the new phase."""
    for a in range(c.num_agents):
        for b in range(c.num_agents):
            if a != b:
                s.trust[i, a, b] += s.pull[i] * (c.phase_trust[s.phase[i]] - s.trust[i, a, b])
    s.trusted[i] -= s.mean_trust[i]  # the step counts with the trust that it ends with
    ventures.prepare(c, s, i)
    s.trusted[i] += s.mean_trust[i]


@kernel
def need(c, s, i):
    """Set each agent's dependence on its partner."""
    for a in range(c.num_agents):
        level = c.phase_dependence[s.phase[i], a] + s.shift[i, a]
        s.dependence[i, a] = min(max(level, 0.0), 1.0)


SPEC = phases.game(
    phases=PHASES,
    id="coopbench/RenaultNissan-v1",
    module=__name__,
    kernels=phases.KERNELS._replace(allocate=allocate, reset=reset, step=step),
    params=Params,
    constants=constants,
    agents=lambda c: ("nissan_0", "renault_0"),
)
