"""RenaultNissan: an alliance of two car makers goes through the four phases of its history.

Each new phase pulls the records of both makers towards its own level. The timeline is stylised.
Page: docs/environments/renault_nissan_v1.md.
"""

from typing import Annotated, Any, NamedTuple

import numpy as np

from coopbench_envs.coopetition import model
from coopbench_envs.coopetition.ventures import phases, ventures
from coopbench_envs.coopetition.ventures.phases import Phase
from coopbench_envs.core import kernel
from coopbench_envs.parameters import span
from coopbench_envs.states import array, state

PHASES = (
    Phase("formation", length=0.15, level=0.7, factor=0.98),
    Phase("mature", length=0.45, level=1.0, factor=1.00),
    Phase("crisis", length=0.15, level=0.6, factor=0.95),
    Phase("strained", length=0.25, level=0.9, factor=0.98),
)
TRUST = (0.45, 0.70, 0.30, 0.40)  # of each phase, as published for version 0

Constants = model.extended(
    phases.Constants,
    __name__,
    phase_trust="(phases,) record that a phase draws towards",
    pull="(2,) range of the part of the way that records go when a phase begins",
)
State = state(
    __name__,
    phases.State,
    pull=array("part of the way that records go when a phase begins", bounds=model.share_bounds),
)


class Params(NamedTuple):
    """Parameters of one task; every field can be given to ``make`` and in a protocol."""

    horizon: model.Horizon = 100
    initial_trust: ventures.InitialTrust = (0.35, 0.55)
    pull: Annotated[
        ventures.Range, span(0, 1, "fraction of the way to a new phase's record, drawn per episode")
    ] = (0.4, 0.6)
    high: ventures.High = (1.55, 1.65)
    low: ventures.Low = (0.15, 0.25)
    good: ventures.Good = 0.6
    persistence: ventures.Persistence = (0.85, 0.95)
    shock: ventures.Shock = (0.0, 0.02)
    noise: ventures.Noise = (0.0, 0.1)
    trembles: ventures.Trembles = 0.05
    delay: ventures.Delay = 0
    jitter: phases.Jitter = (0.2, 0.4)


def constants(p: Params) -> Any:
    """Nissan, then Renault."""
    return phases.make_constants(
        p,
        PHASES,
        kind=Constants,
        endowment=[0.9, 1.0],
        share=[0.48, 0.52],
        phase_trust=np.asarray(TRUST),
        pull=np.asarray(p.pull, np.float64),
    )


@kernel
def reset(c, s, i, rng):
    phases.reset(c, s, i, rng)
    s.pull[i] = ventures.within(c.pull, rng, i)


@kernel
def turn(c, s, i, rng, actions, rewards, terminated):
    """Set the next phase, and with a new one move the records."""
    before = s.phase[i]
    phases.turn(c, s, i, rng, actions, rewards, terminated)
    if s.phase[i] != before:
        draw_records(c, s, i)


@kernel
def draw_records(c, s, i):
    """Move all records part of the way to that of the new phase."""
    for a in range(c.num_agents):
        s.record[i, a] += s.pull[i] * (c.phase_trust[s.phase[i]] - s.record[i, a])
    s.trusted[i] -= s.mean_trust[i]  # the step counts with the records that it ends with
    ventures.prepare(c, s, i)
    s.trusted[i] += s.mean_trust[i]


STEP = (
    ventures.invest,
    phases.expect,
    phases.earn,
    phases.judge,
    ventures.update_records,
    turn,
    model.go_on,
)
SPEC = phases.game(
    phases=PHASES,
    id="coopbench/RenaultNissan-v1",
    module=__name__,
    kernels=phases.KERNELS._replace(state=State, reset=reset, step=STEP),
    params=Params,
    constants=constants,
    agents=lambda c: ("nissan_0", "renault_0"),
)
