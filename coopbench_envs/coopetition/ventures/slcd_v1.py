"""SLCD: two rivals share a plant through its planning, ramp-up, peak and decline.

Modelled on the joint venture S-LCD of Samsung and Sony; the timeline is stylised, not history.
Page: docs/environments/slcd_v1.md.
"""

from typing import Annotated, Any, NamedTuple

from coopbench_envs.coopetition.ventures import phases, ventures
from coopbench_envs.coopetition.ventures.phases import Phase
from coopbench_envs.parameters import span

PHASES = (
    Phase("planning", length=0.20, level=0.5, factor=0.96),
    Phase("ramp-up", length=0.25, level=0.8, factor=1.00),
    Phase("peak", length=0.35, level=1.0, factor=1.04),
    Phase("decline", length=0.20, level=0.6, factor=0.96),
)


class Params(NamedTuple):
    """Parameters of one task; every field can be given to ``make`` and in a protocol."""

    horizon: ventures.Horizon = 40
    initial_trust: ventures.InitialTrust = (0.55, 0.75)
    dependence_samsung: Annotated[
        ventures.Range, span(0, 1, "fraction of Samsung's share that depends on Sony's trust")
    ] = (0.54, 0.74)
    dependence_sony: Annotated[
        ventures.Range, span(0, 1, "fraction of Sony's share that depends on Samsung's trust")
    ] = (0.76, 0.96)
    high: ventures.High = (1.70, 1.85)
    low: ventures.Low = (0.1, 0.3)
    persistence: ventures.Persistence = (0.80, 0.90)
    shock: ventures.Shock = (0.0, 0.02)
    noise: ventures.Noise = (0.0, 0.1)
    jitter: phases.Jitter = (0.2, 0.4)


def constants(p: Params) -> Any:
    """Samsung, then Sony."""
    return phases.make_constants(
        p,
        PHASES,
        endowment=[1.0, 1.0],
        share=[0.5, 0.5],
        dependence=[p.dependence_samsung, p.dependence_sony],
    )


SPEC = phases.game(
    phases=PHASES,
    id="coopbench/SLCD-v1",
    module=__name__,
    params=Params,
    constants=constants,
    agents=lambda c: ("samsung_0", "sony_0"),
)
